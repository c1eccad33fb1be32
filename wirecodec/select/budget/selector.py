"""``budget``: a threshold and a quantizer's step with a small error for a number of bits."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from wirecodec.arrays import Array
from wirecodec.errors import EncodeError
from wirecodec.select.base import Costs, Selection, Selector
from wirecodec.select.budget.model import ModelCosts
from wirecodec.select.budget.search import search
from wirecodec.select.budget.source import HostSource, Source
from wirecodec.validation import as_real, set_fields

SMALL_BYTES = 128
"""Bytes beside its header that a tensor may take if its budget does not hold header and one element."""
_MOST_HEADER_BYTES = 384
"""Bytes of the largest header of one tensor of one chunk, without name and tag."""
HELD_BYTES = 48
"""Bytes by which a header grows if some tensors of a group are held, and share an entry."""


@dataclass(frozen=True)
class Budget(Selector):
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

    A tensor can be so small that its bits do not hold its header and one element. It would never be sent. Its
    sections then take bits · n / 8 bytes, or 128 if that is more, beside the header: enough for all of 32
    float32 elements. A warning names it once. In a step with ``bytes_per_step``, it keeps to its bytes.

    Cost: about one read of the array, and encoding the selected elements once, or a few times if they are
    few; the encoder reuses the last result. At 26 million elements, that is at most a read more than ``topk``
    and ``error-bounded`` (benchmarks/results/budget.md). A small tensor takes some 0.2 ms more.

    Source: formats/spec/value/error-bounded.md; for the ratio of threshold and step, Sullivan, *Efficient
    Scalar Quantization of Exponential and Laplacian Random Variables*, 1996, whose optimal dead zone it
    approximates.

    Args:
        bits: bits per element, above 0 and at most 64, container header included.

    Raises:
        EncodeError: if ``bits`` is out of range.

    Examples:
        >>> import numpy as np, wirecodec as wc
        >>> x = np.random.default_rng(0).laplace(size=100_000).astype(np.float32)
        >>> blob = wc.encode(x, "budget(bits=0.25) | rice | error-bounded")
        >>> 0.2375 < 8 * blob.size / x.size <= 0.25
        True
    """

    name: ClassVar[str] = "budget"
    needs_costs: ClassVar[bool] = True
    MAX_BITS: ClassVar[int] = 64
    bits: float

    def __post_init__(self) -> None:
        set_fields(self, bits=as_real(self.bits, "budget: bits"))
        if not 0 < self.bits <= self.MAX_BITS:
            raise EncodeError(
                f"budget: bits is {self.bits!r}; it must be above 0 and at most {self.MAX_BITS}"
            )

    def max_bytes(self, size: int) -> int:
        """Return the maximum number of bytes of a container with one tensor of ``size`` elements.

        The header is not known here, so a tensor that may be a small one counts with the largest.
        """
        nbytes, header = self.own_bytes(size), _MOST_HEADER_BYTES + size // 2**16
        return nbytes if size == 0 or nbytes >= header + SMALL_BYTES else header + max(nbytes, SMALL_BYTES)

    def allow(self, size: int, overhead: int, least: int) -> int:
        """Return the bytes of several parts of a group.

        Args:
            size: their elements.
            overhead: bytes of their headers, which are included.
            least: bytes of sections below which they are small.
        """
        nbytes = self.own_bytes(size)
        return nbytes if nbytes >= overhead + least else overhead + max(nbytes, SMALL_BYTES)

    def own_bytes(self, size: int) -> int:
        """Return the bytes of ``size`` elements at this number of bits."""
        return int(self.bits * size / 8)

    def select(
        self, x: Array, *, gradient: Array | None = None, state: Any = None, seed: int = 0
    ) -> Selection:
        """Select elements; bytes are predicted from a model of ``rice`` and ``error-bounded``.

        Args:
            x: (n,) any element type.

        Returns a Selection with values and a step.

        Raises EncodeError at the first NaN or Inf.
        """
        return self.select_within(x, ModelCosts())

    def select_within(self, x: Array | Source, costs: Costs) -> Selection:
        """Select elements; bytes are measured by ``costs``. Raises EncodeError as ``select`` does.

        ``x`` is an array on the host, or elements that are read in another way.
        """
        if x.size == 0:
            return Selection(None)
        source = HostSource(x, self.name) if isinstance(x, np.ndarray) else x
        nbytes = self.own_bytes(source.size)
        if nbytes > costs.overhead:
            selection = search(source, nbytes, costs)
            if selection.indices is None or selection.indices.size or nbytes >= costs.overhead + SMALL_BYTES:
                return selection
        if not (largest := source.collect(1)).nonzero:
            return largest.top(0, False).selection()
        return search(source, costs.overhead + max(nbytes, SMALL_BYTES), costs)


@dataclass(frozen=True)
class HardBudget(Budget):
    """Budget of a part of a step, which is never exceeded; nothing is sent if it does not hold an element.

    Args:
        bits: as for ``Budget``.
        nbytes: bytes of the tensors to which it applies, headers included; None for those of the bits.
        size: their elements, if ``nbytes`` is given. If a selection has fewer, the others are held, and their
            part of the bytes is not spent.
        overhead: bytes of their headers, included in ``nbytes``.
        owner: name of the first of them if they share no entry with others, which have another step; else "".
    """

    nbytes: int | None = field(default=None, compare=False)
    size: int = field(default=0, compare=False)
    overhead: int = field(default=0, compare=False)
    owner: str = ""

    def allow(self, size: int, overhead: int, least: int = 0) -> int:
        """Return the bytes of ``size`` elements, header included; arguments as for ``Budget``."""
        if self.nbytes is None:
            return self.own_bytes(size)
        left = self.nbytes - self.overhead
        if size < self.size:
            left = max(left - HELD_BYTES, 0) * size // self.size
        return overhead + left

    def select_within(self, x: Array | Source, costs: Costs) -> Selection:
        """Select elements as ``Budget`` does, within the bytes alone."""
        if x.size == 0:
            return Selection(None)
        source = HostSource(x, self.name) if isinstance(x, np.ndarray) else x
        nbytes = self.allow(source.size, costs.overhead)
        if nbytes <= costs.overhead:
            return source.collect(1).top(0, False).selection()  # it has checked for NaN and Inf
        return search(source, nbytes, costs)
