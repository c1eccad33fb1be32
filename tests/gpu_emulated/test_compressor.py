"""A Compressor on the device: several tensors, commit and rollback, saved states, and errors."""

from __future__ import annotations

import copy
import io
from typing import Any

import numpy as np
import pytest

import wirecodec as wc
from tests.gpu_emulated.compressor_pair import SIZE, assert_same_state, make_pair, same_bits, step_both
from tests.gpu_emulated.standin import StandInDevice, marked, standin
from tests.inputs import Array
from wirecodec.arrays import bits_of

__all__ = ["standin"]


def test_several_tensors_and_schemes(standin: StandInDevice) -> None:
    rng = np.random.default_rng(5)
    schemes = {
        "*.bias": "all | raw-index | raw",
        "conv*": "adacomp | rice | sign-scale",
        "*": "topk(0.1) | rice | qsgd",
    }
    variants: list[dict[str, Any]] = [{}, {"fuse": 700}, {"names": False, "fuse": 50}]
    for options in variants:
        there, here = make_pair(schemes, schedule=wc.WarmUp(2, start=0.5), **options)
        for _ in range(4):
            tensors: dict[str, Array] = {
                "fc.weight": rng.standard_normal((40, 50)).astype(np.float32),
                "fc.bias": rng.standard_normal(40).astype(np.float32),
                "conv1": rng.standard_normal(500).astype(np.float32),
                "conv2": rng.standard_normal((3, 200)).astype(np.float32),
                "b": rng.standard_normal(90).astype(np.float64),
                "a": rng.standard_normal(33).astype(np.float64),
                "none": np.empty(0, np.float32),
                "wide": rng.standard_normal((30, 20)).astype(np.float32),
            }
            step_both(there, here, tensors)


def test_a_copy_continues_alike(standin: StandInDevice) -> None:
    rng = np.random.default_rng(16)
    there, here = make_pair("topk(0.02) | rice | raw")
    for _ in range(2):
        step_both(there, here, {"w": rng.standard_normal(SIZE).astype(np.float32)})
    step_both(copy.deepcopy(there), here, {"w": rng.standard_normal(SIZE).astype(np.float32)})


def test_a_value_that_a_codec_cannot_encode(standin: StandInDevice) -> None:
    there, here = make_pair("topk(k=2) | rice | raw(float16)")
    huge = np.array([1, 2, 1e300, 3])
    for compressor, x in ((here, huge), (there, marked(huge.copy()))):
        with pytest.raises(wc.EncodeError, match="tensor 'w', element 2"):
            compressor.prepare({"w": x})
    assert_same_state(there, here)


def test_commit_and_rollback(standin: StandInDevice) -> None:
    rng = np.random.default_rng(11)
    there, here = make_pair("topk(0.02) | rice | qsgd")
    for _ in range(2):
        step_both(there, here, {"w": rng.standard_normal(SIZE).astype(np.float32)})
    lost = rng.standard_normal(SIZE).astype(np.float32)
    first = there.prepare({"w": marked(100 * lost)})
    assert_same_state(there, here)
    first.rollback()
    assert_same_state(there, here)
    with pytest.raises(RuntimeError):
        first.commit()
    step_both(there, here, {"w": lost})


def test_states_move_between_host_and_device(standin: StandInDevice) -> None:
    """Load a state that was saved on the device on the host, and the reverse."""
    rng = np.random.default_rng(12)
    scheme = {"s": "sidco(0.02, mode=faithful, window=2) | rice | raw", "*": "topk(0.02) | rice | qsgd"}
    there, here = make_pair(scheme)
    tensors = [{n: rng.standard_normal(SIZE).astype(np.float32) for n in "sw"} for _ in range(6)]
    for each in tensors[:3]:
        step_both(there, here, each)
    file = io.BytesIO()
    arrays: dict[str, Any] = there.state_dict()
    np.savez(file, **arrays)
    file.seek(0)
    with np.load(file, allow_pickle=False) as saved:
        state = dict(saved)
    for compressor in (there, here):
        compressor.load_state_dict(state)
    step_both(there, here, tensors[3])
    step_both(here, there, tensors[4])  # swap host and device
    step_both(there, here, tensors[5])


def test_tensors_must_be_on_one_device(standin: StandInDevice) -> None:
    there, here = make_pair("topk(0.5) | rice | raw")
    x = np.ones(9, np.float32)
    with pytest.raises(wc.EncodeError, match="tensor 'b': is on the host"):
        there.prepare({"a": marked(x), "b": x})
    with pytest.raises(wc.EncodeError, match="tensor 'a': dtype int64"):
        there.prepare({"a": marked(np.arange(3))})
    step_both(there, here, {"w": x})
    with pytest.raises(wc.EncodeError, match=r"tensor 'w': .* its residual has 9"):
        there.prepare({"w": marked(x[:5])})


def test_bits_are_compared(standin: StandInDevice) -> None:
    assert not same_bits(np.array([0.0]), np.array([-0.0]))
    assert bits_of(np.array([-0.0])).any()
