"""Calls inside an exchange of the same thread, as from a signal handler: refused before anything is sent."""

from __future__ import annotations

import signal
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import collectives as co
import wirecodec as wc
from collectives.errors import Nested
from collectives.local_updates.local_updates import LocalUpdates
from tests.collectives.torch.processes import run as run_group

GRADIENT = np.array([4, -1, 3, 0], np.float32)
SCHEME = "topk(0.5) | rice | raw"

pytest.importorskip("torch")


def make_parameter(value: float = 1.0) -> Any:
    import torch

    parameter = torch.nn.Parameter(torch.full((4,), value))
    parameter.grad = torch.ones(4)
    return parameter


def make_local(channel: co.Channel) -> LocalUpdates:
    return co.LocalUpdates(None, [("w", make_parameter())], wc.Compressor(SCHEME), channel, every=1)


def make_store() -> co.StoreComm:
    return co.StoreComm(tempfile.mkdtemp(), "run", "a", quorum=1, deadline=0.01, poll=0.01)


CALLS: dict[str, Callable[[co.Channel, LocalUpdates], object]] = {
    "allreduce": lambda channel, _: co.allreduce(channel, GRADIENT, SCHEME),
    "allreduce of another channel": lambda channel, _: co.allreduce(co.Channel(channel.comm), GRADIENT),
    "allgather": lambda channel, _: co.allgather(channel, GRADIENT, SCHEME),
    "allgather_bytes": lambda channel, _: co.allgather_bytes(channel, b"x"),
    "average_gradients": lambda channel, _: co.average_gradients(
        channel, [("w", make_parameter())], wc.Compressor(SCHEME)
    ),
    "similarity": lambda channel, _: co.similarity(channel, co.CLTk(0.5), GRADIENT),
    "CLTk": lambda channel, _: co.CLTk(0.5).allreduce(channel, GRADIENT),
    "OkTopK": lambda channel, _: co.OkTopK(SCHEME).allreduce(channel, GRADIENT),
    "GTopK": lambda channel, _: co.GTopK(0.5).allreduce(channel, GRADIENT),
    "Sites": lambda channel, _: co.allreduce(co.Sites(channel, channel), GRADIENT, SCHEME),
    "StoreComm": lambda _, local: co.allreduce(make_store(), GRADIENT, SCHEME),
    "Checkpointable": lambda channel, _: co.Checkpointable(
        wc.Compressor(SCHEME), channel.comm, gather=True
    ).state_dict(),
    "LocalUpdates.step": lambda _, local: local.step(),
    "LocalUpdates.exchange": lambda _, local: local.exchange(),
    "LocalUpdates.synchronize": lambda _, local: local.synchronize(),
    "LocalUpdates.rebind": lambda channel, local: local.rebind(channel),
    "LocalUpdates.admit": lambda _, local: local.admit(),
    "LocalUpdates.revert": lambda _, local: local.revert(),
    "LocalUpdates.load_state_dict": lambda _, local: local.load_state_dict(local.state_dict()),
}


@pytest.mark.parametrize("outer", ["allreduce", "CLTk", "OkTopK", "GTopK", "allgather_bytes", "Sites"])
def test_a_callback_of_each_exchange_is_refused(outer: str) -> None:
    """The ranks go on, with the right results, and count nothing of the call that was refused."""
    refused: list[str] = []

    def rank(comm: Any) -> tuple[bytes, int, int]:
        results = []
        for callback in (None, CALLS["allgather_bytes"]):
            one = co.Channel(comm)
            local = make_local(one)

            def meanwhile(callback: Any = callback, one: co.Channel = one, local: Any = local) -> bool:
                if callback is not None:
                    before = one.sequence, one.bytes_sent, one.call, vars(one.call).copy()
                    with pytest.raises(Nested, match="under way"):
                        callback(one, local)
                    assert before == (one.sequence, one.bytes_sent, one.call, vars(one.call))
                    refused.append(outer)
                return False

            one.meanwhile = meanwhile
            if outer == "Sites":
                alone = co.Channel(_Alone())
                found: Any = co.allreduce(co.Sites(alone, one), GRADIENT + comm.rank, SCHEME)
            elif outer == "allgather_bytes":
                found = co.allgather_bytes(one, bytes([comm.rank]))
            else:
                methods = {"CLTk": co.CLTk(0.5), "OkTopK": co.OkTopK(SCHEME), "GTopK": co.GTopK(0.5)}
                method: Any = methods.get(outer)
                if method is None:
                    found = co.allreduce(one, GRADIENT + comm.rank, wc.Compressor(SCHEME))
                else:
                    found = method.allreduce(one, GRADIENT + comm.rank)
            results.append(b"".join(np.asarray(x).tobytes() for x in found))
        assert results[0] == results[1]
        return results[0], one.sequence, len(refused)

    assert len({each[:2] for each in co.simulate(2, rank)}) == 1
    assert refused


class _Alone:
    """Communicator of one rank."""

    rank, size = 0, 1

    def Test(self) -> bool:
        return True

    def Iallgather(self, block: Any, out: Any) -> Any:
        out[:] = block
        return self

    def Isend(self, *_: Any) -> Any:
        raise NotImplementedError

    Irecv = Iallgatherv = Isend


@pytest.mark.parametrize("name", CALLS)
def test_each_call_is_refused(name: str) -> None:
    seen: list[str] = []

    def rank(comm: Any) -> list[Any]:
        channel = co.Channel(comm)
        local = make_local(channel)
        before = local.state_dict()

        def meanwhile() -> bool:
            progress = channel.sequence, channel.bytes_sent, vars(channel.call).copy()
            with pytest.raises(co.CollectiveError, match="under way") as caught:
                CALLS[name](channel, local)
            assert caught.value.reason == "nested"
            assert progress == (channel.sequence, channel.bytes_sent, vars(channel.call))
            local.state_dict()  # of this rank alone
            seen.append(name)
            return False

        channel.meanwhile = meanwhile
        total = co.allreduce(channel, GRADIENT, SCHEME, op="sum")
        channel.meanwhile = None
        after = local.state_dict()
        assert all(np.array_equal(after[key], x) for key, x in before.items())
        return [total.tolist(), channel.sequence, bytes(co.allgather_bytes(channel, b"ab")[1])]

    assert co.simulate(2, rank) == [[[8, 0, 6, 0], 1, b"ab"]] * 2
    assert seen


def test_a_refusal_that_leaves_the_callback_is_an_interrupt() -> None:
    """It is of this rank alone, and not shared as other CollectiveErrors are."""

    def rank(comm: Any) -> list[Any]:
        channel, compressor, seen = co.Channel(comm), wc.Compressor(SCHEME), []
        if comm.rank == 1:
            channel.meanwhile = lambda: bool(co.allgather_bytes(channel, b"x"))
        for call in (
            lambda: co.allgather_bytes(channel, bytes(5000)),  # interrupted in its last transfer
            lambda: co.allreduce(channel, GRADIENT, compressor),  # in the count of the union, after it
            lambda: co.allreduce(channel, GRADIENT, compressor),  # while it waits for headers
        ):
            try:
                call()
                seen.append("ok")
            except co.CollectiveError as error:
                seen.append(error.reason)
        return [*seen, compressor.step]

    assert co.simulate(2, rank) == [["ok", "ok", "timeout", 1], ["nested", "nested", "closed", 1]]


BODY = """
import signal
channel, notes, local = co.Channel(comm), [], wc.Compressor("topk(0.5) | rice | raw")
entry = co.Checkpointable(local, comm, gather=True)
def save(*_):
    try:
        notes.append(len(entry.state_dict()))
    except co.CollectiveError as error:
        notes.append(error.reason)
signal.signal(signal.SIGUSR1, save)
channel.meanwhile = lambda: bool(signal.raise_signal(signal.SIGUSR1))
total = co.allreduce(channel, np.arange(4.0) + rank, local, op="sum").tolist()
channel.meanwhile = None
signal.raise_signal(signal.SIGUSR1)  # between two calls, when another rank may be inside one
notes.append(len(entry.state_dict()))
"""


def check(results: list[Any]) -> None:
    """A rank that waited has notes of its handler, all of which were refused; then all ranks gather."""
    for total, notes in results:
        assert total == [0, 0, 5, 7]
        assert notes[-1] == 2
        assert {*notes[:-1]} <= {"nested"}
    assert any(len(notes) > 1 for _, notes in results)


def test_a_signal_handler_that_gathers_a_checkpoint_over_gloo() -> None:
    check(run_group(2, "import numpy as np\n" + BODY + "print(json.dumps([total, notes]))"))


@pytest.mark.mpi(2)
def test_a_signal_handler_that_gathers_a_checkpoint_over_mpi() -> None:
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    comm = world.Dup()
    before = signal.getsignal(signal.SIGUSR1)
    try:
        names: dict[str, Any] = {"co": co, "wc": wc, "np": np, "comm": comm, "rank": world.rank}
        exec(BODY, names)
    finally:
        signal.signal(signal.SIGUSR1, before)
    check(world.allgather([names["total"], names["notes"]]))
    comm.Free()
