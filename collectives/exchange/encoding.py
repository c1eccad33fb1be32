"""This rank's side of an exchange: its inputs, described and encoded.

A public call makes its inputs inside the guard of the exchange (``encode_tensors``). So an error in making
them, such as a MemoryError for a dense copy, is announced to all ranks like one of encoding.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from operator import is_
from typing import Any, ClassVar, Protocol, TypeAlias

import numpy as np

import wirecodec as wc
from collectives.agreement.agree import Failure
from collectives.agreement.header import NO_DETAIL, Flag, Header, Operand, Operation, Status
from collectives.agreement.nonfinite import check_gradients
from collectives.channel import ByteArray, Channel
from collectives.device import GpuDevice, as_arrays, find_gpu, stage_on_host
from collectives.exchange.specs import (
    ONLY,
    SchemeArgument,
    Tensors,
    TensorSpec,
    describe,
    failure_of_encoding,
    get_limits,
    get_specs,
    measure,
)
from collectives.exchange.targets import Targets
from collectives.transport.allgather import gather_payloads
from collectives.transport.weights import Weights
from wirecodec.interop import as_bytes, as_scheme, local_shards

NOTHING = "nonzero | rice | raw"
"""Scheme of zeros, of which nothing is sent."""
SPARSE = "; sparse results"
"""Suffix of the scheme's text, so that ranks agree on sparse or dense results before payloads are sent."""


@dataclass(frozen=True, eq=False)
class Inputs:
    """Inputs of a sum.

    Attributes:
        tensors: an array, a SparseTensor, or {name: array or SparseTensor}.
        out: memory of the caller for the results, or None.
        unit: text on which all ranks must agree; "" for gradients in their true unit.
        limits: {name: largest magnitude of a result}. A larger one is an error on all ranks, with reason
            "value". It must be the same on all ranks that have the same ``unit``.
        accept: checks the dense results of named tensors before the step of a Compressor counts. It raises
            CollectiveError to refuse them, on all ranks or none. None to accept all.
        cycle: number of groups of tensors that are exchanged in turn, each in a call of its own. The leader
            of CLT-k, and the rounding of Ok-Topk, stay the same for as many calls, so that each group meets
            every rank. It must be the same on all ranks.
    """

    tensors: Tensors
    out: Any = None
    unit: str = ""
    limits: Mapping[str, float] = field(default_factory=dict)
    accept: Callable[[Mapping[str, Any]], None] | None = None
    cycle: int = 1

    def localize(self) -> Inputs:
        """Return the inputs with this rank's part of each DTensor. Raises EncodeError for a partial one."""
        tensors, out = local_shards(self.tensors), local_shards(self.out)
        if tensors is self.tensors and out is self.out:
            return self
        return replace(self, tensors=tensors, out=out)


MakeInputs: TypeAlias = Callable[[], Inputs]


class Place(Protocol):
    """Place of a rank among others, such as a Channel."""

    @property
    def rank(self) -> int:
        """Number that is mixed into seeds."""
        ...

    @property
    def size(self) -> int:
        """Number of ranks."""
        ...


@dataclass
class Encoding:
    """This rank's side of an exchange. It is filled step by step; a failure keeps the earlier steps.

    Attributes:
        inputs: of this rank.
        blob: this rank's container.
        specs: {name: (shape, dtype)} of the tensors, the same on all ranks.
        bare: whether the caller passed one tensor without a name.
        named: whether the container has named tensors, as a Compressor's always has.
        operand: description of the tensors and the scheme, the same on all ranks.
        table: every rank's header, after the agreement.
        prepared: a Compressor's step.
        decoded: the tensors in this rank's own container, after a call of ``decode_own``.
        sparse: whether the results are SparseTensors.
        targets: memory of the caller for the results.
        gpu: the GPU that holds all tensors, or None.
        blob_on_gpu: the container on that GPU; ``blob`` is its copy on the host.
        is_finite: whether the results are known to be finite.
    """

    inputs: Inputs = field(default_factory=lambda: Inputs({}))
    blob: ByteArray = field(default_factory=lambda: np.empty(0, np.uint8))
    specs: dict[str, TensorSpec] = field(default_factory=dict)
    bare: bool = True
    named: bool = False
    operand: Operand = field(default_factory=Operand)
    table: list[Header] = field(default_factory=list)
    prepared: wc.Prepared | None = None
    decoded: Mapping[str, wc.SparseTensor] | None = None
    sparse: bool = False
    targets: Targets = field(default_factory=Targets)
    gpu: GpuDevice | None = None
    blob_on_gpu: Any = None
    is_finite: bool = False

    @property
    def dtypes(self) -> frozenset[np.dtype[Any]]:
        """The tensors' element types."""
        return measure(self.specs).dtypes

    @property
    def sent(self) -> Mapping[str, wc.SparseTensor] | None:
        """This rank's tensors on the host as receivers decode them, if a Compressor knows them."""
        prepared = self.prepared
        if prepared is None or self.gpu is not None or not prepared.sends_what_it_encoded:
            return None
        return prepared.sent

    def gather(self, channel: Channel) -> list[ByteArray]:
        """Gather every rank's container, in rank order; on this rank's GPU if MPI writes device memory."""
        counts = [header.payload_len for header in self.table]
        direct = all(header.flags & Flag.TAKES_DEVICE for header in self.table)
        channel.call.is_final_transfer = True
        if self.gpu is not None and direct and channel.call.payloads is None:
            with self.gpu.current():
                blobs = gather_payloads(channel, self.blob_on_gpu, counts, self.gpu.allocate)
        else:
            blobs = gather_payloads(channel, self.blob, counts)
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
            if self.sent is not None:
                self.decoded = self.sent
            elif self.named:
                self.decoded = wc.decode_many(self.blob, limits=limits, schema=self.specs)
            else:
                self.decoded = {ONLY: wc.decode(self.blob, limits=limits, schema=self.specs[ONLY])}
        return self.decoded

    def deliver(self, sums: Mapping[str, Any]) -> Any:
        """Return {name: (size,) results} as the caller gets them: shaped, in its memory, on its devices."""
        held = self.targets.flat
        if held.keys() == sums.keys() and all(map(is_, held.values(), map(sums.get, held))):
            results: Any = {name: self.targets.given[name] for name in self.specs}
            return results[ONLY] if self.bare else results
        shaped = {
            name: sums[name] if name in held else sums[name].reshape(shape)
            for name, (shape, _) in self.specs.items()
        }
        given: Any = self.inputs.tensors
        with nullcontext() if self.gpu is None else self.gpu.current():
            results = self.targets.deliver({ONLY: given} if self.bare else given, shaped)
        return results[ONLY] if self.bare else results


class SummingCompressor(wc.Compressor):
    """Compressor that sums its own steps. It works on the host: gradients on a GPU are copied.

    Attributes:
        operation: code of the exchange.
    """

    operation: ClassVar[Operation]

    def get_detail(self, local: Encoding) -> int:
        """Return the number in this rank's first header, which the other ranks see."""
        return NO_DETAIL

    @abstractmethod
    def sum_step(
        self, channel: Channel, local: Encoding, weights: Weights, proposal: Header
    ) -> dict[str, Any]:
        """Sum all ranks' steps after the agreement, as ``AllreduceAlgorithm.run``."""

    @abstractmethod
    def rehearse(self, local: Encoding, proposal: Header) -> None:
        """Call the kernels that ``sum_step`` needs, with this rank's tensors only."""


def encode_tensors(
    local: Encoding,
    make: MakeInputs,
    scheme: SchemeArgument,
    seed: int,
    channel: Place,
    weight: float = 1.0,
    *,
    hold_zeros: bool,
    finite: bool,
    sums_itself: bool = False,
) -> Failure | None:
    """Describe and encode tensors; return an exception as a Failure, which is reported to all ranks.

    Args:
        local: the Encoding to fill.
        make: makes the inputs.
        scheme, seed: the caller's arguments.
        channel: or another place; its rank is mixed into a Compressor's seed, and its size into the bound of
            clipping.
        weight: of this rank. If it is 0, a container without values is encoded, and no tensor is read.
        hold_zeros, finite: as for ``open_exchange``.
        sums_itself: whether the exchange is that of a SummingCompressor. In any other one, such a compressor
            is an error: its containers are not what its settings say.
    """
    if isinstance(scheme, SummingCompressor) and not sums_itself:
        name = type(scheme).__name__
        reason = f"{name} sums its own steps, in allreduce between ranks; here, pass a wirecodec.Compressor"
        return Failure(Status.ARGUMENT, TypeError(reason))
    try:
        local.inputs = make().localize()
        given = tensor = local.inputs.tensors
        local.bare = not isinstance(tensor, Mapping)
        local.gpu = find_gpu(tensor)
        if local.gpu is not None:
            local.gpu.wait_for_tensors()
        if local.gpu is None or isinstance(scheme, SummingCompressor):
            tensor = as_arrays(stage_on_host(tensor))
        tensors = {ONLY: tensor} if local.bare else dict(tensor)
        local.specs = get_specs(tensors)
        if not isinstance(scheme, wc.Compressor | Mapping):
            scheme = as_scheme(scheme)
        text = get_text(scheme) + local.sparse * SPARSE + local.inputs.unit
        local.operand = describe(local.specs, bare=local.bare, scheme=text)
        try:
            placed = {ONLY: given} if local.bare else given
            local.targets = Targets.of(local.inputs.out, placed, local.specs, tensors, bare=local.bare)
        except (TypeError, ValueError) as error:
            return Failure(Status.ARGUMENT, error)
        if weight == 0:
            tensors, hold_zeros, finite = _make_zeros(local), True, False
            tensor = tensors[ONLY] if local.bare else tensors
            scheme = scheme if isinstance(scheme, wc.Compressor) else NOTHING
        if finite and not (isinstance(scheme, wc.Compressor) and scheme.keeps_all):
            check_gradients(tensors)
        if isinstance(scheme, wc.Compressor):
            local.prepared = scheme.prepare(
                tensors, rank=channel.rank, ranks=channel.size, hold_zeros=hold_zeros
            )
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


def read_on_host(inputs: Inputs) -> Mapping[str, Any]:
    """Return named tensors on the host as ``encode_tensors`` gives them to a Compressor."""
    return dict(as_arrays(stage_on_host(inputs.localize().tensors)))


def _make_zeros(local: Encoding) -> dict[str, Any]:
    """Return zeros like the tensors, on their device."""
    if local.gpu is None:
        return {name: np.zeros(shape, dtype) for name, (shape, dtype) in local.specs.items()}
    given: Any = local.inputs.tensors
    tensors = {ONLY: given} if local.bare else given
    with local.gpu.current():
        return {
            name: x.new_zeros(x.shape) if hasattr(x, "new_zeros") else local.gpu.cupy.zeros_like(x)
            for name, x in tensors.items()
        }


def get_text(scheme: SchemeArgument) -> str:
    """Return a text of a scheme that is equal for equal schemes."""
    if isinstance(scheme, wc.Compressor):
        return f"compressor {scheme.signature}; step {scheme.step}"
    if isinstance(scheme, Mapping):
        return ", ".join(f"{glob!r}: {as_scheme(one)}" for glob, one in scheme.items())
    return str(as_scheme(scheme))
