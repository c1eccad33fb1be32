"""Compressor: what must last from step to step, for all tensors of a model on one rank.

Residuals, selector state and the step count are held here, per tensor, in plain arrays that can be saved;
encoding itself stays pure. Nothing changes until ``commit``: an exchange that failed is rolled back, and its
gradient is not lost. Residuals lie where the gradients do, on the host or on a GPU (``wirecodec.gpu``).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from wirecodec.arrays import Array, Bytes, on_gpu
from wirecodec.cpu import entry as host
from wirecodec.errors import EncodeError
from wirecodec.feedback import ErrorFeedback
from wirecodec.limits import DecodeLimits, Schema
from wirecodec.pipeline import decode_many, in_order
from wirecodec.prng import mix
from wirecodec.saved_state import saved_residual, saved_schedule, saved_step, unmasked
from wirecodec.schedule import Schedule, schedule_string
from wirecodec.scheme import Scheme, SchemeLike, as_scheme, scheme_for
from wirecodec.select.all import All
from wirecodec.sparse import SparseTensor
from wirecodec.step import Asked, Done, Step
from wirecodec.validation import as_integer, as_seed
from wirecodec.value.raw import Raw

__all__ = ["Compressor", "Prepared"]


@dataclass(frozen=True, eq=False)
class _State:
    """Everything that a step changes; replaced as a whole by ``commit``."""

    step: int = 0
    residuals: Mapping[str, Array] = field(default_factory=dict)
    selectors: Mapping[str, Array] = field(default_factory=dict)

    def next(self, residuals: Mapping[str, Array], selectors: Mapping[str, Array]) -> _State:
        """That of the following step: what was not in this one stays as it was."""
        return _State(self.step + 1, {**self.residuals, **residuals}, {**self.selectors, **selectors})


class Prepared:
    """An encoded step that has not happened yet: ``commit`` or ``rollback`` settles it, once.

    Attributes:
        blob: the container to send, a uint8 array; CuPy's where the gradients lie on a GPU.
        sent: {name: SparseTensor}, what every receiver will decode from it. Of gradients on a GPU they lie
            there, too, but for bfloat16, which CuPy has not.
    """

    def __init__(self, done: Done, compressor: Compressor, before: _State, after: _State) -> None:
        self.blob = done.blob
        self._octets = None if done.octets is done.blob else done.octets
        self.sent = done.sent
        self._compressor = compressor
        self._before = before
        self._after: _State | None = after

    @property
    def octets(self) -> Bytes:
        """The container on the host: a copy of one that lies on a GPU was made when it was decoded."""
        return self.blob if self._octets is None else self._octets

    def __repr__(self) -> str:
        """Bytes, tensors, and whether it is settled."""
        state = "open" if self._after is not None else "settled"
        return f"Prepared({self.blob.nbytes} bytes, {len(self.sent)} tensors, {state})"

    def commit(self) -> None:
        """The exchange succeeded: residuals, selector state and the step count move on.

        RuntimeError where this step was settled before, or another one was committed since it was prepared.
        """
        after, compressor = self._after, self._compressor
        if after is None or (compressor._state is not self._before and compressor._state is not after):
            raise RuntimeError("this step was settled before, or another one was committed since")
        # An interrupt may come between any two lines. Until ``_after`` is None, ``rollback`` undoes this.
        compressor._state = after
        self._after = None
        compressor._reuse(self._before, after)

    def rollback(self) -> None:
        """The exchange failed: nothing changes, and the next step sees the same residuals as this one did.

        A ``commit`` that was interrupted is undone, or was complete. RuntimeError if this step was settled
        before.
        """
        after, compressor = self._after, self._compressor
        if after is None:
            raise RuntimeError("this step was settled before")
        if compressor._state is after:
            compressor._state = self._before
        self._after = None
        # Only then does no other step hold the residuals of this one.
        if compressor._state is self._before:
            compressor._reuse(after, self._before)


class Compressor:
    """Named gradients in, one container out, step after step.

    Args:
        scheme: one for all tensors, or {glob: scheme} of which the first match wins.
        feedback: how what was not sent is kept, or None to forget it.
        schedule: step -> density, for the selectors that keep a ratio; the others are left alone.
        seed: a u64; the step and the rank are mixed in.
        names: whether the names are written; receivers with a schema do not need them.
        fuse: tensors of at most this many elements share entries, as in ``encode_many``.
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
        self._state = _State()
        self._spare: dict[str, Array] = {}  # memory of residuals that no state holds any more
        self._last: dict[str, Any] = {}  # where searches on a GPU ended: what they find does not depend on it

    def __repr__(self) -> str:
        """Schemes and step."""
        some = self._schemes
        schemes = repr(str(some)) if isinstance(some, Scheme) else str({g: str(s) for g, s in some.items()})
        return f"Compressor({schemes}, step={self.step})"

    def __copy__(self) -> Compressor:
        """Copy with residuals of its own: those of a past step are overwritten by a later one."""
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
    def signature(self) -> str:
        """What must agree between ranks: the schemes, the feedback and the schedule, as text."""
        by_glob = {"*": self._schemes} if isinstance(self._schemes, Scheme) else self._schemes
        schemes = "; ".join(f"{glob}: {scheme}" for glob, scheme in by_glob.items())
        schedule = self._schedule
        named = schedule_string(schedule) or getattr(schedule, "__qualname__", type(schedule).__name__)
        return f"{schemes}; feedback {self._feedback}; schedule {named}"

    def residual(self, name: str) -> Array | None:
        """A copy of a tensor's residual (size,), where it lies; or None where nothing is held back."""
        found = self._state.residuals.get(name)
        return None if found is None else found.copy()

    def compress(self, gradients: Mapping[str, Any], *, rank: int = 0) -> Bytes:
        """``prepare`` and ``commit`` at once, for senders that cannot fail."""
        prepared = self.prepare(gradients, rank=rank)
        prepared.commit()
        return prepared.blob

    def decompress(
        self, blob: Any, *, limits: DecodeLimits | None = None, schema: Schema | None = None
    ) -> dict[str, SparseTensor]:
        """``decode_many``; it needs no state, so it reads any rank's container."""
        return decode_many(blob, limits=limits, schema=schema)

    def prepare(self, gradients: Mapping[str, Any], *, rank: int = 0) -> Prepared:
        """Encode a step without taking it. EncodeError names the tensor; the state is untouched then, too.

        Gradients that lie on a GPU, all of them on one, stay there, as do their residuals; DeviceError where
        it cannot be reached.
        """
        before = self._state
        tensors = {name: gradients[name] for name in in_order(gradients)}
        there = any(map(on_gpu, tensors.values()))
        seed = mix(self._seed, before.step, as_integer(rank, "rank"))
        choice = mix(self._seed, before.step)  # no rank: selectors that draw choose alike on all of them
        asked: dict[str, Asked] = {}
        for key, name in enumerate(tensors):
            try:
                asked[name] = self._asked(name, before, mix(choice, key), there=there)
            except EncodeError as error:
                raise error.of(name) from None
        wanted = Step(asked, seed, self._names, self._fuse)
        done = _step_on_gpu(tensors, wanted) if there else host.step(tensors, wanted)
        return Prepared(done, self, before, before.next(done.residuals, done.selectors))

    def _asked(self, name: str, state: _State, seed: int, *, there: bool) -> Asked:
        """What is to be done with a tensor; ``there`` says whether it lies on a GPU."""
        scheme, residual = self._scheme(name, state.step), state.residuals.get(name)
        spare, last = None, None
        if there:
            from wirecodec.gpu.select.warm_topk import LastTop

            last = self._last.setdefault(name, LastTop())
        else:
            residual, spare = _here(residual), self._spare.pop(name, None)
        return Asked(
            scheme,
            self._feedback if self._keeps(name, scheme, state) else None,
            residual,
            state.selectors.get(name),
            seed,
            spare,
            last,
        )

    def _reuse(self, old: _State, kept: _State) -> None:
        """The residuals of one state that another one does not hold are memory for steps to come."""
        for name, residual in old.residuals.items():
            if kept.residuals.get(name) is not residual and not on_gpu(residual):
                self._spare[name] = residual

    def _scheme(self, name: str, step: int) -> Scheme:
        scheme = scheme_for(name, self._schemes)
        selector: Any = scheme.select
        if self._schedule is None or getattr(selector, "ratio", None) is None:
            return scheme
        density = float(self._schedule(step))
        if not 0 < density <= 1:
            raise EncodeError(f"the schedule gives density {density!r} at step {step}")
        return dataclasses.replace(scheme, select=dataclasses.replace(selector, ratio=density))

    def _keeps(self, name: str, scheme: Scheme, state: _State) -> bool:
        """Whether something of a tensor may be left behind."""
        if self._feedback is None:
            return False
        return name in state.residuals or bool(scheme.transform) or not _sends_all(scheme)

    def state_dict(self) -> dict[str, Array]:
        """This rank's state as flat {str: ndarray}, copied, on the host.

        Fit for ``numpy.savez`` and for any framework's checkpoint.
        """
        state: dict[str, Array] = {
            "step": np.array(self._state.step, np.int64),
            "seed": np.array(self._seed, np.uint64),
            "schedule": np.frombuffer(schedule_string(self._schedule).encode(), np.uint8).copy(),
        }
        state |= {f"residual/{name}": np.array(_here(x)) for name, x in self._state.residuals.items()}
        state |= {f"selector/{name}": np.array(x) for name, x in self._state.selectors.items()}
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take up where ``state_dict`` left off: step, seed, schedule, residuals and selector state.

        Schemes and feedback are no part of a state: build this Compressor like the one that was saved. Where
        the state names no schedule, its own stays.

        Args:
            state: from ``state_dict``; step from 0 to 2^62, residuals finite float32 or float64, none masked.

        Raises:
            ValueError: names the key that is wrong. The Compressor is unchanged then.
        """
        known = {"step", "seed", "schedule"}
        odd = [key for key in state if key not in known and not key.startswith(("residual/", "selector/"))]
        if odd or not known <= state.keys():
            raise ValueError(f"not the state of a Compressor: {odd or sorted(known - state.keys())}")
        seed, step = as_seed(state["seed"]), saved_step(state)
        schedule = saved_schedule(state) or self._schedule
        residuals = {key[9:]: saved_residual(key, x) for key, x in state.items() if key[:9] == "residual/"}
        selectors = {key[9:]: unmasked(key, x) for key, x in state.items() if key[:9] == "selector/"}
        loaded = _State(step, residuals, selectors)
        self._schedule, self._seed, self._state = schedule, seed, loaded


def _sends_all(scheme: Scheme) -> bool:
    """Whether nothing is ever left behind, if there is no transform that rounds."""
    return isinstance(scheme.select, All) and scheme.value == Raw()


def _step_on_gpu(tensors: Mapping[str, Any], wanted: Step) -> Done:
    """``wirecodec.cpu.step`` of tensors on a GPU, all of them on one; residuals may lie anywhere."""
    from wirecodec.gpu import entry

    return entry.step(tensors, wanted)


def _here(x: Any) -> Any:
    """An array, copied where it lies on a GPU; None for None."""
    if x is None or not on_gpu(x):
        return x
    from wirecodec.gpu import entry

    return entry.copy_to_host(x)
