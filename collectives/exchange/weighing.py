"""Weights of the ranks, from their headers."""

from __future__ import annotations

from collections.abc import Sequence

from collectives.agreement.header import Header
from collectives.errors import CollectiveError
from collectives.transport.weights import Weights


def weigh(table: Sequence[Header], *, mean: bool) -> Weights:
    """Return the weights in the headers of an agreement.

    Raises CollectiveError on all ranks if all weights are 0.
    """
    weights = Weights.of([header.weight for header in table], mean=mean)
    if weights is None:
        ranks = list(range(len(table)))
        raise CollectiveError(
            "all ranks have weight 0, so nobody sends: at least one must have another weight",
            ranks=ranks,
            reason="argument",
        )
    return weights
