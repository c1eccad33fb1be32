"""Board of notices in the store of torch.distributed, because gloo cannot probe for messages.

A thread reads and writes the store: if the process that hosts the store has stopped, these calls do not
return.
"""

from __future__ import annotations

import atexit
import queue
import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from collectives.waiting.board import PAUSE

__all__ = ["StoreBoard"]

READ_INTERVAL = 0.1  # seconds
_ANY = "any"  # key that exists if any rank has posted a notice


class StoreBoard:
    """Board of one rank in a store that all ranks share; the thread starts when the board is first used.

    Args:
        store: a torch.distributed store, with keys for this group only.
        rank: of this process.
        size: number of ranks.
    """

    def __init__(self, store: Any, rank: int, size: int) -> None:
        self._store = store
        self._rank = rank
        self._others = [other for other in range(size) if other != rank]
        self._outgoing: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._incoming: queue.SimpleQueue[tuple[int, bytes]] = queue.SimpleQueue()
        self._known: dict[int, bytes] = {}
        self._started = False
        self._stopping = threading.Event()
        self._used = time.monotonic()

    def post(self, data: bytes, ranks: Iterable[int]) -> None:
        """Send a notice to all ranks; a later one replaces it."""
        self._start()
        self._outgoing.put(data)

    def read(self) -> Mapping[int, bytes]:
        """Return the notices that have arrived since the last call, by sender."""
        self._start()
        found = {}
        while not self._incoming.empty():
            rank, data = self._incoming.get()
            found[rank] = data
        return found

    def wait(self) -> bool:
        """Wait a moment."""
        time.sleep(PAUSE)
        return True

    def _start(self) -> None:
        self._used = time.monotonic()
        if not self._started:
            self._started = True
            thread = threading.Thread(target=self._run, name="TorchComm: notices", daemon=True)
            thread.start()
            atexit.register(self._stop, thread)

    def _stop(self, thread: threading.Thread) -> None:
        """End the thread. If it returns from the store while Python ends, C++ aborts the process."""
        self._stopping.set()
        thread.join(10 * READ_INTERVAL)  # it may wait for a store that has stopped

    def _run(self) -> None:
        """Write and read notices while the board is in use."""
        with suppress(Exception):  # the store is gone, or the group is destroyed
            while not self._stopping.is_set():
                with suppress(queue.Empty):
                    self._store.set(str(self._rank), self._outgoing.get(timeout=READ_INTERVAL))
                    self._store.set(_ANY, b"1")
                if time.monotonic() - self._used < 10 * READ_INTERVAL and self._store.check([_ANY]):
                    self._read_store()

    def _read_store(self) -> None:
        for rank in self._others:
            if self._store.check([str(rank)]):
                data = self._store.get(str(rank))
                if self._known.get(rank) != data:
                    self._known[rank] = data
                    self._incoming.put((rank, data))
