"""Ranks whose arithmetic flushes denormal numbers to zero, beside ranks that keep them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import collectives as co
import wirecodec as wc
from collectives.communicator import Communicator
from tests.collectives.operations import OPERATIONS, Odd, contribution
from tests.collectives.store.peers import make_comm

torch = pytest.importorskip("torch")

SCHEME = "topk(0.5) | rice | raw"


@contextmanager
def mode(*, flushes: bool) -> Iterator[None]:
    """Set the mode of this thread."""
    if not torch.set_flush_denormal(flushes):
        pytest.skip("this processor cannot flush denormal numbers")
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


def average_gradients(comm: Communicator) -> None:
    weight = torch.nn.Parameter(torch.zeros(8))
    weight.grad = torch.full((8,), float(comm.rank + 1))
    co.average_gradients(comm, {"w": weight}.items(), wc.Compressor(SCHEME))


def reduce_over_sites(comm: Communicator) -> None:
    local = co.simulate(1, lambda alone: alone)[0]
    co.allreduce(co.Sites(local, comm), np.ones(8, np.float32), wc.Compressor(SCHEME))


def gtopk(comm: Communicator) -> None:
    co.GTopK(0.5).allreduce(comm, np.ones(8, np.float32))


def take_steps(comm: Communicator, *, delay: int = 0, **settings: Any) -> None:
    w = np.zeros(8, np.float32)
    local = co.LocalUpdates(None, {"w": w}, wc.Compressor(SCHEME), comm, every=2, delay=delay, **settings)
    for _ in range(4):
        w += 1 + comm.rank
        local.step()


def call_operation(call: Callable[..., object], comm: Communicator) -> object:
    return call(co.Channel.of(comm), contribution(comm.rank, 64))


CALLS: dict[str, Callable[[Any], object]] = {
    **{name: partial(call_operation, one.call) for name, one in OPERATIONS.items()},
    "average_gradients": average_gradients,
    "Sites": reduce_over_sites,
    "GTopK": gtopk,
    "local updates": take_steps,
    "local updates, delayed": lambda comm: take_steps(comm, delay=1),
    "local updates in fragments": lambda comm: take_steps(comm, fragments=[["w"]]),
    "synchronize": lambda comm: co.LocalUpdates(
        None, {"w": np.zeros(8)}, wc.Compressor(SCHEME), comm, every=2
    ).synchronize(),
}


@pytest.fixture(autouse=True)
def odd_codec(own_registry: None) -> None:
    """Register the codec of the operations."""
    wc.register(Odd)


@pytest.mark.parametrize("name", CALLS)
def test_ranks_of_two_modes_are_an_error_that_names_the_rank(name: str) -> None:
    """Of two ranks, the lower one would be taken to be right in other differences."""

    def work(comm: Any) -> tuple[tuple[int, ...], str, str]:
        co.Channel.of(comm).worker.submit(bool)  # its thread has the mode of before
        with mode(flushes=comm.rank == 0), pytest.raises(co.CollectiveError) as caught:
            CALLS[name](comm)
        return caught.value.ranks, caught.value.reason, str(caught.value)

    for ranks, reason, text in co.simulate(2, work):
        assert (ranks, reason) == ((0,), "denormals")
        assert "rank 0: flushes denormal numbers" in text


@pytest.mark.parametrize("name", CALLS)
def test_ranks_of_one_mode_work(name: str) -> None:
    def work(comm: Any) -> None:
        with mode(flushes=True):
            CALLS[name](comm)

    co.simulate(2, work)


@pytest.mark.parametrize("of_updates", [False, True])
def test_a_peer_of_a_store_is_refused_before_it_writes(of_updates: bool, tmp_path: Path) -> None:
    """Its bits would differ from those of peers that it cannot ask."""
    comm, w = make_comm(tmp_path, "alice", quorum=1, deadline=0.01), np.zeros(8, np.float32)
    compressor = wc.Compressor(SCHEME)
    local = co.LocalUpdates(None, {"w": w}, compressor, comm, every=1)
    call = local.step if of_updates else lambda: co.allreduce(comm, {"w": w}, compressor)
    w += np.arange(8, dtype=np.float32)
    with mode(flushes=True), pytest.raises(co.CollectiveError, match="'alice' flushes denormal") as caught:
        call()
    assert caught.value.reason == "denormals"
    assert compressor.residual("w") is None
    call()
    assert comm.last.members == ("alice",)
