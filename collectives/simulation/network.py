"""What is under way between simulated ranks: messages and collectives, with their bytes and their times.

The rules are those of ``collectives.simulation.communicator``. Nothing here waits, or runs a rank; a Port
counts and times what its rank sends; a Lane or a Gathering holds it until it is taken.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from collectives.channel import ring_bytes

__all__ = ["Gathering", "Lane", "Port", "Wire"]


@dataclass
class Lane:
    """Messages of one source, destination and tag: the k-th that is sent goes to the k-th receive.

    Attributes:
        sent, posted: messages and receives so far.
        messages: those that were not taken yet, by number: (bytes, arrival in seconds).
    """

    sent: int = 0
    posted: int = 0
    messages: dict[int, tuple[bytes, float]] = field(default_factory=dict)

    def put(self, data: bytes, arrival: float) -> None:
        """Add the next message."""
        self.messages[self.sent] = data, arrival
        self.sent += 1

    def post(self) -> int:
        """The number of the message that the next receive gets."""
        self.posted += 1
        return self.posted - 1


@dataclass
class Gathering:
    """One all-gather: each rank's block, and the time of its call; in the end, of its completion.

    Attributes:
        call: MPI's name of it.
        blocks, times: by rank.
        done: whether all ranks have called, and ``times`` are completions.
    """

    call: str
    blocks: dict[int, bytes] = field(default_factory=dict)
    times: dict[int, float] = field(default_factory=dict)
    done: bool = False

    def finish(self, wire: Wire) -> None:
        """The rounds of a ring: in round k, rank r sends the block of rank r-k to its right."""
        n = wire.n
        now = [self.times[rank] for rank in range(n)]
        sizes = [len(self.blocks[rank]) for rank in range(n)]
        for k in range(n - 1):
            now = [
                max(now[r], now[r - 1])
                + wire.alpha
                + wire.beta * max(sizes[(r - k) % n], sizes[(r - 1 - k) % n])
                for r in range(n)
            ]
        self.times = dict(enumerate(now))
        self.done = True


class Wire:
    """What all ranks share.

    Args:
        n: ranks.
        alpha: seconds a message takes, however short.
        beta: seconds a byte takes.

    Attributes:
        lanes: by (source, destination, tag).
        gatherings: collectives that some rank has not called yet, by number.
    """

    def __init__(self, n: int, alpha: float, beta: float) -> None:
        self.n = n
        self.alpha = alpha
        self.beta = beta
        self.lanes: defaultdict[tuple[int, int, int], Lane] = defaultdict(Lane)
        self.gatherings: dict[int, Gathering] = {}


class Port:
    """One rank's end of the wire.

    Args:
        wire: shared by all ranks.
        rank: whose end it is.

    Attributes:
        bytes_sent: bytes this rank put on the wire.
        clock: seconds since the start.
    """

    def __init__(self, wire: Wire, rank: int) -> None:
        self.wire = wire
        self.rank = rank
        self.bytes_sent = 0
        self.clock = 0.0
        self._link_free = 0.0  # when the last message will have left
        self._collectives = 0

    def send(self, data: bytes, dest: int, tag: int) -> float:
        """Put a message under way; when it will have left.

        Args:
            data: the message.
            dest: a rank; this one included, which is free.
            tag: of the lane.
        """
        arrival = left = self.clock
        if dest != self.rank:
            self.bytes_sent += len(data)
            left = max(self.clock, self._link_free) + self.wire.beta * len(data)
            self._link_free = left
            arrival = left + self.wire.alpha
        self.wire.lanes[self.rank, dest, tag].put(data, arrival)
        return left

    def gather(self, call: str, data: bytes, counts: Sequence[int]) -> Gathering:
        """Join this rank's next collective.

        Args:
            call: MPI's name of it, the same on all ranks.
            data: this rank's block.
            counts: the lengths of all ranks' blocks.

        RuntimeError where another rank called another collective.
        """
        wire, number = self.wire, self._collectives
        self._collectives += 1
        self.bytes_sent += ring_bytes(counts, self.rank) if wire.n > 1 else 0
        gathering = wire.gatherings.setdefault(number, Gathering(call))
        if gathering.call != call:
            raise RuntimeError(
                f"rank {self.rank} calls {call} as collective {number}, another rank {gathering.call}"
            )
        gathering.blocks[self.rank] = data
        gathering.times[self.rank] = self.clock
        if len(gathering.blocks) == wire.n:
            del wire.gatherings[number]
            gathering.finish(wire)
        return gathering
