"""Index and end of a closed stream, as bytes and as columns (formats/spec/stream.md, sections 3 to 6)."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np

from wirecodec.arrays import Array, Bytes
from wirecodec.container.stream import UNIT_BYTES, Unit, read_unit
from wirecodec.container.writer import PREFIX_BYTES
from wirecodec.element_types import DTYPES, RECORD_DTYPES, number_of
from wirecodec.errors import ChecksumMismatch, Invalid, LimitExceeded, Malformed, Truncated, Unsupported
from wirecodec.limits import DecodeLimits

INDEX, END, PADDING = 1, 2, 3
"""Applications of the units."""
END_BYTES = UNIT_BYTES + 64
MAX_NAME_BYTES = 65_535

_END = struct.Struct("<B7xQQQ32s")
_HEAD = struct.Struct("<B7xII")
_PART = np.dtype([("offset", "<u8"), ("length", "<u8"), ("digest", "V32")])
_TENSOR = np.dtype([("part", "<u4"), ("name", "<u4"), ("dtype", "u1"), ("ndim", "u1"), ("reserved", "<u2")])
_DTYPES: dict[int, np.dtype[Any]] = dict(enumerate(DTYPES, 1)) | RECORD_DTYPES
_MAX_TRIES = 32
"""Places in which a name is looked for before all names are read."""
_KNOWN = np.isin(np.arange(256), list(_DTYPES))


Tensor: TypeAlias = "tuple[str, tuple[int, ...], np.dtype[Any]]"
"""Name, shape and element type."""


@dataclass(frozen=True)
class TensorEntry:
    """Tensor of a file, from its index.

    Attributes:
        name: of the tensor.
        shape, dtype: of its elements.
        offset: of its container in the file, in bytes.
        nbytes: length of that container.
    """

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    offset: int
    nbytes: int


@dataclass(frozen=True)
class Part:
    """Container of a file.

    Attributes:
        offset, length: of its bytes.
        digest: SHA-256 of them.
        tensors: (name, shape, dtype) of each, in the order of their keys.
    """

    offset: int
    length: int
    digest: bytes
    tensors: tuple[Tensor, ...]


class Index:
    """Checked index of a file.

    Args:
        body: of the unit.
        offset: of the unit in the file.

    Attributes:
        offset: the same.

    Raises:
        WireError: rows 16 to 18.
    """

    def __init__(self, body: bytes, offset: int) -> None:
        if len(body) < _HEAD.size:
            raise Malformed("index", f"a body of {len(body)} bytes")
        form, n_parts, n_tensors = _HEAD.unpack_from(body)
        tensors_at = _HEAD.size + _PART.itemsize * n_parts
        self._shapes_at = tensors_at + _TENSOR.itemsize * n_tensors
        if form != 1 or any(body[1:8]) or self._shapes_at > len(body):
            raise Malformed("index", f"form {form}, {n_parts} parts and {n_tensors} tensors")
        self._body, self.offset = body, offset
        self._parts = np.frombuffer(body, _PART, n_parts, _HEAD.size)
        self._rows = np.frombuffer(body, _TENSOR, n_tensors, tensors_at)
        self._dims = _starts(self._rows["ndim"])
        self._bounds = _starts(self._rows["name"]) + (self._shapes_at + 8 * int(self._dims[-1]))
        if self._bounds[-1] != len(body):
            raise Malformed("index", "the rows do not add up to the body")
        self._check_rows(offset)
        unknown = ~_KNOWN[self._rows["dtype"]]
        if unknown.any():
            raise Unsupported("dtype", f"element type {self._rows['dtype'][np.argmax(unknown)]}")
        if (self._rows["name"] > MAX_NAME_BYTES).any():
            raise Invalid("index-names", f"a name of more than {MAX_NAME_BYTES} bytes")
        self._check_texts(n_tensors)

    def _check_rows(self, stop: int) -> None:
        offset, length = self._parts["offset"], self._parts["length"]
        part = self._rows["part"]
        # Differences cannot wrap: each is of numbers of which the first is not the smaller one.
        broken = (offset | length) & 7 != 0
        broken |= (length < PREFIX_BYTES) | (offset > stop) | (length > stop - np.minimum(offset, stop))
        broken[1:] |= (offset[1:] < offset[:-1]) | (
            offset[1:] - np.minimum(offset[:-1], offset[1:]) < length[:-1]
        )
        if broken.any():
            at = int(np.argmax(broken))
            raise Malformed("index", f"a part of {length[at]} bytes at {offset[at]}")
        if (part >= self._parts.size).any() or (part[1:] < part[:-1]).any() or self._rows["reserved"].any():
            raise Malformed("index", "the tensors are not in the order of the parts")

    def _check_texts(self, count: int) -> None:
        """Raise Invalid unless each name is UTF-8: all of them are, and none begins within a character."""
        bounds = self._bounds
        try:
            self._body[bounds[0] :].decode()
        except UnicodeDecodeError:
            raise Invalid("index-names", "a name is not UTF-8") from None
        firsts = np.frombuffer(self._body, np.uint8)[bounds[:-1][bounds[:-1] < bounds[1:]]]
        if (firsts & 0xC0 == 0x80).any():
            raise Invalid("index-names", "a name is not UTF-8")

    @cached_property
    def names(self) -> dict[str, int]:
        """{name: number of its last row}, in the order of the rows."""
        return {name: number for number, name in enumerate(self._read_names())}

    def _read_names(self) -> Iterator[str]:
        bounds, body = self._bounds.tolist(), self._body
        return (body[start:stop].decode() for start, stop in pairwise(bounds))

    def locate(self, name: str) -> int:
        """Return the number of the last row of a name, without reading all of them. Raises KeyError."""
        if "names" in vars(self):
            return self.names[name]
        wanted, stop = name.encode(errors="surrogatepass"), len(self._body)
        for _ in range(_MAX_TRIES if wanted else 0):
            at = self._body.rfind(wanted, int(self._bounds[0]), stop)
            if at < 0:
                raise KeyError(name)
            number = int(np.searchsorted(self._bounds, at, "right")) - 1
            if self._bounds[number] == at and self._rows["name"][number] == len(wanted):
                return number
            stop = at + len(wanted) - 1
        return self.names[name]  # it is a part of many others, or empty

    def find(self, number: int, name: str) -> TensorEntry:
        """Return the tensor of a row, whose name is known."""
        row, part = self._rows[number], self._parts[self._rows["part"][number]]
        at = self._shapes_at + 8 * int(self._dims[number])
        shape = struct.unpack_from(f"<{row['ndim']}Q", self._body, at)
        return TensorEntry(name, shape, _DTYPES[int(row["dtype"])], int(part["offset"]), int(part["length"]))

    def rows_of(self, number: int) -> range:
        """Return the numbers of all rows of the part of a row."""
        part = self._rows["part"]
        first, last = (int(np.searchsorted(part, part[number], side)) for side in ("left", "right"))
        return range(first, last)

    def digest_of(self, number: int) -> bytes:
        """Return the SHA-256 of the container of a row."""
        digest: bytes = self._parts["digest"][self._rows["part"][number]].tobytes()
        return digest

    @cached_property
    def rows(self) -> tuple[TensorEntry, ...]:
        """All tensors, also those that a later one of the same name replaces."""
        return tuple(self.find(number, name) for number, name in enumerate(self._read_names()))

    def to_parts(self) -> list[Part]:
        """Return all containers, to which a writer appends."""
        found: list[list[Tensor]] = [[] for _ in self._parts]
        for number, row in zip(self._rows["part"].tolist(), self.rows, strict=True):
            found[number].append((row.name, row.shape, row.dtype))
        return [
            Part(int(part["offset"]), int(part["length"]), part["digest"].tobytes(), tuple(own))
            for part, own in zip(self._parts, found, strict=True)
        ]


def _starts(lengths: Array) -> Array:
    """Return (n + 1,) i64, the sums of the lengths before each."""
    return np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))


def read_index(size: int, read: Callable[[int, int], Bytes], limits: DecodeLimits, tail: int = 0) -> Index:
    """Read the index of a closed stream: rows 9 to 18.

    Args:
        size: length of the stream.
        read: returns the bytes of a range, from a start to a stop.
        limits: max_bytes bounds the index.
        tail: bytes at the end that are read at once; an index among them needs no second read.

    Raises:
        WireError: a check fails.
    """
    start = max(0, size - max(tail, END_BYTES))
    data = read(start, size)
    end = data[-END_BYTES:].tobytes()
    if len(end) < END_BYTES or end[:12] != _END_HEAD:
        raise Truncated("stream-end", "the stream is cut, or was not closed with an index")
    form, offset, length, total, digest = _END.unpack(body := read_unit(end).body)
    if form != 1 or any(body[1:8]) or total != size:
        raise Malformed("end", f"form {form}, the end of {total} bytes; the stream has {size}")
    if offset % 8 or length % 8 or length < UNIT_BYTES + _HEAD.size or offset + length > size - END_BYTES:
        raise Malformed("end", f"an index of {length} bytes at {offset}")
    if length > limits.max_bytes:
        raise LimitExceeded("max-bytes", f"an index of {length} bytes; the limit is {limits.max_bytes}")
    found = data[offset - start :][:length] if offset >= start else read(offset, offset + length)
    unit = found.tobytes()
    if hashlib.sha256(unit).digest() != digest:
        raise ChecksumMismatch("index-digest", "the index is not the one that the end names")
    if unit[:8] != _INDEX_HEAD or int.from_bytes(unit[16:24], "little") != length:
        raise Malformed("index", "the end names no index")
    return Index(read_unit(unit).body, offset)


_END_HEAD = Unit(END, bytes(64)).to_bytes()[:12]
_INDEX_HEAD = Unit(INDEX, b"").to_bytes()[:8]


def write_index(parts: Sequence[Part], offset: int) -> bytes:
    """Return the index of all containers of a stream, and the end.

    Args:
        parts: the containers.
        offset: of the index.
    """
    tensors = [(number, *one) for number, part in enumerate(parts) for one in part.tensors]
    names = [name.encode() for _, name, _, _ in tensors]
    rows = np.zeros(len(tensors), _TENSOR)
    rows["part"] = [number for number, *_ in tensors]
    rows["name"] = list(map(len, names))
    rows["dtype"] = [number_of(dtype) for *_, dtype in tensors]
    rows["ndim"] = [len(shape) for _, _, shape, _ in tensors]
    places = np.array([(part.offset, part.length, part.digest) for part in parts], _PART)
    dims = np.array([n for _, _, shape, _ in tensors for n in shape], "<u8")
    head = _HEAD.pack(1, len(parts), len(tensors))
    body = b"".join((head, places.tobytes(), rows.tobytes(), dims.tobytes(), *names))
    index = Unit(INDEX, body).to_bytes()
    total = offset + len(index) + END_BYTES
    end = _END.pack(1, offset, len(index), total, hashlib.sha256(index).digest())
    return index + Unit(END, end).to_bytes()
