"""Ranks agree before they exchange: formats/spec/agreement.md.

Each rank's 64-byte header rides in the all-gather that tells the sizes of the payloads. So every rank
sees the same table and comes, without another message, to the same verdict: go on, or raise the same
CollectiveError. Only after a bad verdict is there a second exchange, of the texts that explain it. After
that the ranks are in step again and the communicator is usable.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from collectives.agreement.errors_from_headers import agreed, decide, unreadable
from collectives.agreement.header import HEADER_SIZE, MAX_TEXT, NO_DETAIL, Header, Operand, Status
from collectives.channel import Channel, gathered_bytes
from collectives.transport.allgather import allgather_ragged
from collectives.transport.segments import Octets

__all__ = ["Failure", "agree"]

_MESSAGE = 1024  # bytes of an exception's text


@dataclass(frozen=True)
class Failure:
    """Why a rank has nothing to send.

    Attributes:
        status: the kind of failure.
        error: in the rank's own words.
        detail: row-major number of the element at fault, or the rank whose bytes are refused, where there is
            one.
    """

    status: Status
    error: Exception
    detail: int | None = None


def agree(
    channel: Channel, proposal: Header, operand: Operand, failure: Failure | None = None
) -> list[Header]:
    """Exchange headers; every rank's, in rank order, where all ranks can and want the same.

    Args:
        channel: open; all ranks call this together.
        proposal: operation, reduction, algorithm, payload_len and, where known, how many elements the payload
            stores as ``detail``; the other fields are filled in here.
        operand: what the payload encodes.
        failure: why there is no payload, or None.

    Raises the same CollectiveError on all ranks where a rank failed or ranks differ, on a rank that
    failed from its own error; Timeout where a rank does not take part.
    """
    text = _text(operand, failure)
    mine = proposal._replace(
        sequence=channel.sequence,
        dtype=operand.dtype,
        text_len=len(text),
        elements=operand.elements,
        signature=operand.signature,
        scheme=operand.scheme,
    )
    if failure is not None:
        detail = NO_DETAIL if failure.detail is None else failure.detail
        mine = mine._replace(status=failure.status, payload_len=0, detail=detail)
    table = _exchange(channel, mine)
    if agreed(table):
        channel.sequence += 1
        return table
    error = unreadable(table)
    if error is None:
        blocks = allgather_ragged(
            channel, np.frombuffer(text, np.uint8), [header.text_len for header in table]
        )
        error = decide(table, [block.tobytes().decode("utf-8", "replace") for block in blocks])
    channel.sequence = (max(header.sequence for header in table) + 1) % 2**64
    raise error from (None if failure is None else failure.error)


def _exchange(channel: Channel, mine: Header) -> list[Header]:
    """Every rank's header, in rank order."""
    size = HEADER_SIZE
    sent = np.frombuffer(mine.pack(), np.uint8)
    table: Octets = np.empty(size * channel.size, np.uint8)
    channel.bytes_sent += gathered_bytes(size, channel.size)
    channel.gather(sent, table, f"exchange {mine.sequence} of headers", finish=False)
    data = table.tobytes()
    return [Header.unpack(data[at : at + size]) for at in range(0, len(data), size)]


def _text(operand: Operand, failure: Failure | None) -> bytes:
    """What the others read if this exchange fails.

    The error; or, of a rank that could go on, its scheme, a newline, its tensors.
    """
    if failure is not None:
        return _cut(f"{type(failure.error).__name__}: {failure.error}", _MESSAGE)
    scheme = _cut(operand.scheme_text.replace("\n", " "), _MESSAGE)
    return scheme + b"\n" + _cut(operand.tensors_text, MAX_TEXT - _MESSAGE - 1)


def _cut(text: str, most: int) -> bytes:
    """UTF-8 of at most ``most`` bytes, cut between characters, with an ellipsis where it was cut."""
    data = text.encode("utf-8", "replace")
    if len(data) <= most:
        return data
    return data[: most - 3].decode("utf-8", "ignore").encode() + "…".encode()
