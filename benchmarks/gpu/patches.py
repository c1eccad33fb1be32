"""Patches of weights on the GPU: the kernels of both directions, and whole calls.

About 1 % of the elements differ by a unit in the last place, all of them small. The kernels of ``diff`` find
the changes and the digests, count classes, and add up weights. Those of ``apply`` add up the digests, find
the positions, and replace the elements. The host codes the values, which the whole calls include.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle
from typing import Any

import numpy as np

import wirecodec as wc
from benchmarks.gpu.cases import Case
from wirecodec.container.writer import CHUNK
from wirecodec.kernels.cuda.device import CupyDevice
from wirecodec.kernels.scale import Scale
from wirecodec.patch import positions
from wirecodec.patch.bits import Bits
from wirecodec.patch.states import kind_of, read_bits

__all__ = ["APPLY", "DIFF", "generate_cases"]

DIFF, APPLY = "diff, kernels", "apply, kernels"
EVERY, SMALL = 10, 0.1
"""Elements of which one differs if its magnitude is smaller."""
CHANGED = 0.01
"""Share of changed elements, for the traffic."""


def generate_cases(device: CupyDevice, x: Any) -> Iterator[Case]:
    """Yield the kernels and the calls, with ``x`` and a copy that differs as states."""
    offsets = np.random.default_rng(0).integers(0, EVERY, x.size // EVERY)
    chosen = device.put((EVERY * np.arange(offsets.size) + offsets).astype(np.int64))
    changed = chosen[(x[chosen] < SMALL) & (x[chosen] > -SMALL)]
    after = device.cupy.empty_like(x)
    device.copy(x, after)
    after.view(np.uint32)[changed] ^= np.uint32(1)
    pair = read_bits("x", x), read_bits("x", after)
    patches = cycle([wc.diff({"x": x}, {"x": after}), wc.diff({"x": after}, {"x": x})])
    state = {"x": device.cupy.empty_like(x)}
    device.copy(x, state["x"])
    sections = list(_find_changes(*pair, is_encoded=True))
    yield Case(DIFF, 8 + 16 * CHANGED, lambda: list(_find_changes(*pair, is_encoded=False)))
    yield Case(APPLY, 4 + 16 * CHANGED, lambda: _apply_changes(pair[0], sections))
    yield Case("diff", 8 + 16 * CHANGED, lambda: wc.diff({"x": x}, {"x": after}))
    yield Case("apply", 4 + 16 * CHANGED, lambda: wc.apply(next(patches), state))


def _find_changes(old: Bits, new: Bits, *, is_encoded: bool) -> Iterator[tuple[int, int, Any, Any]]:
    """Yield the first and the last element of each entry, its positions, and their section or weights."""
    (indices, olds_of, _), *_ = old.forms.find_changes([old], [new], digests=True)
    for at in range(0, old.bits.size, CHUNK):
        base, stop = old.part(at, at + CHUNK), min(at + CHUNK, old.bits.size)
        own = slice(*np.searchsorted(indices, np.array([at, stop], np.uint32)))
        here, olds = indices[own] - np.uint32(at), olds_of[own]
        chosen = positions.choose_classes(base, olds, kind_of(old.dtype).shifts)
        if is_encoded:
            yield at, stop, here, positions.encode(base, here, *chosen)
            continue
        table = positions.weights_of(positions.codes_of(*chosen[1:]), 256)
        lanes = positions.find_lanes(stop - at, positions.MAX_LANES)
        scale = Scale(chosen[0].shift, chosen[0].first, table, lanes)
        yield at, stop, here, base.forms.measure_gaps(base.bits, scale, here)


def _apply_changes(base: Bits, sections: list[tuple[int, int, Any, Any]]) -> None:
    """Find positions and replace the elements there by themselves."""
    forms: Any = base.forms  # of a GPU
    forms.sum_elements(base.bits)
    for at, stop, here, section in sections:
        part = base.part(at, stop)
        found, olds = positions.decode(section, part, here.size)
        ends = np.array([0, stop - at]), np.array([0, found.size])
        forms.add_changes(np.zeros(1, np.uint64), part.bits, *ends, (found, olds))
        forms.scatter(part.bits, found, olds)
