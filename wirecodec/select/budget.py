"""``budget``: a threshold and a quantizer's step with a small error for a number of bits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from wirecodec.arrays import Array
from wirecodec.errors import EncodeError
from wirecodec.select.base import Costs, Selection
from wirecodec.select.budget_candidates import Source
from wirecodec.select.budget_model import ModelCosts
from wirecodec.select.budget_search import search
from wirecodec.select.budget_source import HostSource
from wirecodec.validation import as_real, set_fields

__all__ = ["Budget"]


@dataclass(frozen=True)
class Budget:
    """Selector that spends a number of bits per element so that the squared error is small.

    A container of an n-element tensor has at most bits · n / 8 bytes, its header included. Elements are
    selected from the largest magnitude down, as by ``topk``. The value codec ``error-bounded`` without an
    argument takes the quantizer's step from the selection. Threshold T and step Δ are tied by a ratio Δ/T
    from 1.2 to 1.55, which is within 1 % of the least squared error on gradients and Laplace values. A finer
    step is taken if a histogram of magnitudes predicts less error with it. The histogram also predicts the
    number of elements that spends the bits. The scheme's own codecs then measure the bytes: of a part first
    if the tensor is large, and then of all selected elements. With another value codec, only the number of
    elements is searched.

    If all elements that are not 0 fit, the step shrinks until the bits are spent or the values are exact.

    Cost: about one read of the array, and encoding the selected elements once, or a few times if they are
    few; the encoder reuses the last result. At 26 million elements, that is at most a read more than ``topk``
    and ``error-bounded`` (benchmarks/results/budget.md). A small tensor takes some 0.2 ms more.

    Source: formats/spec/value/error-bounded.md; for the ratio of threshold and step, Sullivan, *Efficient
    Scalar Quantization of Exponential and Laplacian Random Variables*, 1996, whose optimal dead zone it
    approximates.

    Args:
        bits: bits per element, above 0 and at most 64, container header included.

    Raises:
        EncodeError: if ``bits`` is out of range. Selection raises it if the header alone takes more.

    Examples:
        >>> import numpy as np, wirecodec as wc
        >>> x = np.random.default_rng(0).laplace(size=100_000).astype(np.float32)
        >>> blob = wc.encode(x, "budget(bits=0.25) | rice | error-bounded")
        >>> 0.2375 < 8 * blob.size / x.size <= 0.25
        True
    """

    name: ClassVar[str] = "budget"
    MAX_BITS: ClassVar[int] = 64
    bits: float

    def __post_init__(self) -> None:
        set_fields(self, bits=as_real(self.bits, "budget: bits"))
        if not 0 < self.bits <= self.MAX_BITS:
            raise EncodeError(
                f"budget: bits is {self.bits!r}; it must be above 0 and at most {self.MAX_BITS}"
            )

    def max_bytes(self, size: int) -> int:
        """Return the maximum number of bytes of a container with ``size`` elements."""
        return int(self.bits * size / 8)

    def select(
        self, x: Array, *, gradient: Array | None = None, state: Any = None, seed: int = 0
    ) -> Selection:
        """Select elements; bytes are predicted from a model of ``rice`` and ``error-bounded``.

        Args:
            x: (n,) any element type.
            gradient: unused.
            state: unused.
            seed: unused.

        Returns a Selection with values and a step.

        Raises EncodeError at the first NaN or Inf.
        """
        return self.select_within(x, ModelCosts())

    def select_within(self, x: Array, costs: Costs) -> Selection:
        """Select elements; bytes are measured by ``costs``. Raises EncodeError as ``select`` does."""
        if x.size == 0:
            return Selection(None)
        return self.select_from(HostSource(x, self.name), costs)

    def select_from(self, x: Source, costs: Costs) -> Selection:
        """Select elements of a tensor on the host or on a GPU, as ``select_within``."""
        capacity = self.max_bytes(x.size)
        if capacity < costs.overhead:
            raise EncodeError(
                f"{self.name}: {x.size} elements may take {capacity} bytes, and the container's header takes "
                f"{costs.overhead}; raise bits, or send small tensors with another scheme or as a group"
            )
        return search(x, capacity, costs)
