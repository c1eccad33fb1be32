"""Collectives of arrays on a GPU: results equal those on the host and stay on the GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import collectives as co
import wirecodec as wc
from tests.collectives.inputs import gradient

SCHEME = "topk(0.1) | rice | qsgd"


@pytest.mark.parametrize("algorithm", ["allgather", "dense", "split-pairs", "auto"])
@pytest.mark.parametrize("kind", [np.float32, np.float16, np.float64])
def test_allreduce(cupy: Any, algorithm: str, kind: Any) -> None:
    def rank(comm: Any, there: bool) -> bytes:
        x = gradient(comm.rank, (50, 100), kind)
        total: Any = co.allreduce(comm, cupy.asarray(x) if there else x, SCHEME, algorithm=algorithm)
        assert isinstance(total, cupy.ndarray) == there
        assert total.shape == (50, 100)
        return bytes(cupy.asnumpy(total).tobytes())

    assert co.simulate(3, lambda comm: rank(comm, False)) == co.simulate(3, lambda comm: rank(comm, True))


def test_allgather(cupy: Any) -> None:
    def rank(comm: Any, there: bool) -> list[tuple[bytes, bytes]]:
        x = gradient(comm.rank, 5000)
        parts = co.allgather(comm, cupy.asarray(x) if there else x, SCHEME)
        assert all(isinstance(part.values, cupy.ndarray) == there for part in parts)
        return [(cupy.asnumpy(p.indices).tobytes(), cupy.asnumpy(p.values).tobytes()) for p in parts]

    assert co.simulate(3, lambda comm: rank(comm, False)) == co.simulate(3, lambda comm: rank(comm, True))


def test_steps_on_host_and_gpu(cupy: Any) -> None:
    def steps(comm: Any, there: bool) -> tuple[bytes, bytes]:
        compressor = wc.Compressor(SCHEME)
        for step in range(3):
            x = gradient(10 * step + comm.rank, 100_000)
            given = cupy.asarray(x) if there and (comm.rank + step) % 2 else x
            mean: Any = co.allreduce(comm, {"w": given}, compressor)["w"]
        return cupy.asnumpy(mean).tobytes(), compressor.state_dict()["residual/w"].tobytes()

    assert co.simulate(3, lambda comm: steps(comm, False)) == co.simulate(3, lambda comm: steps(comm, True))


@pytest.mark.parametrize("beta", [1.0, 0.3])
@pytest.mark.parametrize("kind", [np.float32, np.float16, np.float64])
def test_clt_k_on_host_and_gpu(cupy: Any, kind: Any, beta: float) -> None:
    def steps(comm: Any, there: bool) -> tuple[bytes, bytes]:
        cltk = co.CLTk(0.05, feedback=wc.ErrorFeedback(beta), schedule=wc.WarmUp(1, hold=True))
        for step in range(5):
            x = gradient(10 * step + comm.rank, 100_000, kind)
            on_device = there and (comm.rank + step // 2) % 2
            mean: Any = cltk.allreduce(comm, cupy.asarray(x) if on_device else x)
            assert isinstance(mean, cupy.ndarray) == bool(on_device)
        return cupy.asnumpy(mean).tobytes(), cltk.state_dict()["residual/0"].tobytes()

    assert co.simulate(3, lambda comm: steps(comm, False)) == co.simulate(3, lambda comm: steps(comm, True))


@pytest.mark.mpi(2)
@pytest.mark.parametrize("size", [500, 100_000])
def test_over_mpi(cupy: Any, size: int) -> None:
    """Staged through the host, or directly from the device if MPI accepts device memory."""
    from mpi4py import MPI

    comm = MPI.COMM_WORLD.Dup()
    x = gradient(comm.rank, size)
    scheme = "topk(0.4) | rice | raw"
    expected = co.allreduce(comm, x, scheme, algorithm="allgather")
    mean: Any = co.allreduce(comm, cupy.asarray(x), scheme, algorithm="allgather")
    assert cupy.asnumpy(mean).tobytes() == expected.tobytes()


@pytest.mark.parametrize("name", ["float32", "bfloat16"])
def test_torch(cupy: Any, name: str) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    if not torch.cuda.is_available():
        pytest.skip("this torch has no CUDA")

    def rank(comm: Any) -> bool:
        torch.manual_seed(comm.rank)
        x = torch.randn(30, 50).to(getattr(torch, name))
        here: Any = co.allreduce(comm, x, SCHEME, algorithm="allgather")
        there: Any = co.allreduce(comm, x.cuda(), SCHEME, algorithm="allgather")
        copied = there.cpu().contiguous().view(torch.uint8).numpy()
        return bool(there.is_cuda) and copied.tobytes() == here.tobytes()

    assert co.simulate(3, rank) == [True] * 3
