"""Server that forks the processes of ``processes.run``: torch is imported once, which takes seconds.

    python -m tests.collectives.torch.server

It reads a line of JSON per group, forks its processes, and writes a line with their exit statuses. The keys
are "code", "arguments", "size", "cwd", "env", "folder" (of the outputs), "seconds" and "complete". A process
runs as one that Python starts for the code: it has its own sys.argv, folder, streams and environment. At its
end it joins its threads and runs what is registered with atexit. Only with "complete", it also destroys the
modules, which takes 2 s of a core.
"""

from __future__ import annotations

import atexit
import importlib
import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from types import CodeType
from typing import Any

HEAD = """
import json, os, sys
import numpy as np, torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
import collectives as co, wirecodec as wc
"""

LOAD = """
def load(comm):
    tensors = {name: np.arange(500, dtype=np.float32) for name in "ab"}
    for compressor in (wc.Compressor("topk(0.05) | rice | raw"), co.CLTk(0.05)):
        for _ in range(2):
            if isinstance(compressor, co.CLTk):
                compressor.allreduce(comm, tensors)
            else:
                co.allreduce(comm, tensors, compressor)

co.simulate(1, load)
"""
"""Imports Numba and loads the kernels of most groups."""


def main() -> None:
    """Serve groups until the standard input ends; in a process of a group, run its code."""
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(HEAD, names)
    names["torch"].set_num_threads(1)  # of each process, too
    importlib.import_module("torch._dynamo")  # the first optimizer of a process imports it
    exec(LOAD, names)
    for line in sys.stdin:
        request = json.loads(line)
        code = compile(request["code"], "<group>", "exec")
        children = []
        for rank in range(request["size"]):
            child = os.fork()
            if child == 0:
                become_rank(rank, request)
                return run_code(code, names, complete=request["complete"])
            children.append(child)
        print(json.dumps(wait_for(children, request["seconds"])), flush=True)
    return None


def become_rank(rank: int, request: dict[str, Any]) -> None:
    """Replace the arguments, the standard streams and the environment of this process."""
    os.environ.clear()
    os.environ.update(request["env"] | {"RANK": str(rank), "LOCAL_RANK": str(rank)})
    os.chdir(request["cwd"])
    sys.argv = ["-c", *request["arguments"]]
    folder = Path(request["folder"])
    streams = (Path(os.devnull), folder / f"{rank}.out", folder / f"{rank}.err")
    for number, path in enumerate(streams):
        file = os.open(path, os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, number)
        os.close(file)


def run_code(code: CodeType, names: dict[str, Any], *, complete: bool) -> None:
    """Run the code of a group, and end this process."""
    exec(code, dict(names))
    if complete:
        return
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def wait_for(children: list[int], seconds: float) -> list[int]:
    """Return the exit statuses of processes; kill those that run for too long."""
    end = time.monotonic() + seconds
    statuses: dict[int, int] = {}
    while len(statuses) < len(children):
        for child in set(children) - statuses.keys():
            if time.monotonic() > end:
                os.kill(child, signal.SIGKILL)
            found, status = os.waitpid(child, os.WNOHANG)
            if found:
                statuses[child] = os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    return [statuses[child] for child in children]


if __name__ == "__main__":
    main()
