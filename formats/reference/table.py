"""The table of contents: SPEC section 2.2, rows 14-27 of section 7.

Entries are plain records of the table's fields. ``check_table`` makes each check over all entries before the
next one. After it, the limits and the bytes present bound every count and length.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Set
from dataclasses import dataclass

from formats.reference.element_types import IN_RECORD
from formats.reference.errors import Invalid, LimitExceeded, Malformed, Unsupported
from formats.reference.floats import BY_ID
from formats.reference.index.codecs import BY_CLASS, INDEX_CODECS
from formats.reference.limits import Limits
from formats.reference.map.packed import PACKED, map_length
from formats.reference.transform.coefficients import COMPONENTS, PLAIN
from formats.reference.value.codecs import OF_ANY_TYPE, ORDERED, STEPS, STEPS_ZSTD, ZSTD

ENTRY_BYTES = 40
ENTRY_FORMAT = "<IIQIIIIIBBBB"
CHUNK = 2**24


@dataclass(frozen=True)
class Entry:
    """One row of the table: a chunk of a tensor, or several small tensors fused into one."""

    number: int
    key: int
    crc: int
    base: int
    d: int
    r: int
    index_len: int
    value_len: int
    map_len: int
    dtype_byte: int
    index: int
    value: int
    map: int

    @property
    def dtype(self) -> int:
        """The element type's id."""
        return self.dtype_byte & 0x0F

    @property
    def domain(self) -> int:
        """The domain; 0 is plain."""
        return self.dtype_byte >> 4

    @property
    def width(self) -> int:
        """Components per element."""
        return COMPONENTS[self.domain]

    @property
    def payload_bytes(self) -> int:
        """Length of the three sections in bytes, each padded to a multiple of 8."""
        return sum(n + -n % 8 for n in (self.index_len, self.value_len, self.map_len))


def read_table(table: bytes) -> list[Entry]:
    """Read the entries, unchecked."""
    return [Entry(n, *fields) for n, fields in enumerate(struct.iter_unpack(ENTRY_FORMAT, table))]


def check_table(
    entries: list[Entry],
    limits: Limits,
    total_len: int,
    vouched: bool,
    values: Set[int],
    private: Set[int] = frozenset(),
    *,
    based: bool = False,
) -> None:
    """Make the checks of rows 14-27.

    Args:
        entries: the table.
        limits: limits of the caller.
        total_len: length of the container in bytes.
        vouched: whether a schema bounds the sizes.
        values: ids of the value codecs that are supported.
        private: ids of codecs that are accepted without being known; a known map may go with them.
        based: whether the codecs of patches of weights are supported, too; row 27 is not applied then.

    Raises:
        WireError: for the first check that fails; Invalid, Unsupported, Malformed or LimitExceeded.
    """
    indices = INDEX_CODECS.keys() | ({BY_CLASS} if based else set())
    steps = ({STEPS, STEPS_ZSTD} if ZSTD in values else {STEPS}) if based else set()
    for last, entry in itertools.pairwise(entries):
        if (entry.key, entry.base) <= (last.key, last.base):
            raise Invalid("table-order", "(key, base) is not ascending", entry=entry.number)  # 14
    for entry in entries:
        if entry.dtype not in BY_ID and entry.dtype != IN_RECORD:
            raise Unsupported("dtype", f"element type {entry.dtype} is unknown", entry=entry.number)  # 15
    for entry in entries:
        if entry.domain not in COMPONENTS or (entry.domain != PLAIN and entry.dtype == IN_RECORD):
            raise Unsupported("domain", f"domain {entry.domain} is not supported", entry=entry.number)  # 16
    for entry in entries:
        if entry.index not in indices and entry.index not in private:
            raise Unsupported(
                "index-codec", f"index codec {entry.index} is not supported", entry=entry.number
            )  # 17
    for entry in entries:
        carriers = steps | (values & OF_ANY_TYPE if entry.dtype == IN_RECORD else values)
        if entry.value not in carriers and entry.value not in private:
            raise Unsupported(
                "value-codec", f"value codec {entry.value} is not supported for this type", entry=entry.number
            )  # 18
    for entry in entries:
        maps = {0, PACKED} if entry.value in private else {PACKED if entry.value in ORDERED else 0}
        if entry.map not in maps:
            raise Unsupported(
                "map-codec",
                f"map codec {entry.map} does not go with value codec {entry.value}",
                entry=entry.number,
            )  # 19
    for entry in entries:
        if entry.r > entry.d:
            raise Invalid("count", f"r is {entry.r} and d is {entry.d}", entry=entry.number)  # 20
    _check_chunks(entries)  # 21
    for entry in entries:
        if (entry.index_len == 0) != (entry.r in (0, entry.d)):
            raise Malformed(
                "index-length", f"index_len is {entry.index_len} and r is {entry.r}", entry=entry.number
            )  # 22
    for entry in entries:
        if (entry.value_len == 0) != (entry.r == 0):
            raise Malformed(
                "value-length", f"value_len is {entry.value_len} and r is {entry.r}", entry=entry.number
            )  # 23
    for entry in entries:
        if entry.map_len != (map_length(entry.r * entry.width) if entry.map else 0):
            raise Malformed(
                "map-length", f"map_len is {entry.map_len} and map is {entry.map}", entry=entry.number
            )  # 24
    transformed_keys = {entry.key for entry in entries if entry.domain != PLAIN and entry.r}
    stored = sum(
        entry.r if entry.domain == PLAIN else entry.d * entry.width * (entry.key in transformed_keys)
        for entry in entries
    )
    if stored > limits.max_elements:
        raise LimitExceeded("max-elements", f"{stored} elements are stored")  # 25
    dense = sum(entry.d * entry.width for entry in entries)
    if dense > limits.max_dense:
        raise LimitExceeded("max-dense", f"{dense} elements")  # 26
    if not (vouched or based) and stored > limits.max_expansion * total_len:
        raise LimitExceeded("max-expansion", f"{stored} elements are stored in {total_len} bytes")  # 27


def _check_chunks(entries: list[Entry]) -> None:
    """Make the checks of row 21: the entries of one key are the chunks of one tensor."""
    last: Entry | None = None
    for entry in entries:
        most = CHUNK // entry.width
        if entry.d > most:
            raise Invalid("chunks", f"a chunk has {entry.d} elements", entry=entry.number)
        if last is None or last.key != entry.key:
            if entry.base != 0:
                raise Invalid("chunks", f"the first chunk starts at {entry.base}", entry=entry.number)
        elif last.d != most or entry.base != last.base + last.d or entry.d == 0:
            raise Invalid("chunks", f"a chunk at {entry.base} follows one at {last.base}", entry=entry.number)
        elif entry.dtype_byte != last.dtype_byte:
            raise Invalid("chunks", "the chunks have different dtype bytes", entry=entry.number)
        last = entry
