"""State of one CLT-k step on one rank."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

import wirecodec as wc
from collectives.agreement.agree import Failure
from collectives.agreement.header import NO_DETAIL, Operand, Status
from collectives.channel import ByteArray
from collectives.cltk.residuals import accumulate_in
from collectives.cltk.selection import LeaderSelectors
from collectives.device import as_arrays, find_gpu
from collectives.exchange.encoding import Inputs
from collectives.exchange.specs import (
    ONLY,
    TensorSpec,
    describe,
    error_of_container,
    get_limits,
    get_specs,
)
from collectives.exchange.targets import Targets
from collectives.transport.reduce import Dense
from wirecodec.interop import AccumulatedGradient, Memory, State, as_bytes, is_zero, top_of_group

_NO_INDICES = np.empty(0, np.int64)


@dataclass
class LocalStep:
    """State of one step on one rank, filled step by step.

    Attributes:
        inputs: of this rank.
        current: the state at the beginning of the step.
        before: the same after a loaded one was compared.
        listens: whether this rank has weight 0, so that its gradients count as zeros and are not read.
        on_gpu: whether all gradients are on one GPU.
        specs: {name: (shape, dtype)}, in the order of the names' UTF-8 bytes.
        totals: {name: gradient + residual}.
        targets: memory of the caller for the means.
        operand: description of the tensors and the settings, the same on all ranks.
        selectors: each tensor's selector in this step, or None if it is sent whole.
        sparse: names of the tensors that are not sent whole.
        silent: as the leader, names of the tensors of which nothing is sent in this step.
        kept: names of the tensors of which this rank sends zeros, so that their residuals do not change.
        stored: number of elements that the leader selected; NO_DETAIL on other ranks.
        blob: the container of the leader's indices; empty on other ranks.
    """

    inputs: Inputs = field(default_factory=lambda: Inputs({}))
    current: State = field(default_factory=State)
    before: State = field(default_factory=State)
    listens: bool = False
    on_gpu: bool = False
    specs: dict[str, TensorSpec] = field(default_factory=dict)
    totals: dict[str, AccumulatedGradient] = field(default_factory=dict)
    targets: Targets = field(default_factory=Targets)
    operand: Operand = field(default_factory=Operand)
    selectors: dict[str, Any] = field(default_factory=dict)
    sparse: list[str] = field(default_factory=list)
    silent: set[str] = field(default_factory=set)
    kept: set[str] = field(default_factory=set)
    stored: int = NO_DETAIL
    blob: ByteArray = field(default_factory=lambda: np.empty(0, np.uint8))

    @property
    def bare(self) -> bool:
        """Whether the caller passed one tensor without a name."""
        return not isinstance(self.inputs.tensors, Mapping)

    @property
    def grads(self) -> Mapping[str, Any]:
        """{name: gradient}, in the caller's order."""
        tensors: Any = self.inputs.tensors
        return {ONLY: tensors} if self.bare else tensors

    @property
    def dtypes(self) -> frozenset[np.dtype[Any]]:
        """The tensors' element types."""
        return frozenset([dtype for _, dtype in self.specs.values()])

    def describe(self, signature: str) -> Failure | None:
        """Describe the tensors, and find the memory for the means; return a Failure if that is wrong.

        Args:
            signature: of the CLTk.

        Raises EncodeError if a tensor has no float type.
        """
        grads = self.grads
        gpu = find_gpu(grads)
        self.on_gpu = gpu is not None
        if gpu is not None:
            gpu.wait_for_tensors()
        self.specs = get_specs({name: grads[name] for name in sorted(grads, key=str.encode)})
        self.operand = describe(self.specs, bare=self.bare, scheme=signature + self.inputs.unit)
        try:
            self.targets = Targets.of(self.inputs.out, grads, self.specs, as_arrays(grads), bare=self.bare)
        except (TypeError, ValueError) as error:
            return Failure(Status.ARGUMENT, error)
        return None

    def choose(self, selectors: LeaderSelectors, *, leads: bool, holds: bool) -> None:
        """Divide the tensors into those that are sent whole, sparse, or not at all. Raises EncodeError.

        Args:
            selectors: of the leader.
            leads: whether this rank is the leader.
            holds: whether tensors are held whose gradient is zero everywhere.
        """
        shapes = {name: shape for name, (shape, _) in self.specs.items()}
        self.selectors = {name: selectors.at(name, shape, self.before.step) for name, shape in shapes.items()}
        self.sparse = [name for name in shapes if self.selectors[name] is not None]
        held = {name for name in shapes if self.listens or (holds and is_zero(self.grads[name]))}
        self.silent = held & set(self.sparse) if leads else set()
        self.kept = held - set(self.sparse)

    def accumulate(self, memory: Memory, feedback: wc.ErrorFeedback, *, on_gpu: bool, selects: bool) -> None:
        """Add the residuals to the gradients. Raises EncodeError.

        Args:
            memory: of the step.
            feedback: computes the next residuals.
            on_gpu: whether the sums are computed on the gradients' GPU.
            selects: whether this rank selects from each tensor by itself.
        """
        chosen = set(self.sparse) - self.silent if selects else set()
        for name, (shape, dtype) in self.specs.items():
            silent = self.listens or name in self.kept
            self.totals[name] = accumulate_in(
                memory,
                feedback,
                name,
                np.zeros(shape, dtype) if self.listens else self.grads[name],
                None if silent else self.before.residuals.get(name),
                on_gpu=on_gpu and not self.listens,
                selector=self.selectors[name] if name in chosen else None,
            )

    def encode_indices(self, selectors: LeaderSelectors) -> None:
        """Select elements of each tensor as the leader, and encode their indices as a container."""
        if not self.sparse:
            return
        sparse, selected = {}, self._select(selectors)
        for name in self.sparse:
            size = prod(self.specs[name][0])
            indices = selected.get(name, _NO_INDICES)
            if indices is None:
                indices = np.arange(size, dtype=np.int64)
            sparse[name] = wc.SparseTensor(indices, np.ones(indices.size, np.float32), (size,))
        self.stored = sum(tensor.nnz for tensor in sparse.values())
        schemes = selectors.index_schemes({name: self.specs[name][0] for name in self.sparse})
        self.blob = as_bytes(wc.encode_many(sparse, schemes, names=False))

    def _select(self, selectors: LeaderSelectors) -> dict[str, Dense | None]:
        """Return the indices that this leader selects of each tensor, None for all; none of silent ones."""
        names = [name for name in self.sparse if name not in self.silent]
        if selectors.scope == "tensor":
            return {name: self.totals[name].top(self.selectors[name]) for name in names}
        groups: dict[Any, list[str]] = {}
        for name in names:
            shape, total = self.specs[name][0], self.totals[name]
            groups.setdefault((selectors.group(name, shape), np.dtype(total.x.dtype)), []).append(name)
        selected: dict[str, Dense | None] = {}
        for members in groups.values():
            totals = [self.totals[name] for name in members]
            indices = top_of_group(totals, self.selectors[members[0]])
            selected |= zip(members, indices, strict=True)
        return selected

    def decode_supports(self, blob: ByteArray, leader: int) -> dict[str, Dense | None]:
        """Decode each tensor's indices, None for all; raise CollectiveError on all ranks if that fails."""
        supports: dict[str, Dense | None] = dict.fromkeys(self.specs)
        if not self.sparse:
            return supports
        schema = {name: ((prod(self.specs[name][0]),), np.dtype(np.float32)) for name in self.sparse}
        try:
            tensors = wc.decode_many(blob, limits=get_limits(schema, [blob]), schema=schema)
        except wc.WireError as error:
            raise error_of_container(leader, error) from error
        return supports | {name: None if t.is_full else t.indices for name, t in tensors.items()}

    def deliver(self, selected: Mapping[str, Any], means: Mapping[str, Dense]) -> Any:
        """Return the means as dense arrays, in the order in which the gradients were given."""
        flat = self.targets.flat
        dense = {
            name: selected[name].scatter(means[name], flat.get(name)).reshape(self.specs[name][0])
            for name in self.grads
        }
        results = self.targets.deliver(self.grads, dense)
        return results[ONLY] if self.bare else results
