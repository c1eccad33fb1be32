"""A torch.distributed group of one process, for tests that compare with torch's hooks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

__all__ = ["open_group"]

_closed_groups: list[Any] = []
"""Groups that were destroyed, kept until the process ends.

A future of PowerSGD's hook holds its group. If one of gloo's threads drops the last reference, the group's
destructor joins that thread from itself, and C++ aborts with "Resource deadlock avoided" (torch 2.13).
"""


@contextmanager
def open_group(folder: Path) -> Iterator[None]:
    """Make the default group, over gloo with a store in ``folder``; destroy it at the end."""
    import torch.distributed as dist

    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=0, world_size=1)
    _closed_groups.append(dist.group.WORLD)
    try:
        yield
    finally:
        dist.destroy_process_group()
