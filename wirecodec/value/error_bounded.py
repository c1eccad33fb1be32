"""``error-bounded``: few bits for a bounded l2 error (formats/spec/value/error-bounded.md)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from wirecodec.arrays import Array, Bytes, bits_of
from wirecodec.errors import EncodeError, Invalid, Malformed
from wirecodec.limits import UNLIMITED, DecodeLimits
from wirecodec.support import SectionBatch
from wirecodec.validation import as_real, set_fields
from wirecodec.value.base import ValueCodec
from wirecodec.value.error_bounded_batch import read_batch, read_short, write_batch, write_short
from wirecodec.value.error_bounded_cells import CellSearch
from wirecodec.value.error_bounded_section import EXACT, CellSection, read_section, write_smaller

DEFAULT_ERROR = 0.01
"""Relative l2 error if neither the scheme nor the selector gives one."""


@dataclass(frozen=True)
class ErrorBounded(ValueCodec):
    """Error-bounded value codec.

    The decoded values v̂ of each chunk satisfy ‖v̂ - v‖₂ ≤ error · ‖v‖₂, so error feedback converges. A
    uniform quantiser is as coarse as this bound allows, by measurement. Adaptive rANS codes cells and signs;
    the context is the mean magnitude of the preceding values. The top 1 % of Laplace-distributed values take
    4.8 bits per value for an error of 0.01, and 2.5 for 0.05. Not unbiased.

    Source: formats/spec/value/error-bounded.md; for rANS, Duda, *Asymmetric Numeral Systems*, 2013.

    Args:
        error: relative l2 error, above 0 and below 1. None stands for 0.01, or for the step that the selector
            chose, as ``budget`` does.

    Raises:
        EncodeError: if ``error`` is out of range.

    Examples:
        >>> import numpy as np, wirecodec as wc
        >>> x = np.random.default_rng(0).laplace(size=10_000).astype(np.float32)
        >>> y = wc.decode(wc.encode(x, "all | raw-index | error-bounded(error=0.05)")).values
        >>> bool(np.linalg.norm(y - x) <= 0.05 * np.linalg.norm(x))
        True
    """

    name: ClassVar[str] = "error-bounded"
    wire_id: ClassVar[int] = 14
    carries_nonfinite: ClassVar[bool] = False
    error: float | None = None

    def __post_init__(self) -> None:
        if self.error is None:
            return
        set_fields(self, error=as_real(self.error, "error-bounded: error"))
        if not 0 < self.error < 1:
            raise EncodeError(f"error-bounded: error is {self.error!r}; it must be above 0 and below 1")

    def encode(self, values: Array, stream: int) -> Bytes:
        """Encode values as cells, or unchanged if that is smaller."""
        section = write_short(values, self._bound)
        if section is not None:
            return section
        search = CellSearch(values, self._bound)
        return write_smaller(search.bits, values, search.find_cells())

    def encode_batch(self, values: Array, cuts: Array, streams: Array) -> SectionBatch | None:
        """Encode the values of many tensors, each as ``encode`` does; see ``ValueCodec``."""
        batch = write_batch(self.wire_id, values, cuts, self._bound)
        return super().encode_batch(values, cuts, streams) if batch is None else batch

    @property
    def takes_step(self) -> bool:
        """Whether a selector may choose the width of the cells: without a bound of the error."""
        return self.error is None

    def choose_with_step(self, values: Array, stream: int, step: float) -> tuple[ValueCodec, Bytes]:
        """Encode values as cells of a width, or unchanged if that is smaller or the width is not possible."""
        search = CellSearch(values, DEFAULT_ERROR)
        return self, write_smaller(search.bits, values, search.cells_of(step))

    def encode_batch_with_steps(self, values: Array, cuts: Array, steps: Array) -> SectionBatch:
        """Encode the values of many tensors as cells of these widths; see ``ValueChoice``."""
        batch = write_batch(self.wire_id, values, cuts, steps)
        return super().encode_batch_with_steps(values, cuts, steps) if batch is None else batch

    @property
    def _bound(self) -> float:
        return DEFAULT_ERROR if self.error is None else self.error

    def max_bytes(self, r: int, dtype: np.dtype[Any]) -> int:
        """Return the maximum number of bytes of a section of at most r values of ``dtype``."""
        return 1 + r * dtype.itemsize

    @classmethod
    def decode(cls, section: Bytes, r: int, dtype: np.dtype[Any], limits: DecodeLimits) -> Array:
        """Decode cells to values near their middle."""
        if section[0] == EXACT:
            return _read_exact(section[1:], r, dtype)
        values = read_short(section, r, dtype)
        if values is not None:
            return values
        return read_section(CellSection(section, r, dtype))

    @classmethod
    def decode_batch(
        cls, words: Array, starts: Array, lengths: Array, cuts: Array, dtype: np.dtype[Any]
    ) -> tuple[Array, Array] | None:
        """Decode the sections of many tensors; see ``ValueCodec``."""
        return read_batch(
            words,
            starts,
            lengths,
            cuts,
            dtype,
            lambda section, r: cls.decode(section, r, dtype, UNLIMITED),
        )


def _read_exact(elements: Bytes, r: int, dtype: np.dtype[Any]) -> Array:
    """Read unchanged elements, which must be finite."""
    if elements.size != r * dtype.itemsize:
        raise Malformed(
            "error-bounded-length", f"{elements.size} bytes for {r} values of {dtype.itemsize} bytes"
        )
    values: Array = elements.copy().view(dtype)
    infinity = bits_of(np.array([np.inf], dtype))[0]
    if ((bits_of(values) << 1) >= infinity << 1).any():
        raise Invalid("error-bounded-value", "an element is not finite")
    return values
