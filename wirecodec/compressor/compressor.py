"""Compressor: the state that persists from step to step, for all tensors of a model on one rank.

The state is the step count and, per tensor, the residual and the selector's state, in arrays that can be
saved. Encoding itself is pure. The state does not change until ``commit``, so a failed exchange loses no
gradient. Residuals are on the gradients' device.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from wirecodec.arrays import Array, Bytes, on_gpu
from wirecodec.compressor.prepared import Prepared
from wirecodec.compressor.saved_state import saved_residual, saved_schedule, saved_step, unmasked
from wirecodec.compressor.state import State
from wirecodec.cpu import entry as host
from wirecodec.errors import EncodeError
from wirecodec.limits import DecodeLimits, Schema
from wirecodec.pipeline import decode_many, sort_names
from wirecodec.prng import mix
from wirecodec.select.all import All
from wirecodec.settings.feedback import ErrorFeedback
from wirecodec.settings.schedule import Schedule, schedule_string
from wirecodec.settings.scheme import Scheme, SchemeLike, as_scheme, scheme_for
from wirecodec.sparse import SparseTensor
from wirecodec.step import StepInput, StepResult, TensorJob
from wirecodec.validation import as_integer, as_seed
from wirecodec.value.raw import Raw

__all__ = ["Compressor"]


class Compressor:
    """Stateful encoder of named gradients with error feedback, for one rank.

    Args:
        scheme: one for all tensors, or {glob: scheme}; the first match wins. None for lossless.
        feedback: keeps the part of a gradient that was not sent; None drops that part.
        schedule: function of the step (from 0) that returns the density, in (0, 1]. It replaces the ratio of
            selectors that have one.
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
        scheme: SchemeLike | Mapping[str, SchemeLike] = None,
        *,
        feedback: ErrorFeedback | None = ErrorFeedback(),  # noqa: B008 - frozen, so shared safely
        schedule: Schedule | None = None,
        seed: int = 0,
        names: bool = True,
        fuse: int = 0,
    ) -> None:
        self._schemes: Scheme | dict[str, Scheme] = (
            {glob: as_scheme(one) for glob, one in scheme.items()}
            if isinstance(scheme, Mapping)
            else as_scheme(scheme)
        )
        self._feedback = feedback
        self._schedule = schedule
        self._seed = as_seed(seed)
        self._names = names
        self._fuse = fuse
        self._state = State()
        self._spare: dict[str, Array] = {}  # memory of residuals that no state holds
        self._last: dict[str, Any] = {}  # ends of searches on a GPU; they change its speed, not its results

    def __repr__(self) -> str:
        """Return the schemes and the step."""
        some = self._schemes
        schemes = repr(str(some)) if isinstance(some, Scheme) else str({g: str(s) for g, s in some.items()})
        return f"Compressor({schemes}, step={self.step})"

    def __copy__(self) -> Compressor:
        """Copy the compressor with its residuals, because later steps overwrite their memory."""
        copied = type(self).__new__(type(self))
        copied.__dict__.update(self.__dict__)
        state = self._state
        residuals = {name: x.copy() for name, x in state.residuals.items()}
        copied._state = dataclasses.replace(state, residuals=residuals)
        copied._spare, copied._last = {}, {}
        return copied

    @property
    def step(self) -> int:
        """Committed steps so far."""
        return self._state.step

    @property
    def schemes(self) -> Mapping[str, Scheme]:
        """{glob: scheme}; the first match wins."""
        return {"*": self._schemes} if isinstance(self._schemes, Scheme) else dict(self._schemes)

    @property
    def feedback(self) -> ErrorFeedback | None:
        """Rule of the residuals, or None if none is kept."""
        return self._feedback

    @property
    def schedule(self) -> Schedule | None:
        """Function of the step that returns the density, or None."""
        return self._schedule

    @property
    def signature(self) -> str:
        """The settings that must agree between ranks, as text: schemes, feedback, schedule."""
        schemes = "; ".join(f"{glob}: {scheme}" for glob, scheme in self.schemes.items())
        schedule = self._schedule
        named = schedule_string(schedule) or getattr(schedule, "__qualname__", type(schedule).__name__)
        return f"{schemes}; feedback {self._feedback}; schedule {named}"

    def residual(self, name: str) -> Array | None:
        """Return a copy of a tensor's residual (size,) on its device, or None if it has none."""
        found = self._state.residuals.get(name)
        return None if found is None else found.copy()

    def compress(self, gradients: Mapping[str, Any], *, rank: int = 0) -> Bytes:
        """Encode a step and commit it, for senders that cannot fail. Arguments and errors as ``prepare``."""
        prepared = self.prepare(gradients, rank=rank)
        prepared.commit()
        return prepared.blob

    def decompress(
        self, blob: Any, *, limits: DecodeLimits | None = None, schema: Schema | None = None
    ) -> dict[str, SparseTensor]:
        """Decode any rank's container, as ``decode_many``; the state is not used."""
        return decode_many(blob, limits=limits, schema=schema)

    def prepare(self, gradients: Mapping[str, Any], *, rank: int = 0, hold_zeros: bool = False) -> Prepared:
        """Encode a step without changing the state.

        Args:
            gradients: {name: tensor}; all on the host, or all on one GPU, where their residuals stay, too.
            rank: the rank that sends; it is mixed into the seed.
            hold_zeros: True to hold each tensor whose gradient is zero everywhere. Nothing of it is sent, and
                its residual and its selector's state do not change. By default, its residual is sent.

        Returns:
            A Prepared, to be committed or rolled back.

        Raises:
            EncodeError: a scheme cannot carry its tensor; names tensor and element.
            DeviceError: the gradients are on a GPU that cannot be used.
        """
        before = self._state
        tensors = {name: gradients[name] for name in sort_names(gradients)}
        on_device = any(map(on_gpu, tensors.values()))
        seed = mix(self._seed, before.step, as_integer(rank, "rank"))
        selection_seed = mix(self._seed, before.step)  # without the rank: random selectors agree on all ranks
        jobs: dict[str, TensorJob] = {}
        for key, name in enumerate(tensors):
            try:
                jobs[name] = self._make_job(name, before, mix(selection_seed, key), on_device=on_device)
            except EncodeError as error:
                raise error.of(name) from None
        wanted = StepInput(jobs, seed, self._names, self._fuse, hold_zeros)
        done = _step_on_gpu(tensors, wanted) if on_device else host.step(tensors, wanted)
        for name, job in jobs.items():
            if job.spare is not None and name not in done.residuals:  # it was held, so the memory is free
                self._spare[name] = job.spare
        return Prepared(done, self, before, before.next(done.residuals, done.selectors))

    def _make_job(self, name: str, state: State, seed: int, *, on_device: bool) -> TensorJob:
        """Collect the settings and the state of one tensor for this step."""
        scheme, residual = self._scheme(name, state.step), state.residuals.get(name)
        spare, last = None, None
        if on_device:
            from wirecodec.gpu.select.warm_topk import LastTop

            last = self._last.setdefault(name, LastTop())
        else:
            residual, spare = _to_host(residual), self._spare.pop(name, None)
        return TensorJob(
            scheme,
            self._feedback if self._keeps(name, scheme, state) else None,
            residual,
            state.selectors.get(name),
            seed,
            spare,
            last,
        )

    def _reuse(self, old: State, kept: State) -> None:
        """Keep the memory of residuals that only one of two states holds, for later steps."""
        for name, residual in old.residuals.items():
            if kept.residuals.get(name) is not residual and not on_gpu(residual):
                self._spare[name] = residual

    def _scheme(self, name: str, step: int) -> Scheme:
        """Return a tensor's scheme at a step, with the schedule's ratio."""
        scheme = scheme_for(name, self._schemes)
        selector: Any = scheme.select
        if self._schedule is None or getattr(selector, "ratio", None) is None:
            return scheme
        density = float(self._schedule(step))
        if not 0 < density <= 1:
            raise EncodeError(
                f"density is {density!r} at step {step} of the schedule; it must be above 0 and at most 1"
            )
        return dataclasses.replace(scheme, select=dataclasses.replace(selector, ratio=density))

    def _keeps(self, name: str, scheme: Scheme, state: State) -> bool:
        """Tell whether a part of a tensor may have to be kept."""
        if self._feedback is None:
            return False
        return name in state.residuals or bool(scheme.transform) or not _sends_all(scheme)

    def state_dict(self) -> dict[str, Array]:
        """Return a copy of this rank's state on the host, as flat {str: ndarray}.

        ``numpy.savez`` and any framework's checkpoint can store it.
        """
        state: dict[str, Array] = {
            "step": np.array(self._state.step, np.int64),
            "seed": np.array(self._seed, np.uint64),
            "schedule": np.frombuffer(schedule_string(self._schedule).encode(), np.uint8).copy(),
        }
        state |= {f"residual/{name}": np.array(_to_host(x)) for name, x in self._state.residuals.items()}
        state |= {f"selector/{name}": np.array(x) for name, x in self._state.selectors.items()}
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore step, seed, schedule, residuals and selector state.

        A state does not hold schemes and feedback: build this Compressor like the one that was saved. If the
        state names no schedule, the Compressor keeps its own.

        Args:
            state: from ``state_dict``; step from 0 to 2^62, residuals finite float32 or float64, none masked.

        Raises:
            ValueError: a key or its array is not valid; names the key. The Compressor is unchanged.
        """
        known = {"step", "seed", "schedule"}
        odd = [key for key in state if key not in known and not key.startswith(("residual/", "selector/"))]
        if odd or not known <= state.keys():
            raise ValueError(f"not the state of a Compressor: {odd or sorted(known - state.keys())}")
        seed, step = as_seed(unmasked("seed", state["seed"])), saved_step(state)
        schedule = saved_schedule(state) or self._schedule
        residuals = {key[9:]: saved_residual(key, x) for key, x in state.items() if key[:9] == "residual/"}
        selectors = {key[9:]: unmasked(key, x) for key, x in state.items() if key[:9] == "selector/"}
        loaded = State(step, residuals, selectors)
        self._schedule, self._seed, self._state = schedule, seed, loaded


def _sends_all(scheme: Scheme) -> bool:
    """Tell whether a scheme without a transform sends every element losslessly."""
    return isinstance(scheme.select, All) and scheme.value == Raw()


def _step_on_gpu(tensors: Mapping[str, Any], wanted: StepInput) -> StepResult:
    """Run a step of tensors on one GPU; residuals may be on the host or on a GPU."""
    from wirecodec.gpu import entry

    return entry.step(tensors, wanted)


def _to_host(x: Any) -> Any:
    """Return an array on the host, copied if it is on a GPU; None for None."""
    if x is None or not on_gpu(x):
        return x
    from wirecodec.gpu import entry

    return entry.copy_to_host(x)
