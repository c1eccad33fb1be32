"""StepInParts: one step that is exchanged in parts, as buckets of gradients are ready.

Each part is a step of its own, from a fork of the state: the parts share the step's number and its schedule,
and each has a seed of its own. The state of the whole changes only if all parts have been exchanged.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Generic, TypeVar

from wirecodec.compressor.compressor import Compressor
from wirecodec.compressor.holder import Stateful, StateHolder
from wirecodec.compressor.memory import Memory
from wirecodec.compressor.state import State

T = TypeVar("T", bound=Stateful)


class StepInParts(Generic[T]):
    """One step of a Compressor or a CLTk, in parts.

    Args:
        whole: the object whose step this is. It takes no other step meanwhile.

    Attributes:
        compressor: a copy of ``whole`` that exchanges the parts, with the same residuals and memory.
    """

    def __init__(self, whole: T) -> None:
        self._whole = whole
        self._before = whole._holder.begin()
        self._after: State | None = None
        self._parts = 0
        self._memory = whole._holder.memory
        self.compressor = copy.copy(whole)
        whole._holder.memory = self._memory  # this copy overwrites no array of the state
        # Memory that a part has taken is the whole's again if the step fails.
        self._holder = self.compressor._holder = StateHolder(self._before, self._memory.fork(), is_part=True)

    def next_part(self) -> T:
        """Return the object that exchanges the next part; all ranks exchange the same parts in order.

        A tensor is in one part only.
        """
        self._holder.state = self._before.fork(self._parts, self._holder.state)
        self._parts += 1
        return self.compressor

    def encode_ahead(
        self, number: int, gradients: Mapping[str, Any], *, rank: int, ranks: int, hold_zeros: bool
    ) -> None:
        """Encode a later part of a Compressor's step, while another thread exchanges an earlier one.

        ``prepare`` takes the result if it is called for the same part, and encodes the part otherwise.

        Args:
            number: of the part, from 0.
            gradients, rank, ranks, hold_zeros: as for ``prepare``.
        """
        compressor: Any = self.compressor
        if type(compressor) is Compressor:  # a subclass may have another ``prepare``
            state = self._before.fork(number, self._holder.state)
            compressor._encode_ahead(state, gradients, rank, ranks, hold_zeros=hold_zeros)

    @property
    def is_exchanged(self) -> bool:
        """Whether the latest part was exchanged."""
        return self._holder.state.step > self._before.step

    def commit(self) -> None:
        """Replace the state of the whole by the one after all parts, because the other ranks have done so.

        After an interrupt, it is completed before that is raised.

        Raises:
            RuntimeError: another step was committed since this one began.
        """
        try:
            self._replace_state()
        except RuntimeError:
            raise
        except BaseException:
            self._replace_state()
            raise
        self._keep_attributes()

    def rollback(self) -> None:
        """Leave the state of the whole as it was before the step."""
        self._keep_attributes()

    def _replace_state(self) -> None:
        whole = self._whole._holder
        if whole.state is not self._before and whole.state is not self._after:
            raise RuntimeError("another step was committed since this one began")
        if self._after is None:
            self._after = self._before.join(self._holder.state)
        # Another copy may hold the arrays that the parts have freed.
        memory = self._holder.memory if whole.memory is self._memory else Memory()
        whole.memory = Memory()  # an interrupt before the last line leaves no array of the state in it
        whole.state = self._after
        whole.memory = memory
        whole.taken, whole.taken_residuals = self._holder.taken, self._holder.taken_residuals

    def _keep_attributes(self) -> None:
        """Copy attributes that a subclass has changed to the whole, whether or not the step counts."""
        for name, value in vars(self.compressor).items():
            if name != "_holder":
                setattr(self._whole, name, value)
