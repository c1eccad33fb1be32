"""Tests of a Compressor's steps: commit, rollback, seeds, names, and interrupts."""

from __future__ import annotations

import contextlib
import sys
from typing import Any

import numpy as np
import pytest

import wirecodec as wc
from tests.wirecodec.named_gradients import SCHEMES, gradients
from wirecodec.interop import StepInParts


def test_commit_and_rollback(rng: np.random.Generator) -> None:
    c = wc.Compressor(SCHEMES)
    c.compress(gradients(rng))
    g = gradients(rng)
    before = c.state_dict()
    first = c.prepare(g)
    assert all(np.array_equal(before[k], v) for k, v in c.state_dict().items())
    first.rollback()
    second = c.prepare(g)
    assert np.array_equal(first.blob, second.blob)
    second.commit()
    assert c.step == 2
    assert not np.array_equal(before["residual/fc.weight"], c.state_dict()["residual/fc.weight"])
    for settled in (first, second):
        with pytest.raises(RuntimeError):
            settled.commit()
    rolled_back, late = c.prepare(g), c.prepare(g)
    rolled_back.rollback()
    with pytest.raises(RuntimeError):
        rolled_back.commit()
    c.compress(g)
    with pytest.raises(RuntimeError):
        late.commit()
    sent = wc.decode_many(second.blob)
    assert all(np.array_equal(sent[n].to_dense(), second.sent[n].to_dense()) for n in g)


def test_a_failed_step_changes_nothing(rng: np.random.Generator) -> None:
    c = wc.Compressor(SCHEMES)
    c.compress(gradients(rng))
    before = c.state_dict()
    broken = gradients(rng)
    broken["fc.weight"][3, 4] = np.nan
    with pytest.raises(wc.EncodeError) as caught:
        c.compress(broken)
    assert (caught.value.tensor, caught.value.position) == ("fc.weight", 94)
    with pytest.raises(wc.EncodeError, match=r"tensor 'fc.weight': .* its residual has 600"):
        c.compress({"fc.weight": np.ones(5, np.float32)})
    assert before.keys() == c.state_dict().keys()
    assert all(np.array_equal(before[k], v) for k, v in c.state_dict().items())


def test_step_and_rank_change_the_draws(rng: np.random.Generator) -> None:
    g = {"w": rng.normal(size=1000).astype(np.float32)}
    blobs = {
        wc.Compressor("all | raw-index | qsgd", feedback=None, seed=seed).prepare(g, rank=rank).blob.tobytes()
        for seed in (0, 1)
        for rank in (0, 1)
    }
    c = wc.Compressor("all | raw-index | qsgd", feedback=None)
    c.compress(g)
    blobs.add(c.compress(g).tobytes())
    assert len(blobs) == 5


def test_names_and_fusing_pass_through(rng: np.random.Generator) -> None:
    g = gradients(rng)
    small = wc.Compressor(SCHEMES, names=False, fuse=100).compress(g)
    assert small.size < wc.Compressor(SCHEMES).compress(g).size
    schema = {n: (np.shape(x), np.float32) for n, x in g.items()}
    assert wc.decode_many(small, schema=schema).keys() == g.keys()


def test_seeds_are_any_integers() -> None:
    x = np.linspace(-1, 1, 100, dtype=np.float32)
    blobs = {
        wc.encode(x, "all | rice | qsgd", seed=s).tobytes() for s in (5, np.int64(5), np.uint64(5), 2**64 + 5)
    }
    assert len(blobs) == 1
    c = wc.Compressor("all | rice | qsgd", seed=-1)
    fresh = wc.Compressor("all | rice | qsgd")
    fresh.load_state_dict(c.state_dict())
    assert np.array_equal(c.compress({"w": x}), fresh.compress({"w": x}, rank=np.int32(0)))
    for wrong in (1.5, "1", None, True):
        with pytest.raises(wc.EncodeError, match="seed is"):
            wc.encode(x, seed=wrong)
        with pytest.raises(wc.EncodeError, match="seed is"):
            wc.Compressor(seed=wrong)


def test_sparse_gradients_are_accepted() -> None:
    sparse = wc.SparseTensor([1, 3], np.array([2.0, -1.0], np.float32), (5,))
    c, d = (wc.Compressor("topk(k=1) | rice | raw") for _ in range(2))
    assert np.array_equal(c.compress({"w": sparse}), d.compress({"w": sparse.to_dense()}))


def test_what_is_printed() -> None:
    c = wc.Compressor({"b": "all | raw-index | raw", "*": "topk(0.1) | rice | raw"})
    assert repr(c) == "Compressor({'b': 'all | raw-index | raw', '*': 'topk(0.1) | rice | raw'}, step=0)"
    step = c.prepare({"w": np.ones(20, np.float32)})
    assert repr(step) == f"Prepared({step.blob.nbytes} bytes, 1 tensors, open)"
    step.commit()
    assert repr(step).endswith("closed)")
    assert repr(c).endswith("step=1)")
    assert repr(wc.Compressor("topk(0.1) | rice | raw")) == "Compressor('topk(0.1) | rice | raw', step=0)"


class Interrupt(BaseException):
    """Exception that is raised between two lines, as by a signal handler."""


def interrupt_at(line: int, call: Any) -> bool:
    """Interrupt a method of Prepared before its ``line``-th traced line; return whether it was reached."""
    left = [line]

    def trace(frame: Any, event: str, _: Any) -> Any:
        if frame.f_code.co_filename.endswith(("holder.py", "memory.py", "state.py")) and event == "line":
            left[0] -= 1
            if left[0] == 0:
                raise Interrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    except Interrupt:
        return True
    finally:
        sys.settrace(before)
    return False


@pytest.mark.parametrize("second", ["rollback", "commit"])
@pytest.mark.parametrize("first", ["commit", "rollback"])
def test_an_interrupt_at_any_line_loses_no_mass(first: str, second: str) -> None:
    """The step is complete or has no effect, and later calls cannot overwrite the live residual."""
    rng = np.random.default_rng(6)
    for line in range(1, 40):
        c = wc.Compressor("topk(0.1) | rice | raw")
        given, got = np.zeros(500), np.zeros(500)

        def take(end: str, c: Any = c, given: Any = given, got: Any = got, line: int = line) -> bool:
            g = rng.normal(size=500).astype(np.float32)
            prepared = c.prepare({"w": g})
            step = c.step
            raised = False
            if end == "interrupt":
                raised = interrupt_at(line, getattr(prepared, first))
                with contextlib.suppress(RuntimeError):
                    getattr(prepared, second)()
            else:
                getattr(prepared, end)()
            if c.step > step:
                given += g
                got += prepared.sent["w"].to_dense()
            return raised

        take("commit")
        take("commit")
        raised = take("interrupt")
        for end in ("rollback", "rollback", "commit", "rollback", "commit"):
            take(end)
            assert np.allclose(given, got + c.residual("w"), atol=1e-4), line
        if not raised:
            break
    assert not raised
    assert line > 4


@pytest.mark.parametrize(
    "feedback", [wc.ErrorFeedback(), wc.ErrorFeedback(decay=0.9), wc.MomentumCorrection(0.5)]
)
def test_numbers_of_the_last_step_are_those_of_its_arrays(feedback: Any) -> None:
    compressor = wc.Compressor(
        "topk(0.1) | rice | qsgd(bits=4)", feedback=feedback, schedule=wc.WarmUp(steps=4, start=0.5)
    )
    assert wc.Compressor().last is None
    rng = np.random.default_rng(0)
    for step in range(1, 4):
        gradients = {name: rng.laplace(size=size).astype(np.float32) for name, size in (("a", 90), ("b", 10))}
        prepared = compressor.prepare(gradients)
        sent = np.concatenate([prepared.sent[name].to_dense() for name in "ab"])
        before = compressor.last
        assert before is None or before["step"] == step - 1  # of the last step, while the next is open
        prepared.commit()
    rest = np.concatenate([compressor.residual(name) for name in "ab"]).astype(np.float64)
    last = compressor.last
    assert last == pytest.approx(
        {
            "step": 3,
            "bytes": prepared.blob.nbytes,
            "bits": 8 * prepared.blob.nbytes / 100,
            "kept": sum(prepared.sent[name].nnz for name in "ab") / 100,
            "error": np.linalg.norm(rest) / np.linalg.norm(rest + sent),
            "residual": np.linalg.norm(rest),
            "warm_up": 0.75,
        }
    )
    compressor.load_state_dict(compressor.state_dict())
    assert compressor.last is None


def test_numbers_that_are_not_known_are_left_out() -> None:
    gradient = {"w": np.arange(1, 9, dtype=np.float32)}
    for arguments in ({"feedback": None}, {"feedback": wc.ErrorFeedback(beta=0.5)}, {"names": False}):
        compressor = wc.Compressor("topk(0.25) | rice | raw", **arguments)
        compressor.compress(gradient)
        last = compressor.last
        assert last is not None
        assert (last["kept"], "error" in last) == (0.25, False)


def test_numbers_of_a_step_in_parts_are_those_of_all_parts() -> None:
    compressor = wc.Compressor("topk(0.5) | rice | raw")
    for step in range(1, 3):
        parts = StepInParts(compressor)
        blobs = [
            parts.next_part().compress({name: np.arange(1, 1 + size, dtype=np.float32)})
            for name, size in (("a", 8), ("b", 4))
        ]
        parts.commit()
        last = compressor.last
        assert last is not None
        assert (last["step"], last["bytes"], last["kept"]) == (step, sum(map(len, blobs)), 0.5)
