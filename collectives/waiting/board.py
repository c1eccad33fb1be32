"""Boards of notices: short messages that never wait for their receiver.

A notice has a tag of its own, NOTICE_TAG, so that it cannot be received as a payload. Any communicator can
provide a better board as its attribute ``notices``.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any, Protocol, cast

import numpy as np

from collectives.communicator import Request, has_members

NOTICE_TAG = 0x5744  # of every notice; that of all other messages is one less
NOTICE_SIZE = 256  # bytes
PAUSE = 0.01  # seconds between two looks


class Board(Protocol):
    """Exchange of notices of NOTICE_SIZE bytes between the ranks of a communicator."""

    def post(self, data: bytes, ranks: Iterable[int]) -> None:
        """Send a notice to these ranks, or to more."""
        ...

    def read(self) -> Mapping[int, bytes]:
        """Return the notices that have arrived since the last call, by sender."""
        ...

    def wait(self) -> bool:
        """Wait a moment for notices; return False if no further one can arrive."""
        ...


class KeepingBoard(Board, Protocol):
    """Board that outlives its ranks, so that all of them can take the verdict of the first one."""

    def keep(self, text: str) -> str:
        """Return the text that the first rank has passed; this rank's own if the board does not answer."""
        ...


def find_board(comm: Any) -> Board | None:
    """Return the communicator's own board, or one of messages; None if it cannot receive a notice."""
    own = getattr(comm, "notices", None)
    if has_members(own, Board):
        return cast(Board, own)
    if hasattr(comm, "block"):
        return _BlockingBoard(comm)
    return _ProbingBoard(comm) if hasattr(comm, "Iprobe") else None


class _ProbingBoard:
    """Board of messages that are probed for, so that no receive is left open."""

    def __init__(self, comm: Any) -> None:
        self._comm = comm
        self._sends: list[tuple[Request, bytes]] = []  # kept until the channel is

    def post(self, data: bytes, ranks: Iterable[int]) -> None:
        """Send NOTICE_SIZE bytes to ranks."""
        for rank in ranks:
            self._sends.append((self._comm.Isend(data, rank, NOTICE_TAG), data))

    def read(self) -> Mapping[int, bytes]:
        """Return the notices that have arrived since the last call, by sender."""
        notices = {}
        for rank in range(self._comm.size):
            while rank != self._comm.rank and self._comm.Iprobe(rank, NOTICE_TAG):
                buffer = np.empty(NOTICE_SIZE, np.uint8)
                request = self._comm.Irecv(buffer, rank, NOTICE_TAG)
                while not request.Test():  # it has arrived already
                    pass
                notices[rank] = buffer.tobytes()
        return notices

    def wait(self) -> bool:
        """Wait a moment."""
        time.sleep(PAUSE)
        return True


class _BlockingBoard:
    """Board of messages on a communicator that knows when none can arrive any more."""

    def __init__(self, comm: Any) -> None:
        self._comm = comm
        self._receives: dict[int, tuple[Request, Any]] = {}

    def post(self, data: bytes, ranks: Iterable[int]) -> None:
        """Send NOTICE_SIZE bytes to ranks."""
        for rank in ranks:
            self._comm.Isend(data, rank, NOTICE_TAG)

    def wait(self) -> bool:
        """Wait for a notice; return False if no further one can arrive."""
        for rank in range(self._comm.size):
            if rank != self._comm.rank and rank not in self._receives:
                buffer = np.empty(NOTICE_SIZE, np.uint8)
                self._receives[rank] = self._comm.Irecv(buffer, rank, NOTICE_TAG), buffer
        return bool(self._comm.block([request for request, _ in self._receives.values()]))

    def read(self) -> Mapping[int, bytes]:
        """Return the notices that have arrived since the last call, by sender."""
        arrived = [rank for rank, (request, _) in self._receives.items() if request.Test()]
        return {rank: self._receives.pop(rank)[1].tobytes() for rank in arrived}
