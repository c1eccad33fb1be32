"""Element types that the record ``types`` names: SPEC section 3.6, rows 36a to 36c and 48a of section 7.

The values of these types are bytes of a fixed width. The reader converts no value, and checks only those of
``bool``.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from formats.reference.errors import Invalid, Malformed, Unsupported
from formats.reference.floats import BY_NAME, Format

IN_RECORD = 14
"""Low nibble of dtype if the record ``types`` has the element type."""


@dataclass(frozen=True)
class RecordType:
    """Element type of the record ``types``: its number there, its name, and its bytes per element."""

    id: ClassVar[int] = IN_RECORD
    number: int
    name: str
    itemsize: int


ElementType: TypeAlias = Format | RecordType

UNKNOWN = RecordType(0, "", 0)
"""Element type of such a tensor until the record is read."""
BOOL = RecordType(24, "bool", 1)
RECORD_TYPES = (
    RecordType(16, "int8", 1),
    RecordType(17, "int16", 2),
    RecordType(18, "int32", 4),
    RecordType(19, "int64", 8),
    RecordType(20, "uint8", 1),
    RecordType(21, "uint16", 2),
    RecordType(22, "uint32", 4),
    RecordType(23, "uint64", 8),
    BOOL,
    RecordType(25, "float8_e4m3fn", 1),
    RecordType(26, "float8_e5m2", 1),
    RecordType(27, "complex64", 8),
    RecordType(28, "complex128", 16),
    RecordType(29, "float8_e8m0fnu", 1),
    RecordType(30, "float4_e2m1fn_x2", 1),
)
BY_NUMBER = {t.number: t for t in RECORD_TYPES}
CODE_NAMED = {t.name: t.id for t in BY_NAME.values()} | {t.name: t.number for t in RECORD_TYPES}
"""Numbers in the digest of a schema (SPEC section 3.8)."""
TYPE_NAMED: dict[str, ElementType] = {**BY_NAME, **{t.name: t for t in RECORD_TYPES}}
"""All element types by name."""


def read_types(body: bytes) -> list[tuple[int, int]]:
    """Make the checks of row 36a; return (key, number of the element type) of each row."""
    if len(body) % 8 or not body:
        raise Malformed("types-record", f"{len(body)} bytes are not rows of 8")
    rows = list(struct.iter_unpack("<IHH", body))
    if any(reserved for _, _, reserved in rows):
        raise Malformed("types-record", "reserved bytes are not 0")
    return [(key, number) for key, number, _ in rows]


def check_types(rows: list[tuple[int, int]], entry_keys: dict[int, int]) -> dict[int, RecordType]:
    """Make the checks of rows 36b and 36c; return the element type of each key.

    Args:
        rows: (key, number) of each row.
        entry_keys: by the key of each tensor of element type 14, ascending: the key of its entries, which
            is another one for all members of a fused entry but the first.
    """
    if [key for key, _ in rows] != list(entry_keys):
        raise Invalid("types", "the rows are not those of the tensors of element type 14")  # 36b
    numbers = dict(rows)
    for key, entry_key in entry_keys.items():
        if numbers[key] != numbers[entry_key]:
            raise Invalid("types", f"keys {entry_key} and {key} share an entry and differ in type")  # 36b
    for key, number in rows:
        if number not in BY_NUMBER:
            raise Unsupported("dtype", f"element type {number} of key {key} is unknown")  # 36c
    return {key: BY_NUMBER[number] for key, number in rows}


def write_types(rows: Sequence[tuple[int, int]]) -> bytes:
    """Return the body of a types record from (key, number) of each row."""
    return b"".join(struct.pack("<IHH", key, number, 0) for key, number in rows)


def check_bool(values: bytes, dtype: ElementType) -> None:
    """Make the check of row 48a: an element of type bool is 0 or 1."""
    if dtype is BOOL and any(value > 1 for value in values):
        raise Invalid("bool-value", "an element is neither 0 nor 1")  # 48a
