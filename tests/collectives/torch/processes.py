"""Real processes of one torch.distributed group, each of which runs the same program."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]

HEAD = """
import json, os, sys
import numpy as np, torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
import collectives as co, wirecodec as wc
torch.set_num_threads(1)
rank, size = int(sys.argv[1]), int(sys.argv[2])
dist.init_process_group("gloo", rank=rank, world_size=size)
comm = co.TorchComm()
"""


def run(size: int, body: str) -> list[Any]:
    """Run ``size`` processes; return the last line of each, parsed as JSON."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    env = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "GLOO_SOCKET_IFNAME": "lo"}
    code = HEAD + body + "\ndist.destroy_process_group()\n"
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(rank), str(size)],
            env={**os.environ, **env},
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(size)
    ]
    results = []
    try:
        for process in processes:
            out, error = process.communicate(timeout=120)
            assert process.returncode == 0, error
            results.append(json.loads(out.strip().splitlines()[-1]))
    finally:
        for process in processes:
            process.kill()
    return results
