"""Gathering of bytes over all ranks of a communicator or of Sites."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import TypeAlias, TypeVar

from collectives.allgather import gather_made
from collectives.channel import ByteArray, Channel
from collectives.errors import CollectiveError, is_shared
from collectives.sites.course import relay
from collectives.sites.sites import Sites

T = TypeVar("T")
Make: TypeAlias = "Callable[[], ByteArray | bytes]"

_LENGTH = struct.Struct("<Q")


def gather_all(comm: Channel | Sites, make: Make) -> list[bytes]:
    """Gather the bytes of all ranks, in rank order; over Sites between the sites, and then within each.

    Args:
        comm: all ranks call this together.
        make: makes this rank's bytes; if it raises, all ranks raise CollectiveError.
    """
    return [bytes(blob) for blob in gather_twice(comm, make)[0]]


def gather_twice(
    comm: Channel | Sites, make: Make, follow: Callable[[list[ByteArray]], bytes | None] | None = None
) -> tuple[Sequence[ByteArray | bytes], Sequence[ByteArray]]:
    """Gather the bytes of all ranks as ``gather_all``, and then further bytes if these need them.

    Args:
        comm, make: as for ``gather_all``.
        follow: as for ``gather_made``. It is not called over Sites.

    Returns the bytes of all ranks, and the further bytes of all ranks or nothing.
    """
    if not isinstance(comm, Sites):
        return gather_made(comm, make, follow)

    def join(rows: list[ByteArray]) -> bytes:
        return b"".join(_LENGTH.pack(len(blob)) + blob.tobytes() for blob in rows)

    def read(found: list[ByteArray]) -> list[bytes]:
        groups = [_split(joined.tobytes()) for joined in found]
        if any(len(group) != comm.across.size for group in groups):
            raise _made_another_call()
        return [group[site] for site in range(comm.across.size) for group in groups]

    return _relay(comm, make, join, read, "of all ranks"), []


def _made_another_call() -> CollectiveError:
    return CollectiveError("a rank made another call; call synchronize() on all ranks", reason="protocol")


def _split(data: bytes) -> list[bytes]:
    """Return the blobs of a site; raise CollectiveError if these are the bytes of another call."""
    blobs, at = [], 0
    while at < len(data):
        start = at + _LENGTH.size
        length = _LENGTH.unpack_from(data, at)[0] if start <= len(data) else 0
        at = start + length
        if at > len(data):
            raise _made_another_call()
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

    def forward(rows: list[ByteArray]) -> ByteArray | bytes:
        return rows[site] if comm.local.rank == index else b""

    return _relay(comm, make_if_leader, forward, lambda found: found[index], "of one rank")


def _relay(
    sites: Sites,
    make: Make,
    join: Callable[[list[ByteArray]], ByteArray | bytes],
    read: Callable[[list[ByteArray]], T],
    what: str,
) -> T:
    """Gather bytes as ``relay``, over sites whose sizes were compared, and read the result."""
    sites.compare_sizes()
    try:
        return read(relay(sites.local, sites.across, make, join, what))
    except BaseException as raised:
        if is_shared(raised) or is_shared(raised.__cause__):
            sites.compared = None
        raise
