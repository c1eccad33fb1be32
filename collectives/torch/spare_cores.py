"""Whether the hosts of all ranks have cores for a thread beside the computation."""

from __future__ import annotations

import json
import os
import socket
from contextlib import suppress
from typing import Any

from collectives.allgather import allgather_bytes
from collectives.channel import Channel
from collectives.sites.sites import Sites

CORES_PER_RANK = 2
"""One computes, and one exchanges. With fewer, overlapping made a step 12 to 16 ms slower."""


def has_spare_cores(channel: Channel | Sites, *, on_gpu: bool) -> bool:
    """Return whether each host has cores for the exchange beside backward; the same on all ranks.

    Args:
        channel: open, or Sites; all ranks call this together.
        on_gpu: whether this rank computes on a GPU, so that its cores are free.
    """
    if isinstance(channel, Sites):
        here = has_spare_cores(channel.local, on_gpu=on_gpu)
        return all(vote.tobytes() == b"1" for vote in allgather_bytes(channel.across, b"01"[here : here + 1]))
    own = {"host": _name_host(), "cores": _list_cores(), "on_gpu": on_gpu}
    table = [json.loads(text.tobytes()) for text in allgather_bytes(channel, json.dumps(own).encode())]
    return all(one["on_gpu"] or _has_spare(one["host"], table) for one in table)


def _has_spare(host: str, table: list[dict[str, Any]]) -> bool:
    """Return whether a host has ``CORES_PER_RANK`` for each of its ranks."""
    ranks = [one for one in table if one["host"] == host]
    cores = {core for one in ranks for core in one["cores"]}
    return len(cores) >= CORES_PER_RANK * len(ranks)


def _name_host() -> str:
    """Return a name that ranks have in common if they share cores; containers have own host names."""
    with suppress(OSError), open("/proc/sys/kernel/random/boot_id") as file:
        return file.read().strip()
    return socket.gethostname()


def _list_cores() -> list[int]:
    """Return the numbers of the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))
