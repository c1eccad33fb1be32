"""Bodies of the records in the extension block: SPEC section 3, rows 31, 31a and 37-40 of section 7.

Each ``read_*`` reads a record's body, checks that its lengths add up (Malformed), and returns plain lists.
tensors.py checks them against the table.
"""

from __future__ import annotations

import itertools
import struct

from formats.reference.errors import Invalid, Malformed

MAX_DIMENSIONS = 32
MAX_PRODUCT = 2**56
WIDTHS = {1: "B", 2: "H", 4: "I", 8: "Q"}
Group = list[tuple[int, int]]
"""(key, size) of each member of a fused entry, or of a joined vector."""


def read_fused(body: bytes) -> list[tuple[int, Group]]:
    """Make the checks of row 31; return (entry_key, members) of each group."""
    if len(body) < 8:
        raise Malformed("fused-record", "the body is shorter than its two counts")
    n_groups, reserved = struct.unpack_from("<II", body)
    if n_groups == 0 or reserved != 0:
        raise Malformed("fused-record", f"{n_groups} groups, reserved word {reserved}")
    groups = []
    at = 8
    for _ in range(n_groups):  # each iteration consumes at least 8 bytes or raises
        if len(body) - at < 8:
            raise Malformed("fused-record", "a group extends past the record")
        entry_key, n_members = struct.unpack_from("<II", body, at)
        at += 8
        if n_members < 2 or 8 * n_members > len(body) - at:
            raise Malformed("fused-record", f"a group has {n_members} members")
        members = list(struct.iter_unpack("<II", body[at : at + 8 * n_members]))
        groups.append((entry_key, members))
        at += 8 * n_members
    if at != len(body):
        raise Malformed("fused-record", "bytes after the last group")
    return groups


def read_joined(body: bytes) -> list[tuple[int, int, int]]:
    """Make the check of row 31a; return (first, key, size) of each row."""
    if not body or len(body) % 16:
        raise Malformed("joined-record", f"{len(body)} bytes are not a positive number of rows of 16")
    return list(struct.iter_unpack("<IIQ", body))


def check_joined(rows: list[tuple[int, int, int]]) -> dict[int, Group]:
    """Make those checks of row 33a that need no table; return the members of each vector by its first key."""
    for last, row in itertools.pairwise(rows):
        if row[:2] <= last[:2]:
            raise Invalid("joined", "the rows are not ascending")
    vectors: dict[int, Group] = {}
    for first, key, size in rows:
        vectors.setdefault(first, []).append((key, size))
    for first, members in vectors.items():
        if len(members) < 2 or members[0][0] != first:
            raise Invalid(
                "joined", f"the vector of key {first} begins with {members[0][0]}, or has one member"
            )
    return vectors


def read_names(body: bytes) -> list[bytes]:
    """Make the checks of row 37; return the names' bytes, not yet checked to be UTF-8."""
    if len(body) < 4:
        raise Malformed("names-record", "the body is shorter than its count")
    (count,) = struct.unpack_from("<I", body)
    at = 4 + 2 * count
    if count == 0 or at > len(body):
        raise Malformed("names-record", f"{count} names do not fit {len(body)} bytes")
    lengths = struct.unpack_from(f"<{count}H", body, 4)
    if at + sum(lengths) != len(body):
        raise Malformed("names-record", "the sum of the lengths is not the length of the body")
    names = []
    for length in lengths:
        names.append(body[at : at + length])
        at += length
    return names


def check_names(names: list[bytes], n: int) -> list[str]:
    """Make the checks of row 38: one name per tensor, UTF-8, strictly ascending by their bytes."""
    if len(names) != n:
        raise Invalid("names", f"{len(names)} names for {n} tensors")
    for last, name in itertools.pairwise(names):
        if name <= last:
            raise Invalid("names", "the names are not ascending")
    try:
        return [name.decode("utf-8") for name in names]
    except UnicodeDecodeError as error:
        raise Invalid("names", "a name is not UTF-8") from error


def read_shapes(body: bytes) -> list[tuple[int, tuple[int, ...]]]:
    """Make the checks of row 39; return (key, shape) of each row."""
    rows = []
    at = 0
    while at < len(body):
        if len(body) - at < 8:
            raise Malformed("shapes-record", "a row extends past the record")
        key, ndim, width, reserved = struct.unpack_from("<IBBH", body, at)
        at += 8
        if ndim == 1 or ndim > MAX_DIMENSIONS or width not in WIDTHS or reserved != 0:
            raise Malformed("shapes-record", f"ndim {ndim}, width {width}, reserved {reserved}")
        if ndim * width > len(body) - at:
            raise Malformed("shapes-record", "a row extends past the record")
        shape = struct.unpack_from(f"<{ndim}{WIDTHS[width]}", body, at)
        at += ndim * width
        if width != shortest_width(shape):
            raise Malformed("shapes-record", f"width is {width}, which is not the least")
        rows.append((key, shape))
    if not rows:
        raise Malformed("shapes-record", "there is no row")
    return rows


def check_shapes(rows: list[tuple[int, tuple[int, ...]]], sizes: list[int]) -> dict[int, tuple[int, ...]]:
    """Make the checks of row 40: ascending keys of tensors, and dimensions that multiply to its size."""
    for (last, _), (key, _) in itertools.pairwise(rows):
        if key <= last:
            raise Invalid("shapes", "the rows are not ascending")
    for key, shape in rows:
        if key >= len(sizes):
            raise Invalid("shapes", f"a row has key {key}; there are {len(sizes)} tensors")
        product = 1
        for dimension in shape:
            product *= max(dimension, 1)
            if product > MAX_PRODUCT:
                raise Invalid("shapes", f"shape {shape} is too large")
        if (0 if 0 in shape else product) != sizes[key]:
            raise Invalid("shapes", f"shape {shape} does not have {sizes[key]} elements")
    return dict(rows)


def shortest_width(shape: tuple[int, ...]) -> int:
    """Return the least of 1, 2, 4 and 8 bytes that holds every dimension."""
    return next(width for width in WIDTHS if max(shape, default=0) < 1 << 8 * width)
