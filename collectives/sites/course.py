"""The exchanges of a call over Sites, which a rank makes to the end also if it raises between two of them.

A rank that went away between two exchanges would meet its mates' present exchange with the first one of its
next call. Both would raise, and the ranks would be one exchange apart in each later call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeVar

from collectives.allgather import gather_made
from collectives.call import Call
from collectives.channel import ByteArray, Channel
from collectives.errors import CollectiveError, Nested, is_shared

T = TypeVar("T")


def go_through(
    channels: Sequence[Channel],
    go_on: Callable[[], T],
    is_under_way: Callable[[], bool],
    note: Callable[[CollectiveError], None],
) -> tuple[T, BaseException | None]:
    """Make the exchanges of a call; after an exception between two of them, the others come first.

    If an exception comes during an exchange across and closes its channel, the ranks of this site learn of it
    in the last exchange. If that of the site is closed, or a second exception comes, all channels of the call
    are closed: the other ranks raise Timeout.

    Args:
        channels: of the call, that of the last exchange first.
        go_on: makes the exchanges that were not made; all ranks of a channel raise its CollectiveErrors.
        is_under_way: returns whether an exchange was made, and another one was not.
        note: takes the error that other ranks get of an exception; ``go_on`` is called after it.

    Returns the result of ``go_on``, and an exception that the caller raises once it has used the result. If
    other ranks have an error, the exception is raised here, and that error is its cause.
    """
    try:
        return go_on(), None
    except BaseException as raised:
        first = raised
        if is_shared(raised) or not is_under_way():
            raise
    try:
        if channels[0].closed is not None:
            raise first
        note(CollectiveError(f"{type(first).__name__}: {first}", reason="encode"))
        return go_on(), first
    except BaseException as error:
        if is_shared(error):
            raise first from error
        for channel in channels:
            _close(channel, error)
        raise


def complete(channel: Channel, exchange: Callable[[Call], T]) -> T:
    """Make an exchange to its end, also if an exception comes, which is raised then.

    After a second exception, or one that has lost a request, the channel is closed.

    Args:
        channel: of the exchange.
        exchange: continues the exchange if it is called again with the same Call.

    Returns the result. If the ranks then have an error, the exception is raised with that error as its cause.
    """
    first: BaseException | None = None
    try:
        with channel.collective() as call:
            try:
                return exchange(call)
            except BaseException as raised:
                if is_shared(raised) or call.is_delivered or channel.closed is not None:
                    raise
                first = raised
                exchange(call)
                raise
    except CollectiveError as error:
        if first is not None and is_shared(error):
            raise first from error
        raise
    finally:
        first = None  # which refers to this frame


def _close(channel: Channel, error: BaseException) -> None:
    """Close a channel, as an exception in an exchange does."""
    with suppress(BaseException), channel.collective(headerless=True):
        raise error


def relay(
    local: Channel,
    across: Channel,
    make: Callable[[], ByteArray | bytes],
    join: Callable[[list[ByteArray]], ByteArray | bytes],
    what: str,
) -> list[ByteArray]:
    """Gather bytes between the sites, and then what each rank makes of them within each site.

    Each site has a rank of every group across, so all ranks of all sites learn of an error in one of them.
    It counts as two exchanges within the site, as a sum over sites has them: so a rank that skips the rest of
    a call has the number of those that have made it.

    Args:
        local, across: of this rank; all ranks of all sites call this together.
        make: makes this rank's bytes; if it raises, all ranks raise CollectiveError.
        join: makes those for this site from the bytes of all ranks across, likewise.
        what: names the bytes, on which all ranks must agree.

    Returns the bytes of the ranks of this site.

    Raises the error of the exchange across, if it had one; its mates of other groups raise that of the site.
    """
    begun = across.sequence, local.sequence
    rows: list[ByteArray] | None = None
    error: CollectiveError | None = None

    def forward() -> ByteArray | bytes:
        if error is not None:
            raise error
        assert rows is not None
        return join(rows)

    def go_on() -> list[ByteArray]:
        nonlocal rows, error
        if across.sequence == begun[0]:
            try:
                rows = gather_made(across, make, what=what)[0]
            except Nested:  # which has interrupted this rank alone
                raise
            except CollectiveError as raised:
                error = raised
        return gather_made(local, forward, what=what)[0]

    def is_under_way() -> bool:
        return across.sequence != begun[0] and local.sequence == begun[1]

    def note(raised: CollectiveError) -> None:
        nonlocal error
        if rows is None:
            error = error or raised

    try:
        found, raised = go_through((local, across), go_on, is_under_way, note)
    except CollectiveError as raised:
        local.skip_to(local.sequence + 1)
        if error is not None and is_shared(raised):
            raise error from raised
        raise
    local.skip_to(local.sequence + 1)
    if raised is not None:
        raise raised
    return found
