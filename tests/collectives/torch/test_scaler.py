"""Loss scales: with ``scaler=``, every setting acts on gradients in their true unit.

Scales are powers of two, so a training with a scaler has the bits of one without, step by step.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import collectives as co
import wirecodec as wc
from collectives.communicator import Communicator
from collectives.torch.scaling import LossScale
from tests.collectives.torch.processes import run
from tests.collectives.torch.wrappers import WRAPPERS

torch = pytest.importorskip("torch")

DENSE = "all | raw-index | raw"

METHODS = """
METHODS = {
    "topk": lambda: wc.Compressor("topk(0.1) | rice | raw"),
    "clip": lambda: wc.Compressor("topk(0.2) | rice | raw", clip=0.5),
    "threshold": lambda: wc.Compressor("threshold(0.01) | rice | raw"),
    "limits of values": lambda: wc.Compressor("topk(0.3) | rice | offset-float(min=-0.5, max=0.5)"),
    "momentum": lambda: wc.Compressor("topk(0.1) | rice | raw", feedback=wc.MomentumCorrection(0.9)),
    "budget": lambda: wc.Compressor("budget(2) | rice | error-bounded", scope="group"),
    "clt-k": lambda: co.CLTk(0.1),
}
"""

TRAINING = (
    METHODS
    + """
STEPS, OVERFLOWS = 9, (2, 5)

def train(make, way, scaled):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(6, 40), torch.nn.Tanh(), torch.nn.Linear(40, 1))
    compressor = make()
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**16, growth_interval=2, enabled=scaled)
    module = model
    if way != "average_gradients":
        model = DDP(model, bucket_cap_mb=0.0005)
        hook = co.torch_hook(
            compressor, comm, module.named_parameters(), scaler=scaler, overlap=way == "overlap" or None
            if compressor_overlaps(compressor) else None,
        )
        model.register_comm_hook(None, hook)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    data = torch.Generator().manual_seed(rank)
    scales = set()
    for step in range(STEPS):
        x = torch.randn(8, 6, generator=data)
        if not scaled and step in OVERFLOWS:
            continue  # the scaler skips it
        optimizer.zero_grad()
        loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
        loss = loss * (float("inf") if scaled and step in OVERFLOWS and rank == 1 else 1.0)
        scaler.scale(loss).backward()
        if way == "average_gradients":
            co.average_gradients(comm, module.named_parameters(), compressor, scaler=scaler)
        scaler.step(optimizer)
        scaler.update()
        scales.add(scaler.get_scale())
    assert not scaled or len(scales) > 1
    assert compressor.step == STEPS - len(OVERFLOWS), (compressor, way, scaled)
    state = compressor.state_dict()
    kept = [state[key].tobytes().hex() for key in sorted(state) if "/" in key]
    return ["".join(p.detach().numpy().tobytes().hex() for p in module.parameters()), kept]

def compressor_overlaps(compressor):
    return getattr(compressor, "clip", None) is None

results = {
    f"{name}, {way}": [train(make, way, True), train(make, way, False)]
    for name, make in METHODS.items()
    for way in ("overlap", "whole", "average_gradients")
}
print(json.dumps(results))
"""
)


def test_a_training_with_a_scaler_has_the_bits_of_one_without() -> None:
    """Steps with an overflow on one rank are skipped, and the scale grows and shrinks in between."""
    one, other = run(2, TRAINING)
    assert [name for name, (scaled, plain) in one.items() if scaled != plain] == []
    assert [name for name in one if one[name][0][0] != other[name][0][0]] == []


def make_scaler(scale: float = 4.0) -> Any:
    scaler = torch.amp.GradScaler("cpu", init_scale=scale)
    scaler.scale(torch.zeros(()))  # it makes its state
    return scaler


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("scale", [2.0**16, 1000.0])
@pytest.mark.parametrize("method", ["topk(0.25) | rice | raw", "clt-k"])
def test_nothing_is_lost_in_any_type(method: str, scale: float, kind: Any) -> None:
    """True gradients of float16 would underflow; all that came in is delivered or kept."""

    def train(comm: Communicator) -> tuple[Any, Any, Any]:
        compressor = co.CLTk(0.25) if method == "clt-k" else wc.Compressor(method)
        scaler, p = make_scaler(scale), torch.nn.Parameter(torch.zeros(64, dtype=kind))
        came_in, delivered = np.zeros(64), np.zeros(64)
        for step in range(6):
            draw = torch.Generator().manual_seed(10 * step + comm.rank)
            p.grad = (torch.rand(64, generator=draw) * 2e-4 * scale).to(kind)
            came_in += p.grad.double().numpy() / scale
            co.average_gradients(comm, {"p": p}.items(), compressor, scaler=scaler)
            assert p.grad is not None
            assert p.grad.dtype is kind
            delivered += 2 * p.grad.double().numpy() / scale
        kept = compressor.residual("p")
        assert kept is not None
        return came_in, delivered, kept.astype("f8")

    (in_0, out, kept_0), (in_1, _, kept_1) = co.simulate(2, train)
    digits = float(torch.finfo(kind).eps)
    np.testing.assert_allclose(out + kept_0 + kept_1, in_0 + in_1, rtol=4 * digits, atol=1e-12)


def test_a_mean_that_the_scale_makes_infinite_is_not_committed() -> None:
    """The residual makes it larger than any gradient. All ranks keep it until the scaler lowers its scale."""

    def train(comm: Communicator) -> tuple[list[float], int, float]:
        compressor = wc.Compressor("topk(k=1) | rice | raw")
        scaler, p = make_scaler(1024.0), torch.nn.Parameter(torch.zeros(4, dtype=torch.float16))
        means = []
        for step in range(4):
            if step == 3:
                scaler.update(512.0)
            p.grad = torch.tensor([40000.0, 60000.0, 0.0, 0.0]).half() * (0.5 if step == 3 else 1)
            co.average_gradients(comm, {"p": p}.items(), compressor, scaler=scaler)
            assert p.grad is not None
            means.append(float(p.grad.max()))
        kept = compressor.residual("p")
        assert kept is not None
        return means, compressor.step, float(kept.sum())

    results = co.simulate(2, train)
    assert repr(results[0]) == repr(results[1])
    means, step, kept = results[0]
    assert repr(means) == "[60000.0, nan, nan, 40000.0]"
    assert (step, kept) == (2, 60000 / 1024)


def test_scales_that_differ_are_an_error_on_all_ranks() -> None:
    def train(comm: Communicator) -> str:
        p = torch.nn.Parameter(torch.zeros(4))
        p.grad = torch.ones(4)
        with pytest.raises(
            co.CollectiveError, match=r"rank 1: .*loss scale 8.0, but rank 0: .*loss scale 4.0"
        ):
            co.average_gradients(
                comm,
                {"p": p}.items(),
                wc.Compressor("all | raw-index | raw"),
                scaler=make_scaler(4.0 + 4 * comm.rank),
            )
        return "raised"

    assert co.simulate(2, train) == ["raised"] * 2


@pytest.mark.parametrize("wrapper", [None, lambda inner: inner, *WRAPPERS])
def test_unscaled_gradients_are_refused(wrapper: Any) -> None:
    """``unscale_`` looks for Inf in this rank's gradients only, so it comes after the average.

    Frameworks give the scaler the optimizer inside of their wrapper.
    """
    p, other = torch.nn.Parameter(torch.ones(4)), torch.nn.Parameter(torch.ones(4))
    p.grad, other.grad = torch.ones(4), torch.ones(4)
    scaler, inner, second = make_scaler(), torch.optim.SGD([p], lr=1.0), torch.optim.SGD([other], lr=1.0)
    optimizer = None if wrapper is None else wrapper(inner)

    def average(comm: Communicator) -> None:
        co.average_gradients(comm, {"p": p}.items(), wc.Compressor(DENSE), scaler=scaler, optimizer=optimizer)

    if wrapper is not None:
        scaler.unscale_(second)  # has other gradients
        co.simulate(1, average)
    scaler.unscale_(inner)
    with pytest.raises(co.CollectiveError, match="average them first"):
        co.simulate(1, average)


def test_without_the_scaler_a_changed_scale_is_warned_of_once() -> None:
    p = torch.nn.Parameter(torch.zeros(4))
    scaler, compressor = make_scaler(), wc.Compressor("topk(0.25) | rice | raw")

    def average(comm: Communicator) -> None:
        for step in range(4):
            p.grad = torch.ones(4)
            if step == 2:
                with pytest.warns(UserWarning, match="from 4 to 2, .*pass scaler="):
                    co.average_gradients(comm, {"p": p}.items(), compressor)
            else:
                co.average_gradients(comm, {"p": p}.items(), compressor)
            if step:
                scaler.update(2.0 / step)

    co.simulate(1, average)


def test_wrong_arguments() -> None:
    p = torch.nn.Parameter(torch.zeros(4))
    with pytest.raises(TypeError, match="pass the torch"):
        co.simulate(
            1, lambda comm: co.average_gradients(comm, {"p": p}.items(), wc.Compressor(), scaler=65536.0)
        )
    assert LossScale.of(torch.amp.GradScaler("cpu", enabled=False)) == LossScale()
