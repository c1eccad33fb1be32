"""Communicator over gloo whose messages arrive later, as over a long link."""

from __future__ import annotations

import time
from typing import Any

from collectives import TorchComm
from collectives.communicator import Request

__all__ = ["DelayedComm", "LateRequest"]


class DelayedComm(TorchComm):
    """TorchComm whose receives and all-gathers complete ``delay`` seconds after the data has arrived.

    The data of an all-gather is complete when the last rank has begun it, so the delay counts from there, as
    on a real link.

    Args:
        delay: seconds.
        group: as for TorchComm.
    """

    def __init__(self, delay: float, group: Any = None) -> None:
        super().__init__(group)
        self._delay = delay

    def Irecv(self, buf: Any, source: int, tag: int = 0) -> Request:  # noqa: N802 - MPI's names
        """Start to receive, as TorchComm does."""
        return LateRequest(super().Irecv(buf, source, tag), self._delay)

    def Iallgather(self, sendbuf: Any, recvbuf: Any) -> Request:  # noqa: N802
        """Start to gather equal blocks; TorchComm calls Iallgatherv for it."""
        return super().Iallgather(sendbuf, recvbuf)

    def Iallgatherv(self, sendbuf: Any, recvbuf: Any) -> Request:  # noqa: N802
        """Start to gather blocks of any length, as TorchComm does."""
        return LateRequest(super().Iallgatherv(sendbuf, recvbuf), self._delay)


class LateRequest:
    """Request that completes some time after another one.

    Args:
        request: the other one.
        delay: seconds.
    """

    def __init__(self, request: Request, delay: float) -> None:
        self._request = request
        self._delay = delay
        self._due: float | None = None

    def Test(self) -> bool:  # noqa: N802
        """Return whether the other request has been complete for the delay."""
        if self._due is None and self._request.Test():
            self._due = time.perf_counter() + self._delay
        return self._due is not None and time.perf_counter() >= self._due
