"""A process of a gloo group dies: every public call raises a CollectiveError on the others, soon."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from typing import Any

import pytest

from tests.collectives.torch.processes import ROOT, run

pytest.importorskip("torch")

ENTRIES = {
    "hook, overlap": 2,
    "hook": 2,
    "average_gradients": 2,
    "LocalUpdates": 2,
    "allreduce": 3,
    "allgather": 2,
    "allgather_bytes": 2,
    "CLTk": 3,
    "GTopK": 2,
}
"""Number of ranks of each entry."""

BODY = """
import datetime, json, os, sys, tempfile, time, warnings
import numpy as np, torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
import collectives as co, wirecodec as wc

torch.set_num_threads(1)
x = np.arange(50_000, dtype="f4")

def hook(overlap):
    model = torch.nn.Linear(50, 20)
    ddp = DDP(model, process_group=dist.new_group())
    hook = co.torch_hook(compressor(), comm, model.named_parameters(), overlap=overlap)
    ddp.register_comm_hook(None, hook)
    def step():
        try:
            ddp(torch.ones(2, 50)).sum().backward()
        except co.CollectiveError as error:
            assert "wrap the model again" in str(error)
            assert all(p.grad.isnan().all() for p in model.parameters())
            raise
    return step

def average():
    p, one = torch.nn.Parameter(torch.zeros(9)), compressor()
    def step():
        p.grad = torch.ones(9)
        co.average_gradients(comm, {"p": p}.items(), one)
    return step

def compressor():
    return wc.Compressor("topk(0.5) | rice | raw")

def method(make, **settings):
    one = make()
    return lambda: one.allreduce(comm, x, **settings)

STEPS = {
    "hook, overlap": lambda: hook(True),
    "hook": lambda: hook(False),
    "average_gradients": average,
    "LocalUpdates": lambda: co.LocalUpdates(None, {"w": np.zeros(9)}, compressor(), comm, every=1).step,
    "allreduce": lambda: lambda: co.allreduce(comm, x, "topk(0.5) | rice | raw", algorithm="dense"),
    "allgather": lambda: lambda: co.allgather(comm, x, "topk(0.5) | rice | raw"),
    "allgather_bytes": lambda: lambda: co.allgather_bytes(comm, bytes(200_000)),
    "CLTk": lambda: method(lambda: co.CLTk(0.5)),
    "GTopK": lambda: method(lambda: co.GTopK(0.5)),
}

def take_part(entry, rank, size, store, result):
    global comm
    place = {"init_method": f"file://{store}", "rank": rank, "world_size": size}
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=60), **place)
    comm = co.TorchComm()
    step = STEPS[entry]()
    step()
    step()
    dist.barrier()
    if rank == 1:
        os._exit(0)
    begin, found = time.monotonic(), None
    try:
        for _ in range(3):  # a message may be sent before the connection is known to be lost
            step()
    except Exception as error:
        found = [type(error).__name__, getattr(error, "reason", ""), list(getattr(error, "ranks", ()))]
        found += [error.__cause__ is not None, str(error)]
    with open(result, "w") as file:
        json.dump([found, time.monotonic() - begin], file)
    os._exit(0)

def load_kernels(alone):
    global comm
    comm = alone
    for entry in STEPS.keys() - {"hook, overlap", "hook"}:
        step = STEPS[entry]()
        step()
        step()

co.simulate(1, load_kernels)
outcomes = {}
for entry, size in json.loads(sys.argv[1]).items():  # torch is imported once, and each rank is a fork
    with tempfile.TemporaryDirectory() as folder:
        children = []
        for rank in range(size):
            child = os.fork()
            if not child:
                try:
                    take_part(entry, rank, size, f"{folder}/store", f"{folder}/{rank}")
                finally:
                    os._exit(1)
            children.append(child)
        for child in children:
            os.waitpid(child, 0)
        outcomes[entry] = [json.load(open(f"{folder}/{rank}")) for rank in range(size) if rank != 1]
print(json.dumps(outcomes))
"""


@cache
def outcomes() -> Any:
    """Return what the other ranks of each entry raised, and after how many seconds."""
    env = {"GLOO_SOCKET_IFNAME": "lo"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", BODY, json.dumps(ENTRIES)],
        env={**os.environ, **env},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.strip().splitlines()[-1])


@pytest.mark.parametrize("entry", ENTRIES)
def test_the_others_raise_a_collective_error_that_names_the_dead_rank(entry: str) -> None:
    for found, seconds in outcomes()[entry]:
        assert found is not None
        kind, reason, ranks, chained, text = found
        assert (kind, reason, ranks) == ("CollectiveError", "transport", [1]), found
        assert chained or "cannot take part any more" in text  # another rank has noticed it
        assert "Rank 1 is missing" in text
        assert seconds < 20


LATE = """
import time
begin = time.monotonic()
co.allgather_bytes(comm, b"x")
dist.barrier()
found = None
if rank == 1:
    print("null", flush=True)
    os._exit(0)
time.sleep({0: 0, 2: 3, 3: 1.3, 4: 2}[rank])  # as long as a worker computes between two exchanges
if rank == 4:
    print("null", flush=True)
    os._exit(0)
try:
    for _ in range(3):
        co.allgather_bytes(comm, b"x")
except co.CollectiveError as error:
    found = [type(error).__name__, error.reason, error.ranks, str(error)]
time.sleep(max(0, begin + 6 - time.monotonic()))  # rank 0 hosts the store
print(json.dumps(found))
"""


def test_ranks_that_compute_for_longer_are_not_missing_and_all_name_the_same_rank() -> None:
    """Rank 0 notices the death at once, 3 and 2 compute meanwhile, and 4 dies after the verdict."""
    results = run(5, LATE)
    assert results[1] is results[4] is None
    agreed = results[0][2]
    assert agreed in ([1], [1, 4])  # the latter if rank 0 had to wait for a core
    for rank in (0, 2, 3):
        assert results[rank][:3] == ["CollectiveError", "transport", agreed]
        assert "Rank 1 is missing" in results[rank][3] or "Ranks 1, 4 are missing" in results[rank][3]
    assert ("The first rank that noticed it has named rank 1" in results[2][3]) == (agreed == [1])
