"""Soak: random collectives with random faults over MPI, on all ranks, for a time.

    mpirun -n 3 python -m tests.soak --seconds 300 --seed 1

All ranks draw the same steps. After each step they compare the verdict, the bits of the means and the number
of committed steps, over a communicator of their own. From time to time they check the sum rule, take a new
communicator, and save and load all states. At the end, memory, files and threads must not have grown.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import os
import random
import resource
import sys
import threading
import time
from contextlib import nullcontext
from typing import Any

import numpy as np
from mpi4py import MPI
from rich.progress import Progress

import collectives as co
from tests.soak.faults import FAULTS
from tests.soak.methods import METHODS, Track

SIZES = (1, 7, 300, 1500, 20_000)
DTYPES = ("f4", "f4", "f4", "f8")
MAX_GROWTH = 24 << 20  # bytes of resident memory after half of the time
CHECK_INTERVAL, RENEW_INTERVAL = 50, 400  # steps


class Soak:
    """State of one rank.

    Args:
        seed: of the steps, the same on all ranks.
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.side = MPI.COMM_WORLD.Dup()
        self.rank, self.size = self.side.rank, self.side.size
        self.channel = self.open()
        self.shapes = [
            {f"t{i}": self.random.choice(SIZES) for i in range(self.random.choice((1, 2, 5)))}
            for _ in range(3)
        ]
        self.objects: dict[tuple[str, int], Any] = {}
        self.tracks: dict[tuple[str, int], Track] = {}
        self.dtypes = [self.random.choice(DTYPES) for _ in self.shapes]
        self.steps = self.failed = 0

    def open(self) -> co.Channel:
        """Return a channel on a new communicator."""
        return co.Channel(MPI.COMM_WORLD.Dup(), timeout=60)

    def step(self) -> None:
        """Take one step of a random method, with or without a fault, and compare the ranks."""
        name = self.random.choice(list(METHODS))
        shape = self.random.randrange(len(self.shapes))
        fault = FAULTS[self.random.choice(list(FAULTS)) if self.random.random() < 0.3 else "none"]
        if name == "local updates" and not fault.is_of_values:
            fault = FAULTS["none"]
        faulty = self.random.randrange(self.size) == self.rank
        draw = np.random.default_rng([self.random.getrandbits(32), self.rank])
        gradients: dict[str, Any] = {
            key: draw.integers(-99, 100, size).astype(self.dtypes[shape])
            for key, size in self.shapes[shape].items()
        }
        method, key = METHODS[name], (name, shape)
        if key not in self.objects:
            self.objects[key], self.tracks[key] = method.make(self.channel), Track()
        one, given = self.objects[key], dict(gradients)
        if faulty:
            fault.change(given)
        means, verdict = {}, "ok"
        try:
            with fault.around() if faulty and fault.around is not None else nullcontext():
                means = dict(method.step(one, self.channel, given))
        except co.CollectiveError as error:
            verdict = f"{error.reason}: {error}"
        self.steps += 1
        self.failed += verdict != "ok"
        digest = hashlib.sha256(
            b"".join(np.ascontiguousarray(means[k]).tobytes() for k in sorted(means))
        ).hexdigest()
        seen = self.side.allgather((verdict, digest, method.steps(one)))
        where = f"step {self.steps}, {name}, shapes {self.shapes[shape]}, fault {fault.reasons}: {seen}"
        assert len(set(seen)) == 1, f"ranks differ: {where}"
        assert (verdict.partition(":")[0] in fault.reasons) if fault.reasons else verdict == "ok", where
        if verdict == "ok":
            self.tracks[key].add(gradients, means, self.size)
        if self.steps % CHECK_INTERVAL == 0:
            self.check(key)
        if self.steps % RENEW_INTERVAL == 0:
            self.renew()

    def check(self, key: tuple[str, int]) -> None:
        """Check the sum rule of one object."""
        method, one, track = METHODS[key[0]], self.objects[key], self.tracks[key]
        if not method.has_sum_rule:
            return
        for name, came_in in track.came_in.items():
            kept = method.keep(one, name)
            own = np.zeros_like(came_in) if kept is None else np.asarray(kept, np.float64).reshape(-1)
            total_in, total_kept = (sum(self.side.allgather(x)) for x in (came_in, own))
            left = total_in - total_kept - track.delivered[name]
            scale = np.abs(total_in).max() + np.abs(track.delivered[name]).max() + 1
            assert np.abs(left).max() <= method.tolerance * scale, (
                f"{key}, {name}: {np.abs(left).max()} is lost"
            )

    def renew(self) -> None:
        """Save and load all states in new objects, on a new communicator."""
        old: Any = self.channel.comm
        old.Free()
        self.channel = self.open()
        for (name, shape), one in self.objects.items():
            if name == "local updates":  # its channel is a part of it
                continue
            state, new = one.state_dict(), METHODS[name].make(self.channel)
            new.load_state_dict(state)
            self.objects[name, shape] = new
        for key in [key for key in self.objects if key[0] == "local updates"]:
            del self.objects[key], self.tracks[key]


def measure() -> tuple[int, int, int]:
    """Return resident memory in bytes, open files, and threads."""
    gc.collect()
    with open("/proc/self/statm") as file:
        pages = int(file.read().split()[1])
    return pages * resource.getpagesize(), len(os.listdir("/proc/self/fd")), threading.active_count()


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    soak, begin = Soak(options.seed), time.monotonic()
    early: tuple[int, int, int] | None = None
    with Progress(disable=soak.rank != 0 or not sys.stderr.isatty()) as progress:
        task = progress.add_task("steps", total=options.seconds)
        while soak.side.bcast(time.monotonic() - begin < options.seconds):
            soak.step()
            elapsed = time.monotonic() - begin
            progress.update(task, completed=elapsed)
            if early is None and soak.side.bcast(elapsed > options.seconds / 2):
                early = measure()
    for key in soak.objects:
        soak.check(key)
    late = measure()
    assert early is not None
    grown = tuple(after - before for before, after in zip(early, late, strict=True))
    everyone = soak.side.gather(grown)
    if soak.rank == 0:
        assert everyone is not None
        print(f"{soak.steps} steps, {soak.failed} of them with an error that all ranks raised alike")
        print("growth of memory, files and threads:", everyone)
        assert all(
            memory <= MAX_GROWTH and files <= 0 and threads <= 0 for memory, files, threads in everyone
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
