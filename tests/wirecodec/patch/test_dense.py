"""Tensors of which many elements change: no patch takes more bytes than the whole tensors."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np
import pytest

import wirecodec as wc
from tests.wirecodec.patch.weights import copy, is_equal, make_state, random_pair, train
from wirecodec.limits import DEFAULT_LIMITS
from wirecodec.patch.apply import prepare_all
from wirecodec.patch.slices import choose_slice, prepare_slices

BASES = ("read", "unread", "slices")


def random_states(share: float) -> tuple[dict[str, Any], dict[str, Any]]:
    """Make states of random bits, of which a share differs: tensors of each width, and some of one type."""
    old, new = {}, {}
    for number, dtype in enumerate(
        ("uint8", "bfloat16", "float32", "float64", "float32", "int16", "float32")
    ):
        name = f"{number} {dtype}"
        old[name], new[name] = random_pair(dtype, (40, 50), share, seed=number)
        if number % 2:  # differences of all lengths
            new[name] = random_pair(dtype, (40, 50), share, seed=90 + number)[0]
    return old, new


def measure_whole(new: dict[str, Any]) -> int:
    """Return the bytes of a state that is written whole."""
    return int(wc.diff({}, new).size) + 16


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("rate", [1e-4, 1e-2, 1.0])
def test_a_dense_fine_tune_takes_no_more_than_the_whole(base: str, rate: float) -> None:
    old = make_state(layers=2)
    new = train(old, rate, steps=9)
    patch = wc.diff(old, new, base=base)
    state = copy(old)
    wc.apply(patch, state)
    assert is_equal(state, new)
    assert patch.size <= measure_whole(new)
    wc.apply(patch, state)
    assert is_equal(state, new)


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("share", [0.3, 0.7, 1.0])
def test_random_bits_take_no_more_than_the_whole(base: str, share: float) -> None:
    old, new = random_states(share)
    patch = wc.diff(old, new, base=base)
    state = copy(old)
    assert is_equal(wc.apply(patch, state), new)
    assert patch.size <= measure_whole(new)
    wrong = copy(old) | {"2 float32": old["4 float32"].copy()}
    before = copy(wrong)
    with pytest.raises(wc.SchemaMismatch):
        wc.apply(patch, wrong)
    assert is_equal(wrong, before)


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("dtype", ["uint8", "float32", "int64"])
def test_few_changes_of_a_regular_tensor_take_no_more_than_the_whole(base: str, dtype: str) -> None:
    old = {"a": np.zeros(100_000, dtype), "b": np.zeros((300, 100), dtype)}
    new = {name: x.copy() for name, x in old.items()}
    for x in new.values():
        x.reshape(-1)[::8] = 3
    patch = wc.diff(old, new, base=base)
    assert is_equal(wc.apply(patch, copy(old)), new)
    assert patch.size <= measure_whole(new)


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("number", [1, 2], ids=["whole", "shared"])
def test_positions_are_those_of_changes_if_a_patch_has_all_elements(base: str, number: int) -> None:
    """Of tensors of which less than a fifth changes: engines that patch elements in place get no others."""
    old = {name: np.zeros((1000, 40), np.float32) for name in "ab"[:number]}
    new = {name: x.copy() for name, x in old.items()}
    for x in new.values():
        x.reshape(-1)[::8] = 3
    patch = wc.diff(old, new, base=base)
    assert all(entry.nnz == entry.size for entry in wc.inspect(patch).entries)
    for write in prepare_all([patch], old, DEFAULT_LIMITS).writes:
        assert np.array_equal(write.indices, np.arange(0, 40_000, 8))
        assert np.array_equal(write.values.view("f4"), np.full(5000, 3, "f4"))
    if base == "slices":
        right = slice(None), slice(12, 40)
        view = {name: choose_slice(lambda *_: right, name, x.dtype, x.shape) for name, x in old.items()}
        state: dict[str, Any] = {name: np.ascontiguousarray(x[right]) for name, x in old.items()}
        found = prepare_slices(patch, state, view, lambda *_: right, DEFAULT_LIMITS).patch
        expected = np.flatnonzero(new["a"][right])
        assert all(np.array_equal(write.indices, expected) for write in found.writes)
        assert len(found.writes) == number


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("parts", [(1, 1, 1), (1, 0, 1), (0, 1, 0), (1, 0.01, 1)], ids=str)
def test_chunks_of_a_tensor_choose_by_themselves(
    base: str, parts: tuple[float, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some have all elements, others few or none: the digests are those of the elements that are present."""
    for module in ("wirecodec.patch.diff", "wirecodec.container.table"):
        monkeypatch.setattr(import_module(module), "CHUNK", 1000)
    rng = np.random.default_rng(1)
    old = rng.normal(0, 1, 3000).astype("f4")
    new = old.copy()
    for chunk, share in enumerate(parts):
        here = slice(1000 * chunk, 1000 * chunk + 1000)
        changes = rng.random(1000) < share
        new[here] = np.where(changes, rng.integers(0, 3, 1000), new[here])
    patch = wc.diff({"w": old}, {"w": new}, base=base)
    state = {"w": old.copy()}
    assert is_equal(wc.apply(patch, state), {"w": new})
    assert is_equal(wc.apply(patch, state), {"w": new})
    assert patch.size <= measure_whole({"w": new}) + 250


@pytest.mark.parametrize("share", [0.3, 1.0])
def test_slices_of_dense_tensors(share: float) -> None:
    old, new = random_states(share)
    patch = wc.diff(old, new, base="slices")

    def choose(name: str, shape: tuple[int, ...]) -> Any:
        return slice(None) if name.startswith("1") else (slice(None), slice(10, 35))

    state, view = {}, {}
    for name, x in old.items():
        found = choose_slice(choose, name, x.dtype, x.shape)
        assert found is not None
        view[name], state[name] = found, found.cut(x)
    made = prepare_slices(patch, state, view, choose, DEFAULT_LIMITS)
    made.patch.commit(state)
    assert is_equal(state, {name: view[name].cut(x) for name, x in new.items()})


def test_sizes_are_checked_before_elements_of_slices_are_read() -> None:
    old, new = random_pair(np.dtype("f4"), (2**20,), 1.0)
    patch, old = wc.diff({"w": old}, {"w": new}, base="slices"), {"w": old}
    view, state = {"w": choose_slice(lambda *_: slice(0, 8), "w", old["w"].dtype, (64,))}, {"w": old["w"][:8]}
    tracemalloc.start()
    try:
        with pytest.raises(wc.SchemaMismatch, match="base-shape"):
            prepare_slices(patch, state, view, lambda *_: slice(0, 8), DEFAULT_LIMITS)
        assert tracemalloc.get_traced_memory()[1] < 2**19
    finally:
        tracemalloc.stop()


def test_elements_beside_a_tensor_without_a_slice_are_limited() -> None:
    """Nothing confirms the size of that tensor."""
    old = {"v": np.zeros(60, "f4"), "w": np.zeros(9000, "f4")}
    patch = wc.diff(old, {name: x + 1 for name, x in old.items()}, base="slices")
    view, state = {"v": choose_slice(lambda *_: slice(0, 60), "v", old["v"].dtype, (60,))}, {"v": old["v"]}
    limits = replace(DEFAULT_LIMITS, max_expansion=9060 // patch.size)
    with pytest.raises(wc.LimitExceeded, match="max-expansion"):
        prepare_slices(patch, state, view, lambda *_: None, limits)
    limits = replace(limits, max_expansion=limits.max_expansion + 1)
    assert prepare_slices(patch, state, view, lambda *_: None, limits).patch.writes
