"""Classes that were passed in place of instances, as by a program that has left out the brackets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import collectives as co
import wirecodec as wc

SCHEME = "topk(0.5) | rice | raw"
W = {"w": np.zeros(4, np.float32)}

torch = pytest.importorskip("torch")
CLASSES: dict[str, Any] = {
    one.__name__: one for one in (co.CLTk, co.Sites, co.StoreComm, co.TorchComm, wc.Compressor)
}


def average(**settings: Any) -> None:
    parameter = torch.nn.Parameter(torch.ones(3))
    parameter.grad = torch.ones(3)
    co.simulate(
        1, lambda comm: co.average_gradients(comm, [("w", parameter)], wc.Compressor(SCHEME), **settings)
    )


def optimize(optimizer: Any, compressor: Any) -> None:
    co.simulate(1, lambda comm: co.LocalUpdates(optimizer, W, compressor, comm, every=1))


CALLS: dict[str, Callable[[], object]] = {
    "the class SGD; pass": lambda: optimize(torch.optim.SGD, wc.Compressor(SCHEME)),
    "the class Compressor; pass": lambda: optimize(None, wc.Compressor),
    "the class CLTk; pass": lambda: co.simulate(
        1,
        lambda comm: co.average_gradients(comm, [], CLASSES["CLTk"]),
    ),
    "the class GradScaler; pass": lambda: average(scaler=torch.amp.GradScaler),
    "the class Compressor, which has no state": lambda: co.Checkpointable(CLASSES["Compressor"]),
    "the class StoreComm is not": lambda: co.allreduce(CLASSES["StoreComm"], W),
    "the class TorchComm is not": lambda: co.allgather_bytes(CLASSES["TorchComm"], b"x"),
    "the class Sites is not": lambda: co.Channel(CLASSES["Sites"]),
    "the class DeviceMesh; pass": lambda: co.Sites.of(torch.distributed.DeviceMesh),
}


@pytest.mark.parametrize("message", CALLS)
def test_a_class_is_named(message: str) -> None:
    with pytest.raises(TypeError, match=message):
        CALLS[message]()
