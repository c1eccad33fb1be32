"""A step in parts has the state of a whole one, and a step of which one part failed leaves no trace."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any
from unittest import mock

import numpy as np
import pytest

import wirecodec as wc
from tests.oracles import Array
from tests.wirecodec.test_compressor import interrupt_at
from wirecodec.interop import StepInParts

SCHEMES = {"c": "all | raw-index | raw", "*": "topk(0.1) | rice | raw(float16)"}


def state(compressor: wc.Compressor) -> dict[str, bytes]:
    return {key: x.tobytes() for key, x in compressor.state_dict().items()}


def gradients(step: int) -> dict[str, Array]:
    rng = np.random.default_rng(step)
    return {name: rng.normal(size=200).astype("f4") for name in "abcd"}


@pytest.mark.parametrize(
    "feedback", [wc.ErrorFeedback(), wc.ErrorFeedback(0.5, 0.9), wc.MomentumCorrection(0.9)]
)
def test_parts(feedback: Any) -> None:
    whole, divided = (wc.Compressor(SCHEMES, feedback=feedback) for _ in range(2))
    for step in range(8):
        all_gradients = gradients(step)
        for fails in (True, False):
            before = state(divided)
            parts = StepInParts(divided)
            for number, names in enumerate(("bd", "ac")):
                prepared = parts.next_part().prepare({name: all_gradients[name] for name in names})
                assert not parts.is_exchanged
                failed = fails and number == step % 2
                (prepared.rollback if failed else prepared.commit)()
                assert parts.is_exchanged != failed
                if failed:
                    break
            if fails:
                assert state(divided) == before
        parts.commit()
        whole.compress(all_gradients)
        assert divided.step == step + 1
        assert state(divided) == state(whole)
    divided.compress(gradients(9))
    with pytest.raises(RuntimeError, match="another step"):
        parts.commit()


@pytest.mark.parametrize(
    "feedback", [wc.ErrorFeedback(), wc.ErrorFeedback(0.5, 0.9), wc.MomentumCorrection(0.9)]
)
def test_a_part_that_was_encoded_ahead_is_taken_once(feedback: Any) -> None:
    """The second and the third part are encoded before the first one is committed."""
    plain, ahead = (wc.Compressor(SCHEMES, feedback=feedback) for _ in range(2))
    for step in range(8):
        tensors = [{name: gradients(step)[name] for name in names} for names in ("bd", "a", "c")]
        expected, parts = StepInParts(plain), StepInParts(ahead)
        for number, part in enumerate(tensors):
            wanted = expected.next_part().prepare(part, rank=1, ranks=2)
            compressor = parts.next_part()
            taken = mock.patch.object(wc.Compressor, "_encode", side_effect=AssertionError)
            with taken if number else nullcontext():
                prepared = compressor.prepare(part, rank=1, ranks=2)
            if number == 0:
                for later in (1, 2):
                    parts.encode_ahead(later, tensors[later], rank=1, ranks=2, hold_zeros=False)
            assert prepared.blob.tobytes() == wanted.blob.tobytes()
            prepared.commit()
            wanted.commit()
        parts.commit()
        expected.commit()
        assert state(ahead) == state(plain)


def test_a_part_with_other_arguments_is_encoded_again() -> None:
    tensors = {"a": np.ones(500, "f4")}
    parts, plain = (StepInParts(wc.Compressor("randomk(0.1) | raw-index | qsgd")) for _ in range(2))
    for one in (parts, plain):
        one.next_part().prepare({"b": np.ones(9, "f4")}).commit()
    parts.encode_ahead(1, tensors, rank=1, ranks=2, hold_zeros=False)
    found = [one.next_part().prepare(tensors, rank=0, ranks=2).blob.tobytes() for one in (parts, plain)]
    assert found[0] == found[1]


def test_code_of_the_user_is_not_called_ahead() -> None:
    class Mine(wc.selectors.TopK):
        name = "mine"

        def select(self, x: Any, **options: Any) -> Any:
            raise AssertionError

    parts = StepInParts(wc.Compressor(wc.Scheme(Mine(0.1), wc.codecs.Rice(), wc.codecs.Raw())))
    parts.encode_ahead(1, {"a": np.ones(500, "f4")}, rank=0, ranks=2, hold_zeros=False)


def test_parts_draw_their_own_random_numbers() -> None:
    parts = StepInParts(wc.Compressor("randomk(0.1) | raw-index | raw"))
    sent = [parts.next_part().prepare({name: np.ones(1000, "f4")}).sent[name].indices for name in "ab"]
    assert not np.array_equal(*sent)


@pytest.mark.parametrize("tries_again", [True, False])
def test_an_interrupt_of_commit_loses_no_mass(tries_again: bool) -> None:
    rng = np.random.default_rng(6)
    raised, line = True, 0
    while raised:
        line += 1
        c = wc.Compressor("topk(0.1) | rice | raw")
        given, got = np.zeros(500), np.zeros(500)
        for turn in range(8):
            gradient, step, parts = rng.normal(size=500).astype(np.float32), c.step, StepInParts(c)
            prepared = parts.next_part().prepare({"w": gradient})
            prepared.commit()
            if turn == 3:
                raised = interrupt_at(line, parts.commit)
                if tries_again:
                    parts.commit()
            elif turn != 5:
                parts.commit()
            if c.step > step:
                given += gradient
                got += prepared.sent["w"].to_dense()
            assert np.allclose(given, got + (0 if c.step == 0 else c.residual("w")), atol=1e-4), line
    assert line > 4
