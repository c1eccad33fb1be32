"""One MPI rank that measures calls on few small tensors, and native all-gathers of as many bytes."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import collectives as co
import wirecodec as wc
from benchmarks.common.rank import run_rank
from benchmarks.step.systems import TOPK

__all__ = ["FEW", "MANY", "NATIVE", "SmallCalls", "main", "measure"]

ELEMENTS, FEW, MANY = 1000, 10, 110
NATIVE = "native"
NATIVE_BYTES = (64, 800)
"""Of a header, and about those of the payload of ``FEW`` tensors."""


@dataclass(frozen=True)
class SmallCalls:
    """Seconds per call of each round.

    Attributes:
        few, many: ``allreduce`` of ``FEW`` and ``MANY`` tensors.
        native: two all-gathers of MPI.
    """

    few: list[float]
    many: list[float]
    native: list[float]

    @property
    def per_tensor(self) -> list[float]:
        """Return the seconds per further tensor, of each round."""
        pairs = zip(self.few, self.many, strict=True)
        return [(many - few) / (MANY - FEW) for few, many in pairs]

    @property
    def call(self) -> float:
        """Return the median seconds of a call with ``FEW`` tensors."""
        return statistics.median(self.few)


def main() -> int:
    """Measure the plan in the argument, and print one JSON line."""
    import json

    def run(comm: Any, plan: Mapping[str, Any]) -> None:
        found = measure(comm, plan["rounds"], plan["calls"])
        if comm.rank == 0:
            print(json.dumps(found), flush=True)

    return run_rank(run)


def measure(comm: Any, rounds: int, calls: int) -> dict[str, list[float]]:
    """Measure all calls in turns; return the fields of SmallCalls.

    Args:
        comm: MPI's communicator of all ranks.
        rounds: of each call.
        calls: of each kind in a round.
    """
    methods = {"few": _make_call(comm, FEW), "many": _make_call(comm, MANY), "native": _make_native(comm)}
    times: dict[str, list[float]] = {name: [] for name in methods}
    for turn in range(rounds + 1):  # the first one warms up
        for name, call in methods.items():
            comm.Barrier()
            start = time.perf_counter()
            for _ in range(calls):
                call()
            if turn:
                times[name].append((time.perf_counter() - start) / calls)
    return times


def _make_call(comm: Any, count: int) -> Callable[[], object]:
    """Make the call of an all-reduce of some tensors, with a Compressor of its own."""
    random = np.random.default_rng(comm.rank)
    tensors = {f"layer.{i}": random.standard_normal(ELEMENTS, np.float32) for i in range(count)}
    out = {name: np.empty_like(tensor) for name, tensor in tensors.items()}
    compressor = wc.Compressor(TOPK)
    return lambda: co.allreduce(comm, tensors, compressor, out=out)


def _make_native(comm: Any) -> Callable[[], object]:
    """Make the call of MPI's all-gathers, one after the other."""
    sent = [np.zeros(size, np.uint8) for size in NATIVE_BYTES]
    received = [np.empty(size * comm.size, np.uint8) for size in NATIVE_BYTES]

    def call() -> None:
        for block, blocks in zip(sent, received, strict=True):
            comm.Iallgather(block, blocks).Wait()

    return call


if __name__ == "__main__":
    raise SystemExit(main())
