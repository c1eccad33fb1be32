"""Launch of ranks: torch processes on this machine or on emulated hosts, and MPI processes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks.common.hosts import RATES, Hosts, find_missing_tools
from benchmarks.common.ranks import RANK_ENVIRONMENT, run_ranks
from benchmarks.common.store import ROOT
from benchmarks.step.plan import Job

__all__ = ["needs_hosts", "run_job", "run_small_calls"]

_MPI = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_pml": "ob1",
    "OMPI_MCA_btl": "self,sm",
    "OMPI_MCA_mpi_yield_when_idle": "1",
}
SMALL_TIMEOUT = 300


def needs_hosts(job: Job) -> bool:
    """Return whether a job needs shaped links."""
    return job.link in RATES


def run_job(job: Job, step: Callable[[str], None]) -> dict[str, Any]:
    """Run the ranks of a job; return the record of rank 0.

    Without shaped links, all ranks are in one namespace if that is possible, so that its counter has the
    bytes of this job alone.

    Args:
        job: the measurements.
        step: called with the name of each measurement before it starts.

    Raises:
        RuntimeError: a rank failed, with the end of its stderr.
    """
    with ExitStack() as stack:
        places, counter = [""] * job.ranks, ""
        if needs_hosts(job):
            hosts = stack.enter_context(Hosts(job.ranks))
            hosts.shape(RATES[job.link])
            places, counter = hosts.names, "eth0"
        elif not find_missing_tools():
            places, counter = stack.enter_context(Hosts(1)).names * job.ranks, "lo"
        plan = job.plan | {"counter": counter}
        record: dict[str, Any] = run_ranks("benchmarks.step.rank", plan, places, step=step)
        return record


def run_small_calls(*, quick: bool) -> dict[str, list[float]] | str:
    """Measure small calls on two MPI ranks; return the fields of SmallCalls, or why there are none.

    Args:
        quick: True for fewer calls.
    """
    beside = Path(sys.executable).parent / "mpirun"
    mpirun = str(beside) if beside.exists() else shutil.which("mpirun")
    if mpirun is None:
        return "mpirun was not found"
    plan = {"rounds": 3 if quick else 7, "calls": 30 if quick else 100}
    command = [mpirun, "-n", "2", "--oversubscribe", "--bind-to", "none", sys.executable]
    done = subprocess.run(
        [*command, "-m", "benchmarks.step.small", json.dumps(plan)],
        env=os.environ | RANK_ENVIRONMENT | _MPI,
        capture_output=True,
        text=True,
        timeout=SMALL_TIMEOUT,
        cwd=ROOT,
        check=False,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not lines:
        raise RuntimeError(f"the small calls failed\n{done.stderr[-3000:]}")
    found: dict[str, list[float]] = json.loads(lines[-1])
    return found
