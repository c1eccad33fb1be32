"""Search of ``budget`` for many tensors, in rounds: each measures one selection of each tensor.

``select.budget.search`` is the same search for one tensor. All tensors of a round go through one call per
kernel, and through ``encode_batch`` of the codecs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from wirecodec.arrays import Array, addresses_of, read_only
from wirecodec.prng import mix
from wirecodec.select.base import BatchSelection
from wirecodec.select.term_table import sum_before
from wirecodec.settings.scheme import Scheme
from wirecodec.support import SectionBatch

_ELEMENTS_PER_THREAD, _TENSORS_PER_THREAD = 2**17, 8
"""Elements to select from, and searches to decide, that justify another thread."""


@dataclass(frozen=True, eq=False)
class Found:
    """Selected elements of the tensors that the search has taken.

    Attributes:
        selection: the elements.
        steps: (m,) f64, the width of the cells of each, or None if the value codec chooses it.
        sections: the encoded values, if no seed changes their bytes; else None.
    """

    selection: BatchSelection
    steps: Array | None
    sections: SectionBatch | None


@dataclass(frozen=True, eq=False)
class _Round:
    """Selections that were measured together.

    Attributes:
        cuts: (m + 1,) i64, the place of each one's elements.
        positions: i32.
        words: u32, the bits of the elements.
        steps: (m,) f64, or None.
        sections: of the values.
    """

    cuts: Array
    positions: Array
    words: Array
    steps: Array | None
    sections: SectionBatch


@dataclass(eq=False)
class BudgetSearch:
    """Searches of n float32 tensors, all of them finite.

    Attributes:
        addresses, sizes: (n,) i64, of the tensors.
        budgets: (n,) i64, bytes of the sections, above 0.
        scheme: its codecs measure the selections.
    """

    addresses: Array
    sizes: Array
    budgets: Array
    scheme: Scheme
    _rounds: list[_Round] = field(default_factory=list)
    _alive: list[Array] = field(default_factory=list)  # candidates, of which only the addresses are used

    def __post_init__(self) -> None:
        from wirecodec.kernels.cpu.select import budget_candidates, budget_each

        n = self.sizes.size
        self._integers = np.zeros((n, budget_each.INTEGERS), np.int64)
        self._integers[:, budget_each.SIZE] = self.sizes
        self._integers[:, budget_each.BUDGET] = self.budgets
        self._numbers = np.zeros((n, budget_each.NUMBERS))
        self._bins, self._scales = np.empty((n, budget_candidates.BINS), np.int64), np.empty(n)
        self._used = np.zeros(n, np.int64)
        self._best = np.zeros((n, 2), np.int64)  # round and row of the best selection
        self._candidates = np.zeros((n, 2), np.int64)  # addresses of positions and bits
        self._takes_step = self.scheme.value.takes_step

    def run(self) -> Found | None:
        """Search; return None if nothing was found, or a codec cannot encode a selection."""
        from wirecodec.kernels.cpu.select import budget_candidates
        from wirecodec.kernels.cpu.select import budget_each as each

        n, columns = self.sizes.size, self._integers
        arrays = self.addresses, self.sizes, _LIKE, self._bins, self._scales
        _run(partial(budget_candidates.sample, *arrays), n, _TENSORS_PER_THREAD)
        state = columns, self._numbers, self._bins, self._scales, self._used, self._takes_step
        active, measured = np.arange(n), np.arange(0)
        while active.size:
            _run(partial(each.decide, active, *state), active.size, _TENSORS_PER_THREAD)
            fits = columns[measured, each.FITS] != 0
            self._best[measured[fits], 0] = len(self._rounds) - 1
            self._best[measured[fits], 1] = np.flatnonzero(fits)
            stages = columns[active, each.STAGE]
            collecting = active[stages == each.COLLECT]
            measured = active[(stages >= each.COUNT) & (stages <= each.SHRINK)]
            if collecting.size:
                self._collect(collecting, columns[collecting, each.IS_COUNTED])
            if measured.size and not self._measure(measured):
                return None
            active = np.concatenate([collecting, measured])
        done = (columns[:, each.STAGE] == each.DONE) & (columns[:, each.BEST] > 0)
        return self._gather(np.flatnonzero(done)) if done.any() else None

    def _collect(self, active: Array, counted: Array) -> None:
        """Collect the candidates of some tensors; replace the counts of the bins where ``counted`` is 1."""
        from wirecodec.kernels.cpu.select import budget_each as each

        counts, sizes = self._integers[active, each.CANDIDATES], self.sizes[active]
        rows = np.stack([0 * active, self.addresses[active], sizes, counts, active, counted], axis=1)
        cuts, positions, words, _, nonzero = self._keep_largest(rows)
        self._integers[active, each.NONZERO] = nonzero
        first, second = addresses_of([positions, words]).tolist()
        self._candidates[active] = np.stack([first + 4 * cuts[:-1], second + 4 * cuts[:-1]], axis=1)
        self._alive += [positions, words]

    def _measure(self, active: Array) -> bool:
        """Measure a selection of some tensors; return False if a codec cannot encode it."""
        from wirecodec.kernels.cpu.select import budget_each as each

        numbers, counts = (self._integers[active, column] for column in (each.CANDIDATES, each.WANTED))
        rows = np.stack([*self._candidates[active].T, numbers, counts, active, 0 * active], axis=1)
        cuts, positions, words, smallest, _ = self._keep_largest(rows)
        values, steps = read_only(words.view(np.float32)), None
        streams = np.full(active.size, mix(0, 0, 0), np.uint64)
        sections: SectionBatch | None
        if self._takes_step:
            steps = np.empty(active.size)
            each.find_steps(active, self._integers, self._numbers, smallest, steps)
            sections = self.scheme.value.encode_batch_with_steps(values, cuts, steps)
        else:
            sections = self.scheme.value.encode_batch(values, cuts, streams)
        places = self.scheme.index.encode_batch(
            read_only(positions.view(np.uint32)), cuts, self.sizes[active], streams
        )
        if sections is None or places is None:
            return False
        self._used[active] = (sections.lengths + 7 & -8) + (places.lengths + 7 & -8)
        self._rounds.append(_Round(cuts, positions, words, steps, sections))
        return True

    def _keep_largest(self, rows: Array) -> tuple[Array, Array, Array, Array, Array]:
        """Keep the largest elements of arrays, which are described as for the kernel of this name.

        Returns the place of each one's elements, their positions and bits, the smallest keys, and how many of
        the elements are not 0.
        """
        from wirecodec.kernels.cpu.select import budget_candidates
        from wirecodec.kernels.cpu.threads import least_units

        n, cuts = len(rows), sum_before(rows[:, budget_candidates.WANTED])
        positions, words = np.empty(int(cuts[-1]), np.int32), np.empty(int(cuts[-1]), np.uint32)
        smallest, nonzero = np.empty(n, np.int64), np.empty(n, np.int64)
        outputs = cuts, _LIKE, _LIKE_POSITIONS, positions, words, smallest, nonzero
        kernel = partial(budget_candidates.keep_largest, rows, self._bins, self._scales, *outputs)
        elements = int(rows[:, budget_candidates.NUMBER].sum())
        _run(kernel, n, least_units(_ELEMENTS_PER_THREAD, n, elements))
        return cuts, positions, words, smallest, nonzero

    def _gather(self, members: Array) -> Found:
        """Gather the best selections of the tensors that are done."""
        from wirecodec.kernels.cpu import support

        rounds, rows = self._best[members].T
        counts = np.zeros(members.size, np.int64)
        steps = np.empty(members.size) if self._takes_step else None
        used = np.unique(rounds).tolist()
        for number in used:
            here, one = rounds == number, self._rounds[number]
            counts[here] = np.diff(one.cuts)[rows[here]]
            if steps is not None and one.steps is not None:
                steps[here] = one.steps[rows[here]]
        cuts = sum_before(counts)
        indices, words = np.empty(int(cuts[-1]), np.int32), np.empty(int(cuts[-1]), np.uint32)
        buffers, places, lengths, at = [], np.zeros_like(counts), np.zeros_like(counts), 0
        for number in used:
            here, one = rounds == number, self._rounds[number]
            given = 4 * one.cuts[rows[here]], 4 * counts[here]
            for source, out in ((one.positions, indices), (one.words, words)):
                support.copy_slices(
                    read_only(source.view(np.uint8)), *given, out.view(np.uint8), 4 * cuts[:-1][here]
                )
            if steps is not None:
                starts = sum_before((one.sections.lengths + 7) >> 3 << 1)
                buffer = np.empty(int(starts[-1]), np.uint32)
                one.sections.write(buffer, starts[:-1])
                places[here], lengths[here] = at + 4 * starts[rows[here]], one.sections.lengths[rows[here]]
                buffers.append(buffer.view(np.uint8))
                at += buffer.nbytes
        selection = BatchSelection(members, cuts, indices, words.view(np.float32))
        sections: SectionBatch | None = None
        if steps is not None:
            wire_id = self._rounds[0].sections.wire_id
            assert isinstance(wire_id, int)
            sections = SectionBatch.of_slices(wire_id, np.concatenate(buffers), places, lengths)
        return Found(selection, steps, sections)


def _run(kernel: Callable[..., None], units: int, least: int) -> None:
    """Run a kernel whose last argument is ``turns``, on threads if there are enough units."""
    from wirecodec.kernels.cpu.threads import run_parallel

    run_parallel(kernel, units, least)


_LIKE, _LIKE_POSITIONS = np.empty(0, np.uint32), np.empty(0, np.int32)
