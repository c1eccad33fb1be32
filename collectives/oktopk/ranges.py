"""Ranges of the owners, and the lengths of the pieces that go to them."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from collectives.agreement.header import NO_DETAIL, short_hash
from collectives.channel import ByteArray, Channel
from collectives.transport.alltoall import alltoall_ragged, exchange_counts
from wirecodec.interop import unmasked

Bounds = tuple[int, ...]

PREFIX = "bounds/"
"""Start of the keys of saved bounds; the signature of the tensors follows, in hexadecimal digits."""
MAX_REMEMBERED = 256
"""Signatures whose bounds are kept; a hook that overlaps has one per bucket."""
TABLE_RANKS = 8
"""Largest number of ranks that exchange a table of all lengths, of 8 bytes each, in one all-gather."""
_LENGTH = np.dtype("<u8")


def hash_bounds(bounds: Bounds | None) -> int:
    """Return a number that is equal for equal bounds only, for a header."""
    if bounds is None:
        return NO_DETAIL
    return short_hash(struct.pack(f"<{len(bounds)}Q", *bounds)) % NO_DETAIL


def remember(known: Mapping[int, Bounds], signature: int, bounds: Bounds) -> dict[int, Bounds]:
    """Return the known bounds with new ones, which come last; the oldest ones go."""
    others = [(each, row) for each, row in known.items() if each != signature]
    return dict([*others[1 - MAX_REMEMBERED :], (signature, bounds)])


def read_bounds(saved: Mapping[str, Any]) -> dict[int, Bounds]:
    """Return {signature: bounds} of a saved state. Raises ValueError, which names the key."""
    found = {}
    for key, array in saved.items():
        if not (isinstance(key, str) and key.startswith(PREFIX)):
            continue
        try:
            signature = int(key.removeprefix(PREFIX), 16)
        except ValueError as error:
            raise ValueError(f"{key}: {error}") from None
        bounds = unmasked(key, array)
        row = tuple(map(int, bounds)) if bounds.ndim == 1 and bounds.dtype.kind in "iu" else ()
        if len(row) < 2 or row[0] < 0 or row[-1] >= 2**63 or any(a > b for a, b in pairwise(row)):
            raise ValueError(f"{key}: they must be two or more ascending integers from 0 to 2^63 - 1")
        if not 0 <= signature < 2**64:
            raise ValueError(f"{key}: the signature must have 1 to 16 hexadecimal digits")
        found[signature] = row
    return found


def write_bounds(bounds: Mapping[int, Bounds]) -> dict[str, Any]:
    """Return bounds as arrays of a saved state."""
    return {f"{PREFIX}{signature:016x}": np.array(row, np.int64) for signature, row in bounds.items()}


def exchange_lengths(channel: Channel, blocks: Sequence[ByteArray]) -> list[int]:
    """Tell each rank the length of its block; return the lengths of all ranks' blocks for this one.

    A table of n² lengths grows faster than the pieces shrink, so many ranks send each length alone.
    """
    if channel.size <= TABLE_RANKS:
        rows = exchange_counts(channel, [len(block) for block in blocks])
        return [row[channel.rank] for row in rows]
    lengths = [np.array([len(block)], _LENGTH).view(np.uint8) for block in blocks]
    received = alltoall_ragged(channel, lengths, [_LENGTH.itemsize] * channel.size)
    return [int(length.view(_LENGTH)[0]) for length in received]
