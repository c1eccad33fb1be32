"""A step in parts has the state of a whole one, and a step of which one part failed leaves no trace."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wirecodec as wc
from tests.oracles import Array
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


def test_parts_draw_their_own_random_numbers() -> None:
    parts = StepInParts(wc.Compressor("randomk(0.1) | raw-index | raw"))
    sent = [parts.next_part().prepare({name: np.ones(1000, "f4")}).sent[name].indices for name in "ab"]
    assert not np.array_equal(*sent)
