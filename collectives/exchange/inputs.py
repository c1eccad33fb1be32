"""Inputs of a sum on one rank: tensors, memory for the results, and the unit of both.

A public call makes its inputs inside the guard of the exchange (``Encoding.take``). So an error in making
them, such as a MemoryError for a dense copy, is announced to all ranks like one of encoding.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from collectives.exchange.specs import Tensors
from wirecodec.interop import local_shards


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
