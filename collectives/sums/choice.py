"""Choice of the algorithm of a sum, and its computation."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from collectives.agreement.compilation import rehearse_together
from collectives.agreement.header import Algorithm, Header
from collectives.channel import Channel
from collectives.device import is_on_gpu
from collectives.exchange.encoding import Encoding
from collectives.exchange.union import UNION_ALGORITHMS, SparseSums, sum_containers
from collectives.simulation.communicator import simulate
from collectives.split import SECOND_PHASE, split_allreduce
from collectives.sums.dense import sum_densified
from collectives.sums.gathered import add_containers, sum_gathered
from collectives.tuning.calibration import rehearse_calibration
from collectives.tuning.cost_model import Workload, choose_algorithm
from wirecodec.interop import gpu_count_nonzero


def sum_tensors(channel: Channel, local: Encoding, divisor: int, proposal: Header) -> dict[str, Any]:
    """Sum all ranks' tensors by the proposed algorithm.

    Args:
        channel: open; all ranks call this together.
        local: this rank's side, after the agreement.
        divisor: 1, or the number of ranks.
        proposal: the requested operation.

    Returns {name: (size,)}, divided by ``divisor``; on a GPU, raw bits. Returns {name: SparseTensor} on the
    host if ``local.sparse`` is set.
    """
    choice = Algorithm(proposal.algorithm)
    if choice == Algorithm.AUTO:
        workload = Workload.of(channel, local.table, local.specs)
        choice = choose_algorithm(channel, workload, UNION_ALGORITHMS if local.sparse else None)
    signature = local.operand.signature
    counts_union = choice != Algorithm(proposal.algorithm) and channel.is_union_due(signature)
    channel.call.update_pending = counts_union
    if choice == Algorithm.ALLGATHER:
        sums = (_gather_union if local.sparse else sum_gathered)(channel, local, divisor)
    elif choice == Algorithm.DENSE:
        sums = sum_densified(channel, local, divisor, proposal)
    else:
        chosen = proposal._replace(algorithm=choice)
        if choice != Algorithm(proposal.algorithm):
            work = partial(rehearse_sum, chosen, channel, local)
            rehearse_together(channel, (choice, local.dtypes), work, chosen, local.operand)
        sums = split_allreduce(channel, local, divisor, chosen)
        counts_union = False  # the headers of the second phase contain the count
    if counts_union:
        count = (lambda tensor: tensor.nnz) if local.sparse else _count_nonzero
        channel.remember_union(signature, sum(map(count, sums.values())))
        channel.call.update_pending = False
    return sums


def _gather_union(channel: Channel, local: Encoding, divisor: int) -> SparseSums:
    """Gather every rank's container and sum them over the union of their supports."""
    return sum_containers(local, local.gather(channel), divisor)


def _count_nonzero(vector: Any) -> int:
    """Count the nonzero elements of a vector, or of raw bits on a GPU; -0 counts as zero."""
    if not is_on_gpu(vector):
        return int(np.count_nonzero(vector))
    return gpu_count_nonzero(vector)


def rehearse_sum(proposal: Header, channel: Channel, local: Encoding) -> None:
    """Call the kernels that the call needs after its headers, with this rank's tensors only.

    Args:
        proposal: the operation, with the algorithm.
        channel: of the call.
        local: this rank's side, with its container.
    """
    algorithm = Algorithm(proposal.algorithm)
    if algorithm in (Algorithm.AUTO, Algorithm.ALLGATHER):
        if local.sparse:
            sum_containers(local, [local.blob], 1)
        else:
            add_containers(local, [local.blob])
    if algorithm == Algorithm.DENSE:
        for tensor in local.decode_own().values():
            tensor.to_dense()
    if algorithm == Algorithm.AUTO and channel.rates is None:
        rehearse_calibration()
    if algorithm in SECOND_PHASE:
        simulate(1, lambda alone: split_allreduce(Channel(alone), local, 1, proposal))
