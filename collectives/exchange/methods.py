"""Compressors whose steps are summed in a way of their own, in place of an algorithm of ``allreduce``."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

import wirecodec as wc
from collectives.agreement.header import NO_DETAIL, Header, Operation
from collectives.channel import Channel
from collectives.transport.weights import Weights

if TYPE_CHECKING:
    from collectives.exchange.encoding import Encoding


class SummingCompressor(wc.Compressor):
    """Compressor that sums its own steps. It works on the host: gradients on a GPU are copied.

    Attributes:
        operation: code of the exchange.
    """

    operation: ClassVar[Operation]

    def get_detail(self, local: Encoding) -> int:
        """Return the number in this rank's first header, which the other ranks see."""
        return NO_DETAIL

    @abstractmethod
    def sum_step(
        self, channel: Channel, local: Encoding, weights: Weights, proposal: Header
    ) -> dict[str, Any]:
        """Sum all ranks' steps after the agreement, as ``AllreduceAlgorithm.run``."""

    @abstractmethod
    def rehearse(self, local: Encoding, proposal: Header) -> None:
        """Call the kernels that ``sum_step`` needs, with this rank's tensors only."""
