"""torchft with replicas on loopback: its lighthouse, DDP, LocalSGD and Streaming DiLoCo."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torchft", reason="not in make test-integrations")

ROOT = Path(__file__).parents[2]


@contextmanager
def lighthouse(min_replicas: int) -> Iterator[str]:
    """Yield the address of a lighthouse that lives as long as the block."""
    from torchft.coordination import LighthouseServer

    server = LighthouseServer(
        bind="[::]:0",
        min_replicas=min_replicas,
        join_timeout_ms=5000,
        quorum_tick_ms=50,
        heartbeat_timeout_ms=2000,
    )
    try:
        yield server.address()
    finally:
        server.shutdown()


def start(mode: str, replica: int, lighthouse: str, steps: int, die_at: int = -1, pause: float = 0.0) -> Any:
    return start_module("torchft_run", mode, replica, lighthouse, steps, die_at, pause)


def start_module(module: str, *arguments: Any) -> Any:
    return subprocess.Popen(
        [sys.executable, "-m", f"tests.integrations.{module}", *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "NUMBA_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: Any) -> dict[str, Any]:
    try:
        out, error = process.communicate(timeout=200)
    finally:
        process.kill()
    assert process.returncode == 0, error[-4000:]
    result: dict[str, Any] = json.loads(out.strip().splitlines()[-1])
    return result


@pytest.mark.parametrize(("mode", "steps"), [("ddp", 40), ("diloco", 16), ("localsgd", 12)])
def test_two_replicas(mode: str, steps: int) -> None:
    with lighthouse(2) as address:
        first, second = map(finish, [start(mode, replica, address, steps) for replica in range(2)])
    assert first["hash"] == second["hash"]
    for result in (first, second):
        assert result["is_right"]
        assert result["began_empty"]
        assert result["committed"] == steps
        assert result["losses"][1] < 0.9 * result["losses"][0]
        assert 0 < result["bytes"] < result["dense"] / (2 if mode == "localsgd" else 5)
    if mode == "diloco":
        assert {name.split("/")[1] for name in first["names"]} == {"fragment 0", "fragment 1"}


def test_the_others_go_on_after_a_replica_was_killed() -> None:
    """A step that does not count leaves their residuals as they were."""
    with lighthouse(1) as address:
        stays = start("diloco", 0, address, 30, pause=0.01)
        dies = start("diloco", 1, address, 30, die_at=5, pause=0.01)
        assert dies.wait(timeout=120) == 1
        dies.communicate()
        stayed = finish(stays)
    assert stayed["is_right"]
    assert stayed["dropped"] >= 1
    assert stayed["committed"] == 30
    assert stayed["names"]
    assert stayed["losses"][1] < 0.9 * stayed["losses"][0]


def test_a_replica_that_joins_begins_without_residuals() -> None:
    """It takes the place of one that was killed, and both end with the same parameters."""
    with lighthouse(2) as address:
        stays = start("diloco", 0, address, 20)
        dies = start("diloco", 1, address, 20, die_at=5)
        assert dies.wait(timeout=120) == 1
        dies.communicate()
        stayed, joined = map(finish, [stays, start("diloco", 2, address, 20)])
    assert stayed["is_right"]
    assert joined["is_right"]
    assert joined["began_empty"]
    assert joined["committed"] < 20  # the others' steps were taken over
    assert stayed["hash"] == joined["hash"]
    assert stayed["participants"] == joined["participants"] == 2


def start_local(replica: int, lighthouse: str, steps: int, die_at: int = -1) -> Any:
    return start_module("torchft_local", replica, lighthouse, steps, die_at)


def test_local_updates_go_on_after_a_replica_was_killed() -> None:
    """torchft finds it, and the others need one exchange to go on with a group of their own."""
    with lighthouse(1) as address:
        stay = [start_local(replica, address, 20) for replica in range(2)]
        dies = start_local(2, address, 20, die_at=6)
        assert dies.wait(timeout=120) == 1
        dies.communicate()
        first, second = map(finish, stay)
    assert first["hash"] == second["hash"]
    for result in (first, second):
        assert result["round"] == 20
        assert result["sizes"][-1] == 2
        assert result["dropped"] <= 1
        assert result["losses"][1] < 0.9 * result["losses"][0]


def test_local_updates_take_in_a_replica_that_joins() -> None:
    with lighthouse(2) as address:
        stays = start_local(0, address, 20)
        dies = start_local(1, address, 20, die_at=6)
        assert dies.wait(timeout=120) == 1
        dies.communicate()
        stayed, joined = map(finish, [stays, start_local(2, address, 20)])
    assert stayed["hash"] == joined["hash"]
    assert stayed["round"] == joined["round"] == 20
    assert 0 < len(joined["sizes"]) < 20  # it has taken over the first rounds


def test_misuse() -> None:
    import torch
    from torch.distributed import ReduceOp
    from torchft.process_group import ProcessGroupBabyGloo, ProcessGroupGloo

    from collectives.integrations.torchft import CompressedProcessGroup, attach

    pg = CompressedProcessGroup(ProcessGroupGloo(), "topk(0.05) | rice | raw")
    with pytest.raises(RuntimeError, match="attach"):
        pg.allreduce([torch.ones(3)], ReduceOp.SUM)
    for wrong in (ProcessGroupBabyGloo(), "gloo"):
        with pytest.raises(TypeError, match="ProcessGroupGloo"):
            CompressedProcessGroup(wrong, "topk(0.05) | rice | raw")
    with pytest.raises(TypeError, match="CompressedProcessGroup"):
        attach(None, ProcessGroupGloo())
    with pytest.raises(ValueError, match="fragments"):
        attach(None, pg, fragments=0)
