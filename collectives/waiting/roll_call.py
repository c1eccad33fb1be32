"""Roll call: which ranks are missing when a rank gives up, and what the other ranks wait for.

A wait in MPI ends for all ranks or for none, so it does not show which rank is missing. A rank that gives up
therefore sends a notice to every rank, and collects theirs for up to a second. Ranks that wait answer. A rank
that computes, has stopped or has ended does not: it is missing. A rank that closes its channel after another
exception sends a notice, too. If the other ranks wait for headers then, they give up at once.

If a rank has lost its connection to another one, no exchange can be completed, so all waiting ranks give up.
A rank that computes for longer than a second sends no notice meanwhile, and is not missing. So the ranks at
fault are those to which the connection is closed, if the communicator knows these. The ranks that are left
have to agree on who they are: all take the verdict of the first one, if the board can keep it.

Notices are exchanged only on channels that are lost already (``collectives.waiting.board``).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import IntEnum
from typing import cast

from collectives.communicator import Communicator, has_members
from collectives.errors import CollectiveError, Timeout, name_ranks
from collectives.waiting.board import NOTICE_SIZE, KeepingBoard, find_board

MAX_COLLECT_SECONDS = 1.0  # for the answers of the other ranks
MAX_DESCRIBED = 4  # different places of waiting that an error lists

_ADVICE = (
    "If a rank only computes for longer, pass Channel(comm, timeout=...) with a larger timeout, or let the"
    " other ranks wait for it in a barrier"
)


class State(IntEnum):
    """State of the rank that sends a notice."""

    WAITS = 1
    GAVE_UP = 2  # after its timeout
    CLOSED = 3  # after another exception
    LOST = 4  # after an error of the transport


@dataclass(frozen=True)
class Notice:
    """Message of a rank to the ranks that may wait for it.

    Attributes:
        state: of the sender.
        text: the operation that it waits for, or its exception.
    """

    state: int
    text: str

    def pack(self) -> bytes:
        """Serialize the notice as NOTICE_SIZE bytes: the state, and UTF-8 with zeros at its end."""
        text = self.text.encode("utf-8", "replace")[: NOTICE_SIZE - 1]
        return (bytes([self.state]) + text).ljust(NOTICE_SIZE, b"\0")

    @classmethod
    def unpack(cls, data: bytes) -> Notice:
        """Parse the bytes of ``pack``; a character that was cut is dropped."""
        return cls(data[0], data[1:].rstrip(b"\0").decode("utf-8", "ignore"))


class RollCall:
    """One rank's notices from and to the other ranks of a communicator.

    Args:
        comm: the communicator.

    Attributes:
        last: the last exchange that all ranks took part in, for the message of a Timeout; "" if none.
    """

    def __init__(self, comm: Communicator) -> None:
        self.last = ""
        self._rank, self._size = comm.rank, comm.size
        self._others = [rank for rank in range(comm.size) if rank != comm.rank]
        self._board = find_board(comm)
        self._find_closed: Callable[[], Collection[int]] = getattr(comm, "find_closed", lambda: ())
        self._notices: dict[int, Notice] = {}

    def answer(self, what: str) -> list[int]:
        """Answer the ranks that have given up; return all ranks that have given up or closed.

        Args:
            what: the operation that this rank waits for.
        """
        for rank in self._read():
            if self._notices[rank].state == State.GAVE_UP:
                self._post(Notice(State.WAITS, what), [rank])
        return [rank for rank, notice in self._notices.items() if notice.state != State.WAITS]

    @property
    def has_loss(self) -> bool:
        """Whether a rank has reported that it lost a connection."""
        return any(notice.state == State.LOST for notice in self._notices.values())

    def report(self, text: str) -> None:
        """Inform all ranks that this one has closed its channel; ``text`` gives the reason."""
        self._post(Notice(State.CLOSED, text), self._others)

    def make_timeout(self, what: str, why: str, seconds: float) -> Timeout:
        """Make the Timeout of this rank, which names the ranks that do not answer.

        Args:
            what: the operation that this rank waited for.
            why: the reason why it gives up.
            seconds: its timeout.
        """
        where = f"rank {self._rank}: {what} {why}"
        if self._board is None:
            return Timeout(
                f"{where}. A rank has stopped, or has not made this call. {_ADVICE}", reason="timeout"
            )
        self._post(Notice(State.GAVE_UP, what), self._others)
        self._collect(min(MAX_COLLECT_SECONDS, seconds))
        ranks, text = describe_attendance(self._size, self._rank, what, self._notices, self.last)
        may_compute = any(rank not in self._notices for rank in ranks) or not ranks
        advice = f". {_ADVICE}" if may_compute else ""
        return Timeout(f"{where}. {text}{advice}", ranks=ranks, reason="timeout")

    def make_loss(self, why: str, seconds: float) -> CollectiveError:
        """Make the CollectiveError of this rank after a connection was lost, as if a rank has died.

        Args:
            why: the operation of this rank cannot be completed, as a sentence without its stop.
            seconds: timeout of the channel.
        """
        if self._board is not None:
            self._post(Notice(State.LOST, why), self._others)
            self._collect(min(MAX_COLLECT_SECONDS, seconds))
        ranks: list[int] = []
        attendance = "It is not known which rank has stopped"
        closed = self._find_closed()
        if closed or self._notices or self._size == 2:
            ranks, attendance = describe_attendance(
                self._size, self._rank, "", self._notices, self.last, closed
            )
        agreed = self._agree(ranks)
        if agreed != ranks:
            attendance += f". The first rank that noticed it has named {name_ranks(agreed)}"
        advice = "Continue on a new communicator of the ranks that are left"
        return CollectiveError(
            f"rank {self._rank}: {why}. {attendance}. {advice}", ranks=agreed, reason="transport"
        )

    def _agree(self, ranks: list[int]) -> list[int]:
        """Return the ranks at fault: those that the first rank to notice has named, or else ``ranks``."""
        if not (ranks and has_members(self._board, KeepingBoard)):
            return sorted(ranks)
        board = cast(KeepingBoard, self._board)
        text = ",".join(map(str, sorted(ranks)))
        with suppress(RuntimeError, OSError, ValueError):
            return [int(rank) for rank in board.keep(text).split(",")]
        return sorted(ranks)

    def _collect(self, seconds: float) -> None:
        """Wait until all other ranks have sent a notice, or no longer."""
        assert self._board is not None
        end = time.monotonic() + seconds
        self._read()
        while len(self._notices) < len(self._others) and time.monotonic() < end:
            if not self._board.wait():
                break
            self._read()

    def _read(self) -> list[int]:
        """Store the notices that have arrived; return their senders."""
        if self._board is None:
            return []
        arrived: Mapping[int, bytes] = {}
        with suppress(RuntimeError, OSError):  # the network may be down
            arrived = self._board.read()
        self._notices |= {rank: Notice.unpack(data) for rank, data in arrived.items()}
        return list(arrived)

    def _post(self, notice: Notice, ranks: Iterable[int]) -> None:
        if self._board is not None:
            with suppress(RuntimeError, OSError):
                self._board.post(notice.pack(), ranks)


def describe_attendance(
    size: int, rank: int, what: str, notices: Mapping[int, Notice], last: str, closed: Collection[int] = ()
) -> tuple[list[int], str]:
    """Describe which ranks are missing, and where the others are.

    Args:
        size: number of ranks.
        rank: this one.
        what: the operation that this rank waited for.
        notices: of the other ranks that sent one.
        last: the last exchange that all ranks took part in; "" if none.
        closed: ranks to which the connection is closed. If there are any, other ranks are not missing.

    Returns:
        The ranks that are missing or have closed their channel, and one or several sentences.
    """
    silent = [other for other in range(size) if other != rank and other not in notices]
    missing = [other for other in silent if not closed or other in closed]
    ended = [other for other, notice in sorted(notices.items()) if notice.state == State.CLOSED]
    lost = [other for other, notice in sorted(notices.items()) if notice.state == State.LOST]
    sentences = []
    if missing:
        they = "it" if len(missing) == 1 else "they"
        past = f"{they} last took part in {last}" if last else f"{they} took part in no exchange before"
        sentences.append(f"{name_ranks(missing)} {'is' if len(missing) == 1 else 'are'} missing: {past}")
    sentences += [f"rank {other} closed its channel: {notices[other].text}" for other in ended]
    if lost:
        sentences.append(f"{name_ranks(lost)} lost a connection")
    elsewhere: dict[str, list[int]] = {}
    for other, notice in sorted(notices.items()):
        if notice.state in (State.WAITS, State.GAVE_UP) and notice.text != what[: len(notice.text)]:
            elsewhere.setdefault(notice.text, []).append(other)
    for text, ranks in list(elsewhere.items())[:MAX_DESCRIBED]:
        sentences.append(f"{name_ranks(ranks)} {'waits' if len(ranks) == 1 else 'wait'} for {text}")
    gave_up = [other for other, notice in sorted(notices.items()) if notice.state == State.GAVE_UP]
    if not sentences and gave_up:
        sentences.append(f"{name_ranks(gave_up)} gave up before, so this rank made the call too late")
    elif not sentences:
        sentences.append("all ranks wait for it: messages are lost, or arrive late")
    return [*missing, *ended], ". ".join(text[0].upper() + text[1:] for text in sentences)
