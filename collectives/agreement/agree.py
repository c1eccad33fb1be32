"""Exchange of headers before payloads: formats/spec/agreement.md.

Each rank's 72-byte header is part of the all-gather that exchanges the sizes of the payloads. Every rank sees
the same table of headers. So all ranks decide alike, without another message: they continue, or they raise
the same CollectiveError. Only in the second case do they also exchange texts that explain the error.
Afterwards all ranks have the same sequence number, and the communicator is usable.

If all ranks expect small payloads, every block of the all-gather has room for one behind the header
(``collectives.foresight``). No second exchange is needed then.

If a rank has to compile kernels first, its header announces that, and all ranks repeat the exchange under a
longer deadline.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from collectives.agreement.errors_from_headers import error_for, get_operation_name, protocol_error
from collectives.agreement.header import (
    HEADER_SIZE,
    MAX_TEXT,
    NO_DETAIL,
    Flag,
    Header,
    Operand,
    Status,
    headers_match,
    is_compiling,
)
from collectives.channel import ByteArray, Channel
from collectives.communicator import count_equal_ring_bytes
from collectives.transport.allgather import allgather_ragged
from collectives.waiting.worker import computes_flushed

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


@dataclass(frozen=True, eq=False)
class Payload:
    """Bytes of a rank that all ranks may gather after an agreement.

    Attributes:
        data: on the host.
        will_gather: returns for the headers whether all ranks gather payloads; the same on all ranks. It is
            called if all payloads have arrived.
        is_final: whether that is the last transfer of the call.
    """

    data: ByteArray
    will_gather: Callable[[list[Header]], bool] = lambda _: True
    is_final: bool = True


def agree(
    channel: Channel,
    proposal: Header,
    operand: Operand,
    failure: Failure | None = None,
    payload: Payload | None = None,
    *,
    finish: bool = False,
) -> list[Header]:
    """Exchange headers, and check that all ranks can contribute to the same operation.

    If all payloads have arrived behind the headers, ``channel.call.payloads`` has them. After an agreement,
    ``channel.call.table`` has the headers, also if an exception came.

    Args:
        channel: open; all ranks call this together.
        proposal: operation, reduction, algorithm, weight, payload_len, and as ``detail`` the number of
            stored elements if it is known. The other fields are filled in here.
        operand: description of the tensors in the payload.
        failure: the reason why this rank has no payload, or None.
        payload: of this rank, if all ranks may gather payloads next.
        finish: whether an exception waits for the headers, also without a payload.

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
        payload = None
    elif payload is not None and len(payload.data) <= channel.foresight.room:
        own = own._replace(flags=own.flags | Flag.HAS_PAYLOAD)
    table = _exchange_headers(channel, own, operand, payload, finish=finish)
    while channel.call.table is not table:  # which has it if the headers match
        if not is_compiling(table):
            _refuse(channel, table, text, failure)
        channel.call.compilation_pending = True
        table = _exchange_headers(channel, own, operand, payload, finish=finish)
    channel.call.compilation_pending = False
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
        flags=Flag.TAKES_DEVICE * channel.takes_device()
        | Flag.FLUSHES_DENORMALS * computes_flushed()
        | Flag.NEW_SPARSE * channel.has_new_sparse,
        text_len=len(text),
        elements=operand.elements,
        signature=operand.signature,
        scheme=operand.scheme,
    )


def _refuse(channel: Channel, table: Sequence[Header], text: bytes, failure: Failure | None) -> NoReturn:
    """Raise the error of a table without an agreement, on all ranks, after the exchange of texts."""
    channel.foresight.forget()
    error = protocol_error(table)
    if error is None:
        blocks = allgather_ragged(
            channel, np.frombuffer(text, np.uint8), [header.text_len for header in table]
        )
        error = error_for(table, [block.tobytes().decode("utf-8", "replace") for block in blocks])
    channel.sequence = (max(header.sequence for header in table) + 1) % 2**64
    raise error from (None if failure is None else failure.error)


def _exchange_headers(
    channel: Channel,
    header: Header,
    operand: Operand,
    payload: Payload | None = None,
    *,
    finish: bool = False,
) -> list[Header]:
    """Gather every rank's header, and what is behind it; conclude if all ranks agree.

    Args:
        channel: open; its foresight determines the room behind each header.
        header: of this rank. The payload is sent if the header has the flag.
        operand: names the call in a Timeout.
        payload: of this rank, or None.
        finish: as for ``agree``.

    Returns:
        Every rank's header, in rank order.
    """
    size = HEADER_SIZE + channel.foresight.room
    sent = np.zeros(size, np.uint8)
    sent[:HEADER_SIZE] = np.frombuffer(header.pack(), np.uint8)
    has_payload = bool(header.flags & Flag.HAS_PAYLOAD)
    if payload is not None and has_payload:
        sent[HEADER_SIZE : HEADER_SIZE + len(payload.data)] = payload.data
    blocks: ByteArray = np.empty((channel.size, size), np.uint8)
    channel.bytes_sent += count_equal_ring_bytes(size, channel.size)
    name, call = _name_call(header, operand), channel.call
    call.has_arrived = False
    try:
        what = f"exchange {header.sequence} of headers ({name})"
        channel.gather(sent, blocks.reshape(-1), what, headers=True, finish=finish or has_payload)
        table = _conclude(channel, header, blocks, payload)
    except BaseException:
        if call.has_arrived:  # the other ranks conclude, so this one does before an interrupt is raised
            _conclude(channel, header, blocks, payload)
        raise
    channel.roll_call.last = f"exchange {header.sequence} ({name})"
    return table


def _conclude(channel: Channel, own: Header, blocks: ByteArray, payload: Payload | None) -> list[Header]:
    """Read all headers; if they match, count the exchange, and deliver the payloads if all have arrived.

    A second call has no further effect.
    """
    call, size = channel.call, blocks.shape[1]
    table = [Header.unpack(row[:HEADER_SIZE].tobytes()) for row in blocks]
    channel.has_new_sparse |= any(header.flags & Flag.NEW_SPARSE for header in table)
    if not headers_match(table):
        return table
    payloads, have = None, all(header.flags & Flag.HAS_PAYLOAD for header in table)
    if payload is not None and have and payload.will_gather(table):
        rows = zip(blocks, table, strict=True)
        payloads = [row[HEADER_SIZE : HEADER_SIZE + header.payload_len] for row, header in rows]
    kind = own.operation, own.algorithm, own.signature, own.sequence - call.first
    channel.foresight.agreed(own.sequence, kind, is_short=size > HEADER_SIZE and payloads is None)
    channel.sequence = (own.sequence + 1) % 2**64
    call.table = table
    call.payloads = payloads  # those of an earlier agreement of the call are not these
    if payload is not None and payloads is not None:
        channel.foresight.gathered(max(header.payload_len for header in table))
        call.is_delivered = payload.is_final
    return table


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
