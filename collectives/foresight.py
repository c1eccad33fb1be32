"""Room for payloads behind the headers: the size of the next exchange's payloads, as far as it is known.

In a training, exchanges repeat: after the exchange of one bucket comes that of the next one, with about as
many bytes as in the last step. All ranks have seen the same headers, so all of them expect the same size, and
all leave the same room behind their headers. Payloads that fit in there need no second exchange.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from types import MappingProxyType
from typing import NamedTuple

MAX_KINDS = 256
"""Kinds of exchanges that are remembered; more are forgotten together."""
SLACK = 64
"""A payload may be larger than the last one by its 64th part, as the codes of a top k are."""
PAUSE = 16
"""Exchanges of a kind without room after payloads that did not fit: room costs bytes."""
ALIGNMENT = 64  # bytes


class _Expectation(NamedTuple):
    """Expected exchange after one of some kind.

    Attributes:
        nbytes: the largest payload of any rank; 0 if payloads were not gathered, or there were none.
        pause: exchanges for which no room is left.
    """

    nbytes: int = 0
    pause: int = 0


class _Memory(NamedTuple):
    """Content of a Foresight. A change replaces it as a whole, so that an interrupt leaves no half of it.

    Attributes:
        number: sequence number of the last exchange.
        kind: of the last exchange.
        before: kind of the exchange before it.
        expected: by the kind of the exchange before.
    """

    number: int = -1
    kind: Hashable = None
    before: Hashable = None
    expected: Mapping[Hashable, _Expectation] = MappingProxyType({})


class Foresight:
    """Memory of the exchanges of a channel, with the same content on all ranks.

    Args:
        limit: the most bytes of room; 0 for none.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._memory = _Memory()

    @property
    def room(self) -> int:
        """Bytes behind the header in the next exchange."""
        expected = self._memory.expected.get(self._memory.kind)
        if expected is None or expected.pause or not 0 < expected.nbytes <= self._limit:
            return 0
        needed = expected.nbytes + expected.nbytes // SLACK
        return -(-needed // ALIGNMENT) * ALIGNMENT

    def agreed(self, number: int, kind: Hashable, *, is_short: bool) -> None:
        """Note that all ranks have agreed on an exchange; a second call for the same one has no effect.

        Args:
            number: of the exchange.
            kind: of the exchange.
            is_short: whether there was room, and not enough.
        """
        memory = self._memory
        if number == memory.number:
            return
        before, expected = memory.kind, memory.expected
        if len(expected) >= MAX_KINDS:
            expected = {}
        pause = PAUSE if is_short else max(expected.get(before, _Expectation()).pause - 1, 0)
        self._memory = _Memory(number, kind, before, {**expected, before: _Expectation(0, pause)})

    def gathered(self, nbytes: int) -> None:
        """Note that all ranks gather the payloads of the last exchange, whose largest has so many bytes."""
        memory = self._memory
        old = memory.expected.get(memory.before, _Expectation())
        expected = {**memory.expected, memory.before: old._replace(nbytes=nbytes)}
        self._memory = memory._replace(expected=expected)

    def forget(self) -> None:
        """Expect nothing, after an exchange without an agreement."""
        self._memory = _Memory()
