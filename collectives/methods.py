"""Methods by which hooks and local updates average tensors: a record for each kind of compressor."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import wirecodec as wc
from collectives.agreement.agree import Failure
from collectives.agreement.header import Header, Operation, Status
from collectives.allgather import decode_all, rehearse_decoding
from collectives.allreduce import reduce_made
from collectives.channel import Channel
from collectives.cltk.allreduce import CLTk
from collectives.exchange.encoding import MakeInputs, SummingCompressor
from collectives.exchange.session import open_exchange
from collectives.exchange.transaction import Transaction
from collectives.sites.sites import Sites
from collectives.transport.weights import check_weight, weigh


@dataclass(frozen=True)
class Method:
    """Method by which tensors are averaged.

    Attributes:
        reduce: averages them over the ranks. Its arguments are the channel or Sites, the function that makes
            the inputs, the compressor, and by name those of ``reduce_made``.
        reduce_by_senders: averages each element over the ranks that sent it, given ``weight`` and
            ``transaction`` by name; None if that has no meaning.
        has_residuals: whether the compressor has residuals of single tensors, as ``LocalUpdates`` reads them.
        needs_ranks: whether it needs ranks that stay.
    """

    reduce: Callable[..., Any]
    reduce_by_senders: Callable[..., Any] | None
    has_residuals: bool = True
    needs_ranks: bool = True

    @classmethod
    def of(cls, compressor: Any) -> Method:
        """Return the method of a compressor."""
        return next(METHODS[kind] for kind in type(compressor).__mro__ if kind in METHODS)


def reduce_by_leader(
    channel: Channel | Sites,
    make: MakeInputs,
    compressor: CLTk,
    *,
    algorithm: str = "auto",
    has_out: bool = False,
    **settings: Any,
) -> Any:
    """Average tensors of which all ranks send the same elements; CLT-k has an algorithm of its own."""
    return compressor.reduce_made(channel, make, **settings)


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


METHODS: Mapping[type, Method] = {
    CLTk: Method(reduce_by_leader, reduce_by_leader, has_residuals=False),  # the senders are all ranks
    SummingCompressor: Method(reduce_made, None),
    wc.Compressor: Method(reduce_made, reduce_by_senders, needs_ranks=False),
}
"""Methods by the class of the compressor."""
