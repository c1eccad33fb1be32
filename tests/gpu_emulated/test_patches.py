"""Patches of tensors on a GPU: the bytes and the errors of the host, and few copies."""

from __future__ import annotations

from importlib import import_module
from itertools import pairwise
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import wirecodec as wc
from formats import patches
from formats.zstd import find_decompressor
from tests.fuzz.patches import library
from tests.gpu_emulated.standin import OnGPU, StandInDevice, marked, standin
from tests.inputs import Array
from tests.wirecodec.patch.weights import bits_of, copy, is_equal, make_state, random_pair, train
from wirecodec.element_types import ELEMENT_DTYPES, name_of
from wirecodec.patch import gpu
from wirecodec.patch.apply import digest_state

__all__ = ["standin"]

BF16 = np.dtype(ml_dtypes.bfloat16)
MODES = ("read", "unread")


def place(state: dict[str, Array]) -> dict[str, Any]:
    """Copy a state to the GPU."""
    return {name: marked(x.copy()) for name, x in state.items()}


@pytest.mark.sampled
@pytest.mark.parametrize("base", MODES)
@pytest.mark.parametrize("dtype", ELEMENT_DTYPES, ids=name_of)
@pytest.mark.parametrize(
    ("size", "share"), [(1, 1.0), (7, 0.5), (1000, 0.02), (3001, 0.4), (5000, 1.0), (9, 0.0)]
)
def test_every_type(standin: StandInDevice, dtype: Any, size: int, share: float, base: str) -> None:
    old, new = ({"w": x} for x in random_pair(dtype, (size,), share))
    patch = wc.diff(old, new, base=base)
    assert np.array_equal(wc.diff(place(old), place(new), base=base), patch)
    state = place(old)
    tensor = state["w"]
    wc.apply(patch, state)
    assert is_equal(state, new)
    assert state["w"] is tensor


def train_layers(width: int = 96) -> tuple[dict[str, Array], dict[str, Array]]:
    """Make a state, and that after a step: tensors that share an entry, one of its own, views, and others."""
    old = make_state(layers=2, width=width)
    new = train(old, 3e-6)
    for state in (old, new):
        state["fp32"] = np.linspace(-1, 1, 999, dtype="f4") + (state is new) * (np.arange(999) % 50 == 3)
        state["codes"] = (np.arange(700) % 251).astype(np.int8) + np.int8(state is new)
        state["flag"] = np.arange(9) % 2 == (state is new)
        state["phase"] = np.full(3, 1j * (state is new), "c8")
    old["gone"], new["new"] = np.ones(4, BF16), np.ones((2, 2), "f8")
    old["shape"], new["shape"] = np.ones(4, "f4"), np.ones(6, "f4")
    return old, new


@pytest.mark.parametrize("base", MODES)
def test_states(standin: StandInDevice, base: str) -> None:
    old, new = train_layers()
    patch = wc.diff(old, new, base=base)
    on_gpu = place(old), place(new)
    assert np.array_equal(wc.diff(*on_gpu, base=base), patch)
    assert np.array_equal(wc.diff(old, on_gpu[1], base=base), patch)
    assert np.array_equal(wc.diff(on_gpu[0], new, base=base), patch)
    assert digest_state(on_gpu[0]) == digest_state(old)
    for mixed in (False, True):
        state = place(old)
        if mixed:
            state |= {name: old[name].copy() for name in list(old)[1::2]}
        for _ in range(2):
            assert is_equal(wc.apply(patch, state), new)


def test_layouts(standin: StandInDevice) -> None:
    """Tensors that begin anywhere, and that are not contiguous."""
    rng = np.random.default_rng(0)
    whole = rng.integers(0, 2**16, 4000).astype(np.uint16)
    after = whole + (rng.random(4000) < 0.05)
    views: list[Any] = [np.s_[1:], np.s_[3:1999], np.s_[::2], np.s_[7::-1]]
    for view in views:
        old, new = ({"w": x.astype(np.uint16)[view]} for x in (whole, after))
        patch = wc.diff(old, new)
        there = [{"w": marked(x.astype(np.uint16))[view]} for x in (whole, after)]
        assert np.array_equal(wc.diff(*there), patch)
        wc.apply(patch, there[0])
        assert is_equal(there[0], new)


def test_several_lanes_and_chunks(standin: StandInDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    old = {"w": np.random.default_rng(0).normal(0, 0.02, 150_000).astype(BF16)}
    new = train(old, 2e-5)
    patch = wc.diff(old, new)
    assert np.array_equal(wc.diff(place(old), place(new)), patch)
    assert is_equal(wc.apply(patch, place(old)), new)
    module = import_module("wirecodec.patch.diff")  # the name is that of its function
    monkeypatch.setattr(module, "CHUNK", 2**16)  # which no reader accepts
    monkeypatch.setattr(module, "SHARED", 2**12)
    assert np.array_equal(wc.diff(place(old), place(new)), wc.diff(old, new))


def test_patches_in_sequence(standin: StandInDevice) -> None:
    states = [make_state(layers=1, width=64)]
    for seed in range(2):
        states.append(train(states[-1], 1e-5, seed=seed))
    parts = [wc.diff(*pair) for pair in pairwise(states)]
    assert np.array_equal(wc.merge(parts, place(states[0])), wc.merge(parts, states[0]))
    for chain in (wc.merge(parts), wc.merge(parts, states[0])):
        state = place(states[0])
        memory = dict(state)
        assert is_equal(wc.apply(chain, state), states[-1])
        assert all(state[name] is x for name, x in memory.items())


def test_an_exception_in_a_commit_leaves_the_old_state(
    standin: StandInDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = make_state(layers=1, width=48) | {"strided": np.arange(40, dtype="f4")[::2]}
    new = train({k: v for k, v in old.items() if v.dtype == BF16}, 1e-4)
    new |= {"strided": old["strided"] + (np.arange(20) % 3 == 0)}
    patch, scatter, calls = wc.diff(old, new), gpu.GpuForms.scatter, 0

    def fail(self: Any, *given: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == fails_at:
            raise MemoryError
        scatter(self, *given)

    monkeypatch.setattr(gpu.GpuForms, "scatter", fail)
    fails_at, failed = 1, 0
    while True:
        calls, state = 0, place(old)
        try:
            wc.apply(patch, state)
        except MemoryError:
            failed += 1
            assert is_equal(state, old)
        else:
            break
        fails_at += 1
    assert failed >= 4
    assert is_equal(state, new)


def test_only_changed_elements_are_copied(standin: StandInDevice) -> None:
    """To the host come positions, sums of weights, weights, and the old and new elements, beside counts."""
    old = {"w": np.random.default_rng(0).normal(0, 0.02, 200_000).astype(BF16)}
    new = train(old, 1e-6)
    changed = int(np.count_nonzero(old["w"].view("u2") != new["w"].view("u2")))
    assert 1000 < changed < 5000
    copies = standin.fetched, standin.sent

    def count() -> list[int]:
        sums = [sum(listed) for listed in copies]
        for listed in copies:
            listed.clear()
        return sums

    there, state = (place(old), place(new)), place(old)
    patch = wc.diff(*there)
    fetched, sent = count()
    assert (4 + 8 + 4 + 2 + 2) * changed < fetched < 20 * changed + 1200
    assert 4 * changed < sent < 4 * changed + 300
    wc.apply(patch, state)
    fetched, sent = count()
    assert (4 + 2 + 2) * changed < fetched < 8 * changed + 100  # the undone elements, too
    assert sent < 18 * changed + 10 * patch.size
    assert is_equal(state, new)
    wc.apply(patch, state)  # which is the target already
    wc.diff(there[0], there[0])
    digest_state(there[0])
    assert count() == [8 + 24 + 8, 0]


def test_without_cupy_the_host_reads_a_copy(standin: StandInDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "_has_cupy", lambda: False)
    old, new = make_state(layers=1, width=32), train(make_state(layers=1, width=32), 1e-4)
    patch = wc.diff(place(old), place(new))
    assert np.array_equal(patch, wc.diff(old, new))
    assert is_equal(wc.apply(patch, place(old)), new)
    assert standin.launched == []


@pytest.mark.skipif(find_decompressor() is None, reason="needs a Zstandard decompressor")
def test_golden_vectors(standin: StandInDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every patch is applied, or refused with the code of the page, and then nothing has changed."""
    apply = wc.apply
    counted = 0

    def apply_there(blob: Any, state: dict[str, Any], **options: Any) -> Any:
        nonlocal counted
        counted += 1
        there = place(state)
        before = copy(there)
        try:
            apply(blob, there, **options)
        except BaseException:
            assert all(np.array_equal(bits_of(there[name]), bits_of(x)) for name, x in before.items())
            raise
        state.clear()
        state |= {name: np.array(x.view(np.ndarray)) for name, x in there.items()}
        return state

    monkeypatch.setattr(wc, "apply", apply_there)
    assert [(f.id, f.message) for f in patches.run_patches(library)] == []
    assert counted > 100
    assert "read_positions_u16" in standin.launched


def test_tensors_stay_on_the_device(standin: StandInDevice) -> None:
    old, new = make_state(layers=1, width=32), train(make_state(layers=1, width=32), 1e-4)
    state = wc.apply(wc.diff(place(old), place(new)), place(old))
    assert all(isinstance(x, OnGPU) for x in state.values())
