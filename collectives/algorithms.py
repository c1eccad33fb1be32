"""Table of the algorithms of ``allreduce``. A new algorithm needs its code, its module and a row here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from collectives.agreement.header import Algorithm, Header
from collectives.channel import Channel
from collectives.cost_model import Cost, Workload
from collectives.exchange.encoding import Encoding
from collectives.sums import dense, gathered
from collectives.sums.split import SPLITS
from collectives.transport.weights import Weights


@dataclass(frozen=True)
class AllreduceAlgorithm:
    """Algorithm of ``allreduce``; the results of all have the same bits.

    Attributes:
        run: sums all ranks' tensors. It takes the channel, this rank's side after the agreement,
            the weights of the ranks and the requested operation. It returns {name: (size,)}, on a
            GPU as raw bits; or {name: SparseTensor} on the host if ``Encoding.sparse`` is set.
        rehearse: calls the kernels that ``run`` needs after the headers, with this rank's tensors only.
        cost: computes its cost for the sizes of an exchange.
        moves_supports: whether the sums can be sparse; the others move dense vectors.
        decodes_own: whether a rank decodes its own container, which it then tries before the agreement.
    """

    run: Callable[[Channel, Encoding, Weights, Header], dict[str, Any]]
    rehearse: Callable[[Encoding, Header], object]
    cost: Callable[[Workload], Cost]
    moves_supports: bool
    decodes_own: bool = True


ALGORITHMS = {
    Algorithm.ALLGATHER: AllreduceAlgorithm(
        gathered.run, gathered.rehearse, gathered.compute_cost, moves_supports=True, decodes_own=False
    ),
    Algorithm.DENSE: AllreduceAlgorithm(dense.run, dense.rehearse, dense.compute_cost, moves_supports=False),
    **{
        split.code: AllreduceAlgorithm(split.run, split.rehearse, split.cost, bool(split.union))
        for split in SPLITS
    },
}
