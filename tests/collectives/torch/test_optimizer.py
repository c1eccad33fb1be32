"""Tests of the check of an optimizer's momentum against a compressor's feedback."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import collectives as co
import wirecodec as wc


def torch_like(**group: Any) -> Any:
    """Return an object with parameter groups, as torch's optimizers have."""
    return SimpleNamespace(param_groups=[{"lr": 0.1}, {"lr": 0.1, **group}], step=lambda: None)


MOVING = [
    torch_like(momentum=0.9),
    torch_like(betas=(0.9, 0.999)),
    SimpleNamespace(momentum=0.9),
    SimpleNamespace(beta_1=np.float32(0.9)),
]
RESTING = [
    torch_like(momentum=0.0),
    torch_like(betas=(0.0, 0.99)),
    SimpleNamespace(beta_1=None),
    SimpleNamespace(beta_1=0.0),
    object(),
]
CORRECTED = wc.Compressor("topk(0.1) | rice | raw", feedback={"b*": None, "*": wc.MomentumCorrection(0.8)})
LOW: list[Any] = [
    wc.Compressor({"b*": "all | raw-index | raw", "*": "topk(0.001) | rice | raw"}),
    wc.Compressor("budget(bits=0.05) | rice | error-bounded"),
    co.CLTk({"b*": 1, "*": 0.001}),
]
FITTING: list[Any] = [
    wc.Compressor("topk(0.05) | rice | raw"),
    wc.Compressor("topk(0.001) | rice | raw", feedback=None),
    wc.Compressor("budget(bits=1) | rice | error-bounded"),
    wc.Compressor("topk(k=3) | rice | raw", feedback=wc.MomentumCorrection(0.0)),
    co.CLTk(0.05),
]


@pytest.mark.parametrize("optimizer", MOVING)
def test_momentum_that_counts_twice_has_a_warning(optimizer: Any) -> None:
    with pytest.warns(
        UserWarning, match=r"momentum 0\.9, and wc\.MomentumCorrection\(0\.8\).*twice: use"
    ) as seen:
        assert not co.check_optimizer(optimizer, CORRECTED)
    assert seen[0].filename == __file__
    for compressor in LOW:
        with pytest.warns(UserWarning, match=r"are sent with error feedback.*use less momentum"):
            assert not co.check_optimizer(optimizer, compressor)
    with pytest.warns(UserWarning, match="0.25 bits per element are sent with error feedback"):
        assert not co.check_optimizer(optimizer, wc.Compressor("budget(0.25) | rice | error-bounded"))
    assert all(co.check_optimizer(optimizer, compressor) for compressor in FITTING)


def test_half_the_momentum_suits_a_low_density_and_none_a_lower_one() -> None:
    half = torch_like(betas=(0.5, 0.99))
    assert co.check_optimizer(half, wc.Compressor("budget(0.25) | rice | error-bounded"))
    with pytest.warns(UserWarning, match="use less momentum"):
        assert not co.check_optimizer(half, LOW[0])


@pytest.mark.parametrize("optimizer", RESTING)
def test_no_momentum_has_no_warning(optimizer: Any) -> None:
    assert all(co.check_optimizer(optimizer, compressor) for compressor in (CORRECTED, *LOW, *FITTING))


def test_local_updates_check_their_own_momentum() -> None:
    """That of the inner optimizer comes before the exchange."""

    def build(comm: Any, momentum: float) -> None:
        w = {"w": np.zeros(3, np.float32)}
        co.LocalUpdates(torch_like(momentum=0.9), w, CORRECTED, comm, every=2, momentum=momentum)

    co.simulate(1, lambda comm: build(comm, 0.0))
    with pytest.warns(UserWarning, match="LocalUpdates has momentum 0.5, and wc.MomentumCorrection"):
        co.simulate(1, lambda comm: build(comm, 0.5))


def test_averaging_checks_the_optimizer_that_it_gets() -> None:
    torch = pytest.importorskip("torch")
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(1, 3)).sum().backward()

    def average(comm: Any) -> None:
        co.average_gradients(comm, model.named_parameters(), wc.Compressor(), optimizer=optimizer)
        with pytest.warns(UserWarning, match="counts twice"):
            co.average_gradients(
                comm,
                model.named_parameters(),
                wc.Compressor(feedback=wc.MomentumCorrection()),
                optimizer=optimizer,
            )

    co.simulate(1, average)
