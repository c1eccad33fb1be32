"""Ok-Topk: each worker selects for itself, and owners of ranges choose what all workers receive."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

import collectives as co
from benchmarks.training.systems.system import Exchange, System, Tensors
from benchmarks.training.tasks.task import Settings

__all__ = ["Owners"]


@dataclass(frozen=True)
class Owners(System):
    """Ok-Topk over all tensors as one vector, with error feedback.

    Args:
        scheme: of the pieces.
    """

    scheme: str = ""

    def open(self, workers: int, settings: Settings, steps: int) -> Exchange:
        """Return an Exchange without residuals yet."""
        return _OwnersExchange(self, workers)


class _OwnersExchange:
    def __init__(self, system: Owners, workers: int) -> None:
        self._states = [co.OkTopK(system.scheme, scope="group") for _ in range(workers)]

    def mean(self, gradients: Sequence[Tensors]) -> tuple[Tensors, int]:
        """Return the mean of simulated ranks, and the bytes that they send, headers included."""
        given = [{name: x.numpy() for name, x in one.items()} for one in gradients]

        def run(comm: Any) -> Any:
            channel = co.Channel(comm)
            return self._states[comm.rank].allreduce(channel, given[comm.rank]), channel.bytes_sent

        results = co.simulate(len(given), run)
        means = {name: torch.from_numpy(x) for name, x in results[0][0].items()}
        return means, sum(sent for _, sent in results)
