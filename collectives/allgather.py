"""All-gather of bytes or sparse tensors: every rank gets those of all ranks, in rank order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any, overload

import numpy as np

import wirecodec as wc
from collectives.agreement.agree import Failure, Payload, agree
from collectives.agreement.header import Header, Operand, Operation, Status
from collectives.call import counted
from collectives.channel import ByteArray, Channel
from collectives.communicator import Communicator
from collectives.device import stage_on_host
from collectives.exchange.encoding import Encoding, Inputs
from collectives.exchange.session import open_exchange
from collectives.exchange.specs import (
    ONLY,
    SchemeArgument,
    Tensors,
    error_of_container,
    failure_of_encoding,
)
from collectives.store.communicator import StoreComm
from collectives.store.sums import gather, gather_bytes
from collectives.transport.allgather import allgather_ragged, gather_payloads
from wirecodec.interop import BFLOAT16, TensorLike, decode_many_to, decode_to


def _find_end(comm: Communicator | Channel | StoreComm) -> Channel | StoreComm:
    """Return a communicator's channel; a StoreComm needs none."""
    return comm if isinstance(comm, StoreComm) else Channel.of(comm)


@counted(lambda comm, *_, **__: _find_end(comm))
def allgather_bytes(comm: Communicator | Channel | StoreComm, blob: Any) -> list[ByteArray]:
    """Gather every rank's bytes.

    Args:
        comm: a communicator, its Channel, or a StoreComm; all ranks call this together.
        blob: a contiguous buffer or an array of any type. Lengths may differ between ranks and may be 0.

    Returns:
        The bytes in rank order, as uint8 arrays. They are views of one new array. Over a StoreComm, those of
        the members in the order of their names.

    Raises:
        CollectiveError: a rank passed no buffer or made another call; the same on all ranks.
        Timeout: a rank does not take part.

    Source:
        Ring all-gather: Thakur et al., 2005, Optimization of Collective Communication Operations in MPICH,
        section 4.1.

    Examples:
        >>> import collectives as co
        >>> blobs = co.simulate(2, lambda comm: co.allgather_bytes(comm, b"ab"[: comm.rank + 1]))
        >>> [blob.tobytes() for blob in blobs[0]]
        [b'a', b'ab']
    """
    if isinstance(comm, StoreComm):
        return gather_bytes(comm, _as_bytes(stage_on_host(blob)))
    return gather_made(Channel.of(comm), lambda: blob)[0]


def gather_made(
    channel: Channel,
    make: Callable[[], Any],
    follow: Callable[[list[ByteArray]], bytes | None] | None = None,
    *,
    what: str = "",
) -> tuple[list[ByteArray], list[ByteArray]]:
    """Gather bytes that ``make`` returns on each rank; if it raises, all ranks raise CollectiveError.

    Args:
        channel: open.
        make: returns this rank's bytes.
        follow: makes further bytes from all of these, as many on all ranks, or None on all of them.
        what: names the bytes, on which all ranks must agree; empty for those of a program.

    Returns the bytes of all ranks, and the further bytes of all ranks or nothing.
    """
    with channel.collective() as call:
        data: ByteArray = np.empty(0, np.uint8)
        failure = None
        try:
            blob = make()
            try:
                data = _as_bytes(stage_on_host(blob))
            except Exception as error:
                failure = Failure(Status.ARGUMENT, error)
        except Exception as error:
            failure = failure_of_encoding(error)
        proposal = Header(operation=Operation.ALLGATHER_BYTES, payload_len=len(data))
        operand = Operand().with_scheme(what) if what else Operand()
        table = agree(channel, proposal, operand, failure, Payload(data, is_final=follow is None))
        call.is_final_transfer = follow is None
        blobs = gather_payloads(channel, data, [header.payload_len for header in table])
        further = None if follow is None else follow(blobs)
        call.is_final_transfer = True
        if further is None:
            call.is_delivered = True
            return blobs, []
        return blobs, allgather_ragged(channel, _as_bytes(further), [len(further)] * channel.size)


@overload
def allgather(
    comm: Communicator | Channel | StoreComm,
    tensor: Mapping[str, TensorLike],
    scheme: SchemeArgument = ...,
    *,
    seed: int = ...,
) -> list[dict[str, wc.SparseTensor]]: ...


@overload
def allgather(
    comm: Communicator | Channel | StoreComm,
    tensor: TensorLike,
    scheme: SchemeArgument = ...,
    *,
    seed: int = ...,
) -> list[wc.SparseTensor]: ...


@counted(lambda comm, *_, **__: _find_end(comm))
def allgather(
    comm: Communicator | Channel | StoreComm, tensor: Tensors, scheme: SchemeArgument = None, *, seed: int = 0
) -> list[wc.SparseTensor] | list[dict[str, wc.SparseTensor]]:
    """Gather every rank's tensors, encoded by a scheme.

    Args:
        comm: a communicator, its Channel, or a StoreComm; all ranks call this together.
        tensor: an array of float32, float16, bfloat16 or float64, a SparseTensor, or {name: tensor}. Names,
            shapes and types must be the same on all ranks.
        scheme: a Scheme or its string, a Compressor, or None for lossless; the same on all ranks. For named
            tensors also {key: scheme}; a key is a glob or a Rule, and the first match applies.
        seed: of random codecs. It should differ between ranks and steps. Otherwise all ranks round alike, and
            their errors do not average out. A Compressor mixes rank and step into its own seed.

    Returns:
        The decoded tensors in rank order, the same on all ranks. Each is a SparseTensor, or
        {name: SparseTensor} if names were passed. If this rank's tensors are all on one GPU, the results are
        on that GPU, except bfloat16 ones. To sum them in memory of your own, call
        ``SparseTensor.add_to(out, scale=…)`` for each. ``allreduce(op="sum", algorithm="allgather", out=…)``
        computes the plain sum in one pass, without a SparseTensor per rank.

    Raises:
        CollectiveError: a rank cannot encode, ranks differ, or a rank's container cannot be decoded; the same
            on all ranks. The state of a Compressor is unchanged.
        Timeout: a rank does not take part.

    Any other exception (an interrupt, a MemoryError) is raised on this rank alone:

    - Before anything was sent, the call counts as skipped. The next call raises the same CollectiveError on
      all ranks, with reason "sequence".
    - Before the last payload, this rank's channel is closed, and the others raise Timeout. No rank takes the
      step.
    - During the transfer of payloads, they arrive first. A second interrupt is raised at once.
    - After the last payload, all ranks have taken the step of the Compressor. The channel is usable.

    If a Timeout ends the last exchange, some ranks may have taken the step. A Compressor's step is part of
    its scheme, so the next exchange raises the same CollectiveError on all ranks, with reason "scheme".

    Source:
        formats/spec/agreement.md.

    Examples:
        >>> import numpy as np, collectives as co
        >>> grad = np.array([0, 3, 0, -5], np.float32)
        >>> scheme = "topk(0.25) | rice | raw"
        >>> results = co.simulate(2, lambda comm: co.allgather(comm, grad * comm.rank, scheme))
        >>> results[0][1].to_dense()
        array([ 0.,  0.,  0., -5.], dtype=float32)
    """
    proposal = Header(operation=Operation.ALLGATHER)
    inputs = Inputs(tensor)
    if isinstance(comm, StoreComm):
        return gather(comm, lambda: inputs, scheme, seed=seed)  # type: ignore[no-any-return]
    exchange = open_exchange(comm, lambda: inputs, scheme, seed, proposal, rehearsal=rehearse_decoding)
    with exchange as (channel, local):
        decoded = decode_all(local, local.gather(channel))
        return [tensors[ONLY] for tensors in decoded] if local.bare else decoded


def decode_all(local: Encoding, blobs: Sequence[ByteArray]) -> list[dict[str, wc.SparseTensor]]:
    """Decode the containers of all ranks; raise CollectiveError, the same on all ranks, if one cannot be."""
    limits = local.get_limits(blobs)
    return [_decode(local, rank, blob, limits) for rank, blob in enumerate(blobs)]


def rehearse_decoding(channel: Channel, local: Encoding) -> None:
    """Decode this rank's own container, as those of the other ranks are decoded later."""
    _decode(local, channel.rank, local.blob, local.get_limits([local.blob]))


def _decode(
    local: Encoding, rank: int, blob: ByteArray, limits: wc.DecodeLimits
) -> dict[str, wc.SparseTensor]:
    """Decode one rank's tensors, by name; raise CollectiveError if that is impossible.

    Args:
        local: this rank's side of the exchange, with the expected shapes and types.
        rank: the rank that sent the container.
        blob: the container.
        limits: of the decoder.
    """
    on_gpu = local.gpu is not None and all(dtype != BFLOAT16 for _, dtype in local.specs.values())
    try:
        with local.gpu.current() if local.gpu is not None else nullcontext():
            if local.named:
                tensors = decode_many_to(on_gpu, blob, limits=limits, schema=local.specs)
                return {name: tensors[name] for name in local.specs}
            return {ONLY: decode_to(on_gpu, blob, limits=limits, schema=local.specs[ONLY])}
    except wc.WireError as error:
        raise error_of_container(rank, error) from error


def _as_bytes(blob: Any) -> ByteArray:
    """View a buffer as bytes; raise TypeError if it is not one."""
    if not isinstance(blob, np.ndarray):
        view = memoryview(blob)
        return np.frombuffer(view, np.uint8) if view.nbytes else np.empty(0, np.uint8)
    if blob.dtype.hasobject:
        raise TypeError("blob is an array of Python objects; pass bytes or an array of numbers")
    return np.ascontiguousarray(blob).reshape(-1).view(np.uint8)
