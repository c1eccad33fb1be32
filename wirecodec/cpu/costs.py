"""Bytes of a selection, measured by encoding it with the scheme's codecs."""

from __future__ import annotations

from wirecodec.arrays import Array
from wirecodec.container.writer import CHUNK, PREFIX_BYTES, TABLE, Entry, padded
from wirecodec.cpu.chunk import encode_chunks
from wirecodec.errors import EncodeError
from wirecodec.index.base import is_lossy
from wirecodec.settings.scheme import Scheme
from wirecodec.support import Support

__all__ = ["CodecCosts"]


class CodecCosts:
    """Bytes that a scheme's codecs take for a selection.

    Args:
        scheme: its codecs are used; the index codec must be exact.
        size: elements of the tensor.
        header: bytes of prefix and extension block that the tensor has to pay.
    """

    def __init__(self, scheme: Scheme, size: int, header: int = PREFIX_BYTES) -> None:
        if is_lossy(scheme.index):
            raise EncodeError(f"{scheme.select.name} needs an exact index codec, not {scheme.index.name}")
        self.scheme = scheme
        self.overhead = header + TABLE.itemsize * max(1, -(-size // CHUNK))
        self.takes_step = getattr(scheme.value, "error", 0) is None and hasattr(
            scheme.value, "encode_with_step"
        )

        self._measured: list[tuple[Array, list[Entry]]] = []  # the last two

    def measure(self, indices: Array | None, values: Array, size: int, step: float | None) -> int:
        """Return the bytes of the sections of ``values`` at ``indices`` of ``size`` elements."""
        support = Support(indices, values, size, (size,), step=step)
        entries = list(encode_chunks(0, support, self.scheme, 0))
        self._measured = [*self._measured[-1:], (values, entries)]
        return sum(padded(part.size) for entry in entries for part in entry.parts)

    def entries_of(self, values: Array | None) -> list[Entry] | None:
        """Return the entries of a selection that was measured lately, if their bytes do not depend on a seed."""
        if not self.takes_step:
            return None
        return next((entries for measured, entries in self._measured if measured is values), None)
