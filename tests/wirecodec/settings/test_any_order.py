"""Nothing is lost, per scheme and feedback, over prepare, rollback and commit in any order."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
import pytest

import wirecodec as wc
from tests.inputs import Array

SIZES = {"a": (30, 40), "b": (301,), "c": (5000,), "d": (64,)}
RULES = [
    wc.ErrorFeedback(),
    wc.ErrorFeedback(beta=0.5, decay=0.9),
    wc.MomentumCorrection(),
    wc.MomentumCorrection(0.5, nesterov=True, masking=False),
]
SCHEMES = [
    "topk(0.05) | rice | raw",
    "topk(0.05) | rice | qsgd(bits=4)",
    "topk(0.05) | bloom(p0, 0.1) | raw",
    "adacomp | rice | sign-scale",
    "all | raw-index | terngrad",
    "budget(bits=8) | rice | error-bounded",
]

State = dict[str, tuple[Array, Array]]
"""{name: (residual, momentum)}."""


def read(compressor: wc.Compressor) -> State:
    """Return copies of all residuals and momenta; zeros for those that do not exist."""
    state = compressor.state_dict()

    def find(kind: str, name: str) -> Array:
        return state.get(f"{kind}/{name}", np.zeros(np.prod(SIZES[name]), "f4"))

    return {name: (find("residual", name), find("momentum", name)) for name in SIZES}


def check(rule: Any, before: State, after: State, gradients: dict[str, Array], sent: Any) -> None:
    """Compare what is kept with what came in and what was sent."""
    for name, g in gradients.items():
        (v, u), flat, got = before[name], g.reshape(-1), sent[name].to_dense().reshape(-1)
        if isinstance(rule, wc.ErrorFeedback):
            old, beta = rule.decay * v, rule.beta
            kept = (1 - beta) * old + beta * (old + flat - got)
        else:
            u = rule.momentum * u + flat
            kept = v + (rule.momentum * u + flat if rule.nesterov else u) - got
            if rule.masking:
                u = np.where(np.isin(np.arange(u.size), sent[name].indices), 0, u)
            assert np.allclose(after[name][1], u, atol=1e-5)
        assert np.allclose(after[name][0], kept, atol=1e-4), name


@pytest.mark.filterwarnings("ignore:.*Give small tensors")
@pytest.mark.sampled
@pytest.mark.parametrize("scope", ["tensor", "group"])
@pytest.mark.parametrize("rule", RULES, ids=str)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_nothing_is_lost(scheme: str, rule: Any, scope: Any) -> None:
    """Several prepared steps wait at a time; only one of those of the same state can be committed."""
    rng = np.random.default_rng(5)
    c = wc.Compressor(scheme, feedback=rule, scope=scope, seed=3)
    waiting: list[tuple[wc.Prepared, dict[str, Array], bytes, int]] = []
    committed = 0
    for _ in range(40):
        action = rng.integers(3) if waiting else 0
        if action == 0 and len(waiting) < 3:
            g = {name: rng.standard_normal(shape).astype("f4") for name, shape in SIZES.items()}
            prepared = c.prepare(g, rank=int(rng.integers(4)))
            waiting.append((prepared, g, bytes(prepared.blob), c.step))
            continue
        prepared, g, blob, step = waiting.pop(int(rng.integers(len(waiting))))
        before = read(c)
        assert bytes(prepared.blob) == blob
        if action == 1:
            prepared.rollback()
            assert {k: x[0].tobytes() for k, x in read(c).items()} == {
                k: x[0].tobytes() for k, x in before.items()
            }
        elif step == c.step:
            prepared.commit()
            committed += 1
            check(rule, before, read(c), g, wc.decode_many(blob))
        else:
            with pytest.raises(RuntimeError, match="another one was committed"):
                prepared.commit()
            with suppress(RuntimeError):
                prepared.rollback()
    assert committed > 5
