"""Bytes of a selection, measured by encoding it with the scheme's codecs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from wirecodec.arrays import Array
from wirecodec.container import extension_writer as ext
from wirecodec.container.writer import CHUNK, PREFIX_BYTES, TABLE, Entry, padded
from wirecodec.cpu.chunk import encode_chunks
from wirecodec.errors import EncodeError
from wirecodec.index.base import is_lossy
from wirecodec.settings.scheme import Scheme
from wirecodec.support import Support

__all__ = ["CodecCosts", "group_bytes", "share_header"]


class CodecCosts:
    """Bytes that a scheme's codecs take for a selection.

    Args:
        scheme: its codecs are used; the index codec must be exact.
        size: elements of the tensor, or coefficients of its transform.
        header: bytes of prefix and extension block that count for the tensor.
    """

    def __init__(self, scheme: Scheme, size: int, header: int) -> None:
        if is_lossy(scheme.index):
            raise EncodeError(f"{scheme.select.name} needs an exact index codec, not {scheme.index.name}")
        self.scheme = scheme
        self.overhead = header + TABLE.itemsize * max(1, -(-size // CHUNK))
        self.takes_step = getattr(scheme.value, "error", 0) is None and hasattr(
            scheme.value, "encode_with_step"
        )

        self._measured: list[tuple[Array, float | None, list[Entry]]] = []  # the last two

    def measure(self, indices: Array | None, values: Array, size: int, step: float | None) -> int:
        """Return the bytes of the sections of ``values`` at ``indices`` of ``size`` elements."""
        support = Support(indices, values, size, (size,), step=step)
        entries = list(encode_chunks(0, support, self.scheme, 0))
        self._measured = [*self._measured[-1:], (values, step, entries)]
        return sum(padded(part.size) for entry in entries for part in entry.parts)

    def entries_of(self, values: Array | None, step: float | None) -> list[Entry] | None:
        """Return the entries of one of the last two selections, if no seed changes their bytes; else None."""
        if not self.takes_step:
            return None
        return next((found for x, width, found in self._measured if x is values and width == step), None)


def share_header(
    tensors: Mapping[str, Any], schemes: Mapping[str, Scheme], tag: bytes, *, names: bool
) -> int:
    """Return the bytes of prefix and extension block that count for each of several tensors.

    The result is 0 if no selector asks for it. Fused entries are not considered.
    """
    distinct = dict(zip(map(id, schemes.values()), schemes.values(), strict=True)).values()
    if not any(hasattr(one.select, "select_within") for one in distinct):
        return 0
    shapes = [tuple(getattr(tensor, "shape", ())) for tensor in tensors.values()]
    extension = ext.Extension(
        names=tuple(tensors) if names else None,
        shapes={key: shape for key, shape in enumerate(shapes) if len(shape) != 1},
        lengths={key: 0 for key, name in enumerate(tensors) if schemes[name].transform is not None},
        tag=tag,
    )
    return -(-(PREFIX_BYTES + len(ext.write(extension))) // len(shapes))


def group_bytes(members: int) -> int:
    """Return the bytes of the extension block that list the tensors of a shared entry."""
    group = np.zeros((members, 2), np.int64)
    return len(ext.write(ext.Extension(groups=(group,)))) if members > 1 else 0
