"""Progress of a collective call on one rank, and the effect of an exception.

``counted`` encloses a whole public call. If the call raises, the exchanges that this rank has not made count
as skipped, so that its next call cannot be mistaken for this one. Inside it, ``Channel.collective`` encloses
each exchange, from its first header to its last payload:

    time of the exception           this rank                           the other ranks
    before anything was sent        the call counts as skipped          the same error in its next call
    an error that all ranks share   channel usable, step rolled back    the same error
    before the last payload         channel closed, step rolled back    Timeout, step rolled back
    headers with payloads           the exchange is completed first     complete the exchange
    during the transfer of payloads the transfer is completed first     complete the transfer
    after the last payload          channel usable, step committed      step committed

If a rank dies during the transfer of payloads, some ranks may complete it and commit, and others close their
channels. On a rank that raises then or later, ``LocalUpdates`` keeps the step open, until ``synchronize``
finds out whether it counts.

A signal handler or a callback that makes a call in the thread of another one raises Nested: the messages of
both would be mixed up. ``exclusive`` marks the calls that refuse others and are refused.
"""

from __future__ import annotations

import inspect
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial, wraps
from operator import length_hint
from types import CodeType, FrameType
from typing import Any, TypeVar, cast

from collectives.errors import Nested, is_shared
from collectives.waiting.worker import in_worker

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, eq=False)
class Beginning:
    """Beginning of an operation of the communicator.

    Attributes:
        given: iterator over its first argument, which is taken when the operation is called.
        requests: of the transfer.
        count: number of them before.
    """

    given: Iterator[Any]
    requests: list[Any]
    count: int

    @property
    def has_lost_request(self) -> bool:
        """Whether the operation was called, and its request was lost with an exception."""
        return not length_hint(self.given) and len(self.requests) == self.count


@dataclass
class Call:
    """Progress of one collective call.

    Attributes:
        has_sent: whether another rank may have received a part of this call.
        is_final_transfer: whether the next transfer is the last one of the call.
        is_delivered: whether every rank has received all that it needs from the others.
        compilation_pending: whether a rank compiles before the next headers, which may take longer then.
        first: sequence number of its first exchange.
        has_arrived: whether the last all-gather of headers is complete.
        payloads: those of all ranks, if they have arrived behind the headers; None otherwise.
        table: headers of the last agreement, or None.
        beginning: of the last operation of the communicator; None before the first one.
        update_pending: whether all ranks still have to update their channels alike after the last transfer.
        encoding: seconds of encoding and compilation before the headers.
        waiting: seconds of transfers, most of them waits.
    """

    has_sent: bool = False
    is_final_transfer: bool = False
    is_delivered: bool = False
    compilation_pending: bool = False
    first: int = 0
    has_arrived: bool = False
    payloads: list[Any] | None = None
    table: list[Any] | None = None
    beginning: Beginning | None = None
    update_pending: bool = False
    encoding: float = 0.0
    waiting: float = 0.0

    @property
    def has_lost_request(self) -> bool:
        """Whether an operation may have begun whose request was lost with an exception."""
        return self.beginning is not None and self.beginning.has_lost_request

    @property
    def is_complete(self) -> bool:
        """Whether the next call of this rank cannot be mistaken for a part of this one."""
        return self.is_delivered and not self.update_pending


class _Thread(threading.local):
    """State of a thread.

    Attributes:
        frame: of the exclusive call under way. If an interrupt has left one here, it is on the stack no more.
    """

    frame: FrameType | None = None


this_thread = _Thread()


def refuse_nested() -> None:
    """Raise Nested if an exclusive call is under way in this thread."""
    under_way = this_thread.frame
    frame = None if under_way is None else sys._getframe(1)
    while frame is not None:
        if frame is under_way:
            raise Nested(
                "a collective call is under way in this thread, and a signal handler or a callback has made"
                " another one. Nothing of that was sent. Set a flag there, and make the call afterwards",
                reason="nested",
            )
        frame = frame.f_back
    this_thread.frame = None


def refuse_in_handler(what: str) -> None:
    """Raise Nested in a handler of a signal.

    A signal reaches ranks at other points of their programs, and some of them inside another call. A call of
    all ranks from there would meet that one.

    Args:
        what: names the call.
    """
    codes = {_code_of(signal.getsignal(number)) for number in signal.valid_signals()} - {None}
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code in codes:
            raise Nested(
                f"{what} was made in a signal handler, and another call may be under way on another rank."
                " Nothing of it was sent. Set a flag there, and make the call after a step, on all ranks",
                reason="nested",
            )
        frame = frame.f_back


def _code_of(handler: object) -> CodeType | None:
    """Return the code of a signal's handler in Python, or None."""
    if handler is signal.default_int_handler or isinstance(handler, int | None):
        return None
    while isinstance(handler, partial):
        handler = handler.func
    function = handler if inspect.isroutine(handler) else vars(type(handler)).get("__call__")
    return getattr(getattr(function, "__func__", function), "__code__", None)


def exclusive(function: F) -> F:
    """Decorate a function that exchanges: no other such function begins in this thread until it ends."""

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            _enter(sys._getframe())
            return function(*args, **kwargs)
        finally:
            _leave(sys._getframe())

    return cast(F, call)


def _enter(frame: FrameType) -> None:
    """Begin an exclusive call, unless another one is under way."""
    refuse_nested()
    this_thread.frame = frame


def _leave(frame: FrameType) -> None:
    """End an exclusive call; of one that was refused, this has no effect."""
    if this_thread.frame is frame:
        this_thread.frame = None


def counted(
    find_channel: Callable[..., Any],
    *,
    exchanges: int = 1,
    is_exclusive: bool = True,
    replaces: str | None = None,
) -> Callable[[F], F]:
    """Return a decorator for a public call, whose exchanges count even if the call raises.

    Args:
        find_channel: returns the end of the call from its arguments: an object with ``channels``, which has
            one or several, and how many exchanges of each are one exchange of the call.
        exchanges: number of exchanges in a call; the largest one if calls differ.
        is_exclusive: False if only a part of the function is exclusive, as if it also runs the user's code.
        replaces: name of the function's first argument, in place of which it gets the Channel; None for none.
    """

    def decorate(function: F) -> F:
        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            ends = None
            try:
                if is_exclusive:
                    _enter(sys._getframe())
                found = find_channel(*args, **kwargs)
                _drain(found)  # on all ranks, the exchanges of their threads come first
                ends = _find_next_numbers(found, exchanges)
                if replaces is not None:
                    args = found, *args[1:]
                    kwargs.pop(replaces, None)
                return function(*args, **kwargs)
            except BaseException as error:
                is_refused = isinstance(error, Nested) and this_thread.frame is not sys._getframe()
                if is_shared(error) or (is_refused and is_exclusive):
                    raise
                with suppress(Exception):  # there may be no channel
                    if ends is None:
                        _skip_in_order(find_channel(*args, **kwargs), exchanges)
                    for channel, end in ends or ():
                        channel.skip_to(end)
                raise
            finally:
                _leave(sys._getframe())

        return cast(F, call)

    return decorate


def skip_exchange(found: Any, exchanges: int = 1) -> None:
    """Count the next exchanges of an object with ``channels`` as skipped."""
    for channel, end in _find_next_numbers(found, exchanges):
        channel.skip_to(end)


def _drain(found: Any) -> None:
    """Wait until the thread of a Channel or Sites has run what was submitted, unless this is one."""
    if hasattr(found, "worker") and not in_worker():
        found.worker.drain()


def _skip_in_order(found: Any, exchanges: int) -> None:
    """Count exchanges as skipped, after those that still run in the thread of a Channel or Sites."""
    if hasattr(found, "worker") and found.worker.has_started and not in_worker():
        found.worker.submit(partial(skip_exchange, found, exchanges))
    else:
        skip_exchange(found, exchanges)


def _find_next_numbers(found: Any, exchanges: int) -> list[tuple[Any, int]]:
    """Return each channel, and the number of its next exchange after some."""
    return [(channel, channel.sequence + count * exchanges) for channel, count in found.channels()]
