"""The steps that allgather and allreduce share: describe, encode, agree, exchange; then commit or roll back.

Encoding happens in here, on the host or on the GPU where the tensors lie, between the ranks' arrival and
the agreement, so that a rank that cannot encode still takes part and all ranks hear of it. A Compressor is
committed where all ranks have one another's bytes and none of these is refused; ranks decide that alike, for
they hold the same bytes, or have told each other. An error on one rank after that point does not roll back
its Compressor, because the other ranks already hold its contribution.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from math import prod
from typing import Any, TypeAlias

import numpy as np

import wirecodec as wc
from collectives.agreement.agree import Failure, agree
from collectives.agreement.header import NO_DETAIL, Algorithm, Header, Operand, Status
from collectives.channel import Channel
from collectives.communicator import Communicator
from collectives.device import Place, place_of, staged
from collectives.errors import CollectiveError
from collectives.transport.allgather import allgather_ragged
from collectives.transport.segments import Octets
from wirecodec.interop import CHUNK, SchemeLike, as_bytes, as_flat, as_scheme, dtype_named

__all__ = [
    "ONLY",
    "Encoding",
    "Form",
    "SchemeArgument",
    "Tensors",
    "encoded",
    "failed_decoding",
    "failed_encoding",
    "form_of",
    "limits_of",
    "refusal",
    "stored_in",
]

Tensors: TypeAlias = Any  # an array, a SparseTensor, or {name: array or SparseTensor}
SchemeArgument: TypeAlias = "SchemeLike | Mapping[str, SchemeLike] | wc.Compressor"
Form: TypeAlias = tuple[tuple[int, ...], "np.dtype[Any]"]

ONLY = "0"  # the name of a tensor given without one: the number of its key, as the wire format has it


@dataclass
class Encoding:
    """This rank's side of an exchange, filled in step by step: a failure leaves what was known before.

    Attributes:
        blob: this rank's container.
        forms: {name: (shape, dtype)} of the tensors, the same on all ranks.
        bare: whether one tensor was given without a name.
        named: whether the blob holds named tensors (a Compressor's always does).
        operand: what all ranks must agree on.
        table: every rank's header, once they agreed.
        prepared: a Compressor's step.
        decoded: what this rank's own container says, once ``sent`` was called.
        place: the GPU that the tensors lie on, all of them; None elsewhere.
        there: the container on that GPU; ``blob`` is the same on the host.
    """

    blob: Octets = field(default_factory=lambda: np.empty(0, np.uint8))
    forms: dict[str, Form] = field(default_factory=dict)
    bare: bool = True
    named: bool = False
    operand: Operand = field(default_factory=Operand)
    table: list[Header] = field(default_factory=list)
    prepared: wc.Prepared | None = None
    decoded: Mapping[str, wc.SparseTensor] | None = None
    place: Place | None = None
    there: Any = None

    def gather(self, channel: Channel) -> list[Octets]:
        """Every rank's container, in rank order, the same on all ranks.

        They lie on this rank's GPU where MPI puts them there.
        """
        counts = [header.payload_len for header in self.table]
        direct = channel.takes_device()
        channel.call.last = True
        if self.place is not None and direct:
            with self.place.current():
                blobs = allgather_ragged(channel, self.there, counts, self.place.octets)
        else:
            blobs = allgather_ragged(channel, self.blob, counts)
        channel.call.delivered = True
        return blobs

    def keep(self, blob: Any, octets: Octets | None = None) -> None:
        """This rank's container, and its bytes on the host where they are known."""
        if self.place is not None:
            self.there = blob
            with self.place.current():
                octets = staged(blob) if octets is None else octets
        self.blob = as_bytes(blob if octets is None else octets)

    def limits(self, blobs: Sequence[Octets]) -> wc.DecodeLimits:
        """What decoding one of the containers may cost: as much as tensors of these forms do."""
        return limits_of(self.forms, blobs)

    def sent(self) -> Mapping[str, wc.SparseTensor]:
        """What this rank's container decodes to, by name, on the host."""
        if self.decoded is None:
            limits = self.limits([self.blob])
            if self.prepared is not None and self.place is None:
                self.decoded = self.prepared.sent
            elif self.named:
                self.decoded = wc.decode_many(self.blob, limits=limits, schema=self.forms)
            else:
                self.decoded = {ONLY: wc.decode(self.blob, limits=limits, schema=self.forms[ONLY])}
        return self.decoded


@contextmanager
def encoded(
    comm: Communicator | Channel,
    tensor: Tensors,
    scheme: SchemeArgument,
    seed: int,
    proposal: Header,
    failure: Failure | None = None,
) -> Iterator[tuple[Channel, Encoding]]:
    """Encode, agree, and yield what is to be exchanged.

    Args:
        comm, tensor, scheme, seed: as for allgather.
        proposal: operation, reduction and algorithm.
        failure: why this rank has nothing to contribute, where that is known already.

    All of it is one ``Channel.collective``. A Compressor is committed if the call is ``delivered``. It is
    rolled back otherwise, and if the caller's block raises CollectiveError, which it must do on all ranks or
    none. Raises as ``agree`` does.
    """
    channel = Channel.of(comm)
    local = Encoding()
    with channel.collective() as call:
        try:
            if failure is None:
                failure = _encode(local, tensor, scheme, seed, channel.rank)
            if failure is None and proposal.algorithm > Algorithm.ALLGATHER:  # it will need what it encoded
                failure = _decode_own(local, channel.rank)
            stored = NO_DETAIL
            if failure is None:
                stored, failure = _count_stored(local)
            proposal = proposal._replace(payload_len=len(local.blob), detail=stored)
            local.table = agree(channel, proposal, local.operand, failure)
            yield channel, local
        except CollectiveError:
            call.delivered = False
            raise
        finally:
            if local.prepared is not None:
                settle = local.prepared.commit if call.delivered else local.prepared.rollback
                try:
                    settle()
                except RuntimeError:  # it cannot be settled
                    raise
                except BaseException:  # an interrupt must not undo what the other ranks have done
                    with suppress(RuntimeError):  # it was settled before the interrupt
                        settle()
                    raise


def refusal(rank: int, error: wc.WireError) -> CollectiveError:
    """The error for a rank's container that cannot be decoded.

    All ranks hold the same bytes and expect the same tensors, so all of them raise it.
    """
    text = f"rank {rank}: its bytes are refused: {type(error).__name__} {error}"
    return CollectiveError(text, ranks=[rank], reason="decode")


def stored_in(blob: Octets) -> int:
    """How many elements a container stores."""
    return sum(entry.nnz for entry in wc.inspect(blob).entries)


def limits_of(forms: Mapping[str, Form], blobs: Sequence[Octets]) -> wc.DecodeLimits:
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


def form_of(tensor: Any) -> Form:
    """Shape and element type of any array; EncodeError where it is none."""
    shape, dtype = getattr(tensor, "shape", None), getattr(tensor, "dtype", None)
    if shape is None or dtype is None:
        flat = as_flat(tensor)
        return flat.shape, flat.data.dtype
    return tuple(int(n) for n in shape), dtype_named(dtype)


def failed_encoding(error: Exception) -> Failure:
    """What the other ranks are told of an exception that came up while this one described or encoded."""
    if isinstance(error, wc.EncodeError):
        return Failure(Status.ENCODE if error.position is None else Status.VALUE, error, error.position)
    if isinstance(error, TypeError | AttributeError):
        return Failure(Status.ARGUMENT, error)
    return Failure(Status.ENCODE, error)  # whatever it is, the others must not wait for this rank


def failed_decoding(error: Exception, rank: int) -> Failure:
    """What the other ranks are told where rank ``rank``, this one, cannot read what it encoded itself."""
    return Failure(Status.DECODE, error, rank) if isinstance(error, wc.WireError) else failed_encoding(error)


def _count_stored(local: Encoding) -> tuple[int, Failure | None]:
    """How many elements this rank's container stores; or NO_DETAIL, and why it cannot be read."""
    try:
        return stored_in(local.blob), None
    except Exception as error:
        return NO_DETAIL, failed_encoding(error)


def _decode_own(local: Encoding, rank: int) -> Failure | None:
    try:
        local.sent()
    except Exception as error:
        return failed_decoding(error, rank)
    return None


def _encode(local: Encoding, tensor: Tensors, scheme: SchemeArgument, seed: int, rank: int) -> Failure | None:
    """Describe and encode; an exception of this rank becomes a Failure for all to hear of.

    Args:
        local: filled in.
        tensor, scheme, seed: the caller's.
        rank: mixed into a Compressor's seed.
    """
    try:
        local.bare = not isinstance(tensor, Mapping)
        local.place = place_of(tensor)
        if local.place is None:
            tensor = staged(tensor)
        else:
            local.place.settle()  # whatever stream writes it
        tensors = {ONLY: tensor} if local.bare else dict(tensor)
        local.forms = {name: form_of(one) for name, one in tensors.items()}
        described = {name: (shape, dtype.name) for name, (shape, dtype) in local.forms.items()}
        if not isinstance(scheme, wc.Compressor | Mapping):
            scheme = as_scheme(scheme)
        local.operand = Operand.of(described, bare=local.bare, scheme=_scheme_text(scheme))
        if isinstance(scheme, wc.Compressor):
            local.prepared = scheme.prepare(tensors, rank=rank)
            local.named = True
            local.keep(local.prepared.blob, local.prepared.octets)
        elif local.bare:
            if isinstance(scheme, Mapping):
                raise TypeError("a mapping of globs to schemes needs named tensors")
            local.keep(wc.encode(tensor, scheme, seed=seed))
        else:
            local.named = True
            # The names are agreed by their hash, so the container need not repeat them.
            local.keep(wc.encode_many(tensors, scheme, seed=seed, names=False))
    except Exception as error:
        return failed_encoding(error)
    return None


def _scheme_text(scheme: SchemeArgument) -> str:
    """A scheme as all ranks must write it: equal for equal schemes, however each rank spelled its own."""
    if isinstance(scheme, wc.Compressor):
        return f"compressor {scheme.signature}; step {scheme.step}"
    if isinstance(scheme, Mapping):
        return ", ".join(f"{glob!r}: {as_scheme(one)}" for glob, one in scheme.items())
    return str(scheme)
