"""digest.cu and positions.cu against the CPU's kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.gpu_emulated.emulator import Emulator
from tests.inputs import Array
from wirecodec.kernels.cuda import digest, elements, positions
from wirecodec.kernels.scale import Scale
from wirecodec.patch import positions as codec
from wirecodec.patch.host import HOST

KINDS = [np.uint8, np.uint16, np.uint32, np.uint64]
BLOCK = 65_536  # bytes per block of the kernels that read whole arrays


def draw(kind: Any, size: int, seed: int = 0) -> Array:
    """Draw elements of any bits."""
    top = 2 ** (8 * np.dtype(kind).itemsize) - 1
    return np.random.default_rng(seed).integers(0, top, size, kind, endpoint=True)


def place(emulator: Emulator, x: Array, skipped: int) -> Any:
    """Copy an array to the device, behind some elements that are not part of it."""
    return emulator.put(np.concatenate([draw(x.dtype, skipped, 9), x]))[skipped:]


def sizes_of(kind: Any) -> list[int]:
    """Return sizes beside the borders of words, warps and blocks."""
    per, each = 8 // np.dtype(kind).itemsize, BLOCK // np.dtype(kind).itemsize
    return [0, 1, per - 1, per + 1, 32 * per - 1, 32 * per + 1, 1024 * per + 3, each, each + 1]


@pytest.mark.sampled
@pytest.mark.parametrize("skipped", [0, 1, 5])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("share", [0.0, 0.02, 1.0])
def test_changes_and_digests(emulator: Emulator, kind: Any, share: float, skipped: int) -> None:
    for size in sizes_of(kind):
        old, other = draw(kind, size), draw(kind, size, 1)
        changed = np.random.default_rng(2).random(size) < share
        new = np.where(changed, other, old)
        if size and share:
            new[-1] = ~old[-1]  # in the last, padded word
        there = [place(emulator, x, skipped) for x in (old, new)]
        for digests in (True, False):
            (indices, *sides), _, sums = HOST.find_changes(
                [HOST.read(old)], [HOST.read(new)], digests=digests
            )
            found, totals = digest.find_changes(emulator, *there, digests=digests)
            assert np.array_equal(emulator.get(found), indices)
            for x, elements_of in zip((old, new), sides, strict=True):
                assert np.array_equal(x[indices], elements_of)
            assert list(totals) == sums[:, 0].tolist()
        assert digest.sum_words(emulator, there[0]) == HOST.sum_elements(old)


@pytest.mark.sampled
@pytest.mark.parametrize("skipped", [0, 3])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [1, 7, 1000, 5003])
def test_changed_elements(emulator: Emulator, kind: Any, size: int, skipped: int) -> None:
    """Reading, replacing, and how a digest changes; all elements change, or few."""
    old = draw(kind, size)
    there = place(emulator, old, skipped)
    for step in (1, 7):
        indices = np.arange(size - 1, -1, -step, dtype=np.uint32)[::-1].copy()
        values = draw(kind, indices.size, step)
        on_device = emulator.put(indices), emulator.put(values)
        assert np.array_equal(elements.gather(emulator, there, on_device[0]), HOST.take(old, indices))
        moved, ends = np.zeros(1, np.uint64), (np.array([0, size]), np.array([0, indices.size]))
        HOST.add_changes(moved, old, *ends, (indices, values))
        assert digest.sum_change(emulator, there, *on_device) == moved[0]
        elements.replace(emulator, there, *on_device)
        old[indices] = values
        assert np.array_equal(there, old)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("step", [1, 3])
def test_rows_are_counted(emulator: Emulator, kind: Any, step: int) -> None:
    width = 8 * np.dtype(kind).itemsize
    shift = max(width - 12, 2)
    rows = codec.count_rows(width, shift)
    for size in (1, 9, 4096, 20_001):
        x = draw(kind, size)
        found = positions.count_rows(emulator, emulator.put(x), shift, step, rows)
        assert np.array_equal(found, HOST.count_rows(x, shift, step, rows))


def weights(kind: Any, size: int, seed: int = 0) -> Array:
    """Draw elements of few rows, as weights have; some are below the first class, and some above the last."""
    width, rng = 8 * np.dtype(kind).itemsize, np.random.default_rng(seed)
    rows = np.where(rng.random(size) < 0.1, 100, rng.geometric(0.3, size) - 1)
    words: Array = (rows << (width - 8)).astype(kind) | (draw(kind, size, seed) & kind(2 ** (width - 8) - 1))
    return words


def scale_of(x: Array, lanes: int, codes: Any) -> Scale:
    """Return a scale of up to 64 classes."""
    width = 8 * x.dtype.itemsize
    table = codec.weights_of(np.array(codes, np.uint8), codec.count_rows(width, width - 8))
    return Scale(width - 8, 1, table, codec.find_lanes(x.size, lanes))


def gaps_on(emulator: Emulator, x: Array, scale: Scale, indices: Array) -> tuple[Array, Array]:
    here, own = positions.measure(emulator, emulator.put(x), scale, indices)
    return here, own.astype(np.uint64)


@pytest.mark.sampled
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lanes", [1, 2, 8])
@pytest.mark.parametrize("size", [1, 16, 700, 9001])
def test_sums_of_weights(emulator: Emulator, kind: Any, lanes: int, size: int) -> None:
    """The sum before an element is that of the elements from its lane's first on."""
    x = weights(kind, size)
    scale = scale_of(x, lanes, [20, 0, 96, 50, 33, 1, 70])
    indices = np.flatnonzero(np.random.default_rng(3).random(size) < 0.3).astype(np.uint32)
    here, own = gaps_on(emulator, x, scale, indices)
    rows = (x.astype(np.uint64) >> np.uint64(scale.shift)) & np.uint64(scale.table[64])
    classes = np.minimum(np.maximum(rows, np.uint64(1)) - np.uint64(1), np.uint64(63))
    every = scale.table[classes].astype(np.uint64)
    before = np.cumsum(every) - every
    first = scale.starts[np.searchsorted(scale.starts, indices, side="right") - 1]
    assert np.array_equal(own, every[indices])
    assert np.array_equal(here, before[indices] - before[first])


def encoded(x: Array, scale: Scale, indices: Array) -> tuple[Array, Array]:
    """Encode positions on the host; return the words, and the first position of each lane."""
    from wirecodec.kernels.cpu.patch import positions as kernels

    gaps, own = HOST.measure_gaps(x, scale, indices)
    cuts = np.searchsorted(indices, scale.starts.astype(np.uint32)).astype(np.int64)
    states, words = np.empty(scale.lanes, np.uint64), np.empty(64 * indices.size + 64, np.uint32)
    at = kernels.write_positions(gaps, own, cuts, codec.cumulative_frequencies(), states, words)
    return words[at:].copy(), cuts


def tables() -> tuple[Array, Array]:
    return codec.cumulative_frequencies(), codec.segments_of_places()


@pytest.mark.sampled
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lanes", [1, 2, 4, 8])
@pytest.mark.parametrize(("size", "share"), [(1, 1.0), (33, 0.5), (3000, 0.05), (9001, 0.9), (20_000, 0.001)])
def test_positions_are_read(emulator: Emulator, kind: Any, lanes: int, size: int, share: float) -> None:
    x = weights(kind, size)
    # Rare changes of heavy elements are beyond the reach of one symbol.
    scale = scale_of(x, lanes, [60, 40, 52, 64, 33, 1, 70] if share > 0.01 else [88] * 7)
    indices = np.flatnonzero(np.random.default_rng(3).random(size) < share).astype(np.uint32)
    indices = indices if indices.size else np.array([size - 1], np.uint32)
    words, cuts = encoded(x, scale, indices)
    expected: Any = HOST.read_positions(x, scale, cuts, tables(), words)
    assert np.array_equal(expected[0], indices)
    assert np.array_equal(expected[1], x[indices])
    found, is_valid = positions.read(emulator, emulator.put(x), scale, cuts, tables()[0], words)
    assert is_valid
    assert np.array_equal(found, indices)


def test_places_at_borders(emulator: Emulator) -> None:
    """With small weights, symbols stand for the first places of runs; blocks add up several tiles of runs."""
    chosen = np.random.default_rng(3).random(30_000) < 0.05
    chosen[::256] = True
    for size, indices in ((30_000, np.flatnonzero(chosen)), (140_000, np.array([5, 70_000, 139_990]))):
        x = weights(np.uint16, size)
        scale = scale_of(x, 1, [1])
        words, cuts = encoded(x, scale, indices.astype(np.uint32))
        found, is_valid = positions.read(emulator, emulator.put(x), scale, cuts, tables()[0], words)
        assert is_valid
        assert np.array_equal(found, indices)


@pytest.mark.parametrize("size", [64, 700])
def test_places_beyond_a_lane(emulator: Emulator, size: int) -> None:
    """A section may name a place that no element of the lane has."""
    x = weights(np.uint16, size)
    short = x[:-16].copy()
    there = emulator.put(short)
    scale, shorter = scale_of(x, 1, [1]), scale_of(short, 2, [1])
    first = int(shorter.starts[1])
    verdicts = set()
    for at in (first - 1, first, first + 1, first + 15, size - 17, size - 16, size - 1):
        words, cuts = encoded(x, scale, np.array([at], np.uint32))
        begun = np.array([2**31, 0], np.uint32)  # a lane without a position
        for other, coded, parts in (
            (scale_of(short, 1, [1]), words, cuts),
            (shorter, np.concatenate([words[:2], begun, words[2:]]), np.array([0, 1, 1])),
        ):
            expected: Any = HOST.read_positions(short, other, parts, tables(), coded)
            found, is_valid = positions.read(emulator, there, other, parts, tables()[0], coded)
            assert is_valid == (expected is not None)
            assert not is_valid or np.array_equal(found, expected[0])
            verdicts.add(is_valid)
    assert verdicts == {False, True}


@pytest.mark.parametrize("lanes", [1, 4])
def test_damaged_sections_are_refused_as_on_the_host(emulator: Emulator, lanes: int) -> None:
    """Any words end with the verdict of the host, and no write is outside of the results."""
    x, rng = weights(np.uint16, 900), np.random.default_rng(5)
    scale = scale_of(x, lanes, [60, 0, 52, 64, 33, 1, 84])
    indices = np.flatnonzero(rng.random(x.size) < 0.03).astype(np.uint32)
    classes = np.minimum(np.maximum(x[indices] >> 8 & 127, 1) - 1, 63)
    indices = indices[scale.table[classes] > 0]
    words, cuts = encoded(x, scale, indices)
    there, verdicts = emulator.put(x), []
    for trial in range(60):
        other, parts = words.copy(), cuts.copy()
        if trial % 4 == 0:
            other = other[: int(rng.integers(other.size))]
        elif trial % 4 == 1:
            other[int(rng.integers(other.size))] ^= np.uint32(1 << int(rng.integers(32)))
        elif trial % 4 == 2:
            other = np.append(other, np.uint32(0))
        elif lanes > 1:
            parts[1] += 1
        expected: Any = HOST.read_positions(x, scale, parts, tables(), other)
        found, is_valid = positions.read(emulator, there, scale, parts, tables()[0], other)
        assert is_valid == (expected is not None)
        assert not is_valid or np.array_equal(found, expected[0])
        verdicts.append(is_valid)
    assert verdicts.count(False) > 0
    assert lanes > 1 or True in verdicts
