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

from wirecodec.arrays import Array, Bytes, Flat, aligned, on_gpu, read_only
from wirecodec.choice import choose, dense
from wirecodec.chunk import Support
from wirecodec.counter import mix
from wirecodec.errors import EncodeError
from wirecodec.feedback import ErrorFeedback
from wirecodec.limits import UNLIMITED, DecodeLimits, Schema
from wirecodec.parameters import as_integer, as_seed
from wirecodec.parts import parts_of
from wirecodec.pipeline import decode_many, encode_supports, in_order
from wirecodec.schedule import Schedule, parse_schedule, schedule_string
from wirecodec.scheme import Scheme, SchemeLike, as_scheme, scheme_for
from wirecodec.select.every import All
from wirecodec.sparse import SparseTensor
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

    def __init__(
        self,
        blob: Bytes,
        octets: Bytes | None,
        sent: Mapping[str, SparseTensor],
        compressor: Compressor,
        before: _State,
        after: _State,
    ) -> None:
        self.blob = blob
        self.sent = sent
        self._octets = octets
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
        if self._after is None or self._compressor._state is not self._before:
            raise RuntimeError("this step was settled before, or another one was committed since")
        self._compressor._state = self._after
        self._compressor._reuse(self._before, self._after)
        self._after = None

    def rollback(self) -> None:
        """The exchange failed: nothing changes, and the next step sees the same residuals as this one did.

        RuntimeError where this step was settled before.
        """
        if self._after is None:
            raise RuntimeError("this step was settled before")
        self._compressor._reuse(self._after, self._before)
        self._after = None


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
        seed = mix(self._seed, before.step, as_integer(rank, "rank"))
        choice = mix(self._seed, before.step)  # no rank: selectors that draw choose alike on all of them
        order = in_order(gradients)
        if any(on_gpu(gradients[name]) for name in order):
            return self._prepare_on_gpu({name: gradients[name] for name in order}, seed, choice)
        taken: dict[str, _Taken] = {}
        for key, name in enumerate(order):
            try:
                taken[name] = self._take(name, dense(gradients[name]), before, mix(choice, key))
            except EncodeError as error:
                raise error.of(name) from None
        blob = encode_supports(
            {name: t.support for name, t in taken.items()},
            {name: t.scheme for name, t in taken.items()},
            seed=seed,
            names=self._names,
            fuse=self._fuse,
        )
        schema = {name: (t.support.shape, t.support.dtype) for name, t in taken.items()}
        sent = decode_many(blob, limits=UNLIMITED, schema=schema)
        selectors = {name: t.selector for name, t in taken.items() if t.selector is not None}
        after = before.next(self._residuals(taken, sent, before), selectors)
        return Prepared(blob, None, sent, self, before, after)

    def _prepare_on_gpu(self, gradients: Mapping[str, Any], seed: int, choice: int) -> Prepared:
        """The same of gradients on a GPU, in the order of their keys."""
        from wirecodec.gpu import door

        before = self._state
        asked = {}
        for key, name in enumerate(gradients):
            try:
                scheme = self._scheme(name, before.step)
            except EncodeError as error:
                raise error.of(name) from None
            asked[name] = door.Asked(
                scheme,
                self._feedback if self._keeps(name, scheme, before) else None,
                before.residuals.get(name),
                before.selectors.get(name),
                mix(choice, key),
                self._last.setdefault(name, door.LastTop()),
            )
        done = door.step(gradients, door.Step(asked, seed, self._names, self._fuse), parts_of)
        after = before.next(done.residuals, done.selectors)
        return Prepared(done.blob, done.octets, done.sent, self, before, after)

    def _take(self, name: str, flat: Flat, state: _State, seed: int) -> _Taken:
        """One tensor: add its residual, choose, gather."""
        scheme = self._scheme(name, state.step)
        residual = _here(state.residuals.get(name))
        if residual is not None and residual.size != flat.data.size:
            raise EncodeError(f"{flat.data.size} elements; its residual has {residual.size}")
        x, seen = flat.data, flat
        if self._feedback is not None:
            room = None
            if residual is not None:
                room = self._room(name, self._feedback.wide(flat.data.dtype, residual.dtype), x.size)
            taken = self._take_sum(scheme, flat, residual, room)
            if taken is not None:
                return taken
            x = self._feedback.corrected(flat.data, residual, room)
            if residual is not None:
                seen = Flat(read_only(self._feedback.sendable(x, flat.data.dtype)), flat.shape)
        support, selector = choose(
            seen, scheme, gradient=flat.data, state=state.selectors.get(name), seed=seed
        )
        return _Taken(scheme, support, selector, x, flat.data)

    def _take_sum(
        self, scheme: Scheme, flat: Flat, residual: Array | None, room: Array | None
    ) -> _Taken | None:
        """The same in one pass, where the selector offers it; what is not sent goes to ``room``."""
        select_sum = getattr(scheme.select, "select_sum", None)
        if (
            scheme.transform is not None
            or select_sum is None
            or residual is None
            or room is None
            or self._feedback != ErrorFeedback()
        ):
            return None
        if not flat.data.dtype == residual.dtype == room.dtype or getattr(scheme.index, "lossy", False):
            return None
        selection = select_sum(flat.data, residual, room)
        if selection is None:
            return None
        support = Support(selection.indices, selection.values, flat.data.size, flat.shape)
        return _Taken(scheme, support, None, room, flat.data, taken_out=True)

    def _room(self, name: str, dtype: np.dtype[Any], size: int) -> Array:
        """Memory for a tensor's next residual: that of the one before the present one, if it fits."""
        spare = self._spare.pop(name, None)
        if spare is None or spare.dtype != dtype or spare.size != size or spare.ctypes.data % 64:
            return aligned(size, dtype)
        return spare

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

    def _residuals(
        self, taken: Mapping[str, _Taken], sent: Mapping[str, SparseTensor], state: _State
    ) -> dict[str, Array]:
        if self._feedback is None:
            return {}
        return {
            name: self._residual(t, _here(state.residuals.get(name)), sent[name])
            for name, t in taken.items()
            if self._keeps(name, t.scheme, state)
        }

    def _keeps(self, name: str, scheme: Scheme, state: _State) -> bool:
        """Whether something of a tensor may be left behind."""
        if self._feedback is None:
            return False
        return name in state.residuals or bool(scheme.transform) or not _sends_all(scheme)

    def _residual(self, taken: _Taken, residual: Array | None, sent: SparseTensor) -> Array:
        assert self._feedback is not None
        if taken.taken_out:
            assert taken.support.indices is not None
            return self._feedback.remainder_of_rest(
                taken.x, taken.support.indices, taken.support.values, sent
            )
        return self._feedback.remainder(taken.x, taken.gradient, residual, sent)

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
        the state names no schedule, its own stays. ValueError for other dictionaries.
        """
        known = {"step", "seed", "schedule"}
        odd = [key for key in state if key not in known and not key.startswith(("residual/", "selector/"))]
        if odd or not known <= state.keys():
            raise ValueError(f"not the state of a Compressor: {odd or sorted(known - state.keys())}")
        text = bytes(np.asarray(state["schedule"], np.uint8)).decode()
        schedule = parse_schedule(text) if text else self._schedule
        seed, step = as_seed(state["seed"]), as_integer(state["step"], "step")
        residuals = {key[9:]: _floats(key, x) for key, x in state.items() if key.startswith("residual/")}
        selectors = {key[9:]: np.array(x) for key, x in state.items() if key.startswith("selector/")}
        self._schedule, self._seed = schedule, seed
        self._state = _State(step, residuals, selectors)


def _sends_all(scheme: Scheme) -> bool:
    """Whether nothing is ever left behind, if there is no transform that rounds."""
    return isinstance(scheme.select, All) and scheme.value == Raw()


def _here(x: Any) -> Any:
    """An array, copied where it lies on a GPU; None for None."""
    if x is None or not on_gpu(x):
        return x
    from wirecodec.gpu import door

    return door.on_host(x)


def _floats(key: str, x: Any) -> Array:
    """A residual from a saved state, copied and flat; ValueError where it is none."""
    found = np.array(x).reshape(-1)
    if found.dtype not in (np.float32, np.float64):
        raise ValueError(f"{key} is {found.dtype}; a residual is float32 or float64")
    return found


@dataclass(frozen=True, eq=False)
class _Taken:
    """One tensor of a step.

    Its scheme, what is sent, the selector's next state, x = gradient + residual, the gradient, and whether
    what is sent has been taken out of x.
    """

    scheme: Scheme
    support: Support
    selector: Array | None
    x: Array
    gradient: Array
    taken_out: bool = False
