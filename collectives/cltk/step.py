"""State of one CLT-k step on one rank."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

import wirecodec as wc
from collectives.agreement.header import NO_DETAIL, Operand
from collectives.channel import ByteArray
from collectives.cltk.residuals import Residuals
from collectives.exchange.inputs import Inputs
from collectives.exchange.specs import ONLY, TensorSpec, error_of_container, get_limits
from collectives.exchange.targets import Targets
from collectives.transport.reduce import Dense
from wirecodec.interop import AccumulatedGradient


@dataclass
class LocalStep:
    """State of one step on one rank, filled step by step.

    Attributes:
        inputs: of this rank.
        residuals: at the beginning of the step.
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
    residuals: Residuals | None = None
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
    def dtypes(self) -> frozenset[str]:
        """Names of the tensors' element types."""
        return frozenset(dtype.name for _, dtype in self.specs.values())

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
