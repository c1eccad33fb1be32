"""Gathering of bytes over all ranks of a communicator or of Sites."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TypeAlias

from collectives.allgather import gather_made
from collectives.channel import ByteArray, Channel
from collectives.errors import CollectiveError, Nested
from collectives.sites.sites import Sites

Make: TypeAlias = "Callable[[], ByteArray | bytes]"

_LENGTH = struct.Struct("<Q")


def gather_all(comm: Channel | Sites, make: Make) -> list[bytes]:
    """Gather the bytes of all ranks, in rank order; over Sites within each site, and then between them.

    Args:
        comm: all ranks call this together.
        make: makes this rank's bytes; if it raises, all ranks raise CollectiveError.
    """
    if not isinstance(comm, Sites):
        return [blob.tobytes() for blob in gather_made(comm, make)[0]]
    comm.compare_sizes()
    site, error = list[bytes](), None
    try:
        site = [blob.tobytes() for blob in gather_made(comm.local, make)[0]]
    except Nested:  # which has interrupted this rank alone
        raise
    except CollectiveError as raised:
        error = raised

    def join() -> bytes:
        if error is not None:
            raise error
        return b"".join(_LENGTH.pack(len(blob)) + blob for blob in site)

    return [blob for joined in gather_made(comm.across, join)[0] for blob in _split(joined.tobytes())]


def _split(data: bytes) -> list[bytes]:
    """Return the blobs of a site; raise CollectiveError if these are the bytes of another call."""
    blobs, at = [], 0
    while at < len(data):
        start = at + _LENGTH.size
        length = _LENGTH.unpack_from(data, at)[0] if start <= len(data) else 0
        at = start + length
        if at > len(data):
            raise CollectiveError("a rank made another call; call synchronize() on all", reason="protocol")
        blobs.append(data[start:at])
    return blobs


def broadcast_from(comm: Channel | Sites, make: Make, leader: int) -> ByteArray:
    """Send bytes of one rank to all; over Sites between the sites first, and then within each.

    Args:
        comm: all ranks call this together.
        make: makes the bytes on the rank ``leader``; if it raises there, all ranks raise CollectiveError.
        leader: a rank, the same on all ranks.
    """

    def make_if_leader() -> ByteArray | bytes:
        return make() if comm.rank == leader else b""

    if not isinstance(comm, Sites):
        return gather_made(comm, make_if_leader)[0][leader]
    site, index = divmod(leader, comm.local.size)
    blob: ByteArray | bytes = b""
    error: CollectiveError | None = None
    try:
        blob = gather_made(comm.across, make_if_leader)[0][site]
    except Nested:  # which has interrupted this rank alone
        raise
    except CollectiveError as raised:
        error = raised

    def forward() -> ByteArray | bytes:
        if error is not None:
            raise error
        return blob if comm.local.rank == index else b""

    return gather_made(comm.local, forward)[0][index]
