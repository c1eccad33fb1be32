"""What goes wrong between ranks.

A CollectiveError that comes out of an agreement is raised on every rank of the communicator with the
same text, and the communicator stays usable. A Timeout is local: each waiting rank finds out for itself
that nothing arrives any more, and the channel it waited on is closed.
"""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["CollectiveError", "Timeout", "name_ranks"]


def name_ranks(ranks: Iterable[int], most: int = 8) -> str:
    """Ranks in words: "rank 2"; "ranks 0, 1, 3"; beyond ``most``, "ranks 0, 1, … (40 of them)"."""
    listed = sorted(ranks)
    if len(listed) == 1:
        return f"rank {listed[0]}"
    if len(listed) <= most:
        return "ranks " + ", ".join(map(str, listed))
    return "ranks " + ", ".join(map(str, listed[:most])) + f", … ({len(listed)} of them)"


class CollectiveError(RuntimeError):
    """An exchange that did not take place.

    Args:
        message: the same on every rank, if an agreement led to it.
        ranks: the ranks at fault; empty where nobody can say.
        reason: see the attribute.

    Attributes:
        ranks: as given, ascending.
        reason: one word for programs: "encode", "value", "argument" (a rank could not contribute),
            "sequence", "operation", "dtype", "shape", "scheme" (ranks differ), "protocol" (a header that
            is none), "decode" (a rank's bytes are refused by all), "closed" (the channel was given up
            earlier), "timeout".
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
    """Nothing arrived for as long as the channel's timeout.

    The channel is closed, for messages may still be under way.
    """


def _rebuild(
    kind: type[CollectiveError], message: str, ranks: tuple[int, ...], reason: str
) -> CollectiveError:
    return kind(message, ranks=ranks, reason=reason)
