"""Exchange of headers before payloads: formats/spec/agreement.md.

Each rank's 64-byte header is part of the all-gather that exchanges the sizes of the payloads. Every rank sees
the same table of headers. So all ranks decide alike, without another message: they continue, or they raise
the same CollectiveError. Only in the second case do they also exchange texts that explain the error.
Afterwards all ranks have the same sequence number, and the communicator is usable.

If a rank has to compile kernels first, its header announces that, and all ranks repeat the exchange under a
longer deadline.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from collectives.agreement.errors_from_headers import (
    error_for,
    get_operation_name,
    headers_match,
    is_compiling,
    protocol_error,
)
from collectives.agreement.header import HEADER_SIZE, MAX_TEXT, NO_DETAIL, Flag, Header, Operand, Status
from collectives.channel import ByteArray, Channel
from collectives.communicator import count_equal_ring_bytes
from collectives.transport.allgather import allgather_ragged

MAX_MESSAGE = 1024  # bytes of an exception's text
MAX_OPERAND = 60  # characters of the tensors in the name of an exchange


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
    own = _make_header(channel, proposal, operand, text)
    if failure is not None:
        detail = NO_DETAIL if failure.detail is None else failure.detail
        own = own._replace(status=failure.status, payload_len=0, detail=detail)
    table = _exchange_headers(channel, own, operand)
    while not headers_match(table):
        if not is_compiling(table):
            _refuse(channel, table, text, failure)
        channel.call.compilation_pending = True
        table = _exchange_headers(channel, own, operand)
    channel.call.compilation_pending = False
    channel.sequence += 1
    return table


def announce_compilation(channel: Channel, proposal: Header, operand: Operand) -> None:
    """Inform all ranks that this one compiles kernels; afterwards it calls ``agree``, as all ranks do.

    Args:
        channel: open.
        proposal, operand: as for ``agree``.

    Raises:
        CollectiveError: a rank failed or ranks differ; the same on all ranks. Nothing needs to be compiled.
        Timeout: a rank does not take part.
    """
    text = _compose_text(operand, None)
    own = _make_header(channel, proposal, operand, text)
    own = own._replace(status=Status.COMPILING, payload_len=0, detail=NO_DETAIL)
    table = _exchange_headers(channel, own, operand)
    if not is_compiling(table):
        _refuse(channel, table, text, None)
    channel.call.compilation_pending = True


def _make_header(channel: Channel, proposal: Header, operand: Operand, text: bytes) -> Header:
    """Complete a proposal by the fields that describe this rank."""
    return proposal._replace(
        sequence=channel.sequence,
        dtype=operand.dtype,
        flags=Flag.TAKES_DEVICE if channel.takes_device() else 0,
        text_len=len(text),
        elements=operand.elements,
        signature=operand.signature,
        scheme=operand.scheme,
    )


def _refuse(channel: Channel, table: Sequence[Header], text: bytes, failure: Failure | None) -> NoReturn:
    """Raise the error of a table without an agreement, on all ranks, after the exchange of texts."""
    error = protocol_error(table)
    if error is None:
        blocks = allgather_ragged(
            channel, np.frombuffer(text, np.uint8), [header.text_len for header in table]
        )
        error = error_for(table, [block.tobytes().decode("utf-8", "replace") for block in blocks])
    channel.sequence = (max(header.sequence for header in table) + 1) % 2**64
    raise error from (None if failure is None else failure.error)


def _exchange_headers(channel: Channel, header: Header, operand: Operand) -> list[Header]:
    """Gather every rank's header, in rank order."""
    size = HEADER_SIZE
    sent = np.frombuffer(header.pack(), np.uint8)
    table: ByteArray = np.empty(size * channel.size, np.uint8)
    channel.bytes_sent += count_equal_ring_bytes(size, channel.size)
    name = _name_call(header, operand)
    channel.gather(sent, table, f"exchange {header.sequence} of headers ({name})", headers=True)
    channel.roll_call.last = f"exchange {header.sequence} ({name})"
    data = table.tobytes()
    return [Header.unpack(data[at : at + size]) for at in range(0, len(data), size)]


def _name_call(header: Header, operand: Operand) -> str:
    """Name a call for the message of a Timeout."""
    tensors = operand.tensors_text
    if len(tensors) > MAX_OPERAND:
        tensors = tensors[: MAX_OPERAND - 1] + "…"
    operation = get_operation_name(header.operation)
    return f"{operation} of {tensors}" if tensors else operation


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
