"""Agreed objects: the first valid slot decides, and each slot is created by one peer only.

Whether a slot is valid is a function of its bytes, so all peers skip the same ones. Garbage in a slot thus
costs a request, and changes no decision.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from collectives.errors import CollectiveError, Refused
from collectives.store.envelope import MAGIC, Envelope
from collectives.store.files import Files
from collectives.store.layout import SLOTS

_PARTIAL = "truncated", "digest"
"""Verdicts on an object that may not be written completely."""


@dataclass(frozen=True)
class Slots:
    """Slots of one agreed object.

    Attributes:
        files: of the run.
        path: returns the path of a slot.
        parse: returns the object in its bytes, or raises Refused.
        limit: bytes of a valid one.
        grace: seconds for which a slot may be incomplete, in stores that show objects while they are written.
    """

    files: Files
    path: Callable[[int], str]
    parse: Callable[[bytes], Envelope]
    limit: int
    grace: float

    def find(self, first: int = 0) -> tuple[int, Envelope | None]:
        """Return the first valid slot with its object, or the first slot that is free with None.

        Raises CollectiveError if all slots are taken and none is valid.
        """
        slot = first
        while True:
            data = self.read(slot)
            if data is None:
                return slot, None
            with suppress(Refused):
                if len(data) <= self.limit:
                    return slot, self.parse(data)
            slot += 1

    def read(self, slot: int) -> bytes | None:
        """Return the bytes of a slot, waiting for the rest of an object that is incomplete.

        Raises CollectiveError if there is no such slot, because all are taken.
        """
        if slot >= SLOTS:
            raise CollectiveError(
                f"{self.path(0)} and all further slots have bytes that decide nothing: somebody destroys the"
                " run; continue in another run, with keys, in a folder that strangers cannot write to",
                reason="protocol",
            )
        end = time.monotonic() + self.grace
        while True:
            data = self.files.get(self.path(slot), self.limit + 1)
            if data is None or not _is_partial(data, self.limit) or time.monotonic() > end:
                return data
            time.sleep(min(0.1, self.grace / 4))

    def create(self, slot: int, data: bytes) -> bool:
        """Create the object in a slot; if there is one, wait until it can be read, and return False."""
        if self.files.create(self.path(slot), data):
            return True
        # A store whose reads lag behind shows the object later.
        end = time.monotonic() + self.files.patience
        while self.files.get(self.path(slot), self.limit + 1) is None:
            if time.monotonic() > end:
                raise CollectiveError(
                    f"{self.path(slot)} exists, and cannot be read for {self.files.patience:g} s",
                    reason="transport",
                )
            time.sleep(0.05)
        return False

    def claim(self, make: Callable[[], bytes]) -> Envelope:
        """Return the agreed object; create it from ``make`` if no slot has one."""
        slot = 0
        while True:
            slot, found = self.find(slot)
            if found is not None:
                return found
            made = make()
            if self.create(slot, made):
                return self.parse(made)


def _is_partial(data: bytes, limit: int) -> bool:
    if len(data) > limit or not MAGIC.startswith(data[: len(MAGIC)]):
        return False
    try:
        Envelope.unpack(data)
    except Refused as refused:
        return refused.code in _PARTIAL
    return False
