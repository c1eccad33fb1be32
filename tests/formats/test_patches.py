"""Patches of weights: the library and the reference reader apply them alike (formats/spec/patch.md)."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import wirecodec as wc
from formats.reference import WireError, decode, patch, reseal
from formats.zstd import find_decompressor
from tests.fuzz.mutate import mutate_container
from wirecodec.arrays import UNSIGNED
from wirecodec.element_types import element_dtype_named, number_of
from wirecodec.limits import DecodeLimits
from wirecodec.patch.prepared import prepare

State = dict[str, np.ndarray[Any, Any]]
Verdict = tuple[str, Any]
ZSTD = find_decompressor()
pytestmark = pytest.mark.skipif(ZSTD is None, reason="needs a Zstandard decompressor")

FLOATS = ("float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2")
INTEGERS = tuple(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))
TYPES = (*FLOATS, *INTEGERS, "bool", "complex64", "complex128")


def dtype_named(name: str) -> np.dtype[Any]:
    return np.dtype(getattr(ml_dtypes, name, None) or name)


def plain(state: Mapping[str, np.ndarray[Any, Any]]) -> dict[str, patch.StateTensor]:
    """Return a state as the reference reader takes it."""
    return {
        name: (number_of(element_dtype_named(x.dtype)), x.shape, x.tobytes()) for name, x in state.items()
    }


def weights(rng: np.random.Generator, name: str, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Return weights of a normal distribution; integers and complex numbers are their bits."""
    dtype = dtype_named(name)
    if name in FLOATS:
        return np.asarray(rng.normal(0, 0.02, shape)).astype(dtype)
    if name == "bool":
        return np.asarray(rng.integers(0, 2, shape)).astype(bool)
    if name in INTEGERS:
        return np.asarray(rng.integers(0, 100, shape)).astype(dtype)
    return np.asarray(rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(dtype)


def change(
    rng: np.random.Generator, x: np.ndarray[Any, Any], share: float, wide: float = 0.1
) -> np.ndarray[Any, Any]:
    """Change some elements, most of them by one unit in the last place."""
    new = x.copy()
    if x.dtype == bool:
        return new ^ (rng.random(x.shape) < share)
    if x.dtype.kind == "c":
        return new + (rng.random(x.shape) < share)
    words = new.reshape(-1).view(UNSIGNED[x.dtype.itemsize])
    chosen = np.flatnonzero(rng.random(words.size) < share)
    steps = rng.choice([1, -1], chosen.size).astype(np.int64)
    far = rng.random(chosen.size) < wide
    steps[far] = rng.integers(-(2**62), 2**62, int(far.sum())) >> rng.integers(0, 62, int(far.sum()))
    words[chosen] += steps.view(np.uint64).astype(words.dtype)
    return new


def states(seed: int) -> tuple[State, State]:
    """Return two states of all types, with tensors that are new, gone, reshaped and of another type."""
    rng = np.random.default_rng(seed)
    old: State = {}
    new: State = {}
    for name in TYPES:
        for number, size in enumerate(rng.choice([0, 1, 7, 64, 300, 2500], 2)):
            shape = (int(size),) if number or size % 4 else (4, int(size) // 4)
            old[f"{name}.{number}"] = weights(rng, name, shape)
            share = float(rng.choice([0.01, 0.1, 0.6, 1]))
            new[f"{name}.{number}"] = change(rng, old[f"{name}.{number}"], share)
    old["scalar"] = weights(rng, "bfloat16", ())
    new["scalar"] = -old["scalar"]
    old["zeros"] = np.zeros(50, "f4")
    new["zeros"] = np.where(np.arange(50) % 3 == 0, np.float32(-0.0), old["zeros"])
    old["equal"] = new["equal"] = weights(rng, "float32", (20,))
    old["gone"] = weights(rng, "float16", (9,))
    new["new"] = weights(rng, "float64", (3, 2))
    old["reshaped"], new["reshaped"] = old["equal"].copy(), old["equal"].reshape(4, 5).copy()
    old["retyped"], new["retyped"] = np.zeros(5, "i4"), np.zeros(5, "f4")
    return old, new


def by_library(blob: bytes, state: State, *, partial: bool = False) -> Verdict:
    copy = {name: x.copy() for name, x in state.items()}
    try:
        prepared = prepare(np.frombuffer(blob, np.uint8), copy, DecodeLimits(), partial_state=partial)
    except WireErrors as error:
        return type(error).__name__, error.code
    prepared.commit(copy)
    return "ok", plain(copy)


WireErrors = wc.WireError


def by_reference(blob: bytes, state: State, *, partial: bool = False) -> Verdict:
    try:
        return "ok", patch.apply(blob, plain(state), partial=partial, zstd=ZSTD)
    except WireError as error:
        return error.kind, error.code


@pytest.mark.parametrize("base", ["read", "unread"])
@pytest.mark.parametrize("seed", range(4))
def test_both_readers_make_the_target(seed: int, base: str) -> None:
    old, new = states(seed)
    blob = wc.diff(old, new, base=base).tobytes()
    for state in (old, new):
        assert by_library(blob, state) == by_reference(blob, state) == ("ok", plain(new))
    part = {name: old[name] for name in list(old)[::2] if name != "gone"}
    assert by_library(blob, part, partial=True) == by_reference(blob, part, partial=True)
    assert by_library(blob, part) == by_reference(blob, part)
    wrong = {**old, "bfloat16.1": old["bfloat16.1"][:0]}
    assert by_library(blob, wrong) == by_reference(blob, wrong)
    with pytest.raises(WireError) as caught:
        decode(blob, zstd=ZSTD)
    assert caught.value.kind == "Unsupported"


@pytest.mark.parametrize("name", FLOATS[:3])
@pytest.mark.parametrize("share", [0.02, 0.7])
def test_lanes(name: str, share: float) -> None:
    """Long entries have several lanes, of positions and of steps."""
    rng = np.random.default_rng(1)
    old = {"w": weights(rng, name, (40, 4500) if share < 0.1 else (4500,))}
    new = {"w": change(rng, old["w"], share, wide=0.01)}
    blob = wc.diff(old, new).tobytes()
    assert by_library(blob, old) == by_reference(blob, old) == ("ok", plain(new))


def test_dense_changes_of_tensors_that_share_an_entry() -> None:
    """The smallest coding of all elements may be that of a whole tensor, which a fused entry is not."""
    rng = np.random.default_rng(2)
    old = {name: weights(rng, "float32", (300,)) for name in "ab"}
    new = {name: np.full(300, 7, "f4") for name in "ab"}
    for seed in ("read", "unread"):
        blob = wc.diff(old, new, base=seed).tobytes()
        assert by_library(blob, old) == by_reference(blob, old) == ("ok", plain(new))


def small() -> list[tuple[State, bytes]]:
    """Return some bases, and a patch of each."""
    rng = np.random.default_rng(3)
    found = []
    for name, size, share in (
        ("bfloat16", 700, 0.1),
        ("float32", 400, 0.05),
        ("float64", 60, 0.5),
        ("uint8", 90, 0.3),
        ("bool", 60, 0.5),
        ("float16", 6000, 0.5),
    ):
        old = {"a": weights(rng, name, (size,)), "b": weights(rng, name, (5,)), "c": np.ones(3, "f4")}
        new = {"a": change(rng, old["a"], share), "b": change(rng, old["b"], 1.0), "d": np.zeros(2, "c8")}
        for base in ("read", "unread"):
            found.append((old, wc.diff(old, new, base=base).tobytes()))
    return found


@pytest.mark.parametrize("number", range(12))
def test_mutants_have_the_same_verdict(number: int) -> None:
    rng = random.Random(number)
    patches = small()
    old, blob = patches[number]
    others = [other for _, other in patches]
    seen = set()
    for _ in range(150):
        mutant = mutate_container(blob, others, rng)
        if rng.random() < 0.5:
            damaged = bytearray(blob)
            for _ in range(rng.choice((1, 1, 2))):
                damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
            mutant = reseal(bytes(damaged))
        one, other = by_library(mutant, old), by_reference(mutant, old)
        assert one == other, mutant.hex()
        seen.add(one[:1] if one[0] == "ok" else one)
    assert len(seen) > 8
