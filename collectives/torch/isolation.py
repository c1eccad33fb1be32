"""Connections of a channel beside the collectives that a program makes at the same time."""

from __future__ import annotations

import sys
from functools import partial
from uuid import uuid4

from collectives.allgather import allgather_bytes
from collectives.channel import Channel
from collectives.communicator import TransportError
from collectives.errors import CollectiveError
from collectives.gloo.group import GroupComm
from collectives.sites.sites import Sites
from wirecodec.interop import Latch


def isolate(ends: Channel | Sites) -> None:
    """Separate all-gathers of groups of torch.distributed from other collectives of these groups.

    Other communicators need nothing. All ranks call this together, before a thread exchanges, and while the
    channel's thread is idle. If it raises, they call it again before their next exchange in a thread.

    Raises:
        CollectiveError: a rank did not open its connections.
    """
    for channel, _ in ends.channels():
        comm = channel.comm
        if not isinstance(comm, GroupComm) or comm.is_isolated:
            continue
        if not sys.modules["torch.distributed"].is_initialized():
            continue  # a group that is not of torch.distributed has no other collectives
        keys = allgather_bytes(channel, uuid4().bytes if channel.rank == 0 else b"")
        connected, errors = Latch(), list[BaseException]()
        # In the thread, which no interrupt reaches: the other ranks' connections need this rank's.
        channel.worker.submit(partial(_connect, comm, keys[0].tobytes().hex(), connected, errors))
        connected.wait()
        for error in errors:
            if not isinstance(error, TransportError):
                raise error
            text = f"rank {channel.rank}: a rank did not open its connections for the thread: {error}"
            raise CollectiveError(text, reason="transport") from error


def _connect(comm: GroupComm, key: str, connected: Latch, errors: list[BaseException]) -> None:
    """Open connections, and keep an error."""
    try:
        comm.isolate(key)
    except BaseException as error:
        errors.append(error)
    connected.set()
