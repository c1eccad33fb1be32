"""PowerSGD compared with torch's hook, and its properties."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.common.powersgd import PowerSGD, orthogonalise
from tests.benchmarks.common.process_group import open_group


def draw(seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {"w": rng.standard_normal((30, 40)).astype("f4"), "b": rng.standard_normal(7).astype("f4")}


def test_orthogonal_columns() -> None:
    p = orthogonalise(draw(0)["w"][:, :4])
    assert p.T @ p == pytest.approx(np.eye(4), abs=1e-5)


def test_means_and_errors_have_what_came_in() -> None:
    """The mean of the matrices is the result plus the mean of the errors, at every step."""
    method, errors = PowerSGD(2), np.zeros((30, 40), np.float32)
    for step in range(5):
        grads = [draw(10 * step + rank) for rank in range(3)]
        mean = method.allreduce(grads)
        came_in = np.mean([g["w"] for g in grads], axis=0) + errors
        errors = np.mean([each["w"] for each in method._errors], axis=0)
        assert mean["w"] + errors == pytest.approx(came_in, abs=1e-5)
        assert np.linalg.matrix_rank(mean["w"], tol=1e-3) == 2
        assert np.array_equal(mean["b"], np.mean([g["b"] for g in grads], axis=0))
    assert method.nbytes == 5 * 4 * (2 * 70 + 7)


def test_steps_are_those_of_the_hook(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    import torch.distributed as dist
    from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as power

    if not dist.is_available() or sys.platform == "win32" or dist.is_initialized():
        pytest.skip("needs a process group of its own")
    with open_group(tmp_path):
        layer = torch.nn.Linear(40, 30, bias=False)
        net = torch.nn.parallel.DistributedDataParallel(layer)
        state = power.PowerSGDState(None, matrix_approximation_rank=2, start_powerSGD_iter=2)
        net.register_comm_hook(state, power.powerSGD_hook)
        ours = PowerSGD(2)
        for step in range(6):
            x = torch.from_numpy(np.random.default_rng(step).standard_normal((64, 40)).astype("f4"))
            q, error = state.q_memory_dict.get(0), state.error_dict.get(0)
            before = None if q is None else (q.numpy().copy(), error.numpy().copy())
            net.zero_grad()
            net(x).square().mean().backward()
            if before is None:
                continue
            exact = torch.autograd.grad(layer(x).square().mean(), layer.weight)[0].numpy()
            ours._q = {"w": orthogonalise(before[0].reshape(40, 2))}
            ours._errors = [{"w": before[1].reshape(30, 40)}]
            found = ours.allreduce([{"w": exact}])["w"]
            assert found == pytest.approx(layer.weight.grad.numpy(), rel=1e-3, abs=1e-6)
        assert 0 in state.error_dict
