"""Algorithm "dense": the ranks decode their containers and sum the dense vectors by ranges."""

from __future__ import annotations

from collectives.agreement.agree import Failure, agree
from collectives.agreement.compilation import run_announced
from collectives.agreement.header import Algorithm, Header
from collectives.channel import Channel
from collectives.cost_model import Cost, Workload
from collectives.exchange.encoding import Encoding
from collectives.exchange.specs import failure_of_decoding
from collectives.transport.reduce import Dense, sum_named
from collectives.transport.weights import Weights


def run(channel: Channel, local: Encoding, weights: Weights, proposal: Header) -> dict[str, Dense]:
    """Decode this rank's container, and sum all ranks' vectors by name, as ``AllreduceAlgorithm.run``.

    With "auto", no rank has tried to decode its own container before the agreement, so the ranks exchange the
    results here. Sums are in the caller's memory if it holds the only tensor of a type.
    """
    flat: dict[str, Dense] = {}

    def densify() -> Failure | None:
        try:
            flat.update({name: x.to_dense().reshape(-1) for name, x in local.decode_own().items()})
        except Exception as error:
            return failure_of_decoding(error, channel.rank)
        return None

    if Algorithm(proposal.algorithm) == Algorithm.AUTO:
        agree(
            channel,
            proposal,
            local.operand,
            run_announced(channel, densify, lambda: (proposal, local.operand)),
        )
    elif (failure := densify()) is not None:
        raise failure.error  # out of memory: the other ranks will time out
    ordered = {name: flat[name] for name in sorted(flat, key=str.encode)}
    return sum_named(channel, ordered, weights, local.targets.flat)


def rehearse(local: Encoding, proposal: Header) -> None:
    """Decode this rank's container."""
    for tensor in local.decode_own().values():
        tensor.to_dense()


def compute_cost(work: Workload) -> Cost:
    """Compute the cost of a reduce-scatter and an all-gather of dense vectors, both in a ring."""
    return Cost(2 * (work.ranks - 1), 2 * work.fraction * work.nbytes, 4 * work.elements, work.largest)
