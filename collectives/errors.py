"""Exceptions of the collectives.

Ranks agree on a CollectiveError by exchanging headers. Every rank raises it with the same text, and the
communicator stays usable. A Timeout is local to one rank. It closes the channel on which the rank waited.
A Refused concerns bytes that a stranger has sent; it does not reach the caller of a collective.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeGuard

MAX_LISTED = 8
"""Ranks that an error message lists in full."""


def name_ranks(ranks: Iterable[int]) -> str:
    """Name ranks, in any order, in an error message.

    Returns "rank 2", "ranks 0, 1, 3", or for more than ``MAX_LISTED`` ranks "ranks 0, 1, … (40 of them)".
    """
    listed = sorted(ranks)
    if len(listed) == 1:
        return f"rank {listed[0]}"
    if len(listed) <= MAX_LISTED:
        return "ranks " + ", ".join(map(str, listed))
    return "ranks " + ", ".join(map(str, listed[:MAX_LISTED])) + f", … ({len(listed)} of them)"


def name_kind(value: object) -> str:
    """Name what a wrong argument is: its type, or the class that was passed in place of an instance."""
    return f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__


class CollectiveError(RuntimeError):
    """Failure of a collective call.

    Args:
        message: the same on every rank if the ranks agreed on the error.
        ranks: the ranks at fault; empty if they are unknown.
        reason: see the attribute.

    Attributes:
        ranks: the ranks at fault, ascending. Those of a Timeout are missing or have closed their channel.
        reason: one word for programs. A rank could not contribute: "encode", "value", "argument". Ranks
            differ: "sequence", "operation", "dtype", "shape", "scheme", "denormals", "parameters". A header
            is invalid: "protocol". A rank's container cannot be decoded: "decode". The channel was closed
            earlier: "closed". Nothing arrived: "timeout". The connection to a rank was lost, as after its
            process has died: "transport"; each rank that notices it raises its own error, and its channel is
            closed. Over a StoreComm, which no error closes: the round is void ("timeout"), this peer's
            contribution was refused ("refused", or "value" for NaN), another process has its name ("name"),
            the store fails or an object is gone ("transport"), this peer was away for too long ("sequence"),
            it flushes denormal numbers ("denormals"), or another process has made the StoreComm ("closed").
            Of a feed: another publisher has published ("writer"), nothing was published in time ("timeout"),
            objects are gone ("transport") or not valid ("refused").
            A signal handler or a callback made a call inside another one: "nested"; it was refused, on this
            rank alone, and nothing was sent.
    """

    def __init__(self, message: str, *, ranks: Iterable[int] = (), reason: str) -> None:
        super().__init__(message)
        self.ranks = tuple(sorted(ranks))
        self.reason = reason

    @property
    def rank(self) -> int | None:
        """The lowest rank at fault, or None."""
        return self.ranks[0] if self.ranks else None

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), str(self), self.ranks, self.reason)


class Timeout(CollectiveError):
    """Error of a rank that received nothing during the channel's timeout.

    Messages may still be in flight, so the channel is closed. Continue on another communicator.
    """


class Nested(CollectiveError):
    """Error of a call inside another one of the same thread, in a signal handler or a callback.

    It is raised before the call has sent or changed anything. If it leaves the handler, it interrupts the
    exchange under way, as any exception of a handler does.
    """


def is_shared(error: BaseException | None) -> TypeGuard[CollectiveError]:
    """Return whether an exception of an exchange is that of all ranks, or has closed the channel."""
    return isinstance(error, CollectiveError) and not isinstance(error, Nested)


class Refused(ValueError):
    """Verdict on the bytes of a stranger: an object of a store, or an update of a federated client.

    It is a pure function of the bytes and of what their receivers have agreed on. Callers catch it, name the
    stranger, and go on without.

    Args:
        code: see the attribute.
        message: see the attribute.

    Attributes:
        code: that of a WireError, or one that the page of the receiver lists; programs compare this.
        message: text for people.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


def _rebuild(
    kind: type[CollectiveError], message: str, ranks: tuple[int, ...], reason: str
) -> CollectiveError:
    return kind(message, ranks=ranks, reason=reason)
