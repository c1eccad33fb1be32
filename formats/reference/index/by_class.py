"""Index codec 12, by-class: decoding, given the old elements (spec/patch.md)."""

from __future__ import annotations

import itertools
import struct
from bisect import bisect_right
from collections.abc import Sequence

from formats.reference.errors import Invalid, Malformed
from formats.reference.rans import Broken, Lanes, has_rows, row_of

BITS = 31
SEGMENT = 2**24
REACH = 16 * SEGMENT
HIGHEST_CODE = 96


def _cumulative() -> list[int]:
    """Return C(0) to C(17)."""
    found = [0]
    while len(found) < 17:
        found.append(found[-1] + (2**31 - found[-1]) * 19195 // 2**16)
    return [*found, 2**31]


CUMULATIVE = _cumulative()


def weight(code: int) -> int:
    """Return the weight of a code."""
    if code == 0:
        return 0
    octave, quarter = divmod(code - 1, 4)
    return int((4 + quarter) * 2 ** (octave + 2))


def rise(place: int) -> int:
    """Return the cumulative frequency at a place, from 0 to 2^28."""
    k, within = divmod(place, SEGMENT)
    return CUMULATIVE[k] + within * (CUMULATIVE[k + 1] - CUMULATIVE[k]) // SEGMENT


def decode_by_class(section: bytes, base: Sequence[int], width: int, r: int) -> list[int]:
    """Decode positions.

    Args:
        section: bytes of the index section.
        base: the old elements' words.
        width: bits of each.
        r: number of indices, 0 < r < d.

    Returns:
        r strictly ascending indices.

    Raises:
        WireError: Malformed or Invalid.
    """
    if len(section) < 8 or len(section) % 4:
        raise Malformed("by-class-length", f"{len(section)} bytes")
    shift, n_classes, first, lanes, *reserved = struct.unpack_from("<BBHB3B", section)
    if not 2 <= n_classes <= 64 or not has_rows(width, shift) or lanes not in (1, 2, 4, 8) or any(reserved):
        raise Malformed("by-class-head", f"{n_classes} classes, shift {shift}, {lanes} lanes")
    stop = 8 + n_classes
    after = stop + -stop % 4
    start = after + 4 * (lanes - 1)
    if start > len(section) or any(section[stop:after]):
        raise Malformed("by-class-length", f"{len(section)} bytes, not {start}, or padding is not 0")
    codes = section[8:stop]
    if max(codes) > HIGHEST_CODE:
        raise Invalid("by-class-codes", f"a code of {max(codes)}")
    counts = list(struct.unpack_from(f"<{lanes - 1}I", section, after))
    if sum(counts) > r:
        raise Invalid("by-class-lanes", f"{sum(counts)} positions of {r}")
    counts.append(r - sum(counts))
    weights = [weight(codes[min(max(row_of(x, width, shift) - first, 0), n_classes - 1)]) for x in base]
    try:
        return _walk(Lanes(section[start:], lanes), weights, counts)
    except Broken as error:
        raise Invalid("by-class-stream", str(error)) from error


def _walk(stream: Lanes, weights: list[int], counts: list[int]) -> list[int]:
    """Let the lanes take turns; return the indices of all lanes. Raises Broken."""
    lanes, d = len(counts), len(weights)
    each = 16 * -(-d // (16 * lanes))
    starts = [min(lane * each, d) for lane in range(lanes + 1)]
    sums = [[0, *itertools.accumulate(weights[a:b])] for a, b in itertools.pairwise(starts)]
    before = [0] * lanes
    found: list[list[int]] = [[] for _ in counts]
    for turn in range(max(counts)):
        for lane in range(lanes):
            if turn < counts[lane]:
                local, before[lane] = _next(stream, lane, sums[lane], before[lane])
                found[lane].append(starts[lane] + local)
    stream.close()
    return [i for own in found for i in own]


def _next(stream: Lanes, lane: int, sums: list[int], before: int) -> tuple[int, int]:
    """Decode the next present element of a lane; return it, and the sum of the weights up to it."""
    offset = before
    while stream.slot(lane, BITS) >= CUMULATIVE[16]:
        stream.leave(lane, CUMULATIVE[16], 2**31 - CUMULATIVE[16], BITS)
        offset += REACH
    slot = stream.slot(lane, BITS)
    k = bisect_right(CUMULATIVE, slot) - 1
    slope = CUMULATIVE[k + 1] - CUMULATIVE[k]
    place = offset + k * SEGMENT + ((slot - CUMULATIVE[k] + 1) * SEGMENT - 1) // slope
    i = bisect_right(sums, place) - 1  # the last of those that begin at or before the place
    if i == len(sums) - 1:
        raise Broken("no element of the lane has the place")
    low = rise(max(sums[i], offset) - offset)
    high = rise(min(sums[i + 1] - offset, REACH))
    stream.leave(lane, low, high - low, BITS)
    return i, sums[i + 1]
