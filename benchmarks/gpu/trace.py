"""What a device does in some calls, from torch's profiler."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["has_cuda", "sum_busy", "sum_copied", "trace"]

BUSY = {"kernel", "gpu_memcpy", "gpu_memset"}


def has_cuda() -> bool:
    """Tell whether torch is installed and can use a GPU."""
    try:
        import torch
    except ImportError:
        return False
    return bool(torch.cuda.is_available())


def trace(call: Callable[[], object], calls: int) -> list[dict[str, Any]]:
    """Return the kernels and copies of some calls, as the events of the profiler's trace."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA], acc_events=True) as profiler:
        for _ in range(calls):
            call()
        torch.cuda.synchronize()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(path))
        events = json.loads(path.read_text())["traceEvents"]
    return [event for event in events if event.get("cat") in BUSY]


def sum_busy(events: list[dict[str, Any]]) -> float:
    """Return the milliseconds of all kernels, copies and memsets; those that overlap count twice."""
    return sum(float(event["dur"]) for event in events) / 1000


def sum_copied(events: list[dict[str, Any]]) -> tuple[int, int]:
    """Return the bytes that are copied to and from the host."""
    copies = [event for event in events if event["cat"] == "gpu_memcpy"]

    def count(kind: str) -> int:
        return sum(int(event["args"]["bytes"]) for event in copies if kind in event["name"])

    return count("DtoH"), count("HtoD")
