"""72-byte header that a rank sends before its payload: its hashes, and whether those of all ranks match.

The page is formats/spec/agreement.md, sections 1 and 2. A new operation or algorithm gets a new code both on
the page and here.
"""

from __future__ import annotations

import hashlib
import math
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum, IntFlag
from operator import attrgetter
from typing import NamedTuple

MAGIC = b"\xf7\x57\x43\x48"
VERSION = 3
NO_DETAIL = 2**64 - 1
MAX_TEXT = 65_536  # bytes of a text in the second exchange

DTYPE_CODES = {"float32": 1, "float16": 2, "bfloat16": 3, "float64": 4}
MIXED = 255  # tensors of several dtypes

_LAYOUT = struct.Struct("<4s4BQBBHI5Qd")
HEADER_SIZE = _LAYOUT.size


class Status(IntEnum):
    """Status of a rank: whether it has a payload."""

    OK = 0
    ENCODE = 1  # encoding failed
    VALUE = 2  # one element cannot be encoded; its position is known
    ARGUMENT = 3  # invalid arguments: not a buffer, an unknown algorithm
    DECODE = 4  # the container of another rank cannot be decoded
    COMPILING = 5  # this rank compiles kernels and repeats the exchange afterwards


class Operation(IntEnum):
    """Collective operation."""

    ALLGATHER_BYTES = 1
    ALLGATHER = 2
    ALLREDUCE = 3
    CLTK = 4
    GTOPK = 5
    SITE = 6  # the part of an allreduce within a site
    OK_TOPK = 7


class Reduction(IntEnum):
    """Reduction of the values."""

    NONE = 0
    SUM = 1
    MEAN = 2


class Algorithm(IntEnum):
    """Algorithm that the caller requested."""

    AUTO = 0
    ALLGATHER = 1
    DENSE = 2
    SPLIT_PAIRS = 3
    SPLIT_BITMAP = 4
    SPLIT_DENSE = 5


class Flag(IntFlag):
    """Properties of a rank."""

    TAKES_DEVICE = 1  # its transport receives GPU memory
    HAS_PAYLOAD = 2  # its payload is behind this header
    FLUSHES_DENORMALS = 4  # its arithmetic takes denormal numbers for zero
    NEW_SPARSE = 8  # a rank has a sparse gradient of which the others do not know


class Header(NamedTuple):
    """Header fields, in the order of the page."""

    magic: bytes = MAGIC
    version: int = VERSION
    status: int = Status.OK
    operation: int = 0
    reduction: int = Reduction.NONE
    sequence: int = 0
    algorithm: int = Algorithm.AUTO
    dtype: int = 0
    flags: int = 0
    text_len: int = 0
    elements: int = 0
    payload_len: int = 0
    signature: int = 0
    detail: int = NO_DETAIL
    scheme: int = 0
    weight: float = 1.0

    @property
    def flushes(self) -> int:
        """FLUSHES_DENORMALS or 0, on which all ranks must agree."""
        return self.flags & Flag.FLUSHES_DENORMALS

    def pack(self) -> bytes:
        """Serialize the header as 72 bytes."""
        return _LAYOUT.pack(*self)

    @classmethod
    def unpack(cls, data: bytes) -> Header:
        """Parse 72 bytes without checks."""
        return cls(*_LAYOUT.unpack(data))


COMPARED = (
    ("sequence", ("sequence",)),
    ("operation", ("operation", "reduction", "algorithm")),
    ("dtype", ("dtype",)),
    ("shape", ("elements", "signature")),
    ("scheme", ("scheme",)),
    ("denormals", ("flushes",)),
)
"""Fields that must be equal, in the order in which differences are reported, with the reason of each."""
_get_compared: Callable[[Header], tuple[int, ...]] = attrgetter(
    *(field for _, fields in COMPARED for field in fields)
)


def headers_match(table: Sequence[Header]) -> bool:
    """Return whether all ranks can contribute, and to the same operation."""
    first = table[0]
    fields = _get_compared(first)
    return first[:3] == (MAGIC, VERSION, Status.OK) and all(
        header[:3] == first[:3]
        and _get_compared(header) == fields
        and 0 <= header.weight < math.inf
        and header.text_len <= MAX_TEXT
        for header in table
    )


def is_compiling(table: Sequence[Header]) -> bool:
    """Return whether a rank compiles, and the headers match otherwise: then all ranks repeat the exchange."""
    waiting = [header.status == Status.COMPILING for header in table]
    ready = [
        header._replace(status=Status.OK) if w else header for w, header in zip(waiting, table, strict=True)
    ]
    return any(waiting) and headers_match(ready)


@dataclass(frozen=True)
class Operand:
    """Description of a rank's tensors and scheme, on which all ranks must agree.

    Attributes:
        dtype: code of the element type, MIXED for several types, 0 for others.
        elements: in all tensors.
        signature: hash of names, types and shapes.
        scheme: hash of the scheme.
        tensors_text, scheme_text: descriptions for error messages.
    """

    dtype: int = 0
    elements: int = 0
    signature: int = 0
    scheme: int = 0
    tensors_text: str = ""
    scheme_text: str = ""

    @classmethod
    def of(cls, tensors: Mapping[str, tuple[tuple[int, ...], str]], *, bare: bool, scheme: str) -> Operand:
        """Describe tensors and a scheme.

        Args:
            tensors: {name: (shape, dtype's name)}.
            bare: whether the caller passed one tensor without a name.
            scheme: normalized, so that equal schemes have equal texts.
        """
        packed = [struct.pack("<BI", 0 if bare else 1, len(tensors))]
        texts = []
        codes = set()
        elements = 0
        for name in tensors:
            if not isinstance(name, str):
                raise TypeError(f"a tensor's name is {name!r}; it must be a string")
        for raw, name in sorted((name.encode("utf-8", "surrogatepass"), name) for name in tensors):
            shape, dtype = tensors[name]
            codes.add(DTYPE_CODES.get(dtype, 0))
            elements += math.prod(shape)
            shown = b"" if bare else raw
            packed.append(struct.pack("<I", len(shown)) + shown)
            packed.append(struct.pack(f"<BB{len(shape)}Q", DTYPE_CODES.get(dtype, 0), len(shape), *shape))
            texts.append(f"{dtype} {shape}" if bare else f"{name}: {dtype} {shape}")
        return cls(
            dtype=codes.pop() if len(codes) == 1 else MIXED if codes else 0,
            elements=elements,
            signature=short_hash(b"".join(packed)),
            tensors_text=texts[0] if bare else "{" + "; ".join(texts) + "}",
        ).with_scheme(scheme)

    def with_scheme(self, scheme: str) -> Operand:
        """Return the description with another scheme."""
        return replace(self, scheme=short_hash(scheme.encode()), scheme_text=scheme)


def short_hash(data: bytes) -> int:
    """Return the first 8 bytes of SHA-256 as a little-endian number."""
    return int.from_bytes(hashlib.sha256(data).digest()[:8], "little")
