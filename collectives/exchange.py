"""The steps that allgather and allreduce share: describe, encode, agree, exchange; then commit or roll back.

Encoding happens in here, between the ranks' arrival and the agreement, so that a rank that cannot encode
still takes part and all ranks hear of it. A Compressor is committed where all ranks have one another's bytes
and none of these is refused; ranks decide that alike, for they hold the same bytes. What befalls one rank
alone after that, as when it lacks the memory to decode, does not hold its Compressor back: what it sent has
arrived, and the others count on it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import prod
from typing import Any, TypeAlias

import numpy as np

import wirecodec as wc
from collectives.agreement import Failure, agree
from collectives.channel import Channel
from collectives.communicator import Communicator
from collectives.errors import CollectiveError
from collectives.header import Header, Operand, Status
from collectives.ring import Octets, allgather_ragged
from wirecodec.arrays import as_bytes, as_flat, dtype_named
from wirecodec.container import CHUNK
from wirecodec.scheme import SchemeLike, as_scheme

__all__ = ["ONLY", "Form", "SchemeArgument", "Shared", "Tensors", "exchange_blobs", "exchanged", "refusal"]

Tensors: TypeAlias = Any  # an array, a SparseTensor, or {name: array or SparseTensor}
SchemeArgument: TypeAlias = "SchemeLike | Mapping[str, SchemeLike] | wc.Compressor"
Form: TypeAlias = tuple[tuple[int, ...], "np.dtype[Any]"]

ONLY = "0"  # the name of a tensor given without one: the number of its key, as the wire format has it


@dataclass
class Shared:
    """What every rank holds after a successful exchange.

    Attributes:
        blobs: every rank's container, in rank order, the same on all ranks.
        forms: {name: (shape, dtype)} of the tensors.
        bare: whether one tensor was given without a name.
        named: whether the blobs hold named tensors (a Compressor's always do).
        limits: what decoding one of them may cost: as much as tensors of these shapes do.
    """

    blobs: list[Octets]
    forms: dict[str, Form]
    bare: bool
    named: bool
    limits: wc.DecodeLimits


@contextmanager
def exchanged(
    comm: Communicator | Channel,
    tensor: Tensors,
    scheme: SchemeArgument,
    seed: int,
    proposal: Header,
    failure: Failure | None = None,
) -> Iterator[Shared]:
    """Encode, exchange, and yield what all ranks sent.

    Args:
        comm, tensor, scheme, seed: as for allgather.
        proposal: operation, reduction and algorithm.
        failure: why this rank has nothing to contribute, where that is known already.

    A Compressor is rolled back where the exchange fails, or where the caller's block raises CollectiveError,
    which it must do on all ranks or none. It is committed otherwise, also where the block raises anything
    else: the other ranks then have this rank's bytes, and have committed. Raises as ``agree`` does.
    """
    channel = Channel.of(comm).open()
    local = _Local()
    delivered = False
    try:
        operand = Operand()
        if failure is None:
            operand, failure = _encode(local, tensor, scheme, seed, channel.rank)
        blobs = exchange_blobs(channel, local.blob, proposal, operand, failure)
        delivered = True
        yield Shared(blobs, local.forms, local.bare, local.named, _limits(local.forms, blobs))
    except CollectiveError:
        delivered = False
        raise
    finally:
        if local.prepared is not None:
            if delivered:
                local.prepared.commit()
            else:
                local.prepared.rollback()


def exchange_blobs(
    channel: Channel, blob: Octets, proposal: Header, operand: Operand, failure: Failure | None
) -> list[Octets]:
    """Agree, then gather every rank's blob, in rank order.

    Args:
        channel: open.
        blob: this rank's.
        proposal, operand, failure: as for ``agree``; ``payload_len`` is filled in here.
    """
    counts = agree(channel, proposal._replace(payload_len=len(blob)), operand, failure)
    return allgather_ragged(channel, blob, counts)


def refusal(rank: int, error: wc.WireError) -> CollectiveError:
    """The error for a rank's container that cannot be decoded.

    All ranks hold the same bytes and expect the same tensors, so all of them raise it.
    """
    text = f"rank {rank}: its bytes are refused: {type(error).__name__} {error}"
    return CollectiveError(text, ranks=[rank], reason="decode")


@dataclass
class _Local:
    """This rank's side, filled in step by step, so that a failure leaves what was known before it."""

    blob: Octets = field(default_factory=lambda: np.empty(0, np.uint8))
    forms: dict[str, Form] = field(default_factory=dict)
    bare: bool = True
    named: bool = False
    prepared: wc.Prepared | None = None


def _encode(
    local: _Local, tensor: Tensors, scheme: SchemeArgument, seed: int, rank: int
) -> tuple[Operand, Failure | None]:
    """Describe and encode; an exception of this rank becomes a Failure for all to hear of.

    Args:
        local: filled in.
        tensor, scheme, seed: the caller's.
        rank: mixed into a Compressor's seed.
    """
    operand = Operand()
    try:
        local.bare = not isinstance(tensor, Mapping)
        tensors = {ONLY: tensor} if local.bare else dict(tensor)
        local.forms = {name: _form(one) for name, one in tensors.items()}
        described = {name: (shape, dtype.name) for name, (shape, dtype) in local.forms.items()}
        if not isinstance(scheme, wc.Compressor | Mapping):
            scheme = as_scheme(scheme)
        operand = Operand.of(described, bare=local.bare, scheme=_scheme_text(scheme))
        if isinstance(scheme, wc.Compressor):
            local.prepared = scheme.prepare(tensors, rank=rank)
            local.named = True
            local.blob = as_bytes(local.prepared.blob)
        elif local.bare:
            if isinstance(scheme, Mapping):
                raise TypeError("a mapping of globs to schemes needs named tensors")
            local.blob = as_bytes(wc.encode(tensor, scheme, seed=seed))
        else:
            local.named = True
            # The names are agreed by their hash, so the container need not repeat them.
            local.blob = as_bytes(wc.encode_many(tensors, scheme, seed=seed, names=False))
    except wc.EncodeError as error:
        status = Status.ENCODE if error.position is None else Status.VALUE
        return operand, Failure(status, error, error.position)
    except (TypeError, AttributeError) as error:
        return operand, Failure(Status.ARGUMENT, error)
    except Exception as error:  # whatever it is, the others must not wait for this rank
        return operand, Failure(Status.ENCODE, error)
    return operand, None


def _limits(forms: Mapping[str, Form], blobs: Sequence[Octets]) -> wc.DecodeLimits:
    """What containers of tensors of these forms can need: an entry a chunk, every element stored.

    A transform's coefficients are at most twice as many numbers as the elements.
    """
    sizes = [2 * prod(shape) for shape, _ in forms.values()]
    return wc.DecodeLimits(
        max_bytes=max(len(blob) for blob in blobs),
        max_entries=sum(max(1, -(-size // CHUNK)) for size in sizes),
        max_elements=sum(sizes),
        max_dense=sum(sizes),
    )


def _form(tensor: Any) -> Form:
    """Shape and element type of any array; EncodeError where it is none."""
    shape, dtype = getattr(tensor, "shape", None), getattr(tensor, "dtype", None)
    if shape is None or dtype is None:
        flat = as_flat(tensor)
        return flat.shape, flat.data.dtype
    return tuple(int(n) for n in shape), dtype_named(dtype)


def _scheme_text(scheme: SchemeArgument) -> str:
    """A scheme as all ranks must write it: equal for equal schemes, however each rank spelled its own."""
    if isinstance(scheme, wc.Compressor):
        return f"compressor {scheme.signature}; step {scheme.step}"
    if isinstance(scheme, Mapping):
        return ", ".join(f"{glob!r}: {as_scheme(one)}" for glob, one in scheme.items())
    return str(scheme)
