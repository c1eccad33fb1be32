"""Arrays on a GPU, without a GPU: their recognition, the choice of staging, and copies to the host.

The device is host memory behind ``__cuda_array_interface__``, and CuPy is a fake module that copies it.
"""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import collectives as co
from collectives import device
from collectives.agreement.agree import agree
from collectives.agreement.header import HEADER_SIZE, Header, Operand, Operation
from collectives.communicator import Communicator
from collectives.simulation.communicator import SimulatedComm
from tests.collectives.conftest import World
from tests.collectives.inputs import bits, gradient
from tests.oracles import Array


class OnDevice:
    """Host array with the interface of a GPU array."""

    def __init__(self, x: Array) -> None:
        self.memory = x
        self.shape, self.dtype, self.size, self.nbytes = x.shape, x.dtype, x.size, x.nbytes

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        data = (self.memory.ctypes.data, False)
        return {"shape": self.shape, "typestr": self.dtype.str, "data": data, "version": 3, "stream": 1}


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Fake CuPy that records synchronizations."""
    made: list[str] = []

    def copy_to_host(array: OnDevice) -> Array:
        made.append("copy")
        return np.array(array.memory)

    cupy: Any = ModuleType("cupy")
    cupy.asarray = lambda x: x if isinstance(x, OnDevice) else OnDevice(np.array(x))
    cupy.ascontiguousarray = lambda x: x
    cupy.cuda = SimpleNamespace(runtime=SimpleNamespace(deviceSynchronize=lambda: made.append("device")))
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setattr(device, "copy_to_host", copy_to_host)
    return made


def test_who_lies_on_a_device() -> None:
    x = gradient(0, 10)
    assert device.is_on_gpu(OnDevice(x))
    assert not any(map(device.is_on_gpu, (x, x.tolist(), b"x", None)))


def test_staging_waits_before_the_copy(calls: list[str]) -> None:
    x = gradient(0, (10, 3))
    assert bits(device.stage_on_host(OnDevice(x))) == bits(x)
    assert calls == ["device", "copy"]
    host = {"a": x}
    assert device.stage_on_host(host)["a"] is x
    assert device.stage_on_host(x) is x


def test_without_cupy_all_ranks_hear_which_package_is_missing(
    several: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)

    def fn(comm: Communicator) -> None:
        x = gradient(comm.rank)
        co.allreduce(comm, x if comm.rank else OnDevice(x), "topk(0.1) | rice | raw")

    errors = several.errors(fn)
    assert len({str(error) for error in errors}) == 1
    assert errors[0].ranks == (0,)
    assert "pip install cupy-cuda12x" in str(errors[0])


# ---- the verdict ----


class Told:
    """MPI info object with one key."""

    def __init__(self, kinds: str | None) -> None:
        self.kinds = kinds

    def Get_info(self) -> Told:
        return self

    def Get(self, key: str) -> str | None:
        return self.kinds if key == "mpi_memory_alloc_kinds" else None

    def Free(self) -> None:
        pass


@pytest.mark.parametrize(
    ("setting", "query", "kinds", "verdict"),
    [
        ("mpi", False, "", True),
        ("staged", True, "cuda", False),
        ("auto", True, "", True),
        ("auto", False, "cuda", False),
        ("auto", None, "mpi,system,cuda:device", True),
        ("auto", None, "system,mpi", False),
        ("auto", None, None, False),
    ],
)
def test_who_decides(
    setting: device.Device, query: bool | None, kinds: str | None, verdict: bool, monkeypatch: Any
) -> None:
    monkeypatch.setattr(device, "_query_cuda_support", lambda: query)
    assert device.may_take_device(Told(kinds), setting) is verdict


@pytest.mark.mpi(2)
def test_a_real_mpi_is_asked() -> None:
    from mpi4py import MPI

    assert device._query_cuda_support() in (True, False)  # both wheels on PyPI have the function
    assert not device.may_take_device(MPI.COMM_SELF) or device._query_cuda_support()


def test_headers_carry_the_decisions_of_all_ranks(several: World) -> None:
    """No exchange but that of the headers is needed."""

    def ask(comm: Communicator) -> tuple[list[int], int]:
        channel = co.Channel(comm, device="staged" if comm.rank else "mpi")
        table = agree(channel, Header(operation=Operation.ALLGATHER_BYTES), Operand())
        return [header.flags for header in table], channel.bytes_sent

    others = several.n - 1
    assert several.run(ask) == [([1] + [0] * others, HEADER_SIZE * others)] * several.n


def test_nothing_is_asked_where_the_communicator_is_none_of_mpis(monkeypatch: pytest.MonkeyPatch) -> None:
    """The setting has priority over the loaded MPI."""
    monkeypatch.setattr(device, "_query_cuda_support", lambda: True)

    def ask(comm: SimulatedComm) -> tuple[bool, int]:
        return co.Channel(comm).takes_device(), comm.bytes_sent

    assert co.simulate(3, ask) == [(False, 0)] * 3


def test_other_settings_are_refused() -> None:
    setting: Any = "gpu"
    with pytest.raises(ValueError, match="the choices are 'auto', 'mpi', 'staged'"):
        co.simulate(1, lambda comm: co.Channel(comm, device=setting))
