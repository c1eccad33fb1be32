"""Simulated network: messages and all-gathers in flight, with their bytes and times.

``collectives.simulation.communicator`` describes the model of time. Nothing in this module waits or runs a
rank. An Endpoint counts and times what its rank sends. A MessageQueue or an AllgatherState holds it until it
is received.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from collectives.communicator import count_ring_bytes


@dataclass
class MessageQueue:
    """Messages with one source, destination and tag; the k-th message goes to the k-th receive.

    Attributes:
        sent, posted: number of messages and receives so far.
        messages: {number: (bytes, arrival in seconds)} of messages that were not received yet.
    """

    sent: int = 0
    posted: int = 0
    messages: dict[int, tuple[bytes, float]] = field(default_factory=dict)

    def put(self, data: bytes, arrival: float) -> None:
        """Add the next message."""
        self.messages[self.sent] = data, arrival
        self.sent += 1

    def post(self) -> int:
        """Post a receive; return the number of its message."""
        self.posted += 1
        return self.posted - 1


@dataclass
class AllgatherState:
    """Progress of one all-gather.

    Attributes:
        call: MPI's name of the function.
        blocks: by rank.
        times: by rank, of its call; after the completion, of its completion.
        done: whether all ranks have called.
    """

    call: str
    blocks: dict[int, bytes] = field(default_factory=dict)
    times: dict[int, float] = field(default_factory=dict)
    done: bool = False

    def complete(self, network: Network) -> None:
        """Compute the completion times of a ring.

        In round k, rank r sends the block of rank r-k to its right neighbour.
        """
        n = network.n
        now = [self.times[rank] for rank in range(n)]
        sizes = [len(self.blocks[rank]) for rank in range(n)]
        for k in range(n - 1):
            now = [
                max(now[r], now[r - 1])
                + network.alpha
                + network.beta * max(sizes[(r - k) % n], sizes[(r - 1 - k) % n])
                for r in range(n)
            ]
        self.times = dict(enumerate(now))
        self.done = True


class Network:
    """State that all ranks share.

    Args:
        n: number of ranks.
        alpha: seconds per message.
        beta: seconds per byte.

    Attributes:
        n, alpha, beta: as given.
        queues: by (source, destination, tag).
        allgathers: those that not all ranks have called yet, by number.
    """

    def __init__(self, n: int, alpha: float, beta: float) -> None:
        self.n = n
        self.alpha = alpha
        self.beta = beta
        self.queues: defaultdict[tuple[int, int, int], MessageQueue] = defaultdict(MessageQueue)
        self.allgathers: dict[int, AllgatherState] = {}


class Endpoint:
    """One rank's end of the network.

    Args:
        network: shared by all ranks.
        rank: the rank that sends and receives here.

    Attributes:
        network, rank: as given.
        bytes_sent: bytes that this rank sent to other ranks.
        clock: seconds since the start.
    """

    def __init__(self, network: Network, rank: int) -> None:
        self.network = network
        self.rank = rank
        self.bytes_sent = 0
        self.clock = 0.0
        self._link_free = 0.0  # time at which the last message will have left
        self._collectives = 0

    def send(self, data: bytes, dest: int, tag: int) -> float:
        """Send a message.

        Args:
            data: the message.
            dest: a rank; a message to this one is free.
            tag: of the message.

        Returns:
            The time at which the message will have left.
        """
        arrival = left = self.clock
        if dest != self.rank:
            self.bytes_sent += len(data)
            left = max(self.clock, self._link_free) + self.network.beta * len(data)
            self._link_free = left
            arrival = left + self.network.alpha
        self.network.queues[self.rank, dest, tag].put(data, arrival)
        return left

    def join_allgather(self, call: str, data: bytes, counts: Sequence[int]) -> AllgatherState:
        """Contribute to this rank's next all-gather.

        Args:
            call: MPI's name of the function, the same on all ranks.
            data: this rank's block.
            counts: the lengths of all ranks' blocks.

        Raises:
            RuntimeError: another rank called another function.
        """
        network, number = self.network, self._collectives
        self._collectives += 1
        self.bytes_sent += count_ring_bytes(counts, self.rank) if network.n > 1 else 0
        state = network.allgathers.setdefault(number, AllgatherState(call))
        if state.call != call:
            raise RuntimeError(
                f"collective {number} is {call} on rank {self.rank} and {state.call} on another rank;"
                " all ranks must make the same calls"
            )
        state.blocks[self.rank] = data
        state.times[self.rank] = self.clock
        if len(state.blocks) == network.n:
            del network.allgathers[number]
            state.complete(network)
        return state
