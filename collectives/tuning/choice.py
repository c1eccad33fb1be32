"""Choice of the algorithm of a sum, and its computation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from collectives.agreement.header import NO_DETAIL, Algorithm, Header
from collectives.algorithms import ALGORITHMS
from collectives.channel import Channel
from collectives.cost_model import Workload
from collectives.device import is_on_gpu
from collectives.exchange.encoding import Encoding, SummingCompressor
from collectives.exchange.specs import SchemeArgument, measure
from collectives.transport.segments import MIN_SEGMENTED
from collectives.transport.weights import Weights
from collectives.tuning.calibration import get_rates, rehearse_calibration
from wirecodec.interop import gpu_count_nonzero


@dataclass(frozen=True, eq=False)
class Way:
    """Way of a sum after the agreement: by an algorithm of the table, or by the compressor itself.

    Attributes:
        add: sums all ranks' tensors, as ``AllreduceAlgorithm.run``.
        will_gather, rehearsal, get_detail, decodes_own: as for ``open_exchange``.
    """

    add: Callable[[Channel, Encoding, Weights, Header], dict[str, Any]]
    will_gather: Callable[[Channel, Encoding, list[Header]], bool]
    rehearsal: Callable[[Channel, Encoding], object]
    get_detail: Callable[[Encoding], int] | None = None
    decodes_own: bool = False

    @classmethod
    def of(cls, scheme: SchemeArgument, proposal: Header) -> Way:
        """Return the way of a scheme, by the proposed operation."""
        gathers = partial(will_gather, proposal)
        if isinstance(scheme, SummingCompressor):
            return cls(
                scheme.sum_step, gathers, lambda _, local: scheme.rehearse(local, proposal), scheme.get_detail
            )
        record = ALGORITHMS.get(Algorithm(proposal.algorithm))
        decodes_own = record is not None and record.decodes_own
        return cls(sum_tensors, gathers, partial(rehearse_sum, proposal), decodes_own=decodes_own)


def sum_tensors(channel: Channel, local: Encoding, weights: Weights, proposal: Header) -> dict[str, Any]:
    """Sum all ranks' tensors by the proposed algorithm, as ``AllreduceAlgorithm.run``."""
    code, signature = Algorithm(proposal.algorithm), local.operand.signature
    if code == Algorithm.AUTO:
        code = _choose(channel, local, local.table)
        channel.call.update_pending = channel.is_union_due(signature)
    sums = ALGORITHMS[code].run(channel, local, weights, proposal)
    if channel.call.update_pending:  # a split counts the union itself
        count = (lambda tensor: tensor.nnz) if local.sparse else _count_nonzero
        channel.remember_union(signature, sum(map(count, sums.values())))
        channel.call.update_pending = False
    return sums


def choose_algorithm(channel: Channel, work: Workload, *, sparse: bool = False) -> Algorithm:
    """Choose the algorithm with the least predicted time; the same on every rank.

    Args:
        channel: open; it may be calibrated here.
        work: the sizes.
        sparse: whether the algorithm has to move supports.
    """
    if _is_small(work.ranks, work.elements, work.blobs):
        return Algorithm.ALLGATHER
    rates = get_rates(channel, work.blobs // work.ranks)
    allowed = {code: record for code, record in ALGORITHMS.items() if record.moves_supports or not sparse}
    return min(allowed, key=lambda code: (allowed[code].cost(work).seconds(rates), code))


def will_gather(proposal: Header, channel: Channel, local: Encoding, table: list[Header]) -> bool:
    """Return whether ``sum_tensors`` gathers the containers, as far as that is known; alike on all ranks.

    The ranks then have all that they need, except the count of the union, which is noted as pending.
    """
    code = Algorithm(proposal.algorithm)
    if code != Algorithm.AUTO:
        return code == Algorithm.ALLGATHER
    if channel.rates is None and not _gathers_always(table):
        return False  # the ranks measure first
    if _choose(channel, local, table) != Algorithm.ALLGATHER:
        return False
    channel.call.update_pending = channel.is_union_due(local.operand.signature)
    return True


def _choose(channel: Channel, local: Encoding, table: list[Header]) -> Algorithm:
    """Choose the algorithm for the headers of an agreement; the same on every rank."""
    if _gathers_always(table):
        return Algorithm.ALLGATHER
    return choose_algorithm(channel, _derive_workload(channel, local, table), sparse=local.sparse)


def _gathers_always(table: list[Header]) -> bool:
    return _is_small(len(table), table[0].elements, sum([header.payload_len for header in table]))


def _is_small(ranks: int, elements: int, nbytes: int) -> bool:
    """Return whether containers of so many bytes are gathered whatever the rates are."""
    return ranks == 1 or not elements or nbytes < MIN_SEGMENTED


def _derive_workload(channel: Channel, local: Encoding, table: list[Header]) -> Workload:
    """Derive the sizes from the headers of the agreement and the last count of the union."""
    elements = table[0].elements
    return Workload.of(
        elements,
        measure(local.specs).nbytes,
        [header.payload_len for header in table],
        [elements if h.detail == NO_DETAIL else min(h.detail, elements) for h in table],
        channel.get_union(table[0].signature),
    )


def _count_nonzero(vector: Any) -> int:
    """Count the nonzero elements of a vector, or of raw bits on a GPU; -0 counts as zero."""
    if not is_on_gpu(vector):
        return int(np.count_nonzero(vector))
    return gpu_count_nonzero(vector)


def rehearse_sum(proposal: Header, channel: Channel, local: Encoding) -> None:
    """Call the kernels that the proposed operation needs after its headers, with this rank's tensors only."""
    code = Algorithm(proposal.algorithm)
    ALGORITHMS[code or Algorithm.ALLGATHER].rehearse(local, proposal)
    if code == Algorithm.AUTO and channel.rates is None:
        rehearse_calibration()
