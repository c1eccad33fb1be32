"""The extension block: names, shapes, fused and transformed tensors, tag (formats/SPEC.md, 2.3 and 3).

``write`` makes one; ``block`` reads it.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from wirecodec.arrays import Array
from wirecodec.errors import EncodeError

__all__ = ["Extension", "check_shape", "digits", "least_width", "pad8", "write"]

FUSED, NAMES, SHAPES, TRANSFORM, TAG = 1, 2, 3, 4, 5
FLAGS = {FUSED: 1, NAMES: 0, SHAPES: 0, TRANSFORM: 1, TAG: 0}
HEAD = struct.Struct("<II")
RECORD = struct.Struct("<HHI")
ROW = struct.Struct("<IBBH")
LENGTH = np.dtype([("key", "<u4"), ("reserved", "<u4"), ("size", "<u8")])
MAX_NDIM = 32
MAX_PRODUCT = 2**56


@dataclass(frozen=True)
class Extension:
    """What a block is to say.

    Attributes:
        names: of the tensors by key, or None.
        shapes: by key, of the tensors that are not 1-d.
        groups: fused entries, each an (n, 2) array of its members' (key, size), the entry's key first.
        lengths: by key, the elements of the tensors that are stored as coefficients.
        tag: the application's bytes.
    """

    names: tuple[str, ...] | None = None
    shapes: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    groups: tuple[Array, ...] = ()
    lengths: Mapping[int, int] = field(default_factory=dict)
    tag: bytes = b""


def digits(n: int) -> Iterator[str]:
    """Names of the keys 0 … n-1, of as many decimal digits each, so that they ascend as keys do."""
    width = len(str(n - 1))
    return (str(key).zfill(width) for key in range(n))


def check_shape(dims: Sequence[int]) -> None:
    """EncodeError where a shape is not one that the wire format can say."""
    if len(dims) > MAX_NDIM:
        raise EncodeError(f"{len(dims)} dimensions; at most {MAX_NDIM} fit")
    if math.prod(n for n in dims if n) > MAX_PRODUCT:
        raise EncodeError(f"shape {tuple(dims)} is too large for the wire format")


def pad8(n: int) -> int:
    """Bytes from n up to the next multiple of 8."""
    return -n & 7


def write(extension: Extension) -> bytes:
    """The block, or nothing where it has nothing to say."""
    bodies = {
        FUSED: _fused_body(extension.groups),
        NAMES: _names_body(extension.names),
        SHAPES: _shapes_body(extension.shapes),
        TRANSFORM: _transform_body(extension.lengths),
        TAG: extension.tag,
    }
    records = [
        RECORD.pack(kind, FLAGS[kind], len(body)) + body + bytes(pad8(len(body)))
        for kind, body in bodies.items()
        if body
    ]
    if not records:
        return b""
    return HEAD.pack(HEAD.size + sum(map(len, records)), len(records)) + b"".join(records)


def _fused_body(groups: Sequence[Array]) -> bytes:
    if not groups:
        return b""
    parts = [HEAD.pack(len(groups), 0)]
    for group in groups:
        parts += [HEAD.pack(int(group[0, 0]), len(group)), group.astype("<u4").tobytes()]
    return b"".join(parts)


def _names_body(names: Sequence[str] | None) -> bytes:
    if not names:
        return b""
    encoded = [name.encode() for name in names]
    for name, text in zip(names, encoded, strict=True):
        if len(text) > 0xFFFF:
            raise EncodeError(f"a name of {len(text)} bytes; at most 65535 fit", tensor=name[:40])
    return struct.pack(f"<I{len(encoded)}H", len(encoded), *map(len, encoded)) + b"".join(encoded)


def _shapes_body(shapes: Mapping[int, tuple[int, ...]]) -> bytes:
    parts = []
    for key, dims in sorted(shapes.items()):
        width = least_width(dims)
        parts.append(ROW.pack(key, len(dims), width, 0) + b"".join(n.to_bytes(width, "little") for n in dims))
    return b"".join(parts)


def _transform_body(lengths: Mapping[int, int]) -> bytes:
    return np.array([(key, 0, size) for key, size in sorted(lengths.items())], LENGTH).tobytes()


def least_width(dims: Sequence[int]) -> int:
    """Bytes that each dimension of a shape takes."""
    needed = -(-max(dims, default=0).bit_length() // 8) or 1
    return 1 << (needed - 1).bit_length()
