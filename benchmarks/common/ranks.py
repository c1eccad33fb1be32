"""Ranks over torch.distributed and gloo: processes on this machine or on emulated hosts, and their record.

A module that runs as ranks ends with ``run_torch_rank(measure)``. Rank 0 prints a line of JSON per event, and
the record at the end.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any

from benchmarks.common.processes import THREADS
from benchmarks.common.store import ROOT

__all__ = ["RANK_ENVIRONMENT", "report_event", "run_ranks", "run_torch_rank"]

RANK_ENVIRONMENT = dict.fromkeys(THREADS, "1") | {"PYTHONPATH": str(ROOT)}
"""Variables of each rank."""


def run_ranks(
    module: str,
    plan: Any,
    places: Sequence[str],
    *,
    timeout: float = 1200,
    step: Callable[[str], None] = lambda name: None,
    environment: dict[str, str] | None = None,
) -> Any:
    """Run a module as one rank per place; return the record of rank 0.

    All ranks are stopped as soon as one fails: the others would wait for it for half an hour.

    Args:
        module: calls ``run_torch_rank``.
        plan: argument of the module, for JSON.
        places: namespace of each rank's host; "" for this one.
        timeout: seconds until all ranks are stopped.
        step: called with the name of each event before it starts.
        environment: further variables.

    Raises:
        RuntimeError: a rank failed or was stopped, with the end of the ranks' stderr.
    """
    alone = len(set(places)) == 1
    variables = {
        "MASTER_ADDR": "127.0.0.1" if alone else places[0],
        "MASTER_PORT": str(_find_port()),
        "WORLD_SIZE": str(len(places)),
        "GLOO_SOCKET_IFNAME": ("lo" if alone else "eth0") if sys.platform == "linux" else "",
    }
    command = [sys.executable, "-m", module, json.dumps(plan)]
    record: Any = None
    with tempfile.TemporaryFile("w+") as errors:
        ranks = [
            subprocess.Popen(
                [*(("ip", "netns", "exec", place) if place else ()), *command],
                env=os.environ | RANK_ENVIRONMENT | variables | (environment or {}) | {"RANK": str(rank)},
                stdout=subprocess.PIPE if rank == 0 else subprocess.DEVNULL,
                stderr=errors,
                text=True,
                cwd=ROOT,
            )
            for rank, place in enumerate(places)
        ]
        timer = threading.Timer(timeout, _kill, [ranks])
        timer.start()
        watchers = [threading.Thread(target=_watch, args=(one, ranks), daemon=True) for one in ranks]
        for watcher in watchers:
            watcher.start()
        assert ranks[0].stdout is not None
        try:
            for line in ranks[0].stdout:
                event = json.loads(line) if line.startswith("{") else {}
                if "event" in event:
                    step(event["event"])
                record = event.get("record", record)
            for watcher in watchers:
                watcher.join()
        finally:
            timer.cancel()
            _kill(ranks)
            for one in ranks:
                one.wait()
            ranks[0].stdout.close()
        if record is None:
            errors.seek(0)
            raise RuntimeError(f"a rank failed\n{errors.read()[-3000:]}")
    return record


def run_torch_rank(measure: Callable[[Any], Any]) -> None:
    """Call ``measure`` with the plan in the argument, in a group of all ranks; rank 0 prints the record."""
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    record = measure(json.loads(sys.argv[1]))
    dist.barrier()
    _print(record=record)
    dist.barrier()
    os._exit(0)  # gloo's threads may outlive the group


def report_event(name: str) -> None:
    """Send the name of an event to ``run_ranks``, on rank 0."""
    _print(event=name)


def _print(**fields: Any) -> None:
    if os.environ["RANK"] == "0":
        print(json.dumps(fields), flush=True)


def _watch(one: subprocess.Popen[str], ranks: Sequence[subprocess.Popen[str]]) -> None:
    """Wait for a process, and stop all if it fails."""
    if one.wait():
        _kill(ranks)


def _kill(ranks: Sequence[subprocess.Popen[str]]) -> None:
    for one in ranks:
        if one.poll() is None:
            one.kill()


def _find_port() -> int:
    with closing(socket.socket()) as server:
        server.bind(("127.0.0.1", 0))
        return int(server.getsockname()[1])
