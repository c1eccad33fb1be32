"""Exchange of headers before payloads: formats/spec/agreement.md.

Each rank's 64-byte header is part of the all-gather that exchanges the sizes of the payloads. Every rank sees
the same table of headers. So all ranks decide alike, without another message: they continue, or they raise
the same CollectiveError. Only in the second case do they also exchange texts that explain the error.
Afterwards all ranks have the same sequence number, and the communicator is usable.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from collectives.agreement.errors_from_headers import error_for, headers_match, protocol_error
from collectives.agreement.header import HEADER_SIZE, MAX_TEXT, NO_DETAIL, Header, Operand, Status
from collectives.channel import ByteArray, Channel
from collectives.communicator import count_equal_ring_bytes
from collectives.transport.allgather import allgather_ragged

__all__ = ["Failure", "agree"]

MAX_MESSAGE = 1024  # bytes of an exception's text


@dataclass(frozen=True)
class Failure:
    """Reason why a rank cannot contribute a payload.

    Attributes:
        status: the kind of failure.
        error: the exception on this rank.
        detail: row-major position of the element at fault, or the rank whose container is invalid; None if
            neither applies.
    """

    status: Status
    error: Exception
    detail: int | None = None


def agree(
    channel: Channel, proposal: Header, operand: Operand, failure: Failure | None = None
) -> list[Header]:
    """Exchange headers, and check that all ranks can contribute to the same operation.

    Args:
        channel: open; all ranks call this together.
        proposal: operation, reduction, algorithm, payload_len, and as ``detail`` the number of stored
            elements if it is known. The other fields are filled in here.
        operand: description of the tensors in the payload.
        failure: the reason why this rank has no payload, or None.

    Returns:
        Every rank's header, in rank order.

    Raises:
        CollectiveError: a rank failed or ranks differ; the same on all ranks. On a rank that failed, its own
            error is the cause.
        Timeout: a rank does not take part.
    """
    text = _compose_text(operand, failure)
    own = proposal._replace(
        sequence=channel.sequence,
        dtype=operand.dtype,
        text_len=len(text),
        elements=operand.elements,
        signature=operand.signature,
        scheme=operand.scheme,
    )
    if failure is not None:
        detail = NO_DETAIL if failure.detail is None else failure.detail
        own = own._replace(status=failure.status, payload_len=0, detail=detail)
    table = _exchange_headers(channel, own)
    if headers_match(table):
        channel.sequence += 1
        return table
    error = protocol_error(table)
    if error is None:
        blocks = allgather_ragged(
            channel, np.frombuffer(text, np.uint8), [header.text_len for header in table]
        )
        error = error_for(table, [block.tobytes().decode("utf-8", "replace") for block in blocks])
    channel.sequence = (max(header.sequence for header in table) + 1) % 2**64
    raise error from (None if failure is None else failure.error)


def _exchange_headers(channel: Channel, header: Header) -> list[Header]:
    """Gather every rank's header, in rank order."""
    size = HEADER_SIZE
    sent = np.frombuffer(header.pack(), np.uint8)
    table: ByteArray = np.empty(size * channel.size, np.uint8)
    channel.bytes_sent += count_equal_ring_bytes(size, channel.size)
    channel.gather(sent, table, f"exchange {header.sequence} of headers", finish=False)
    data = table.tobytes()
    return [Header.unpack(data[at : at + size]) for at in range(0, len(data), size)]


def _compose_text(operand: Operand, failure: Failure | None) -> bytes:
    """Compose the text that the other ranks receive if this exchange fails.

    It is the error of a failed rank. Of any other rank it is the scheme, a newline, and the tensors.
    """
    if failure is not None:
        return _truncate(f"{type(failure.error).__name__}: {failure.error}", MAX_MESSAGE)
    scheme = _truncate(operand.scheme_text.replace("\n", " "), MAX_MESSAGE)
    return scheme + b"\n" + _truncate(operand.tensors_text, MAX_TEXT - MAX_MESSAGE - 1)


def _truncate(text: str, max_bytes: int) -> bytes:
    """Encode a text as at most ``max_bytes`` of UTF-8; a longer one ends with an ellipsis."""
    data = text.encode("utf-8", "replace")
    if len(data) <= max_bytes:
        return data
    return data[: max_bytes - 3].decode("utf-8", "ignore").encode() + "…".encode()
