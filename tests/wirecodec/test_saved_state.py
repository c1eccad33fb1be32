"""Tests of a Compressor's saved state: loading, copying, and the states that are rejected."""

from __future__ import annotations

import copy
import io
import pickle
from typing import Any

import numpy as np
import pytest

import wirecodec as wc
from tests.wirecodec.named_gradients import SCHEMES, gradients
from wirecodec.interop import StepInParts


def test_a_loaded_compressor_continues_identically(rng: np.random.Generator) -> None:
    steps = [gradients(rng) for _ in range(6)]
    schedule = wc.WarmUp(4, start=0.5)
    c = wc.Compressor(SCHEMES, schedule=schedule, seed=9)
    for g in steps[:3]:
        c.compress(g)
    file = io.BytesIO()
    np.savez(file, **c.state_dict())
    file.seek(0)
    fresh = wc.Compressor(SCHEMES)
    with np.load(file, allow_pickle=False) as saved:
        fresh.load_state_dict(dict(saved))
    for g in steps[3:]:
        assert np.array_equal(c.compress(g), fresh.compress(g))
    assert fresh.signature == c.signature
    state = c.state_dict()
    state["residual/fc.weight"][:] = 0
    assert c.residual("fc.weight").any()
    for wrong in ({}, {**state, "other": np.zeros(1)}, {"step": np.array(0)}):
        with pytest.raises(ValueError, match="not a state"):
            c.load_state_dict(wrong)


def test_a_bad_state_changes_nothing() -> None:
    c = wc.Compressor("topk(0.5) | rice | raw", seed=3)
    c.compress({"w": np.arange(4, dtype=np.float32)})
    before, text = c.state_dict(), np.frombuffer(b"warm-up(2)", np.uint8)
    for wrong in (
        {"seed": np.array("x")},
        {"residual/w": np.array(["a"])},
        {"residual/w": np.zeros(4, np.complex64)},
    ):
        with pytest.raises(ValueError, match=r"seed|residual"):
            c.load_state_dict({**before, "schedule": text, **wrong})
        assert all(np.array_equal(before[k], v) for k, v in c.state_dict().items())


def pickled(x: Any) -> Any:
    return pickle.loads(pickle.dumps(x))


@pytest.mark.parametrize("meanwhile", ["nothing", "a prepared step", "a step in parts", "a step rolled back"])
@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickled])
def test_a_copy_is_independent(rng: np.random.Generator, duplicate: Any, meanwhile: str) -> None:
    c = wc.Compressor("topk(0.1) | rice | raw", feedback=wc.MomentumCorrection(0.9), seed=3)
    steps = [{name: rng.normal(size=500).astype(np.float32) for name in "vw"} for _ in range(6)]
    for g in steps[:3]:
        c.compress(g)
    prepared, parts = c.prepare(steps[0]), StepInParts(c)
    if meanwhile == "a step in parts":
        parts.next_part().prepare(steps[0]).commit()
    before = c.state_dict()
    copied = duplicate(c)
    if meanwhile == "a prepared step":
        prepared.commit()
    elif meanwhile == "a step in parts":
        parts.commit()
    elif meanwhile == "a step rolled back":
        prepared.rollback()
    for g in steps:
        c.compress(g)
    assert all(np.array_equal(before[key], x) for key, x in copied.state_dict().items())
    after = c.state_dict()
    blobs = [copied.compress(g).tobytes() for g in steps]
    assert all(np.array_equal(after[key], x) for key, x in c.state_dict().items())
    again = wc.Compressor(c.schemes, feedback=c.feedback)
    again.load_state_dict(before)
    assert blobs == [again.compress(g).tobytes() for g in steps]


@pytest.mark.parametrize(
    ("key", "wrong"),
    [
        ("step", np.uint64(2**63)),
        ("step", 10**30),
        ("step", -5),
        ("step", np.ma.masked_array(3, mask=True)),
        ("residual/w", np.array([0, np.nan, 0, 0], np.float32)),
        ("residual/w", np.array([0, 0, 0, -np.inf])),
        ("residual/w", np.ma.masked_array(np.zeros(4, np.float32), mask=True)),
        ("selector/w", np.ma.masked_array(np.zeros(4), mask=True)),
        ("schedule", np.frombuffer(b"warm-up(" + b"-" * 100_000 + b"1)", np.uint8)),
        ("schedule", np.frombuffer(b"warm-up(" + b"-" * 4_000 + b"1)", np.uint8)),
        ("schedule", np.array([255, 254], np.uint8)),
        ("schedule", [-1, 300]),
    ],
)
def test_a_state_that_could_not_be_used_or_saved_is_refused(key: str, wrong: Any) -> None:
    c = wc.Compressor("topk(0.5) | rice | raw", seed=3)
    c.compress({"w": np.arange(4, dtype=np.float32)})
    before = c.state_dict()
    with pytest.raises(ValueError, match=key):
        c.load_state_dict({**before, "seed": np.uint64(9), key: wrong})
    assert all(np.array_equal(before[k], v) for k, v in c.state_dict().items())


def test_the_largest_step_can_be_loaded_used_and_saved() -> None:
    c = wc.Compressor("topk(0.5) | rice | raw")
    c.load_state_dict({**c.state_dict(), "step": np.int64(2**62)})
    c.compress({"w": np.ones(4, np.float32)})
    assert c.state_dict()["step"] == 2**62 + 1


def test_a_state_that_has_lost_arrays_is_refused(rng: np.random.Generator) -> None:
    """Unless it is not strict: then what is there is loaded."""
    old, new = (wc.Compressor("topk(0.1) | rice | raw") for _ in range(2))
    old.compress({"a": rng.standard_normal(50).astype(np.float32), "b": np.ones(9, np.float32)})
    state = old.state_dict()
    del state["residual/a"]
    with pytest.raises(ValueError, match="has 1 of its 2 arrays"):
        new.load_state_dict(state)
    assert new.step == 0
    new.load_state_dict(state, strict=False)
    assert new.residual("a") is None
    assert np.array_equal(new.residual("b"), old.residual("b"))
