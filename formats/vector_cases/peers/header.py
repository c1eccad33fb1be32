"""Agreement headers, the decision on a table of them, and sums of weighted tensors (spec/agreement.md)."""

from __future__ import annotations

import hashlib
import math
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from typing import Any

from formats.reference.floats import BY_NAME, FLOAT64, convert, pack_elements, to_float, unpack_elements

LAYOUT = "<4s4BQBBHI5Qd"
SIZE = 72
MAGIC = bytes.fromhex("f7574348")
VERSION = 3
NO_DETAIL = 2**64 - 1
MAX_TEXT = 65_536
FLUSHES = 1 << 2
"""Bit 2 of the flags."""
OK, COMPILING, REFUSING = 0, 5, 4
GATHER_BYTES, GATHER, ALLREDUCE = 1, 2, 3
NONE, SUM, MEAN = 0, 1, 2
SEVERAL = 255


@dataclass(frozen=True)
class Spec:
    """Name, element type and shape of a tensor; the name is None if the call has one tensor without."""

    name: str | None
    dtype: str
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    def to_json(self) -> dict[str, Any]:
        """Return the field of a vector."""
        named = {} if self.name is None else {"name": self.name}
        return {**named, "dtype": self.dtype, "shape": list(self.shape)}


@dataclass(frozen=True)
class Header:
    """Fields of a header, in their order (section 1)."""

    magic: bytes = MAGIC
    version: int = VERSION
    status: int = OK
    operation: int = ALLREDUCE
    reduction: int = SUM
    sequence: int = 0
    algorithm: int = 1
    dtype: int = 0
    flags: int = 0
    text_len: int = 0
    elements: int = 0
    payload_len: int = 0
    signature: int = 0
    detail: int = NO_DETAIL
    scheme: int = 0
    weight: float = 1.0

    def pack(self) -> bytes:
        """Return the 72 bytes."""
        return struct.pack(LAYOUT, *astuple(self))

    @classmethod
    def read(cls, data: bytes) -> Header:
        """Return the fields of 72 bytes, unchecked."""
        return cls(*struct.unpack(LAYOUT, data))

    @property
    def terms(self) -> tuple[int, ...]:
        """Fields that are the same for all peers of a round."""
        return (
            *(self.operation, self.reduction, self.algorithm),
            *(self.dtype, self.elements, self.signature, self.scheme),
        )

    def to_json(self) -> dict[str, Any]:
        """Return the fields by name; u64 as strings, and the weight as its 8 bytes in hex."""
        fields = dict(zip(self.__dataclass_fields__, astuple(self), strict=True))
        fields |= {
            name: str(fields[name])
            for name in ("sequence", "elements", "payload_len", "signature", "detail", "scheme")
        }
        return {**fields, "magic": self.magic.hex(), "weight": struct.pack("<d", self.weight).hex()}


def short_hash(data: bytes) -> int:
    """Return the first 8 bytes of a SHA-256 as an integer."""
    return int.from_bytes(hashlib.sha256(data).digest()[:8], "little")


def pack_signature(specs: Sequence[Spec]) -> bytes:
    """Return the bytes that ``signature`` hashes (section 2)."""
    ordered = sorted(specs, key=lambda spec: (spec.name or "").encode())
    out = struct.pack("<BI", any(spec.name is not None for spec in specs), len(specs))
    for spec in ordered:
        name = (spec.name or "").encode()
        out += (
            struct.pack("<I", len(name)) + name + struct.pack("<BB", BY_NAME[spec.dtype].id, len(spec.shape))
        )
        out += struct.pack(f"<{len(spec.shape)}Q", *spec.shape)
    return out


def describe(specs: Sequence[Spec], scheme: str, **fields: Any) -> Header:
    """Return a header for tensors and a scheme's string."""
    kinds = {BY_NAME[spec.dtype].id for spec in specs}
    dtype = min(kinds) if len(kinds) == 1 else SEVERAL if kinds else 0
    return replace(
        Header(
            dtype=dtype,
            elements=sum(spec.size for spec in specs),
            signature=short_hash(pack_signature(specs)) if specs else 0,
            scheme=short_hash(scheme.encode()) if scheme else 0,
        ),
        **fields,
    )


# ---- section 4 ----

GROUPS: tuple[tuple[str, Callable[[Header], tuple[int, ...]]], ...] = (
    ("sequence", lambda h: (h.sequence,)),
    ("operation", lambda h: (h.operation, h.reduction, h.algorithm)),
    ("dtype", lambda h: (h.dtype,)),
    ("elements", lambda h: (h.elements, h.signature)),
    ("scheme", lambda h: (h.scheme,)),
    ("flags", lambda h: (h.flags & FLUSHES,)),
)
"""Sets of fields in which ranks may differ, by their first field."""


def is_readable(header: Header) -> bool:
    """Return whether a header is not of rule 1."""
    return (
        header.magic == MAGIC
        and header.version == VERSION
        and header.text_len <= MAX_TEXT
        and 0 <= header.weight < math.inf
    )


def decide(table: Sequence[Header]) -> dict[str, Any]:
    """Return the decision on a table, what differs, the ranks that an error names, and the next number."""
    highest = (max(header.sequence for header in table) + 1) % 2**64
    if unreadable := [rank for rank, header in enumerate(table) if not is_readable(header)]:
        return {"decision": "unreadable", "ranks": unreadable, "next": str(highest)}
    differences = [name for name, key in GROUPS if len({key(header) for header in table}) > 1]
    statuses = {header.status for header in table}
    if not differences and statuses == {OK}:
        return {"decision": "agreed", "next": str((table[0].sequence + 1) % 2**64)}
    if not differences and statuses <= {OK, COMPILING}:
        return {"decision": "compiling", "next": str(table[0].sequence)}
    if failed := [rank for rank, header in enumerate(table) if header.status not in (OK, COMPILING)]:
        blamed = {
            table[rank].detail if table[rank].status == REFUSING and table[rank].detail < len(table) else rank
            for rank in failed
        }
        return {"decision": "refused", "field": "status", "ranks": sorted(blamed), "next": str(highest)}
    name, key = next(group for group in GROUPS if group[0] == differences[0])
    groups: dict[tuple[int, ...], list[int]] = {}
    for rank, header in enumerate(table):
        groups.setdefault(key(header), []).append(rank)
    right = groups.get((0,), []) if name == "flags" else max(groups.values(), key=len)
    wrong = [rank for rank in range(len(table)) if rank not in right]
    return {"decision": "refused", "field": name, "ranks": wrong, "next": str(highest)}


# ---- section 7 ----


def find_factors(weights: Sequence[float], *, mean: bool) -> tuple[list[float], float] | None:
    """Return the ranks' factors and the divisor, or None if all weights are 0."""
    others = {weight for weight in weights if weight}
    if not others:
        return None
    if not mean:
        return list(weights), 1.0
    if len(others) == 1:
        factors = [float(weight != 0) for weight in weights]
    else:
        power = 1 - math.frexp(max(others))[1]
        factors = [math.ldexp(weight, power) for weight in weights]
    return factors, math.fsum(factors)


def round_to(x: float, dtype: str) -> float:
    """Return a binary64 number rounded to an element type."""
    (bits,) = struct.unpack("<Q", struct.pack("<d", x))
    target = BY_NAME[dtype]
    return to_float(convert(bits, FLOAT64, target), target)


def sum_type(dtype: str) -> str:
    """Return the type of the sums of elements of a type."""
    return "float64" if dtype == "float64" else "float32"


Stored = tuple[Sequence[int], bytes]
"""Indices and little-endian values that a rank stores of a tensor."""


def numbers_of(values: bytes, dtype: str) -> list[float]:
    """Return little-endian elements as numbers, exactly."""
    form = BY_NAME[dtype]
    return [to_float(bits, form) for bits in unpack_elements(values, form.itemsize)]


def bytes_of(numbers: Sequence[float], dtype: str) -> bytes:
    """Return binary64 numbers as little-endian elements, rounded once."""
    form = BY_NAME[dtype]
    words = [struct.unpack("<Q", struct.pack("<d", x))[0] for x in numbers]
    return pack_elements([convert(word, FLOAT64, form) for word in words], form.itemsize)


def divide(x: float, divisor: float) -> float:
    """Return a quotient by a number above 0, as IEEE 754 has it."""
    return x / divisor if divisor else math.copysign(math.inf, x) if x else math.nan


def add_weighted(
    spec: Spec, stored: Sequence[Stored], factors: Sequence[float], divisor: float
) -> list[float]:
    """Return the sum or mean of a tensor in the type of the sums, not yet rounded to the tensor's type."""
    wide = sum_type(spec.dtype)
    totals = [0.0] * spec.size
    for (indices, values), factor in zip(stored, factors, strict=True):
        if not factor:
            continue
        scale = round_to(factor, wide)
        for i, x in zip(indices, numbers_of(values, spec.dtype), strict=True):
            totals[i] = round_to(totals[i] + round_to(scale * x, wide), wide)
    if divisor == 1:
        return totals
    whole = round_to(divisor, wide)
    return [round_to(divide(x, whole), wide) for x in totals]


def sum_tensors(
    specs: Sequence[Spec], stored: Sequence[Mapping[str, Stored]], weights: Sequence[float], reduction: int
) -> list[bytes] | None:
    """Return the little-endian results, or None if they count for nobody.

    Args:
        specs: the tensors, with names of ``stored``.
        stored: what each rank stores, in rank order.
        weights: of the ranks.
        reduction: sum or mean.
    """
    found = find_factors(weights, mean=reduction == MEAN)
    if found is None:
        return None
    results = []
    for spec in specs:
        rows = [rank[spec.name or ""] for rank in stored]
        data = bytes_of(add_weighted(spec, rows, *found), spec.dtype)
        if not all(map(math.isfinite, numbers_of(data, spec.dtype))):
            return None
        results.append(data)
    return results
