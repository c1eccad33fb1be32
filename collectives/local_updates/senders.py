"""Means over the ranks that sent an element: ``divide="senders"``."""

from __future__ import annotations

from typing import Any

import numpy as np

import wirecodec as wc
from collectives.agreement.agree import Failure
from collectives.agreement.header import Header, Operation, Status
from collectives.allgather import decode_all, rehearse_decoding
from collectives.channel import Channel
from collectives.exchange.inputs import MakeInputs
from collectives.exchange.session import open_exchange
from collectives.exchange.transaction import Transaction
from collectives.transport.weights import check_weight, weigh


def reduce_by_senders(
    channel: Channel,
    make: MakeInputs,
    compressor: wc.Compressor,
    *,
    weight: float,
    transaction: Transaction,
) -> Any:
    """Average named tensors on the host; an element's mean is over the ranks whose container stores it.

    Args:
        channel: of all ranks.
        make: makes the inputs; if it raises, all ranks raise CollectiveError.
        compressor: of this rank.
        weight: of this rank; that of an element is shared by the ranks that sent it.
        transaction: of the compressor's step.

    Returns {name: mean}, 0 where no rank sent.
    """
    proposal, failure = Header(operation=Operation.ALLGATHER), None
    try:
        proposal = proposal._replace(weight=check_weight(weight))
    except Exception as error:  # reported to all ranks
        failure = Failure(Status.ARGUMENT, error)
    with open_exchange(
        channel,
        make,
        compressor,
        0,
        proposal,
        failure,
        transaction=transaction,
        rehearsal=rehearse_decoding,
    ) as (opened, local):
        weights = weigh([header.weight for header in local.table], mean=True)
        decoded = decode_all(local, local.gather(opened))
        means = {}
        for name, (shape, dtype) in local.specs.items():
            total, divisor = np.zeros(shape, dtype), np.zeros(int(np.prod(shape)), dtype)
            for rank, tensors in enumerate(decoded):
                share = weights.of_rank(rank)
                if share:
                    tensors[name].add_to(total, scale=share)
                    divisor[tensors[name].indices] += dtype.type(share)
            divisor[divisor == 0] = 1
            total /= divisor.reshape(shape)
            means[name] = total
        results = local.deliver({name: x.reshape(-1) for name, x in means.items()})
        if local.inputs.accept is not None:
            local.inputs.accept(results)
        return results
