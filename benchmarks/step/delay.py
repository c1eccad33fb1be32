"""Communicator over gloo whose messages arrive later, as over a long link."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import torch.distributed

from collectives.communicator import Request
from collectives.gloo.group import GroupComm
from collectives.waiting.worker import Worker

__all__ = ["DelayedComm", "LateRequest"]


class DelayedComm(GroupComm):
    """Communicator over the default group whose messages and all-gathers arrive ``delay`` seconds later.

    A message is copied and sent after the delay, so that several can be on their way. The data of an
    all-gather is complete when the last rank has begun it, so the delay counts from there. gloo's all-gather
    has one message from each rank to the other if there are two ranks.

    Args:
        delay: seconds.
    """

    def __init__(self, delay: float) -> None:
        super().__init__(torch.distributed.group.WORLD)
        self._delay = delay
        self._line = Worker("DelayedComm: messages on their way")

    def Isend(self, buf: Any, dest: int, tag: int = 0) -> Request:  # noqa: N802 - MPI's names
        """Copy a message, and send it after the delay; the request is complete at once."""
        data = np.array(np.frombuffer(buf, np.uint8))
        due = time.perf_counter() + self._delay

        def send() -> None:
            time.sleep(max(0.0, due - time.perf_counter()))
            super(DelayedComm, self).Isend(data, dest, tag)

        self._line.submit(send)
        return Sent()

    def Iallgatherv(self, sendbuf: Any, recvbuf: Any) -> Request:  # noqa: N802
        """Start to gather blocks of any length, as TorchComm does."""
        return LateRequest(super().Iallgatherv(sendbuf, recvbuf), self._delay)


class Sent:
    """Request that is complete from the start."""

    def Test(self) -> bool:  # noqa: N802
        """Return True."""
        return True


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
