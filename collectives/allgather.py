"""All-gather: every rank gets what every rank has, as bytes or as sparse tensors, in rank order."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any, overload

import numpy as np

import wirecodec as wc
from collectives.agreement.agree import Failure, agree
from collectives.agreement.header import Header, Operand, Operation, Status
from collectives.channel import Channel
from collectives.communicator import Communicator
from collectives.device import staged
from collectives.exchange import ONLY, Encoding, SchemeArgument, Tensors, encoded, refusal
from collectives.transport.allgather import allgather_ragged
from collectives.transport.segments import Octets
from wirecodec.interop import BFLOAT16, decode_many_to, decode_to

__all__ = ["allgather", "allgather_bytes"]


def allgather_bytes(comm: Communicator | Channel, blob: Any) -> list[Octets]:
    """Every rank's bytes, in rank order.

    Args:
        comm: a communicator or its Channel; all ranks call this together.
        blob: any contiguous buffer, of any length on any rank, empty included; an array of any type
            counts as its bytes.

    Returns uint8 arrays of the lengths that the ranks gave, views of one new array.

    Raises CollectiveError on all ranks where one gave no buffer or another call was made; Timeout.
    """
    channel = Channel.of(comm)
    with channel.collective() as call:
        data: Octets = np.empty(0, np.uint8)
        failure = None
        try:
            data = _octets(staged(blob))
        except Exception as error:
            failure = Failure(Status.ARGUMENT, error)
        proposal = Header(operation=Operation.ALLGATHER_BYTES, payload_len=len(data))
        table = agree(channel, proposal, Operand(), failure)
        call.last = True
        return allgather_ragged(channel, data, [header.payload_len for header in table])


@overload
def allgather(
    comm: Communicator | Channel, tensor: Mapping[str, Any], scheme: SchemeArgument = ..., *, seed: int = ...
) -> list[dict[str, wc.SparseTensor]]: ...


@overload
def allgather(
    comm: Communicator | Channel, tensor: Any, scheme: SchemeArgument = ..., *, seed: int = ...
) -> list[wc.SparseTensor]: ...


def allgather(
    comm: Communicator | Channel, tensor: Tensors, scheme: SchemeArgument = None, *, seed: int = 0
) -> list[wc.SparseTensor] | list[dict[str, wc.SparseTensor]]:
    """Every rank's tensor as its encoding decodes, in rank order.

    Args:
        comm: a communicator or its Channel; all ranks call this together.
        tensor: an array of a carried float type, a SparseTensor, or {name: of these}; the same names,
            shapes and types on all ranks.
        scheme: how to encode, the same on all ranks: a Scheme or its string, {glob: scheme} for named
            tensors, a Compressor, or None for lossless.
        seed: of random codecs. Give each rank and step another one, or all ranks round alike and their
            errors do not average out. A Compressor has its own, and mixes rank and step in.

    Returns for each rank a SparseTensor, or {name: SparseTensor} where names were given; the same on all
    ranks. Where this rank's tensors all lie on one GPU, so do the arrays of these, but for bfloat16.

    Raises CollectiveError on all ranks where one of them cannot encode, ranks differ, or a rank's bytes
    cannot be decoded; a Compressor's state is then as it was. Timeout where a rank does not take part.

    Any other exception (an interrupt, a MemoryError) is raised on this rank alone:

    - Before anything was sent, the call counts as left out. The next call raises the same CollectiveError on
      all ranks, of reason "sequence".
    - Before the last payload, this rank's channel is closed, and the others raise Timeout. No rank takes the
      step.
    - While payloads are under way, they arrive first. A second interrupt is raised at once.
    - After the last payload, the Compressor has taken the step, as the others' have. The channel is usable.

    If a Timeout ends the last exchange, some ranks may have taken the step. A Compressor's step is part of
    its scheme, so the next exchange then raises the same CollectiveError on all ranks, of reason "scheme".
    """
    with encoded(comm, tensor, scheme, seed, Header(operation=Operation.ALLGATHER)) as (channel, local):
        blobs = local.gather(channel)
        limits = local.limits(blobs)
        decoded = [_decode(local, rank, blob, limits) for rank, blob in enumerate(blobs)]
        return [tensors[ONLY] for tensors in decoded] if local.bare else decoded


def _decode(local: Encoding, rank: int, blob: Octets, limits: wc.DecodeLimits) -> dict[str, wc.SparseTensor]:
    """One rank's tensors by name; CollectiveError where its bytes are refused.

    Args:
        local: says what is expected.
        rank: whose tensors they are.
        blob: its bytes.
        limits: what decoding may cost.
    """
    there = local.place is not None and all(dtype != BFLOAT16 for _, dtype in local.forms.values())
    try:
        with local.place.current() if local.place is not None else nullcontext():
            if local.named:
                return decode_many_to(there, blob, limits=limits, schema=local.forms)
            return {ONLY: decode_to(there, blob, limits=limits, schema=local.forms[ONLY])}
    except wc.WireError as error:
        raise refusal(rank, error) from error


def _octets(blob: Any) -> Octets:
    """The bytes of any buffer; TypeError where it is none."""
    if not isinstance(blob, np.ndarray):
        view = memoryview(blob)
        return np.frombuffer(view, np.uint8) if view.nbytes else np.empty(0, np.uint8)
    if blob.dtype.hasobject:
        raise TypeError("an array of objects has no bytes to send")
    return np.ascontiguousarray(blob).reshape(-1).view(np.uint8)
