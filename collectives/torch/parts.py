"""One training step of a compressor that is exchanged in parts: the driver of the hooks for DDP and FSDP2.

The parts share the step, and the scale of the loss. After an error on this rank alone, the step goes on if
the other ranks have what they need of this part.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import wirecodec as wc
from collectives.call import counted
from collectives.channel import Channel
from collectives.cltk.allreduce import CLTk
from collectives.exchange.encoding import Inputs
from collectives.methods import Method
from collectives.sites.sites import Sites
from collectives.torch.gradients import Gradients
from collectives.torch.scaling import LossScale, warn_of_changed_scale
from wirecodec.interop import StepInParts


@dataclass(frozen=True, eq=False)
class PartSettings:
    """Settings of the exchanges of a hook, as for ``torch_hook``.

    Attributes:
        names: of all tensors that the compressor meets.
    """

    compressor: wc.Compressor | CLTk
    names: Collection[str]
    algorithm: str
    nonfinite: Literal["raise", "propagate"]
    scaler: Any = None

    @cached_property
    def reduce(self) -> Callable[..., Any]:
        """Average tensors by the compressor's method; it takes a part's copy of the compressor."""
        return Method.of(self.compressor).reduce


class PartDriver:
    """Exchange of one step in parts, which ends with ``commit`` or ``rollback``.

    Args:
        settings: of the hook.

    Attributes:
        parts: the compressor's step; None before its first part.
        is_exchanged: whether all parts so far were exchanged.
    """

    def __init__(self, settings: PartSettings) -> None:
        self.parts: StepInParts[Any] | None = None
        self.is_exchanged = True
        self._settings = settings
        self._scale: LossScale | None = None

    @counted(lambda _, ends, *__, **___: ends)
    def average(
        self,
        ends: Channel | Sites,
        collect: Callable[[], Mapping[str, Any]],
        begin: Callable[[], object] = lambda: None,
        stream: AbstractContextManager[None] | None = None,
    ) -> dict[str, Any]:
        """Average the tensors of the next part, as ``collectives.torch.gradients.average``.

        Args:
            ends: of this rank; all ranks call this together.
            collect: returns {name: torch tensor}; if it raises, all ranks raise CollectiveError.
            begin: is called when the compressor's step has begun, before its first part.
            stream: context of the exchange; None for none.
        """
        settings = self._settings
        part: Any = settings.compressor
        broken: Exception | None = None
        gradients = Gradients({}, LossScale())
        self.is_exchanged = False
        try:
            if self.parts is None:
                settings.compressor.require_names(settings.names)
                self.parts = StepInParts(settings.compressor)
                begin()
            part = self.parts.next_part()
        except Exception as error:
            broken = error

        def make() -> Inputs:
            nonlocal gradients
            if broken is not None:
                raise broken
            if self._scale is None:
                if settings.scaler is None:
                    warn_of_changed_scale(settings.compressor)
                self._scale = LossScale.of(settings.scaler)
            gradients = Gradients(collect(), self._scale)
            return gradients.to_inputs()

        options = {"algorithm": settings.algorithm, "nonfinite": settings.nonfinite}
        try:
            with stream or nullcontext():
                means = settings.reduce(ends, make, part, hold_zeros=True, has_out=True, **options)
                return gradients.take(means)
        finally:
            self.is_exchanged = broken is None and self.parts is not None and self.parts.is_exchanged

    def commit(self) -> None:
        """Let the compressor take the step."""
        if self.parts is not None:
            self.parts.commit()

    def rollback(self) -> None:
        """Leave the compressor's state as it was before the step."""
        if self.parts is not None:
            self.parts.rollback()
