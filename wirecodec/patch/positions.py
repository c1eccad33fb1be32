"""Index codec by-class (formats/spec/patch.md): positions of changes on a scale of weights of elements."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cache

import numpy as np

from wirecodec.arrays import Array, Bytes, read_only
from wirecodec.errors import Invalid, Malformed
from wirecodec.kernels.layout import PATCH_CLASSES, PATCH_RUN, PATCH_SEGMENTS
from wirecodec.kernels.scale import Scale
from wirecodec.patch.bits import Bits
from wirecodec.patch.host import HOST

HEAD = struct.Struct("<BBHB3x")
BY_CLASS = 12
"""Wire id of the index codec."""
MAX_ROWS = 2048
MAX_CODE = 96
MAX_LANES, LEAST_OF_LANES = 8, 2048
_SAMPLE = 2**18
"""Elements above which the classes of a sample are counted."""


@dataclass(frozen=True)
class Classes:
    """Division of elements into classes by the upper bits of their magnitude.

    The row of an element is its bits without the sign, shifted right. Its class is row - first, at least 0
    and at most count - 1.
    """

    shift: int
    first: int
    count: int

    def of_rows(self, width: int) -> Array:
        """Return the class of each row of elements of ``width`` bits."""
        return np.clip(np.arange(count_rows(width, self.shift)) - self.first, 0, self.count - 1)


def count_rows(width: int, shift: int) -> int:
    """Return the number of rows of elements of ``width`` bits."""
    return 1 << width - 1 - shift


def is_shift(width: int, shift: int) -> bool:
    """Return whether elements can be shifted so: there are at most 2048 rows."""
    return shift < width and count_rows(width, shift) <= MAX_ROWS


@cache
def weight_of_codes() -> Array:
    """Return the weight of each code: 0, and then four per octave from 16 on."""
    codes = np.arange(MAX_CODE)
    return read_only(np.append(0, (4 + (codes & 3)) << (codes >> 2) + 2).astype(np.uint64))


def weights_of(codes: Array, rows: int) -> Array:
    """Return the table of the kernels: the weights of 64 classes, the last repeated, and the mask of rows.

    Args:
        codes: (n,) u8, n ≤ 64, of the classes.
        rows: number of rows.

    Returns (65,) u32.
    """
    table = np.full(PATCH_CLASSES + 1, weight_of_codes()[codes[-1]], np.uint32)
    table[: codes.size] = weight_of_codes()[codes]
    table[PATCH_CLASSES] = rows - 1
    return table


@cache
def cumulative_frequencies() -> Array:
    """Return the frequencies below each segment of the scale, out of 2^31, and 2^31: (18,) u32."""
    found = [0]
    for _ in range(PATCH_SEGMENTS):
        found.append(found[-1] + ((((1 << 31) - found[-1]) * 19195) >> 16))
    return read_only(np.array([*found, 1 << 31], np.uint32))


@cache
def segments_of_places() -> Array:
    """Return the segment of the first of each 2^20 cumulative frequencies: (2048,) u8."""
    first = np.arange(2048, dtype=np.int64) << 20
    found = np.searchsorted(cumulative_frequencies()[:-1], first, side="right") - 1
    return read_only(np.minimum(found, PATCH_SEGMENTS - 1).astype(np.uint8))


def codes_of(changed: Array, totals: Array) -> Array:
    """Choose the code of the weight of each class from the numbers of its changes and elements."""
    p = np.minimum(changed / np.maximum(totals, 1), 1 - 2.0**-8)
    with np.errstate(divide="ignore"):
        wanted = np.log2(-2 * np.log2(1 - p)) + 24
        levels = np.log2(weight_of_codes()[1:].astype(np.float64))
    codes = 1 + np.abs(wanted[..., None] - levels).argmin(axis=-1)
    return np.where(changed > 0, codes, 0).astype(np.uint8)


def cost_of(changed: Array, totals: Array) -> float:
    """Return the bits of the positions of changes in classes."""
    q = np.maximum(totals - changed, 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        parts = [np.where(x > 0, x * np.log2(np.maximum(totals, 1) / x), 0) for x in (changed, q)]
    return float(sum(part.sum() for part in parts))


def choose_classes(base: Bits, olds: Array, shifts: tuple[int, ...]) -> tuple[Classes, Array, Array]:
    """Choose how to divide elements into classes.

    Args:
        base: (d,) unsigned.
        olds: (r,) unsigned, those of them that change.
        shifts: candidates; none for one class.

    Returns the classes, and the numbers of changes and of elements of each.
    """
    width, size = 8 * olds.itemsize, int(base.bits.size)
    best = Classes(0, 0, 1), np.array([olds.size]), np.array([size])
    least = cost_of(best[1], best[2])
    step = max(1, size // _SAMPLE)
    for shift in shifts:
        rows = count_rows(width, shift)
        changed = HOST.count_rows(olds, shift, 1, rows)
        totals = np.maximum(base.forms.count_rows(base.bits, shift, step, rows) * step, changed)
        found = np.flatnonzero(changed)
        last = int(found[-1])
        first = max(int(found[0]), last - PATCH_CLASSES + 1)
        if first == last:
            first -= first > 0
            last += first == last
        classes = Classes(shift, first, last - first + 1)
        of_rows = classes.of_rows(width)
        sums = [np.bincount(of_rows, x, classes.count).astype(np.int64) for x in (changed, totals)]
        if (cost := cost_of(*sums) + 8 * classes.count) < least:
            best, least = (classes, sums[0], sums[1]), cost
    return best


def find_lanes(d: int, lanes: int) -> Array:
    """Return the first element of each lane, and d: (lanes + 1,) i64."""
    each = -(-d // (lanes * PATCH_RUN)) * PATCH_RUN
    return np.minimum(np.arange(lanes + 1) * each, d)


def encode(base: Bits, indices: Array, classes: Classes, changed: Array, totals: Array) -> Bytes:
    """Encode positions as a section.

    Args:
        base: (d,) unsigned, of all members.
        indices: (r,) u32, ascending, 0 < r < d.
        classes, changed, totals: of ``choose_classes``.
    """
    from wirecodec.kernels.cpu.patch import positions as kernels

    codes, size = codes_of(changed, totals), int(base.bits.size)
    table = weights_of(codes, count_rows(8 * base.bits.itemsize, classes.shift))
    lanes = MAX_LANES if indices.size >= LEAST_OF_LANES else 1
    starts = find_lanes(size, lanes)
    cuts = np.searchsorted(indices, starts.astype(np.uint32))
    scale = Scale(classes.shift, classes.first, table, starts)
    gaps, own = base.forms.measure_gaps(base.bits, scale, indices)
    room, at = 2 * indices.size + 64, kernels.FAULT
    while at == kernels.FAULT:
        words, states = np.empty(room, np.uint32), np.empty(lanes, np.uint64)
        at = kernels.write_positions(gaps, own, cuts, cumulative_frequencies(), states, words)
        room *= 2
    head = HEAD.pack(classes.shift, classes.count, classes.first, lanes) + codes.tobytes()
    head += bytes(-len(head) % 4) + np.diff(cuts)[:-1].astype("<u4").tobytes()
    return np.concatenate([np.frombuffer(head, np.uint8), words[at:].view(np.uint8)])


def decode(section: Bytes, base: Bits, r: int) -> tuple[Array, Array]:
    """Decode the positions (r,) u32 of a section, and read the elements there. Raises WireError."""
    width = 8 * base.bits.itemsize
    if section.size < HEAD.size or section.size % 4:
        raise Malformed("by-class-length", f"a section of {section.size} bytes")
    shift, count, first, lanes = HEAD.unpack(section[: HEAD.size].tobytes())
    sound = 1 < count <= PATCH_CLASSES and is_shift(width, shift) and lanes in (1, 2, 4, 8)
    if not sound or section[5:8].any():
        raise Malformed(
            "by-class-head", f"{count} classes from row {first}, shifted by {shift}; {lanes} lanes"
        )
    stop = HEAD.size + count
    after = stop + -stop % 4
    start = after + 4 * (lanes - 1)
    if start > section.size or section[stop:after].any():
        raise Malformed(
            "by-class-length",
            f"a section of {section.size} bytes; its head takes {start}, and padding is zero",
        )
    codes = section[HEAD.size : stop]
    if codes.max() > MAX_CODE:
        raise Invalid("by-class-codes", f"a code of a weight is {codes.max()}; it must be 0 to {MAX_CODE}")
    parts = section[after:start].view("<u4").astype(np.int64)
    if parts.sum() > r:
        raise Invalid("by-class-lanes", f"the lanes have {parts.sum()} positions of {r}")
    cuts = np.concatenate([[0], np.cumsum(parts), [r]]).astype(np.int64)
    rows = count_rows(width, shift)
    table = weights_of(codes, rows)
    first = min(first, rows)  # kernels keep it in as many bits as an element has
    tables = cumulative_frequencies(), segments_of_places()
    words = section[start:].view(np.uint32)
    scale = Scale(shift, first, table, find_lanes(int(base.bits.size), lanes))
    found = base.forms.read_positions(base.bits, scale, cuts, tables, words)
    if found is None:
        raise Invalid("by-class-stream", "the coded positions are not valid")
    return found
