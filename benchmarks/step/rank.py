"""One rank of a job: builds all systems in one process, and measures their steps in turns."""

from __future__ import annotations

import ctypes
import gc
import hashlib
import math
import random
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common.ranks import report_event, run_torch_rank
from benchmarks.step.delay import DelayedComm
from benchmarks.step.models import build as build_model
from benchmarks.step.stages import count_all_reduces, recorded
from benchmarks.step.systems import COMPUTING, OURS, PLAIN, System
from benchmarks.step.systems import build as build_system

__all__ = ["check_gradients", "measure"]

MIN_WARM_UP, MAX_WARM_UP = 2, 4
SLOW_STEP, SLOW_ROUNDS = 1.5, 2
"""Seconds of a step from which the warm-up is short, and the rounds that such a system has."""


def measure(plan: Mapping[str, Any]) -> dict[str, Any]:
    """Measure all systems of a job.

    Args:
        plan: ``Job.plan``.
    """
    systems: dict[str, System] = {}
    peaks: dict[str, float] = {}
    durations: dict[str, float] = {}
    for name in plan["systems"]:
        report_event(f"{name}: warm-up")
        if plan["memory"]:  # what is loaded or compiled on first use is not part of it
            _warm_up(_build(name, plan))
            gc.collect()
        before = _reset_peak()
        systems[name] = _build(name, plan)
        durations[name] = _warm_up(systems[name])
        if plan["memory"]:
            peaks[name] = _read_status("VmHWM") - before
        if name != COMPUTING:
            check_gradients(name, systems[name].model)
    found: dict[str, Any] = {name: {"times": [], "processor": []} for name in systems}
    touched: dict[str, list[float]] = {"add": [], "fill": []}
    elements = sum(p.numel() for p in systems[COMPUTING].model.parameters())
    gradient, residual = np.ones(elements, np.float32), np.ones(elements, np.float32)
    for turn in range(plan["rounds"]):
        for name in random.Random(turn).sample(list(systems), len(systems)):
            if turn >= SLOW_ROUNDS and durations[name] > SLOW_STEP:
                continue
            report_event(f"{name}: round {turn + 1} of {plan['rounds']}")
            steps = max(1, min(plan["max_steps"], round(plan["seconds"] / durations[name])))
            _measure_round(systems[name], steps, plan, found[name])
        touched["add"].append(_time_together(lambda: np.add(residual, gradient, out=residual)))
        touched["fill"].append(_time_together(lambda: gradient.fill(0)))
    for name, system in systems.items():
        report_event(f"{name}: stages")
        found[name] |= _measure_stages(name, system, plan["stage_steps"] if name in OURS else 1)
        found[name]["peak"] = peaks.get(name)
    tensors = len(list(systems[COMPUTING].model.parameters()))
    return {
        **{name: plan[name] for name in ("model", "ranks", "link")},
        "parameters": elements,
        "tensors": tensors,
        "systems": found,
        **touched,
    }


def _build(name: str, plan: Mapping[str, Any]) -> System:
    """Build a system on a model of its own; the ranks have different batches."""
    import torch.distributed as dist

    import collectives as co

    delay = plan["delay"]
    return build_system(
        name,
        build_model(plan["model"], dist.get_rank()),
        (lambda: DelayedComm(delay)) if delay else co.TorchComm,
    )


def _warm_up(system: System) -> float:
    """Take some steps; return the seconds of the shortest one on rank 0."""
    shortest = math.inf
    for number in range(MAX_WARM_UP):
        start = time.perf_counter()
        system.step()
        shortest = min(shortest, _agree(time.perf_counter() - start))
        if number + 1 >= MIN_WARM_UP and shortest > SLOW_STEP:
            break
    return shortest


def _agree(value: float) -> float:
    """Return the value of rank 0."""
    import torch
    import torch.distributed as dist

    shared = torch.tensor(value, dtype=torch.float64)
    dist.broadcast(shared, 0)
    return float(shared)


def check_gradients(name: str, model: Any) -> None:
    """Raise RuntimeError if ranks have other averaged gradients, or if one is not finite."""
    import torch
    import torch.distributed as dist

    total = hashlib.sha256()
    for parameter in model.parameters():
        if not bool(torch.isfinite(parameter.grad).all()):
            raise RuntimeError(f"{name}: a gradient is not finite")
        total.update(parameter.grad.numpy().tobytes())
    digests: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(digests, total.hexdigest())
    if len(set(digests)) > 1:
        raise RuntimeError(f"{name}: the ranks have different gradients")


def _measure_round(system: System, steps: int, plan: Mapping[str, Any], into: dict[str, Any]) -> None:
    """Append the times of some steps, and set the bytes per step."""
    import torch.distributed as dist

    dist.barrier()
    sent, counted = system.bytes_sent() if system.bytes_sent else 0, _read_counter(plan["counter"])
    dist.barrier()
    start, used = time.perf_counter(), time.process_time()
    for _ in range(steps):
        system.step()
    into["processor"].append((time.process_time() - used) / steps)
    into["times"].append((time.perf_counter() - start) / steps)
    if system.bytes_sent is not None:
        into["sent"] = (system.bytes_sent() - sent) / steps
    dist.barrier()
    if plan["counter"]:
        spread = plan["ranks"] if plan["counter"] == "lo" else 1
        into["link_bytes"] = (_read_counter(plan["counter"]) - counted) / spread / steps


def _read_counter(interface: str) -> int:
    """Read the bytes that an interface of this namespace has sent; 0 without one."""
    if not interface:
        return 0
    return int(Path(f"/sys/class/net/{interface}/statistics/tx_bytes").read_text())


def _time_together(call: Callable[[], object], calls: int = 5) -> float:
    """Return the seconds of a call while all ranks make it."""
    import torch.distributed as dist

    call()
    dist.barrier()
    start = time.perf_counter()
    for _ in range(calls):
        call()
    return (time.perf_counter() - start) / calls


def _measure_stages(name: str, system: System, steps: int) -> dict[str, Any]:
    """Return the stages and the number of exchanges per step."""
    if name == COMPUTING:
        return {}
    if name == PLAIN:
        data = system.wrapped._get_ddp_logging_data()
        sizes = data.get("rebuilt_bucket_sizes") or data.get("bucket_sizes") or ""
        return {"exchanges": len(str(sizes).split(","))}
    if name not in OURS:
        with count_all_reduces() as calls:
            system.step()
        return {"exchanges": len(calls)}
    with recorded() as recorder:
        for _ in range(steps):
            system.step()
    stages = {stage: [value / steps for value in pair] for stage, pair in recorder.totals.items()}
    return {"stages": stages, "exchanges": recorder.exchanges / steps}


def _reset_peak() -> float:
    """Give free memory back, reset the peak of this process, and return its memory in bytes."""
    gc.collect()
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return _read_status("VmRSS")


def _read_status(field: str) -> float:
    """Return a field of this process's status, in bytes, or NaN if it is missing."""
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith(field + ":"):
                return 1024.0 * int(line.split()[1])
    return float("nan")


if __name__ == "__main__":
    run_torch_rank(measure)
