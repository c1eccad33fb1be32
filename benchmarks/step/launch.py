"""Launch of ranks: torch processes on this machine or on emulated hosts, and MPI processes."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from benchmarks.collectives.hosts import RATES, Hosts, find_missing_tools
from benchmarks.step.plan import Job

__all__ = ["needs_hosts", "run_job", "run_small_calls"]

_ROOT = Path(__file__).parents[2]
_ENVIRONMENT = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL", "NUMBA")}
_ENVIRONMENT |= {"PYTHONPATH": str(_ROOT)}
_MPI = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_pml": "ob1",
    "OMPI_MCA_btl": "self,sm",
    "OMPI_MCA_mpi_yield_when_idle": "1",
}
SMALL_TIMEOUT = 300
JOB_TIMEOUT = 1200


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
    inside: list[list[str]] = [[] for _ in range(job.ranks)]
    address, interface, counter = "127.0.0.1", "lo", ""
    with ExitStack() as stack:
        if needs_hosts(job):
            hosts = stack.enter_context(Hosts(job.ranks))
            hosts.shape(RATES[job.link])
            inside = [["ip", "netns", "exec", name] for name in hosts.names]
            address, interface, counter = hosts.names[0], "eth0", "eth0"
        elif not find_missing_tools():
            alone = stack.enter_context(Hosts(1))
            inside = [["ip", "netns", "exec", alone.names[0]]] * job.ranks
            counter = "lo"
        environment = {
            "MASTER_ADDR": address,
            "MASTER_PORT": str(_find_port()),
            "WORLD_SIZE": str(job.ranks),
            "GLOO_SOCKET_IFNAME": interface if sys.platform == "linux" else "",
        }
        plan = json.dumps(job.plan | {"counter": counter})
        command = [sys.executable, "-m", "benchmarks.step.rank", plan]
        return _run_ranks([[*prefix, *command] for prefix in inside], environment, step)


def _run_ranks(
    commands: Sequence[Sequence[str]], environment: dict[str, str], step: Callable[[str], None]
) -> dict[str, Any]:
    """Run one process per command; stop all of them as soon as one fails."""
    record: dict[str, Any] = {}
    with tempfile.TemporaryFile("w+") as errors:
        ranks = [
            subprocess.Popen(
                command,
                env=os.environ | _ENVIRONMENT | environment | {"RANK": str(rank)},
                stdout=subprocess.PIPE if rank == 0 else subprocess.DEVNULL,
                stderr=errors,
                text=True,
                cwd=_ROOT,
            )
            for rank, command in enumerate(commands)
        ]
        timer = threading.Timer(JOB_TIMEOUT, _kill, [ranks])
        timer.start()
        watchers = [threading.Thread(target=_watch, args=(one, ranks), daemon=True) for one in ranks]
        for watcher in watchers:
            watcher.start()
        assert ranks[0].stdout is not None
        try:
            for line in ranks[0].stdout:
                event = json.loads(line) if line.startswith("{") else {}
                if event.get("kind") == "tick":
                    step(event["name"])
                elif event.get("kind") == "record":
                    record = event
            for watcher in watchers:
                watcher.join()
        finally:
            timer.cancel()
            _kill(ranks)
            for one in ranks:
                one.wait()
            ranks[0].stdout.close()
        if not record:
            errors.seek(0)
            raise RuntimeError(f"a rank failed\n{errors.read()[-3000:]}")
    return record


def _watch(one: subprocess.Popen[str], ranks: Sequence[subprocess.Popen[str]]) -> None:
    """Wait for a process, and stop all if it fails: the others would wait for it for half an hour."""
    if one.wait():
        _kill(ranks)


def _kill(ranks: Sequence[subprocess.Popen[str]]) -> None:
    for one in ranks:
        if one.poll() is None:
            one.kill()


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
        env=os.environ | _ENVIRONMENT | _MPI,
        capture_output=True,
        text=True,
        timeout=SMALL_TIMEOUT,
        cwd=_ROOT,
        check=False,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not lines:
        raise RuntimeError(f"the small calls failed\n{done.stderr[-3000:]}")
    found: dict[str, list[float]] = json.loads(lines[-1])
    return found


def _find_port() -> int:
    with closing(socket.socket()) as server:
        server.bind(("127.0.0.1", 0))
        return int(server.getsockname()[1])
