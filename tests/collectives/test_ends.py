"""Every call takes an end, or refuses it by a TypeError that names it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import collectives as co
import wirecodec as wc

SCHEME = "topk(0.5) | rice | raw"
X = np.array([3, 0, -5, 1], np.float32)


def _named() -> Any:
    torch = pytest.importorskip("torch")
    module = torch.nn.Linear(3, 3)
    module(torch.ones(1, 3)).sum().backward()
    return module.named_parameters()


CALLS: dict[str, Callable[[Any], Any]] = {
    "allgather": lambda end: co.allgather(end, X, SCHEME),
    "allgather_bytes": lambda end: co.allgather_bytes(end, b"ab"),
    "allreduce": lambda end: co.allreduce(end, X, SCHEME),
    "allreduce of Ok-Topk": lambda end: co.allreduce(end, {"x": X}, co.OkTopK(0.5)),
    "CLTk.allreduce": lambda end: co.CLTk(0.5).allreduce(end, {"x": X}),
    "GTopK.allreduce": lambda end: co.GTopK(0.5).allreduce(end, {"x": X}),
    "OkTopK.allreduce": lambda end: co.OkTopK(0.5).allreduce(end, {"x": X}),
    "LocalUpdates": lambda end: co.LocalUpdates(None, {"x": X.copy()}, wc.Compressor(SCHEME), end, every=1),
    "LocalUpdates of Ok-Topk": lambda end: co.LocalUpdates(
        None, {"x": X.copy()}, co.OkTopK(0.5), end, every=1
    ),
    "average_gradients": lambda end: co.average_gradients(end, _named(), wc.Compressor(SCHEME)),
    "torch_hook": lambda end: co.torch_hook(wc.Compressor(SCHEME), end, _named()),
    "Checkpointable": lambda end: co.Checkpointable(wc.Compressor(SCHEME), comm=end),
    "Channel": co.Channel,
}


@pytest.mark.parametrize("end", ["StoreComm", "Sites"])
@pytest.mark.parametrize("call", CALLS)
def test_an_end_is_taken_or_refused_by_name(call: str, end: str, tmp_path: Path) -> None:
    if end == "Sites":
        world = pytest.importorskip("mpi4py.MPI").COMM_SELF
        made: Any = co.Sites(world.Dup(), world.Dup())
    else:
        made = co.StoreComm(str(tmp_path), "run", "a", quorum=1, deadline=0.01, poll=0.01)
    text = end
    try:
        CALLS[call](made)
    except (TypeError, co.CollectiveError) as error:  # an error of all ranks has the other one's text
        text = str(error)
    assert any(name in text for name in (end, "OkTopK sums its own steps")), text
