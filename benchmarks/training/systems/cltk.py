"""ScaleCom's CLT-k: all workers send the elements that one of them, the leader, selects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

import collectives as co
import wirecodec as wc
from benchmarks.training.systems.system import Exchange, System, Tensors
from benchmarks.training.tasks.task import Settings

__all__ = ["Leader"]


@dataclass(frozen=True)
class Leader(System):
    """CLT-k with the low-pass filter of ScaleCom.

    Args:
        ratio: fraction of each tensor's elements that is sent.
        ratios: (glob, ratio) of tensors with a ratio of their own, in place of ``ratio``.
        beta: coefficient of the filter.
        warm_up: fraction of the steps in which all elements are sent.
    """

    ratio: float = 0.01
    beta: float = 1.0
    warm_up: float = 0.0
    ratios: tuple[tuple[str, float], ...] = ()

    def open(self, workers: int, settings: Settings, steps: int) -> Exchange:
        """Return an Exchange without residuals yet."""
        return _LeaderExchange(self, workers, int(self.warm_up * steps))


class _LeaderExchange:
    def __init__(self, system: Leader, workers: int, warm_up: int) -> None:
        schedule = wc.WarmUp(warm_up, hold=True) if warm_up else None
        ratio = dict(system.ratios) or system.ratio
        feedback = wc.ErrorFeedback(system.beta)
        self._states = [co.CLTk(ratio, feedback=feedback, schedule=schedule) for _ in range(workers)]

    def mean(self, gradients: Sequence[Tensors]) -> tuple[Tensors, int]:
        """Return the mean of simulated ranks, and the bytes of one container of indices and all values.

        The container of the leader is encoded from the mean, which has its indices. The other workers
        contribute 4 bytes per element.
        """
        given = [{name: x.numpy() for name, x in one.items()} for one in gradients]
        workers = len(given)
        found = co.simulate(workers, lambda comm: self._states[comm.rank].allreduce(comm, given[comm.rank]))[
            0
        ]
        container = wc.encode_many(found, "nonzero | rice | raw")
        sent = sum(np.count_nonzero(x) for x in found.values())
        return (
            {name: torch.from_numpy(np.array(x)) for name, x in found.items()},
            container.nbytes + 4 * sent * (workers - 1),
        )
