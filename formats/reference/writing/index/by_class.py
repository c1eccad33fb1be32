"""Index codec 12, by-class: writing (spec/patch.md). The caller chooses classes, weights and lanes."""

from __future__ import annotations

import itertools
import struct
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from formats.reference.index.by_class import BITS, CUMULATIVE, REACH, rise, weight
from formats.reference.rans import row_of
from formats.reference.writing.rans import LaneWriter


@dataclass(frozen=True)
class ByClass:
    """Index codec 12.

    Attributes:
        shift: low bits of an element that do not count for its class.
        first: row of the first class.
        codes: code of the weight of each class.
        lanes: number of lanes.
        late: whether an element with places on both sides of a multiple of 2^28 has its second symbol.
        ends: as of ``LaneWriter``.
    """

    id: ClassVar[int] = 12
    shift: int
    first: int
    codes: tuple[int, ...]
    lanes: int = 1
    late: bool = False
    ends: tuple[int, ...] = ()

    def write_section(self, indices: Sequence[int], old: Sequence[int], width: int) -> bytes:
        """Write the positions of changes among the old words of an entry."""
        last = len(self.codes) - 1
        rows = [row_of(x, width, self.shift) for x in old]
        weights = [weight(self.codes[min(max(row - self.first, 0), last)]) for row in rows]
        each = 16 * -(-len(old) // (16 * self.lanes))
        starts = [min(lane * each, len(old)) for lane in range(self.lanes + 1)]
        cuts = [bisect_left(indices, start) for start in starts]
        head = struct.pack("<BBHB3x", self.shift, len(self.codes), self.first, self.lanes) + bytes(self.codes)
        head += bytes(-len(head) % 4)
        counts = [b - a for a, b in itertools.pairwise(cuts)]
        head += struct.pack(f"<{self.lanes - 1}I", *counts[:-1])
        lanes = [
            list(self._symbols([i - start for i in indices[a:b]], weights[start:stop]))
            for (start, stop), (a, b) in zip(
                itertools.pairwise(starts), itertools.pairwise(cuts), strict=True
            )
        ]
        stream = LaneWriter(self.lanes, self.ends)
        for turn in reversed(range(max(counts))):
            for lane in reversed(range(self.lanes)):
                for low, high in reversed(lanes[lane][turn] if turn < counts[lane] else []):
                    stream.put(lane, low, high - low, BITS)
        return head + stream.finish()

    def _symbols(self, indices: Sequence[int], weights: Sequence[int]) -> list[list[tuple[int, int]]]:
        """Return the limits of the symbols of each present element of a lane."""
        sums = [0, *itertools.accumulate(weights)]
        found, before = [], 0
        for i in indices:
            beyond, place = divmod(sums[i] - before, REACH)
            end = place + weights[i]
            limits = rise(place), rise(min(end, REACH))
            if end > REACH and (self.late or limits[0] == limits[1]):
                beyond, limits = beyond + 1, (0, rise(end - REACH))
            found.append([(CUMULATIVE[16], CUMULATIVE[17])] * beyond + [limits])
            before = sums[i + 1]
        return found
