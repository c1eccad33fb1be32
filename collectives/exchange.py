"""Common steps of allgather and allreduce: encode, agree, gather, and commit or roll back.

Encoding happens between the call and the agreement, so that a rank that cannot encode still takes part and
all ranks learn of it. Tensors are encoded on the host or on their GPU. A Compressor is committed if every
rank has all containers and can decode them. All ranks decide this alike, because they have the same bytes or
have exchanged their results. An error on one rank after that point does not roll back its Compressor, because
the other ranks already hold its contribution.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from math import prod
from typing import Any, TypeAlias

import numpy as np

import wirecodec as wc
from collectives.agreement.agree import Failure, agree
from collectives.agreement.compilation import rehearse, run_announced
from collectives.agreement.header import NO_DETAIL, Algorithm, Flag, Header, Operand, Status
from collectives.agreement.nonfinite import check_gradients
from collectives.channel import ByteArray, Channel
from collectives.communicator import Communicator
from collectives.device import GpuDevice, find_gpu, stage_on_host
from collectives.errors import CollectiveError
from collectives.transport.allgather import allgather_ragged
from wirecodec.interop import CHUNK, SchemeLike, as_bytes, as_flat, as_scheme, dtype_named

__all__ = [
    "ONLY",
    "Encoding",
    "SchemeArgument",
    "TensorSpec",
    "Tensors",
    "count_stored",
    "error_of_container",
    "failure_of_decoding",
    "failure_of_encoding",
    "get_limits",
    "get_spec",
    "open_exchange",
]

Tensors: TypeAlias = Any  # an array, a SparseTensor, or {name: array or SparseTensor}
SchemeArgument: TypeAlias = "SchemeLike | Mapping[str, SchemeLike] | wc.Compressor"
TensorSpec: TypeAlias = tuple[tuple[int, ...], "np.dtype[Any]"]  # shape and element type

ONLY = "0"  # name of a tensor that was passed without one: the number of its key in the wire format


@dataclass
class Encoding:
    """This rank's side of an exchange. It is filled step by step; a failure keeps the earlier steps.

    Attributes:
        blob: this rank's container.
        specs: {name: (shape, dtype)} of the tensors, the same on all ranks.
        bare: whether the caller passed one tensor without a name.
        named: whether the container has named tensors, as a Compressor's always has.
        operand: description of the tensors and the scheme, the same on all ranks.
        table: every rank's header, after the agreement.
        prepared: a Compressor's step.
        decoded: the tensors in this rank's own container, after a call of ``decode_own``.
        gpu: the GPU that holds all tensors, or None.
        blob_on_gpu: the container on that GPU; ``blob`` is its copy on the host.
    """

    blob: ByteArray = field(default_factory=lambda: np.empty(0, np.uint8))
    specs: dict[str, TensorSpec] = field(default_factory=dict)
    bare: bool = True
    named: bool = False
    operand: Operand = field(default_factory=Operand)
    table: list[Header] = field(default_factory=list)
    prepared: wc.Prepared | None = None
    decoded: Mapping[str, wc.SparseTensor] | None = None
    gpu: GpuDevice | None = None
    blob_on_gpu: Any = None

    @property
    def dtypes(self) -> frozenset[str]:
        """Names of the tensors' element types."""
        return frozenset(dtype.name for _, dtype in self.specs.values())

    def gather(self, channel: Channel) -> list[ByteArray]:
        """Gather every rank's container, in rank order; on this rank's GPU if MPI writes device memory."""
        counts = [header.payload_len for header in self.table]
        direct = all(header.flags & Flag.TAKES_DEVICE for header in self.table)
        channel.call.is_final_transfer = True
        if self.gpu is not None and direct:
            with self.gpu.current():
                blobs = allgather_ragged(channel, self.blob_on_gpu, counts, self.gpu.allocate)
        else:
            blobs = allgather_ragged(channel, self.blob, counts)
        channel.call.is_delivered = True
        return blobs

    def set_blob(self, blob: Any, on_host: ByteArray | None = None) -> None:
        """Set this rank's container; ``on_host`` is its copy on the host, if there already is one."""
        if self.gpu is not None:
            self.blob_on_gpu = blob
            with self.gpu.current():
                on_host = stage_on_host(blob) if on_host is None else on_host
        self.blob = as_bytes(blob if on_host is None else on_host)

    def get_limits(self, blobs: Sequence[ByteArray]) -> wc.DecodeLimits:
        """Return the limits for decoding one of the containers."""
        return get_limits(self.specs, blobs)

    def decode_own(self) -> Mapping[str, wc.SparseTensor]:
        """Decode this rank's own container on the host, by name."""
        if self.decoded is None:
            limits = self.get_limits([self.blob])
            if self.prepared is not None and self.gpu is None:
                self.decoded = self.prepared.sent
            elif self.named:
                self.decoded = wc.decode_many(self.blob, limits=limits, schema=self.specs)
            else:
                self.decoded = {ONLY: wc.decode(self.blob, limits=limits, schema=self.specs[ONLY])}
        return self.decoded


@contextmanager
def open_exchange(
    comm: Communicator | Channel,
    tensor: Tensors,
    scheme: SchemeArgument,
    seed: int,
    proposal: Header,
    failure: Failure | None = None,
    *,
    hold_zeros: bool = False,
    finite: bool = False,
    rehearsal: Callable[[Channel, Encoding], object] | None = None,
) -> Iterator[tuple[Channel, Encoding]]:
    """Encode a rank's tensors and agree with the others; yield the channel and this rank's Encoding.

    The whole block is one ``Channel.collective``. A Compressor is committed if ``call.is_delivered``. It
    is rolled back otherwise, and if the block raises CollectiveError, which it must do on all ranks or none.

    Args:
        comm, tensor, scheme, seed: as for allgather.
        proposal: operation, reduction and algorithm.
        failure: the reason why this rank cannot contribute, if it is known already.
        hold_zeros: as for ``Compressor.prepare``; without a Compressor it has no effect.
        finite: whether NaN or Inf is an error even if the scheme carries or drops it.
        rehearsal: calls the kernels that the block needs, with this rank's Encoding.

    Raises:
        CollectiveError: a rank failed or ranks differ; the same on all ranks.
        Timeout: a rank does not take part.
    """
    channel = Channel.of(comm)
    local = Encoding()

    def contribute() -> Failure | None:
        failure = _encode(local, tensor, scheme, seed, channel, hold_zeros=hold_zeros, finite=finite)
        if failure is None and proposal.algorithm > Algorithm.ALLGATHER:  # it needs its own tensors decoded
            failure = _try_decode_own(local, channel.rank)
        if failure is None and rehearsal is not None and local.gpu is None:
            settings = scheme.signature if isinstance(scheme, wc.Compressor) else local.operand.scheme_text
            key = proposal.operation, proposal.algorithm, settings, local.dtypes
            rehearse(channel, key, lambda: rehearsal(channel, local))
        return failure

    with channel.collective() as call:
        try:
            if failure is None:
                failure = run_announced(channel, contribute, lambda: (proposal, local.operand))
            stored = NO_DETAIL
            if failure is None:
                stored, failure = _try_count_stored(local)
            proposal = proposal._replace(payload_len=len(local.blob), detail=stored)
            local.table = agree(channel, proposal, local.operand, failure)
            yield channel, local
        except CollectiveError:
            call.is_delivered = False
            raise
        finally:
            if local.prepared is not None:
                resolve = local.prepared.commit if call.is_delivered else local.prepared.rollback
                try:
                    resolve()
                except RuntimeError:  # it was resolved by another call
                    raise
                except BaseException:  # an interrupt must not leave the step open: other ranks have decided
                    with suppress(RuntimeError):  # it was resolved before the interrupt
                        resolve()
                    raise


def error_of_container(rank: int, error: wc.WireError) -> CollectiveError:
    """Return the error for a rank's container that cannot be decoded.

    All ranks have the same bytes and expect the same tensors, so all of them raise it.
    """
    text = f"rank {rank}: its container cannot be decoded: {type(error).__name__} {error}"
    return CollectiveError(text, ranks=[rank], reason="decode")


def count_stored(blob: ByteArray) -> int:
    """Count the elements that a container stores."""
    return sum(entry.nnz for entry in wc.inspect(blob).entries)


def get_limits(specs: Mapping[str, TensorSpec], blobs: Sequence[ByteArray]) -> wc.DecodeLimits:
    """Return the limits for decoding containers of tensors with these shapes.

    They allow one entry per chunk, and that every element is stored. A transform has at most twice as many
    coefficients as elements.
    """
    sizes = [2 * prod(shape) for shape, _ in specs.values()]
    return wc.DecodeLimits(
        max_bytes=max(len(blob) for blob in blobs),
        max_entries=sum(max(1, -(-size // CHUNK)) for size in sizes),
        max_elements=sum(sizes),
        max_dense=sum(sizes),
    )


def get_spec(tensor: Any) -> TensorSpec:
    """Return the shape and the element type of an array; raise EncodeError if it is not one."""
    shape, dtype = getattr(tensor, "shape", None), getattr(tensor, "dtype", None)
    if shape is None or dtype is None:
        flat = as_flat(tensor)
        return flat.shape, flat.data.dtype
    return tuple(int(n) for n in shape), dtype_named(dtype)


def failure_of_encoding(error: Exception) -> Failure:
    """Return the Failure for an exception that this rank raised while it described or encoded tensors."""
    if isinstance(error, wc.EncodeError):
        return Failure(Status.ENCODE if error.position is None else Status.VALUE, error, error.position)
    if isinstance(error, TypeError | AttributeError):
        return Failure(Status.ARGUMENT, error)
    return Failure(Status.ENCODE, error)  # of any type, so that the others never wait for this rank


def failure_of_decoding(error: Exception, rank: int) -> Failure:
    """Return the Failure for an exception that this rank, ``rank``, raised while it decoded its own bytes."""
    if isinstance(error, wc.WireError):
        return Failure(Status.DECODE, error, rank)
    return failure_of_encoding(error)


def _try_count_stored(local: Encoding) -> tuple[int, Failure | None]:
    """Count the elements in this rank's container; return NO_DETAIL and a Failure if it cannot be read."""
    try:
        return count_stored(local.blob), None
    except Exception as error:
        return NO_DETAIL, failure_of_encoding(error)


def _try_decode_own(local: Encoding, rank: int) -> Failure | None:
    """Decode this rank's own container; return a Failure if that is impossible."""
    try:
        local.decode_own()
    except Exception as error:
        return failure_of_decoding(error, rank)
    return None


def _encode(
    local: Encoding,
    tensor: Tensors,
    scheme: SchemeArgument,
    seed: int,
    channel: Channel,
    *,
    hold_zeros: bool,
    finite: bool,
) -> Failure | None:
    """Describe and encode tensors; return an exception as a Failure, which is reported to all ranks.

    Args:
        local: the Encoding to fill.
        tensor, scheme, seed: the caller's arguments.
        channel: its rank is mixed into a Compressor's seed, and its size into the bound of clipping.
        hold_zeros, finite: as for ``open_exchange``.
    """
    try:
        local.bare = not isinstance(tensor, Mapping)
        local.gpu = find_gpu(tensor)
        if local.gpu is None:
            tensor = stage_on_host(tensor)
        else:
            local.gpu.synchronize()  # the stream that writes the tensor is unknown
        tensors = {ONLY: tensor} if local.bare else dict(tensor)
        local.specs = {name: get_spec(one) for name, one in tensors.items()}
        shapes = {name: (shape, dtype.name) for name, (shape, dtype) in local.specs.items()}
        if not isinstance(scheme, wc.Compressor | Mapping):
            scheme = as_scheme(scheme)
        local.operand = Operand.of(shapes, bare=local.bare, scheme=_normalize_scheme(scheme))
        if finite and not (isinstance(scheme, wc.Compressor) and scheme.keeps_all):
            check_gradients(tensors)
        if isinstance(scheme, wc.Compressor):
            ranks = channel.size
            local.prepared = scheme.prepare(tensors, rank=channel.rank, ranks=ranks, hold_zeros=hold_zeros)
            local.named = True
            local.set_blob(local.prepared.blob, local.prepared.blob_on_host)
        elif local.bare:
            if isinstance(scheme, Mapping):
                raise TypeError("a mapping of globs to schemes needs named tensors; pass {name: tensor}")
            local.set_blob(wc.encode(tensor, scheme, seed=seed))
        else:
            local.named = True
            # The headers have agreed on the names by their hash, so the container omits them.
            local.set_blob(wc.encode_many(tensors, scheme, seed=seed, names=False))
    except Exception as error:
        return failure_of_encoding(error)
    return None


def _normalize_scheme(scheme: SchemeArgument) -> str:
    """Normalize a scheme to a text that is equal for equal schemes."""
    if isinstance(scheme, wc.Compressor):
        return f"compressor {scheme.signature}; step {scheme.step}"
    if isinstance(scheme, Mapping):
        return ", ".join(f"{glob!r}: {as_scheme(one)}" for glob, one in scheme.items())
    return str(scheme)
