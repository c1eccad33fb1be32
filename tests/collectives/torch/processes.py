"""Real processes of one torch.distributed group, each of which runs the same program."""

from __future__ import annotations

import atexit
import functools
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.collectives.torch.server import HEAD
from tests.mpi_processes import die_with_parent

ROOT = Path(__file__).parents[3]

GROUP = """
dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
comm = co.TorchComm()
"""


def run(size: int, body: str, *, complete: bool = False) -> list[Any]:
    """Run ``size`` processes; return the last line of each, parsed as JSON.

    Args:
        size: number of processes.
        body: their code, after ``HEAD`` and ``GROUP``.
        complete: whether the processes end as programs do, with all destructors.
    """
    outputs = run_program(size, HEAD + GROUP + body + "\ndist.destroy_process_group()\n", complete=complete)
    return [json.loads(output.strip().splitlines()[-1]) for output in outputs]


def run_program(
    size: int, code: str, arguments: Sequence[str] = (), *, cwd: Path | None = None, complete: bool = False
) -> list[str]:
    """Run a program in ``size`` processes that ``torchrun`` could have started; return their outputs.

    Args:
        size: number of processes.
        code: the program.
        arguments: its arguments.
        cwd: its current folder; None for that of the server.
        complete: whether the processes end as programs do, with all destructors.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    env = dict(os.environ) | {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "WORLD_SIZE": str(size),
        "GLOO_SOCKET_IFNAME": "lo",
    }
    with tempfile.TemporaryDirectory() as folder:
        request = {"code": code, "size": size, "arguments": list(arguments), "env": env, "folder": folder}
        request |= {"cwd": str(cwd or ROOT), "seconds": 240, "complete": complete}
        server = start_server()
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(json.dumps(request) + "\n")
        server.stdin.flush()
        statuses = json.loads(server.stdout.readline())
        outputs = []
        for rank, status in enumerate(statuses):
            out, error = (Path(folder, f"{rank}.{stream}").read_text() for stream in ("out", "err"))
            assert status == 0, f"rank {rank} ended with {status}: {error}"
            outputs.append(out)
    return outputs


@functools.cache
def start_server() -> subprocess.Popen[str]:
    """Start the server that forks processes; it ends with this process."""
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.collectives.torch.server"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=die_with_parent,  # noqa: PLW1509
    )
    atexit.register(server.communicate)  # closes its input and waits
    return server
