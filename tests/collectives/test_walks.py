"""Tests that calls of ``collectives`` stay as short to walk as they are; the goals are shorter."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import collectives as co
import wirecodec as wc
from tests.walks import walk
from tests.wirecodec.test_walks import README, TOPK, Limit, make_model

Step = Callable[[], Any]


def make_compressor(scheme: str) -> wc.Compressor:
    return wc.Compressor(scheme, scope="group" if scheme == README else "tensor")


@contextmanager
def reduce(scheme: str, folder: Path) -> Iterator[Step]:
    comm = pytest.importorskip("mpi4py.MPI").COMM_SELF
    compressor, model = make_compressor(scheme), make_model(0)
    yield lambda: co.allreduce(comm, model, compressor)


def move(comm: Any, scheme: str) -> Step:
    """Return a step of local updates, each of which exchanges."""
    weights = make_model(0)
    local = co.LocalUpdates(None, weights, make_compressor(scheme), comm, every=1)

    def step() -> None:
        for x in weights.values():
            np.subtract(x, 0.01 * np.sign(x), out=x)
        local.step()

    return step


@contextmanager
def move_over_mpi(scheme: str, folder: Path) -> Iterator[Step]:
    yield move(pytest.importorskip("mpi4py.MPI").COMM_SELF, scheme)


@contextmanager
def move_over_a_store(scheme: str, folder: Path) -> Iterator[Step]:
    pytest.importorskip("fsspec")
    yield move(co.StoreComm(str(folder), "run", "a", quorum=1, deadline=0.01, poll=0.01), scheme)


@contextmanager
def train(scheme: str, folder: Path) -> Iterator[Step]:
    torch = pytest.importorskip("torch")
    dist = torch.distributed
    dist.init_process_group("gloo", init_method=f"file://{folder}/ranks", rank=0, world_size=1)
    try:
        model = torch.nn.Sequential(*(torch.nn.Linear(64, 64) for _ in range(10)))  # 20 tensors
        ddp = torch.nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
        channel = co.Channel(co.TorchComm())
        hook = co.torch_hook(make_compressor(scheme), channel, model.named_parameters())
        ddp.register_comm_hook(None, hook)
        yield lambda: ddp(torch.ones(8, 64)).square().mean().backward()
    finally:
        dist.destroy_process_group()


WALKS = [
    # name, how, scheme, limit, goal. How often a rank looks for messages depends on the time.
    ("allreduce, topk", reduce, TOPK, Limit(73, 460, 18), Limit(65, 650, 15)),
    ("allreduce, README's scheme", reduce, README, Limit(92, 657, 22), Limit(65, 650, 15)),
    ("DDP, README's lines", train, README, Limit(101, 1200, 24), Limit(85, 1600, 24)),
    ("LocalUpdates over MPI", move_over_mpi, README, Limit(114, 1335, 32), Limit(75, 1300, 17)),
    ("LocalUpdates over a store", move_over_a_store, README, Limit(119, 2150, 29), Limit(80, 2200, 18)),
]


@pytest.mark.parametrize(("name", "make", "scheme", "limit", "goal"), WALKS, ids=[row[0] for row in WALKS])
def test_a_call_is_short_to_walk(
    name: str, make: Any, scheme: str, limit: Limit, goal: Limit, tmp_path: Path
) -> None:
    with make(scheme, tmp_path) as call:
        found = walk(call)
    measured = Limit(found.files, found.calls, found.depth)
    assert all(n <= most for n, most in zip(measured, limit, strict=True)), f"{name}: {measured}\n{found}"
