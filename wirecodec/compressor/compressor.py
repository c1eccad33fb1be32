"""Compressor: the state that persists from step to step, for all tensors of a model on one rank.

The state is the step count and, per tensor, the residual and the selector's state, in arrays that can be
saved. Encoding itself is pure. The state does not change until ``commit``, so a failed exchange loses no
gradient. Residuals are on the gradients' device.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from wirecodec.arrays import Array, Bytes
from wirecodec.compressor.budgets import Limit, fit_budgets
from wirecodec.compressor.holder import EncodedAhead, Prepared, Stateful, StateHolder
from wirecodec.compressor.memory import all_to_host
from wirecodec.compressor.numbers import describe_step
from wirecodec.compressor.saved_state import ARRAY_KINDS, read_state, write_state
from wirecodec.compressor.settings import Settings
from wirecodec.compressor.state import State, copy_of
from wirecodec.container.writer import CHUNK
from wirecodec.cpu import entry as host
from wirecodec.cpu.costs import share_header, warn_of_small_budgets
from wirecodec.cpu.select import is_own
from wirecodec.errors import EncodeError
from wirecodec.frameworks import local_shards
from wirecodec.jobs import StepInput, StepResult, TensorJobs
from wirecodec.limits import DecodeLimits, Schema
from wirecodec.pipeline import decode_many
from wirecodec.prng import mix
from wirecodec.settings.feedback import ErrorFeedback, FeedbackLike, list_feedback
from wirecodec.settings.rules import Key
from wirecodec.settings.schedule import Schedule, schedule_string
from wirecodec.settings.scheduling import restore_schedule
from wirecodec.settings.scheme import Scheme, SchemeLike
from wirecodec.sparse import SparseTensor
from wirecodec.tensors import TensorLike, any_on_gpu
from wirecodec.validation import as_integer, as_seed, sort_names


class Compressor(Stateful):
    """Stateful encoder of named gradients with error feedback, for one rank.

    Args:
        scheme: one for all tensors, or {key: scheme}; a key is a glob or a Rule, and the first match applies.
            None for lossless.
        feedback: ErrorFeedback or MomentumCorrection, which keep the part of a gradient that was not sent;
            None drops that part; or {key: feedback}.
        clip: largest norm of all gradients together, on all ranks; None for no limit. Each rank limits the
            norm of its own gradients to clip / √ranks, before anything is accumulated (DGC, section 3.2).
        scope: "tensor" to select from each tensor by itself; "group" to select from all tensors that one key
            matches as from one vector, such as the top 1 % of the whole model. They share entries of up to
            2^24 elements. A transform is that of the whole vector, as in the FFT paper; such containers are
            of format 1.1. Receivers decode tensors, and residuals are per tensor.
        schedule: function of the step, from 0, and of a tensor's own ratio, that returns the ratio of this
            step, above 0 and at most 1: WarmUp, Steps, Diminishing, Follow, or any other. It replaces the
            ratio of selectors that have one, and scales the factor of adacomp. A budget's ratio is bits / 32;
            that of ``bytes_per_step`` is the fraction of the raw bytes. At 1, tensors are sent whole.
        bytes_per_step: largest size of a step's container, ``blob.nbytes``; None for no limit. The bits of
            all ``budget`` selectors are scaled by one factor to use it, so that only their proportions count.
            A tensor gets the bytes of one element at least, if they suffice for all. A warning names tensors
            that get no more. If headers and tensors without a budget take more than the limit, a step raises
            EncodeError with a limit that suffices. A schedule changes the limit, and a step that it sends
            whole has none. Not included are the agreement headers of collectives, 72 bytes per exchange,
            and room of up to a 64th part of the payload behind these. If ``scheme`` is None, it becomes
            ``budget(bits=1) | rice | error-bounded``, and ``scope`` becomes "group". A hook of DDP that
            overlaps sends a container of this size per bucket; pass ``overlap=False`` to it.
        weights: {key: factor}; in a group with a budget, the squared errors of tensors that a key matches
            are multiplied by it. They get fewer bytes below 1, and more above. It is 1 without a key. Host
            only.
        seed: a u64; the step and the rank are mixed in.
        names: True to store the names. Receivers with a schema do not need them.
        fuse: number of elements up to which tensors share entries, as for ``encode_many``.

    Raises:
        EncodeError: a scheme or the seed is not valid.

    Examples:
        >>> import numpy as np, wirecodec as wc
        >>> compressor = wc.Compressor("topk(0.25) | rice | qsgd(bits=4)")
        >>> blob = compressor.compress({"w": np.array([1, -8, 2, 4], "f4")})
        >>> compressor.decompress(blob)["w"].indices, compressor.step
        (array([1], dtype=int32), 1)
    """

    def __init__(
        self,
        scheme: SchemeLike | Mapping[Key, SchemeLike] = None,
        *,
        feedback: FeedbackLike = ErrorFeedback(),  # noqa: B008 - frozen, so shared safely
        schedule: Schedule | None = None,
        clip: float | None = None,
        scope: Literal["tensor", "group"] = "tensor",
        bytes_per_step: int | None = None,
        weights: Mapping[Key, float] | None = None,
        seed: int = 0,
        names: bool = True,
        fuse: int = 0,
    ) -> None:
        self._settings = Settings.of(scheme, feedback, schedule, clip, scope, bytes_per_step, weights)
        self._names = names
        self._fuse = fuse
        self._holder = StateHolder(State(seed=as_seed(seed)))

    def __repr__(self) -> str:
        """Return the schemes, the scope if it is a group, and the step."""
        scope = "" if self.scope == "tensor" else f", scope={self.scope!r}"
        return f"Compressor({self._settings.schemes_text}{scope}, step={self.step})"

    @property
    def schemes(self) -> Mapping[Key, Scheme]:
        """{key: scheme}; the first match applies."""
        return self._settings.scheme_map

    @property
    def feedback(self) -> FeedbackLike:
        """Rule of the residuals, None if none is kept, or {key: rule}."""
        rules = self._settings.feedback
        return dict(rules) if isinstance(rules, Mapping) else rules

    @property
    def keeps_all(self) -> bool:
        """Whether every tensor has a feedback."""
        return None not in list_feedback(self._settings.feedback)

    @property
    def schedule(self) -> Schedule | None:
        """Function of the step and the tensor's own ratio, or None."""
        return self._settings.schedule

    @property
    def scope(self) -> str:
        """Whether each tensor is selected from by itself ("tensor"), or with those of its key ("group")."""
        return self._settings.scope

    @property
    def clip(self) -> float | None:
        """Largest norm of all gradients together, or None."""
        return self._settings.clip

    @property
    def bytes_per_step(self) -> int | None:
        """Largest size of a step's container in bytes, or None. A schedule may change it."""
        return self._settings.bytes_per_step

    @property
    def weights(self) -> Mapping[Key, float]:
        """{key: factor of the squared errors in a group's budget}; 1 for tensors without a key."""
        return dict(self._settings.weights)

    @property
    def signature(self) -> str:
        """The settings on which ranks must agree, as text: all but seed, names and fuse."""
        return str(self._settings)

    def scheme(self, name: str, shape: tuple[int, ...] | None = None, *, step: int | None = None) -> Scheme:
        """Return a tensor's scheme, at a step of the schedule or without it. Raises EncodeError.

        Args:
            name: the tensor's name.
            shape: its shape, which some Rules need.
            step: from 0; None without the schedule.
        """
        return self._settings.scheme_of(name, shape, step)

    @property
    def last(self) -> dict[str, float] | None:
        """Numbers of the last step for a log, computed now from the residuals and the container.

        "step" (steps taken), "bytes" of the container, "bits" per element, "kept" (share of the elements),
        "error" (relative error: the norm of what was not sent over that of gradient and residual together),
        "residual" (norm of all residuals) and "warm_up" (completed share of a ``WarmUp``, 1 without one).
        "bits", "kept" and "error" are left out of a step of more than 4 MiB, and "error" also without
        names, and if a tensor has no feedback, or one with ``beta``. None before the first step, and after a
        state was loaded.
        """
        return describe_step(self._holder, self.feedback, self.schedule, named=self._names)

    def residual(self, name: str) -> Array | None:
        """Return a copy of a tensor's residual (size,) on its device, or None if it has none."""
        return copy_of(self._holder.state.residuals, name)

    def momentum(self, name: str) -> Array | None:
        """Return a copy of a tensor's momentum (size,) on its device, or None if it has none."""
        return copy_of(self._holder.state.momenta, name)

    def compress(self, gradients: Mapping[str, TensorLike], *, rank: int = 0, ranks: int = 1) -> Bytes:
        """Encode a step and commit it, for senders that cannot fail. Arguments and errors as ``prepare``."""
        prepared = self.prepare(gradients, rank=rank, ranks=ranks)
        prepared.commit()
        return prepared.blob

    def decompress(
        self, blob: Any, *, limits: DecodeLimits | None = None, schema: Schema | None = None
    ) -> dict[str, SparseTensor]:
        """Decode any rank's container, as ``decode_many``; the state is not used."""
        return decode_many(blob, limits=limits, schema=schema)

    def prepare(
        self, gradients: Mapping[str, TensorLike], *, rank: int = 0, ranks: int = 1, hold_zeros: bool = False
    ) -> Prepared:
        """Encode a step without changing the state.

        Args:
            gradients: {name: tensor}; all on the host, or all on one GPU, where their residuals stay, too. Of
                a DTensor, this rank's shard.
            rank: the rank that sends; it is mixed into the seed.
            ranks: number of ranks whose gradients are averaged, for ``clip``. The collectives and the hook
                pass that of their communicator.
            hold_zeros: True to hold each tensor whose gradient is zero everywhere. Nothing of it is sent, and
                its residual and its selector's state do not change. By default, its residual is sent.

        Returns:
            A Prepared, to be committed or rolled back.

        Raises:
            EncodeError: a scheme cannot carry its tensor; the message names tensor and element. Or a state of
                another rank was loaded.
            DeviceError: the gradients are on a GPU that cannot be used.
        """
        rank = as_integer(rank, "rank")
        given = local_shards(gradients)
        tensors = {name: given[name] for name in sort_names(given)}
        holder = self._holder
        current = holder.begin()
        before = current.fit(rank, tensors)
        names = tuple(tensors)
        ahead = holder.ahead.pop(names, None)
        if ahead is not None and ahead.fits(before, (rank, ranks, hold_zeros), names):
            result = ahead.result
        else:
            result = self._encode(before, tensors, rank, ranks, hold_zeros=hold_zeros)
        after = before.next(rank, result.residuals, result.selectors, result.momenta)
        return Prepared(result, holder, current, after, mix(before.seed, before.step, rank))

    def _encode_ahead(
        self, state: State, gradients: Mapping[str, Any], rank: int, ranks: int, *, hold_zeros: bool
    ) -> None:
        """Encode the part of a step that begins in a state, unless it calls code of the user."""
        if self.schedule is not None and not is_own(self.schedule):
            return
        tensors = {name: gradients[name] for name in sort_names(gradients)}
        schemes = self._settings.schemes_at(tensors, state.step).values()
        used = [x for one in schemes for x in (one.transform, one.select, one.index, one.value)]
        if state.loaded is None and all(x is None or is_own(x) for x in used):
            result = self._encode(state, tensors, rank, ranks, hold_zeros=hold_zeros)
            self._holder.ahead[tuple(tensors)] = EncodedAhead(state, (rank, ranks, hold_zeros), result)

    def _encode(
        self, before: State, tensors: Mapping[str, Any], rank: int, ranks: int, *, hold_zeros: bool
    ) -> StepResult:
        """Encode a step that begins in a state."""
        holder = self._holder
        on_device = any_on_gpu(tensors.values())
        seed = mix(before.seed, before.step, rank)
        if ranks < 1:
            raise EncodeError(f"ranks is {ranks!r}; it must be 1 or more")
        clip = self._settings.clip
        clip = None if clip is None else clip / math.sqrt(ranks)
        nbytes = self._settings.bytes_at(tensors, before.step)
        limit = None if nbytes is None else Limit(nbytes, hold_zeros)
        step = host.step
        if on_device:
            from wirecodec.gpu import entry

            step = entry.step
        while True:
            jobs = self._make_jobs(tensors, before, limit, on_device=on_device)
            fuse = CHUNK if jobs.groups else self._fuse
            wanted = StepInput(jobs, seed, self._names, fuse, hold_zeros, clip)
            result = step(tensors, wanted)
            holder.memory.put_unused(jobs, result)
            if limit is None or result.blob.nbytes <= limit.nbytes:
                return result
            limit = limit.lower(jobs.schemes, result.blob.nbytes)

    def _make_jobs(
        self, tensors: Mapping[str, Any], state: State, limit: Limit | None, *, on_device: bool
    ) -> TensorJobs:
        """Collect the settings and the state of all tensors for this step. Raises EncodeError."""
        schemes = self._settings.schemes_at(tensors, state.step)
        header = 0
        if self._settings.has_budget:
            header = share_header(tensors, schemes, b"", names=self._names, warns=False)
        groups = self._settings.groups_of(tensors, schemes)
        weights = self._settings.weights_of(tensors) if groups else {}
        if limit is not None:
            schemes = fit_budgets(schemes, tensors, limit, header, groups, weights, self._fuse)
        elif header:
            warn_of_small_budgets(tensors, schemes, header, groups)
        rules = self._settings.rules_of(tensors, schemes, state.residuals)
        corrects = self._settings.has_momentum
        momenta = state.momenta if corrects else {}
        seed = mix(state.seed, state.step)  # without the rank: random selectors agree on all ranks
        memory = self._holder.memory
        jobs = TensorJobs(schemes, rules, state.residuals, state.selectors, seed, header, momenta=momenta)
        if on_device:
            from wirecodec.gpu.select.warm_topk import LastTop

            lasts = {name: memory.searches.setdefault(name, LastTop()) for name in tensors}
            if groups and self._settings.weights:
                raise EncodeError("weights are applied on the host; copy the gradients")
            return dataclasses.replace(jobs, lasts=lasts, groups=groups, plans=memory.plans)
        spares, spare_momenta = memory.take(tensors, momenta=corrects)
        return dataclasses.replace(
            jobs,
            residuals=all_to_host(state.residuals),
            momenta=all_to_host(momenta),
            spares=spares,
            spare_momenta=spare_momenta,
            thresholds=memory.thresholds.of(tensors),
            groups=groups,
            weights=weights,
        )

    def state_dict(self) -> dict[str, Array]:
        """Return a copy of this rank's state on the host, as flat {str: ndarray}.

        It has the rank of the last step, and the names of the tensors in its keys, so that loading can
        compare them. ``numpy.savez`` and any framework's checkpoint can store it.
        """
        state = self._holder.state
        return {
            "step": np.array(state.step, np.int64),
            "seed": np.array(state.seed, np.uint64),
            "schedule": np.frombuffer(schedule_string(self.schedule).encode(), np.uint8).copy(),
            **write_state(state),
        }

    def load_state_dict(self, state: Mapping[str, Any], *, strict: bool = True) -> None:
        """Restore step, seed, schedule, residuals, momenta and selector state.

        A state does not hold schemes and feedback: build this Compressor like the one that was saved. If the
        state names no schedule, the Compressor keeps its own.

        The rank and the names are compared at the first step, where they are first known. If another rank has
        saved the state, that step raises EncodeError, and CollectiveError in a collective. If the state has
        tensors that the training does not have, ``torch_hook`` and ``average_gradients`` raise, and any other
        step warns. ``wc.rename_state`` renames tensors. Tensors without a residual start with none.

        Args:
            state: from ``state_dict``; step from 0 to 2^62, residuals and momenta finite float32 or float64,
                none masked.
            strict: False to drop what does not fit at the first step: all arrays if another rank has saved
                the state, and those of tensors that the step does not have. A rank that joins loads the file
                of any other rank in this way: it needs its step, seed and schedule.

        Raises:
            ValueError: a key or its array is not valid. The message names the key, and nothing changes.
        """
        loaded, schedule = read_state(
            state, "a Compressor", ("step", "seed", "schedule"), kinds=ARRAY_KINDS, strict=strict
        )
        if loaded.momenta and not self._settings.has_momentum:
            raise ValueError(
                f"momentum/{next(iter(loaded.momenta))}: this Compressor keeps no momentum; build it with"
                " feedback=wc.MomentumCorrection(), as the one that was saved"
            )
        self._settings = self._settings.with_schedule(restore_schedule(schedule, self.schedule))
        self._holder.load(loaded)
