"""torchft with two and three replicas on loopback: its own lighthouse, its DDP, LocalSGD and Streaming DiLoCo."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torchft", reason="not in make test-integrations")

ROOT = Path(__file__).parents[2]


@pytest.fixture
def lighthouse() -> Iterator[str]:
    """Address of a lighthouse that lives as long as the test."""
    from torchft.coordination import LighthouseServer

    server = LighthouseServer(
        bind="[::]:0", min_replicas=1, join_timeout_ms=5000, quorum_tick_ms=50, heartbeat_timeout_ms=2000
    )
    yield server.address()
    server.shutdown()


def start(mode: str, replica: int, lighthouse: str, steps: int, die_at: int = -1) -> Any:
    command = [
        sys.executable,
        "-m",
        "tests.integrations.torchft_run",
        mode,
        str(replica),
        lighthouse,
        str(steps),
    ]
    return subprocess.Popen(
        [*command, str(die_at)],
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
def test_two_replicas(lighthouse: str, mode: str, steps: int) -> None:
    processes = [start(mode, replica, lighthouse, steps) for replica in range(2)]
    first, second = map(finish, processes)
    assert first["hash"] == second["hash"]
    for result in (first, second):
        assert result["is_right"]
        assert result["began_empty"]
        assert result["committed"] == steps
        assert result["losses"][1] < 0.9 * result["losses"][0]
        assert result["bytes"] < result["dense"] / (4 if mode == "localsgd" else 8)
    if mode == "diloco":
        assert {name.split("/")[1] for name in first["names"]} == {"fragment 0", "fragment 1"}


def test_a_replica_that_is_killed_and_one_that_joins(lighthouse: str) -> None:
    """The others lose nothing: a step that does not count leaves the residuals; the joiner begins without."""
    stays, dies = start("diloco", 0, lighthouse, 60), start("diloco", 1, lighthouse, 60, die_at=5)
    assert dies.wait(timeout=120) == 1
    dies.communicate()
    time.sleep(1)
    joins = start("diloco", 2, lighthouse, 60)
    stayed, joined = finish(stays), finish(joins)
    assert stayed["is_right"]
    assert joined["is_right"]
    assert joined["began_empty"]
    assert stayed["losses"][1] < 0.9 * stayed["losses"][0]
    assert joined["committed"] >= 1
    assert stayed["hash"] == joined["hash"]


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
            CompressedProcessGroup(wrong, "topk(0.05) | rice | raw")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="CompressedProcessGroup"):
        attach(None, ProcessGroupGloo())
    with pytest.raises(ValueError, match="fragments"):
        attach(None, pg, fragments=0)
