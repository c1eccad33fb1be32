"""Ranges of the owners, and the lengths of the pieces that go to them."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from collectives.agreement.header import NO_DETAIL, short_hash
from collectives.channel import ByteArray, Channel
from collectives.transport.alltoall import alltoall_ragged, exchange_counts

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
        if not key.startswith(PREFIX):
            continue
        try:
            signature = int(key.removeprefix(PREFIX), 16)
            bounds = np.asarray(array)
            if (
                bounds.ndim != 1
                or bounds.dtype.kind not in "iu"
                or bounds.size < 2
                or bounds[0] < 0
                or (np.diff(bounds) < 0).any()
            ):
                raise ValueError("they must be two or more ascending integers from 0 on")
        except (TypeError, ValueError) as error:
            raise ValueError(f"{key}: {error}") from None
        found[signature] = tuple(map(int, bounds))
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
