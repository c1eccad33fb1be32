"""Collectives of tensors on a GPU: results equal the host's bit for bit, and only containers leave the GPU.

The GPU is a stand-in whose kernels run in an emulator.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import collectives as co
import wirecodec as wc
from collectives import device
from collectives.communicator import Communicator
from collectives.simulation.communicator import SimulatedComm
from tests.collectives.conftest import World, worlds
from tests.collectives.inputs import SCHEMES, bits, gradient
from tests.gpu_emulated.standin import OnGPU, StandInDevice, marked, standin
from tests.oracles import Array
from wirecodec.element_types import BFLOAT16

__all__ = ["standin"]

SCHEME = "topk(0.1) | rice | qsgd(bits=4)"
FEW = (2, 3)
"""Real ranks: each has an emulator of its own, which takes a core."""

ALGORITHMS = ["allgather", "dense", "split-pairs", "auto"]


@pytest.fixture(params=worlds((1, 2, 3, 5), FEW))
def world(request: pytest.FixtureRequest) -> World:
    """Provide one or more ranks."""
    found: World = request.param
    return found


@pytest.fixture(params=worlds((2, 3, 5), FEW))
def several(request: pytest.FixtureRequest) -> World:
    """Provide two or more ranks."""
    found: World = request.param
    return found


def there(x: Array) -> Array:
    """Copy an array to the device."""
    return marked(x.copy())


def plain(x: Any) -> bytes:
    """Return the bits of a result, which must be on the device."""
    assert isinstance(x, OnGPU)
    return bits(x.view(np.ndarray))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_results_go_where_the_tensors_lie(world: World, standin: StandInDevice, algorithm: str) -> None:
    def both(comm: Communicator) -> bool:
        x = gradient(comm.rank, (50, 60))
        want = bits(co.allreduce(comm, x, SCHEME, algorithm=algorithm))
        same = plain(co.allreduce(comm, there(x), SCHEME, algorithm=algorithm)) == want
        pair = co.allreduce(comm, {"a": x, "b": x}, SCHEME, algorithm=algorithm)
        mixed: Any = co.allreduce(comm, {"a": there(x), "b": x}, SCHEME, algorithm=algorithm)
        return same and (plain(mixed["a"]), bits(mixed["b"])) == (bits(pair["a"]), bits(pair["b"]))

    assert all(world.run(both))


@pytest.mark.sampled
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("op", ["mean", "sum"])
def test_sums_of_every_type(several: World, standin: StandInDevice, scheme: Any, op: Any, dtype: Any) -> None:
    def both(comm: Communicator) -> bool:
        x = gradient(comm.rank, (20, 30), dtype)
        want = bits(co.allreduce(comm, x, scheme, algorithm="allgather", op=op))
        return plain(co.allreduce(comm, there(x), scheme, algorithm="allgather", op=op)) == want

    assert all(several.run(both))


def test_sums_beyond_the_range(several: World, standin: StandInDevice) -> None:
    """They round to infinity as on the host."""

    def both(comm: Communicator) -> bool:
        same = True
        for dtype, large in ((np.float16, 60_000), (np.float32, 3e38), (np.float64, 1.7e308)):
            x = np.array([large, -large, 1, 0, -0.0, 1e-45], dtype)
            want = bits(co.allreduce(comm, x, None, algorithm="allgather", op="sum"))
            same &= plain(co.allreduce(comm, there(x), None, algorithm="allgather", op="sum")) == want
        return same

    assert all(several.run(both))


@pytest.mark.parametrize("named", [False, True])
def test_gathered_tensors_lie_there(several: World, standin: StandInDevice, named: bool) -> None:
    def both(comm: Communicator) -> bool:
        tensors = {"b": gradient(comm.rank, (20, 30)), "a": gradient(comm.rank + 9, 80, np.float64)}
        if not named:
            return alike(
                co.allgather(comm, tensors["b"], SCHEME), co.allgather(comm, there(tensors["b"]), SCHEME)
            )
        here = co.allgather(comm, tensors, SCHEME)
        found = co.allgather(comm, {name: there(x) for name, x in tensors.items()}, SCHEME)
        return all(alike([x[name] for x in here], [x[name] for x in found]) for name in tensors)

    assert all(several.run(both))


def alike(here: list[wc.SparseTensor], found: list[wc.SparseTensor]) -> bool:
    """Compare tensors on the host and on the device."""
    same = [
        x.shape == y.shape and bits(x.indices) == plain(y.indices) and bits(x.values) == plain(y.values)
        for x, y in zip(here, found, strict=True)
    ]
    return all(same)


def test_bfloat16_is_gathered_on_the_host(several: World, standin: StandInDevice) -> None:
    def both(comm: Communicator) -> bool:
        x = gradient(comm.rank, 300, BFLOAT16)
        here, found = co.allgather(comm, x, SCHEME), co.allgather(comm, there(x), SCHEME)
        return all(bits(a.values) == bits(b.values) for a, b in zip(here, found, strict=True))

    assert all(several.run(both))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_ranks_may_differ_in_where_they_are(several: World, standin: StandInDevice, algorithm: str) -> None:
    """Ranks on the host and on a GPU have the same results, and count the same union."""

    def mixed(comm: Communicator) -> tuple[bytes, bytes, bytes]:
        compressor = wc.Compressor(SCHEME)
        for step in range(3):
            x = gradient(10 * step + comm.rank, 3000)
            on_device = (comm.rank + step) % 2
            mean = co.allreduce(comm, {"w": there(x) if on_device else x}, compressor, algorithm=algorithm)[
                "w"
            ]
        state = compressor.state_dict()
        return bits(np.asarray(mean.view(np.ndarray))), bits(state["residual/w"]), bits(state["step"])

    def host(comm: Communicator) -> tuple[bytes, bytes, bytes]:
        compressor = wc.Compressor(SCHEME)
        for step in range(3):
            x = gradient(10 * step + comm.rank, 3000)
            mean = co.allreduce(comm, {"w": x}, compressor, algorithm=algorithm)["w"]
        state = compressor.state_dict()
        return bits(mean), bits(state["residual/w"]), bits(state["step"])

    assert several.run(mixed) == several.run(host)


@pytest.mark.parametrize("call", [co.allgather, co.allreduce])
def test_a_failed_step_changes_nothing(several: World, standin: StandInDevice, call: Any) -> None:
    """If one rank cannot encode, all ranks raise, none commits, and the residuals do not move."""
    odd = several.n - 1

    def check(comm: Communicator) -> str:
        compressor = wc.Compressor(SCHEME)
        call(comm, {"w": there(gradient(comm.rank))}, compressor)
        before = {key: bits(x) for key, x in compressor.state_dict().items()}
        bad = gradient(comm.rank + 1)
        if comm.rank == odd:
            bad[17] = np.nan
        with pytest.raises(co.CollectiveError) as info:
            call(comm, {"w": there(bad)}, compressor)
        assert {key: bits(x) for key, x in compressor.state_dict().items()} == before
        call(comm, {"w": there(gradient(comm.rank + 2))}, compressor)
        assert compressor.step == 2
        return str(info.value)

    texts = several.run(check)
    assert set(texts) == {texts[0]}
    assert f"rank {odd}: encoding failed at element 17" in texts[0]


def test_only_compressed_bytes_leave(standin: StandInDevice) -> None:
    """Only the container and a few counts leave the GPU, through pinned memory after a synchronization."""
    size, ranks = 50_000, 3

    def run(comm: SimulatedComm) -> int:
        compressor = wc.Compressor(SCHEME)
        for step in range(2):
            x = there(gradient(10 * step + comm.rank, size))
            co.allreduce(comm, {"w": x}, compressor, algorithm="allgather")
        return comm.bytes_sent

    standin.asked.clear()
    standin.fetched.clear()
    sent = co.simulate(ranks, run)
    assert standin.asked[0] == "device"
    assert sum(standin.fetched) < sum(sent) / (ranks - 1) + 2 * ranks * 1000 < 2 * ranks * 4 * size / 8


class Recorder:
    """Communicator that records the memory that it receives, and whether the device was synchronized."""

    def __init__(self, comm: SimulatedComm, standin: StandInDevice) -> None:
        self._comm, self._standin = comm, standin
        self.rank, self.size = comm.rank, comm.size
        self.handed: list[bool] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._comm, name)

    def _note(self, *arrays: Any) -> None:
        assert self._standin.asked.count("device")
        self.handed += [isinstance(each, OnGPU) for each in arrays]

    def Isend(self, buf: Any, dest: int, tag: int = 0) -> Any:
        self._note(buf)
        return self._comm.Isend(buf, dest, tag)

    def Irecv(self, buf: Any, source: int, tag: int = 0) -> Any:
        self._note(buf)
        return self._comm.Irecv(buf, source, tag)

    def Iallgather(self, sendbuf: Any, recvbuf: Any) -> Any:
        return self._comm.Iallgather(sendbuf, recvbuf)

    def Iallgatherv(self, sendbuf: Any, recvbuf: Any) -> Any:
        self._note(sendbuf, recvbuf[0])
        return self._comm.Iallgatherv(sendbuf, recvbuf)


@pytest.mark.sampled
@pytest.mark.parametrize("size", [500, 60_000])
@pytest.mark.parametrize("setting", ["mpi", "staged", "auto"])
def test_what_mpi_is_handed(standin: StandInDevice, size: int, setting: Any) -> None:
    """MPI gets device memory only if it supports it; results and sent bytes are the same."""

    def run(comm: SimulatedComm) -> tuple[bytes, set[bool], int]:
        recorder: Any = Recorder(comm, standin)
        channel = co.Channel(recorder, device=setting)
        x = gradient(comm.rank, size)
        mean = co.allreduce(channel, there(x), "topk(0.4) | rice | raw", algorithm="allgather")
        parts = co.allgather(channel, there(x), "topk(0.4) | rice | raw")
        assert all(isinstance(part.values, OnGPU) for part in parts)
        total = np.zeros(size, np.float32)
        for part in parts:
            total += part.to_dense().view(np.ndarray)
        assert bits(total / np.float32(comm.size)) == plain(mean)
        return plain(mean), set(recorder.handed), channel.bytes_sent

    def host(comm: SimulatedComm) -> tuple[bytes, int]:
        channel = co.Channel(comm)
        x = gradient(comm.rank, size)
        mean = co.allreduce(channel, x, "topk(0.4) | rice | raw", algorithm="allgather")
        co.allgather(channel, x, "topk(0.4) | rice | raw")
        return bits(mean), channel.bytes_sent

    found, expected = co.simulate(3, run), co.simulate(3, host)
    assert [(mean, sent) for mean, _, sent in found] == expected
    assert [handed for _, handed, _ in found] == [{setting == "mpi"}] * 3


def test_one_rank_on_the_host_beside_an_mpi_that_takes_device_memory(standin: StandInDevice) -> None:
    def run(comm: SimulatedComm) -> bytes:
        x = gradient(comm.rank, 20_000)
        channel = co.Channel(comm, device="mpi")
        mean: Any = co.allreduce(channel, x if comm.rank == 1 else there(x), SCHEME, algorithm="allgather")
        return bits(np.asarray(mean.view(np.ndarray)))

    means = co.simulate(3, run)
    expected = co.simulate(3, lambda comm: bits(co.allreduce(comm, gradient(comm.rank, 20_000), SCHEME)))
    assert means == expected


def test_results_as_torch_has_them() -> None:
    """Raw bits become a torch tensor, also of bfloat16; in this test both are on the host."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    for kind in (torch.float32, torch.float16, torch.bfloat16, torch.float64):
        x = torch.linspace(-2, 2, 12, dtype=torch.float64).to(kind).reshape(3, 4)
        words = x.view(getattr(torch, f"int{8 * x.element_size()}")).numpy()
        found = device._view_bits(x, marked(words.view(f"u{x.element_size()}").copy()))
        assert (found.dtype, found.shape) == (kind, (3, 4))
        assert torch.equal(found, x)


def test_what_is_staged(several: World, standin: StandInDevice) -> None:
    """allgather_bytes copies arrays on the device to the host."""

    def both(comm: Communicator) -> bool:
        x = gradient(comm.rank, 900)
        return co.allgather_bytes(comm, there(x))[comm.rank].tobytes() == x.tobytes()

    assert all(several.run(both))
