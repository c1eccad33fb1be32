"""A run of one method: an S3 server and the trainer on one host, and rollouts on hosts with slow links."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.common.hosts import RATES, Hosts
from benchmarks.common.store import ROOT
from benchmarks.feed.exchange import BUCKET, PORT
from benchmarks.feed.records import Published, Served
from benchmarks.feed.settings import Settings

__all__ = ["Records", "run_method"]

Records = tuple[list[Published], list[Served]]


def run_method(method: str, settings: Settings, timeout: float = 400.0) -> Records:
    """Run a method on emulated hosts, and return its records.

    Args:
        method: its name.
        settings: of the run, whose start has been prepared.
        timeout: seconds for the run.

    Raises:
        RuntimeError: a process fails, or the rollouts do not end with the trainer's bits.
        TimeoutError: the run takes longer than ``timeout``.
    """
    with tempfile.TemporaryDirectory() as folder, Hosts(settings.rollouts) as hosts:
        hosts.shape(RATES[settings.link])
        (Path(folder) / "data" / BUCKET).mkdir(parents=True)
        server = ["localbucket", "--host", "0.0.0.0", "--port", str(PORT), f"{folder}/data"]
        given = [folder, hosts.launcher, method, settings.pack()]
        wanted = [(hosts.launcher, ["benchmarks.feed.trainer", *given])]
        for number, host in enumerate(hosts.names):
            wanted.append((host, ["benchmarks.feed.rollout", *given, str(number)]))
        _run_processes((hosts.launcher, server), wanted, Path(folder), timeout)
        found = {path.stem: json.loads(path.read_text()) for path in Path(folder).glob("*.json")}
    return _read_records(method, found, settings.rollouts)


def _run_processes(
    server: tuple[str, list[str]], others: Sequence[tuple[str, list[str]]], folder: Path, timeout: float
) -> None:
    """Run modules on hosts until all but the server have ended; end all if one fails."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    errors = [folder / f"stderr-{number}" for number in range(1 + len(others))]
    running = []
    for path, (host, module) in zip(errors, (server, *others), strict=True):
        command = ["ip", "netns", "exec", host, sys.executable, "-m", *module]
        with path.open("wb") as stderr:
            running.append(
                subprocess.Popen(command, env=environment, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=stderr)
            )
    end = time.monotonic() + timeout
    try:
        while any(one.poll() is None for one in running[1:]):
            failed = [path for path, one in zip(errors, running, strict=True) if one.poll()]
            if failed:
                raise RuntimeError(failed[0].read_text(errors="replace")[-3000:])
            if time.monotonic() > end:
                raise TimeoutError(f"the run takes longer than {timeout:.0f} s")
            time.sleep(0.2)
    finally:
        for one in running:
            if one.poll() is None:
                one.send_signal(signal.SIGKILL)
            one.wait()
    failed = [path for path, one in zip(errors[1:], running[1:], strict=True) if one.returncode]
    if failed:
        raise RuntimeError(failed[0].read_text(errors="replace")[-3000:])


def _read_records(method: str, found: dict[str, Any], rollouts: int) -> Records:
    """Return the records of all processes; raise RuntimeError if their weights differ at the end."""
    trainer = found["trainer"]
    start = trainer["versions"][0][1]
    published = [
        Published(method, version, ended - start, done - start, nbytes)
        for version, ended, done, nbytes in trainer["versions"]
    ]
    served = []
    for number in range(rollouts):
        record = found[f"rollout-{number}"]
        if record["digest"] != trainer["digest"]:
            raise RuntimeError(f"{method}: rollout {number} has other weights than the trainer at the end")
        for version, at, *others in record["updates"]:
            served.append(Served(method, number, version, at - start, *others))
    return published, served
