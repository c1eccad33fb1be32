"""Holder of the current state of one rank, its open steps, and the base class of objects that have one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any
from weakref import ReferenceType, ref

import numpy as np

from wirecodec.arrays import Array, Bytes, aligned
from wirecodec.compressor.memory import Memory
from wirecodec.compressor.state import State
from wirecodec.errors import EncodeError
from wirecodec.jobs import StepResult

MAX_TAKEN = 2**22
"""Bytes of the largest container that is kept until the next step, for ``Compressor.last``."""


@dataclass(frozen=True, eq=False)
class EncodedAhead:
    """Result of a step that was encoded before its turn.

    Attributes:
        state: in which it was encoded.
        arguments: of the step, in addition to the tensors.
        result: of the step.
    """

    state: State
    arguments: tuple[Any, ...]
    result: StepResult

    def fits(self, state: State, arguments: tuple[Any, ...], names: tuple[str, ...]) -> bool:
        """Tell whether a step of these tensors has the same result in a state."""
        if (arguments, state.step, state.seed) != (self.arguments, self.state.step, self.state.seed):
            return False
        pairs = [
            (getattr(state, kind), getattr(self.state, kind))
            for kind in ("residuals", "selectors", "momenta")
        ]
        return all(now.get(name) is then.get(name) for now, then in pairs for name in names)


class StateHolder:
    """Holder of a rank's state, and of the memory that its steps reuse.

    Attributes:
        state: after the last step. One assignment of it ends a step, so that an interrupt leaves the state
            before the step or the one after it.
        memory: of the steps from this state.
        ahead: results of later parts of the step, by the names of their tensors.
        begun: number of steps that have begun, and of states that were loaded.
        taken: for each part of the last step, or its only one, the bytes of its container, and on the host
            the container; None in its place if it is large, or if its values are not what is sent.
        taken_residuals: residuals of the state after that step.
        is_part: whether the steps are parts of one.
    """

    def __init__(
        self, state: State | None = None, memory: Memory | None = None, *, is_part: bool = False
    ) -> None:
        self.state = state or State()
        self.taken: list[tuple[int, Bytes | None]] = []
        self.taken_residuals: Mapping[str, Any] = {}
        self.is_part = is_part
        self.memory = memory or Memory()
        self.ahead: dict[tuple[str, ...], EncodedAhead] = {}
        self.begun = 0
        self._waiting: ReferenceType[OpenStep] | None = None

    def begin(self) -> State:
        """Return the state in which a step begins; raise EncodeError if another one is held."""
        waiting = None if self._waiting is None else self._waiting()
        if waiting is not None and waiting.is_open:
            raise EncodeError(
                "the last exchange with commit=False is open: call its commit() or rollback() first"
            )
        self.begun += 1
        return self.state

    def wait_for(self, step: OpenStep | None) -> None:
        """Let no other step begin before this one is committed or rolled back, as long as it exists."""
        self._waiting = None if step is None else ref(step)

    def load(self, state: State) -> None:
        """Replace the state by a loaded one."""
        self.state = state
        self.begun += 1  # of a step that was open, nothing can be committed
        self._keep_arrays()

    def share(self) -> StateHolder:
        """Return a holder of the same state, whose arrays neither overwrites."""
        self._keep_arrays()
        return StateHolder(self.state)

    def _keep_arrays(self) -> None:
        """Replace the memory by one that has no array of the state, and the same caches."""
        self.memory = Memory(self.memory.searches, self.memory.thresholds, plans=self.memory.plans)


class OpenStep:
    """Step that waits for ``commit`` or ``rollback``; one of them is called once.

    Args:
        holder: of the state.
        before: state of the holder when the step began.
        after: state after it.
    """

    def __init__(self, holder: StateHolder, before: State, after: State) -> None:
        self._holder = holder
        self._before = before
        self._after: State | None = after
        self._number = holder.begun

    @property
    def is_open(self) -> bool:
        """Whether the step was neither committed nor rolled back."""
        return self._after is not None

    def hold(self, *, exclusively: bool = True) -> None:
        """Leave the step open for the caller.

        Args:
            exclusively: whether the holder begins no other step before this one is closed. Otherwise one may
                begin, after which this one must not be committed.
        """
        self._holder.wait_for(self if exclusively else None)

    @property
    def is_latest(self) -> bool:
        """Whether no other step has begun since this one, and no state was loaded."""
        return self._number == self._holder.begun

    def commit(self) -> None:
        """Replace the state by the one after this step. Call it if the exchange succeeded.

        Raises:
            RuntimeError: this step was closed before, or another one was committed since it was prepared.
        """
        after, holder = self._after, self._holder
        if after is None or (holder.state is not self._before and holder.state is not after):
            raise RuntimeError("this step was closed before, or another one was committed since")
        # An interrupt may come between any two lines. ``rollback`` undoes this until ``_after`` is None.
        holder.state = after
        self._after = None
        self._keep_memory(self._before, after, committed=True)

    def rollback(self) -> None:
        """Drop this step. Call it if the exchange failed: the next step starts from the same residuals.

        It also undoes a ``commit`` that was interrupted.

        Raises:
            RuntimeError: this step was closed before.
        """
        after, holder = self._after, self._holder
        if after is None:
            raise RuntimeError("this step was closed before")
        was_committed = holder.state is after
        if was_committed:
            holder.state = self._before
        self._after = None
        # Memory is reused only if no other step, and no copy of the object, holds these residuals.
        if holder.state is self._before and not was_committed:
            self._keep_memory(self._before, after, committed=False)

    def _keep_memory(self, before: State, after: State, *, committed: bool) -> None:
        """Reuse arrays that no state holds any more."""


class Prepared(OpenStep):
    """Encoded step that waits for ``commit`` or ``rollback``; one of them is called once.

    Attributes:
        blob: the container to send, (n,) uint8 on the gradients' device.
        sent: {name: SparseTensor} as receivers decode it, on the gradients' device. bfloat16 is on the host,
            because CuPy does not have it.
        seed: of the codecs in this step.

    Examples:
        >>> import numpy as np, wirecodec as wc
        >>> prepared = wc.Compressor("topk(k=1) | rice | raw").prepare({"w": np.array([1, 3], "f4")})
        >>> prepared.commit()
        >>> prepared.sent["w"].to_dense()
        array([0., 3.], dtype=float32)
    """

    def __init__(
        self, result: StepResult, holder: StateHolder, before: State, after: State, seed: int
    ) -> None:
        self.blob = self._encoded = result.blob
        self._blob_on_host = None if result.blob_on_host is result.blob else result.blob_on_host
        self.sent = result.sent
        self.seed = seed
        self._amend: Callable[[], None] | None = None
        super().__init__(holder, before, after)

    @property
    def sends_what_it_encoded(self) -> bool:
        """Return whether ``blob`` is still the encoded container, whose tensors are ``sent``."""
        return self.blob is self._encoded

    @property
    def blob_on_host(self) -> Bytes:
        """Return the container on the host. Decoding a container on a GPU made this copy."""
        return self.blob if self._blob_on_host is None else self._blob_on_host

    def __repr__(self) -> str:
        """Return the sizes, and the state: open or closed."""
        state = "open" if self.is_open else "closed"
        return f"Prepared({self.blob.nbytes} bytes, {len(self.sent)} tensors, {state})"

    @property
    def residuals(self) -> Mapping[str, Any]:
        """{name: (size,) residual} after this step, which is open."""
        assert self._after is not None
        return self._after.residuals

    def own_residual(self, name: str, size: int, dtype: np.dtype[Any]) -> Array:
        """Return a tensor's residual on the host that only this open step holds; zeros if it has none.

        Args:
            name: the tensor's.
            size: number of its elements.
            dtype: of its elements.
        """
        assert self._after is not None
        residual: Array | None = self._after.residuals.get(name)
        if residual is None:
            own = aligned(size, np.result_type(dtype, np.float32))
            own[:] = 0
        elif residual is self._before.residuals.get(name):  # the tensor was held
            own = aligned(size, residual.dtype)
            own[:] = residual
        else:
            return residual
        self._after = replace(self._after, residuals={**self._after.residuals, name: own})
        return own

    @property
    def needs_results(self) -> bool:
        """Return whether ``commit`` needs the result of the exchange."""
        return self._amend is not None

    def amend(self, change: Callable[[], None]) -> None:
        """Let ``commit`` call a function first, which may write into ``own_residual`` and be called again."""
        self._amend = change

    def commit(self) -> None:
        """Replace the state by the one after this step, as ``OpenStep.commit``."""
        if self._amend is not None and self.is_open:
            self._amend()
        super().commit()
        holder, blob = self._holder, self._encoded if self._blob_on_host is None else self._blob_on_host
        known = self._amend is None and blob.nbytes <= MAX_TAKEN
        holder.taken = [*(holder.taken if holder.is_part else ()), (blob.nbytes, blob if known else None)]
        holder.taken_residuals = holder.state.residuals

    def _keep_memory(self, before: State, after: State, *, committed: bool) -> None:
        """Reuse the arrays of the state that no step needs any more."""
        memory = self._holder.memory
        (memory.advance if committed else memory.take_back)(before, after)


class Stateful:
    """Object with a state that its steps replace: a Compressor, a CLTk or a GTopK."""

    _holder: StateHolder

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes of a copy, which takes its own steps from the same state."""
        return {**vars(self), "_holder": self._holder.share()}

    @property
    def step(self) -> int:
        """Steps taken so far; of a Compressor, those that were committed."""
        return self._holder.state.step

    def set_step(self, step: int) -> None:
        """Set the number of steps taken, and keep all arrays, to take over another rank's step."""
        self._holder.state = replace(self._holder.state, step=step)

    def take_rank(self, rank: int) -> None:
        """Belong to the rank with this number, also before its first step; ranks may be renumbered later.

        No step may be open. A loaded state of another rank raises EncodeError at the first step.
        """
        self._holder.state = self._holder.state.take_rank(rank)

    def require_names(self, names: Collection[str]) -> None:
        """Compare a loaded state with the names of all tensors of the training.

        Args:
            names: of all tensors, also of those without a gradient.

        Raises:
            EncodeError: the state has other names, and it was loaded with ``strict``.
        """
        self._holder.state = self._holder.state.fit_names(names)
