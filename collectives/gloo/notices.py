"""Board of notices in the store of torch.distributed, because gloo cannot probe for messages.

A thread reads and writes the store: if the process that hosts the store has stopped, these calls do not
return.
"""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from collectives.waiting.board import PAUSE
from collectives.waiting.worker import Worker

READ_INTERVAL = 0.1  # seconds
KEEP_SECONDS = 1.0  # for which a rank waits for the text of the first one
_ANY = "any"  # key that exists if any rank has posted a notice
_KEPT = "kept"  # key of the first rank's text


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
        self._incoming: queue.SimpleQueue[tuple[int, bytes]] = queue.SimpleQueue()
        self._known: dict[int, bytes] = {}
        self._worker = Worker("TorchComm: notices")
        self._has_failed = False
        self._next_look = 0.0  # infinite during a look

    def post(self, data: bytes, ranks: Iterable[int]) -> None:
        """Send a notice to all ranks; a later one replaces it."""
        self._worker.submit(partial(self._use_store, partial(self._write, data)))

    def read(self) -> Mapping[int, bytes]:
        """Return the notices that have arrived since the last call, by sender; look for further ones."""
        if time.monotonic() >= self._next_look:
            self._next_look = float("inf")
            self._worker.submit(partial(self._use_store, self._look))
        notices = {}
        while not self._incoming.empty():
            rank, data = self._incoming.get()
            notices[rank] = data
        return notices

    def wait(self) -> bool:
        """Wait a moment."""
        time.sleep(PAUSE)
        return True

    def keep(self, text: str) -> str:
        """Return the text that the first rank has passed; this rank's own if the store does not answer."""
        answer: queue.SimpleQueue[str] = queue.SimpleQueue()

        def ask() -> None:
            answer.put(self._store.compare_set(_KEPT, "", text).decode())

        self._worker.submit(partial(self._use_store, ask))
        with suppress(queue.Empty):
            return answer.get(timeout=KEEP_SECONDS)
        return text

    def _use_store(self, use: Callable[[], None]) -> None:
        """Read or write the store, unless that has failed: it is gone, or the group is destroyed."""
        try:
            if not self._has_failed:
                use()
        except Exception:
            self._has_failed = True

    def _write(self, data: bytes) -> None:
        """Write this rank's notice."""
        self._store.set(str(self._rank), data)
        self._store.set(_ANY, b"1")

    def _look(self) -> None:
        """Read the notices of other ranks that are new."""
        if self._store.check([_ANY]):
            for rank in self._others:
                self._read_notice(rank)
        self._next_look = time.monotonic() + READ_INTERVAL

    def _read_notice(self, rank: int) -> None:
        if self._store.check([str(rank)]):
            data = self._store.get(str(rank))
            if self._known.get(rank) != data:
                self._known[rank] = data
                self._incoming.put((rank, data))
