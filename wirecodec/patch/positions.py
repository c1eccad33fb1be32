"""Index codec by-class (formats/spec/patch.md): positions of changes, on a scale of weights of the old elements."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cache

import numpy as np

from wirecodec.arrays import Array, Bytes, read_only
from wirecodec.errors import Invalid, Malformed
from wirecodec.kernels.cpu.patch import positions as kernels

HEAD = struct.Struct("<BBHHH")
BY_CLASS = 12
"""Wire id of the index codec."""
MAX_ROWS = 2048
MAX_CODE = 96
HAS_MEMBERS = 1
_SAMPLE = 2**20
"""Elements above which the classes of a sample are counted."""


@dataclass(frozen=True)
class Classes:
    """Division of elements into classes by the upper bits of their magnitude.

    The row of an element is (bits & mask) >> shift. Its class is row - first, at least 0 and at most count - 1.
    """

    shift: int
    first: int
    count: int

    def mask_of(self, width: int) -> int:
        """Return the mask of the magnitude of elements of ``width`` bits; 0 if there is one class."""
        return (1 << width - 1) - 1 if self.count > 1 else 0

    def rows_of(self, width: int) -> int:
        """Return the number of rows."""
        return (self.mask_of(width) >> self.shift) + 1

    def of_rows(self, width: int) -> Array:
        """Return the class of each row."""
        return np.clip(np.arange(self.rows_of(width)) - self.first, 0, self.count - 1)


@cache
def weight_of_codes() -> Array:
    """Return the weight of each code: 0, and then four per octave from 16 on."""
    codes = np.arange(MAX_CODE)
    return read_only(np.append(0, (4 + (codes & 3)) << (codes >> 2) + 2).astype(np.uint32))


@cache
def cumulative_frequencies() -> Array:
    """Return the frequencies below each segment of the scale, out of 2^31, and 2^31: (18,) u32."""
    found = [0]
    for _ in range(kernels.SEGMENTS):
        found.append(found[-1] + ((((1 << 31) - found[-1]) * 19195) >> 16))
    return read_only(np.array([*found, 1 << 31], np.uint32))


def codes_of(changed: Array, totals: Array) -> Array:
    """Choose the code of the weight of each class from the numbers of its changes and elements."""
    p = np.minimum(changed / np.maximum(totals, 1), 1 - 2.0**-8)
    with np.errstate(divide="ignore"):
        wanted = np.log2(-2 * np.log2(1 - p)) + 24
        levels = np.log2(weight_of_codes()[1:].astype(np.float64))
    codes = 1 + np.abs(wanted[..., None] - levels).argmin(axis=-1)
    return np.where(changed > 0, codes, 0).astype(np.uint8)


def weights_of(codes: Array, offsets: Array | None, classes: Classes, width: int) -> Array:
    """Return the weight of each row, for each member: (members, rows) u32."""
    rows = codes[classes.of_rows(width)].astype(np.int64)
    shifted = rows[None, :] + (np.zeros(1, np.int64) if offsets is None else offsets.astype(np.int64))[:, None]
    return weight_of_codes()[np.where(rows == 0, 0, np.clip(shifted, 1, MAX_CODE))]


def cost_of(changed: Array, totals: Array) -> float:
    """Return the bits of the positions of changes in classes."""
    q = np.maximum(totals - changed, 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        parts = [np.where(x > 0, x * np.log2(np.maximum(totals, 1) / x), 0) for x in (changed, q)]
    return float(sum(part.sum() for part in parts))


def choose_classes(base: Array, indices: Array, shifts: tuple[int, ...]) -> tuple[Classes, Array, Array]:
    """Choose how to divide elements into classes.

    Args:
        base: (d,) unsigned.
        indices: (r,) u32 of the changes.
        shifts: candidates; none for one class.

    Returns the classes, and the numbers of changes and of elements of each.
    """
    width = 8 * base.itemsize
    best = Classes(0, 0, 1), np.array([indices.size]), np.array([base.size])
    least = cost_of(best[1], best[2])
    step = max(1, base.size // _SAMPLE)
    for shift in shifts:
        mask = (1 << width - 1) - 1
        rows = (mask >> shift) + 1
        totals, changed = np.zeros(rows, np.int64), np.zeros(rows, np.int64)
        kernels.count_classes(base, shift, mask, step, totals)
        kernels.count_classes_at(base, shift, mask, indices, changed)
        totals = np.maximum(totals * step, changed)
        found = np.flatnonzero(changed)
        first, count = int(found[0]), min(int(found[-1] - found[0]) + 1, 64)
        first = int(found[-1]) + 1 - count
        if count == 1 and rows > 1:
            count, first = 2, max(0, first - 1)
        classes = Classes(shift, first, count)
        of_rows = classes.of_rows(width)
        sums = [np.bincount(of_rows, x, count).astype(np.int64) for x in (changed, totals)]
        if (cost := cost_of(*sums) + 8 * count) < least:
            best, least = (classes, sums[0], sums[1]), cost
    return best


def encode(base: Array, indices: Array, starts: Array, shifts: tuple[int, ...]) -> Bytes:
    """Encode positions as a section.

    Args:
        base: (d,) unsigned, of all members.
        indices: (r,) u32, ascending, 0 < r < d.
        starts: (members + 1,) i64.
        shifts: candidates of the classes.
    """
    width = 8 * base.itemsize
    classes, changed, totals = choose_classes(base, indices, shifts)
    codes, offsets = codes_of(changed, totals), None
    if classes.count == 1 and starts.size > 2:
        own = np.diff(np.searchsorted(indices, starts))
        each = codes_of(own, np.diff(starts)).astype(np.int64)
        offsets = np.where(own > 0, each - int(codes[0]), 1 - int(codes[0])).clip(-127, 127).astype(np.int8)
    weights = weights_of(codes, offsets, classes, width)
    if weights.shape[0] == 1:
        starts = starts[[0, -1]]
    gaps, own_weights = np.empty(indices.size, np.uint64), np.empty(indices.size, np.uint32)
    mask = classes.mask_of(width)
    kernels.measure_gaps(base, classes.shift, mask, weights, starts, indices, gaps, own_weights)
    room = 3 * indices.size + 64
    while True:
        words = np.empty(room, np.uint32)
        at = kernels.write_positions(gaps, own_weights, cumulative_frequencies(), words)
        if at >= 0:
            break
        room *= 2
    flags = 0 if offsets is None else HAS_MEMBERS
    head = HEAD.pack(classes.shift, flags, classes.first, classes.count, 0) + codes.tobytes()
    head += b"" if offsets is None else offsets.tobytes()
    return np.concatenate([np.frombuffer(head + bytes(-len(head) % 4), np.uint8), words[at:].view(np.uint8)])


def decode(section: Bytes, base: Array, r: int, starts: Array) -> Array:
    """Decode the positions (r,) u32 of a section. Raises Malformed or Invalid."""
    width = 8 * base.itemsize
    if section.size < HEAD.size or section.size % 4:
        raise Malformed("by-class-length", f"a section of {section.size} bytes")
    shift, flags, first, count, reserved = HEAD.unpack(section[: HEAD.size].tobytes())
    members = starts.size - 1 if flags else 0
    start = HEAD.size + count + members
    start += -start % 4
    classes = Classes(shift, first, count)
    wide = count > 1 and not (shift < width and width - 1 - shift <= 11)
    if flags > 1 or reserved or not 1 <= count <= 64 or wide or (count == 1 and (shift or first)):
        raise Malformed("by-class-head", "the section's head is not valid")
    if start > section.size:
        raise Malformed("by-class-length", f"a section of {section.size} bytes; its head takes {start}")
    codes = section[HEAD.size : HEAD.size + count]
    if codes.max() > MAX_CODE or section[HEAD.size + count + members : start].any():
        raise Invalid("by-class-codes", "a code of a weight is above 96, or padding is not zero")
    offsets = section[HEAD.size + count :][:members].view(np.int8) if flags else None
    weights = weights_of(codes, offsets, classes, width)
    indices = np.empty(r, np.uint32)
    places = starts if weights.shape[0] > 1 else starts[[0, -1]]
    words = section[start:].view(np.uint32)
    mask = classes.mask_of(width)
    if kernels.read_positions(
        base, shift, mask, weights, places, cumulative_frequencies(), words, indices
    ):
        raise Invalid("by-class-stream", "the coded positions are not valid")
    return indices
