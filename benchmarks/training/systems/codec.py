"""Systems of wirecodec: one Compressor per worker; every container is encoded and decoded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

import wirecodec as wc
from benchmarks.training.systems.system import Exchange, System, Tensors
from benchmarks.training.tasks.task import Settings

__all__ = ["Codec", "CodecExchange", "build_compressor"]

WHOLE = "model"
"""Name of the vector of all tensors."""


@dataclass(frozen=True)
class Codec(System):
    """Compressor with its feedback.

    Args:
        scheme: of all tensors, or of those with ``min_ndim`` dimensions; the others are sent as float32.
        feedback: "error" for error feedback, "momentum" for momentum correction with the grid's momentum, or
            "none".
        beta, decay: of error feedback.
        masking: of momentum correction.
        whole: whether all tensors are one vector, for selection and coding.
        min_ndim: dimensions from which a tensor is compressed; only without ``whole``.
        warm_up: fraction of the steps in which the density falls from ``start`` to the scheme's.
        sparse: fraction of the steps after which all elements are sent.
        rules: (glob, scheme) of tensors with a scheme of their own; only without ``whole``. The others are
            one group.
        by_senders: whether an element's mean is over the workers that sent it.
        start: density at the start of the warm-up.
    """

    scheme: str = ""
    feedback: str = "error"
    beta: float = 1.0
    decay: float = 1.0
    masking: bool = True
    whole: bool = False
    min_ndim: int = 0
    warm_up: float = 0.0
    sparse: float = 1.0
    rules: tuple[tuple[str, str], ...] = ()
    by_senders: bool = False
    start: float = 1.0

    def optimizer_settings(self, settings: Settings) -> Settings:
        """Return settings without momentum if the momentum is corrected before the exchange."""
        return replace(settings, momentum=0.0) if self.feedback == "momentum" else settings

    def open(self, workers: int, settings: Settings, steps: int) -> Exchange:
        """Return an Exchange with one Compressor per worker."""
        compressors = [build_compressor(self, settings, steps) for _ in range(workers)]
        return CodecExchange(compressors, whole=self.whole, by_senders=self.by_senders)


def build_compressor(system: Codec, settings: Settings, steps: int) -> wc.Compressor:
    """Build a worker's Compressor at a point of the grid."""
    feedback: Any = None
    if system.feedback == "error":
        feedback = wc.ErrorFeedback(system.beta, system.decay)
    elif system.feedback == "momentum":
        feedback = wc.MomentumCorrection(settings.momentum, masking=system.masking)
    scheme: Any = system.scheme
    if system.min_ndim:
        scheme = {wc.Rule("*", ndim=tuple(range(system.min_ndim))): "all | raw-index | raw", "*": scheme}
    if system.rules:
        scheme = {**dict(system.rules), "*": scheme}
    schedule: Any = None
    if system.warm_up:
        schedule = wc.WarmUp(max(1, int(system.warm_up * steps)), start=system.start)
    elif system.sparse < 1:
        schedule = wc.Steps({int(system.sparse * steps): 0.0})
    return wc.Compressor(
        scheme,
        feedback=feedback,
        schedule=schedule,
        scope="group" if system.rules else "tensor",
        names=False,
    )


class CodecExchange:
    """Exchange of containers.

    Args:
        compressors: one per worker.
        whole: whether all tensors are one vector.
        by_senders: whether an element's mean is over the workers whose container stores it.
    """

    def __init__(
        self, compressors: Sequence[wc.Compressor], *, whole: bool, by_senders: bool = False
    ) -> None:
        self._compressors = compressors
        self._whole, self._by_senders = whole, by_senders
        self._like: Tensors = {}

    def mean(self, gradients: Sequence[Tensors]) -> tuple[Tensors, int]:
        """Return the mean of the decoded containers, and their bytes."""
        self._like = gradients[0]
        given = [self._to_arrays(one) for one in gradients]
        sums = {name: np.zeros(x.shape, np.float32) for name, x in given[0].items()}
        senders = {name: np.zeros(x.size, np.float32) for name, x in sums.items()}
        sent = 0
        for rank, (compressor, arrays) in enumerate(zip(self._compressors, given, strict=True)):
            blob = compressor.compress(arrays, rank=rank, ranks=len(given))
            sent += len(blob)
            if self._by_senders:
                for (name, total), decoded in zip(sums.items(), wc.decode_many(blob).values(), strict=True):
                    decoded.add_to(total)
                    senders[name][decoded.indices] += 1
            else:
                wc.decode_add(blob, sums)
        for name, x in sums.items():
            many = np.maximum(senders[name], 1).reshape(x.shape) if self._by_senders else len(given)
            np.divide(x, many, out=x)
        return self._to_tensors(sums, gradients[0]), sent

    def residuals(self, worker: int) -> Tensors:
        """Return what a worker has not sent yet, by name."""
        names = [WHOLE] if self._whole else list(self._like)
        found = {name: self._compressors[worker].residual(name) for name in names}
        tensors = self._to_tensors(found, self._like)
        return {name: x.view_as(self._like[name]) for name, x in tensors.items()}

    def _to_arrays(self, tensors: Tensors) -> dict[str, Any]:
        if self._whole:
            return {WHOLE: torch.cat([x.flatten() for x in tensors.values()]).numpy()}
        return {name: x.numpy() for name, x in tensors.items()}

    def _to_tensors(self, sums: dict[str, Any], like: Tensors) -> Tensors:
        if not self._whole:
            return {name: torch.from_numpy(x) for name, x in sums.items()}
        parts = torch.from_numpy(sums[WHOLE]).split([x.numel() for x in like.values()])
        return {name: part.view_as(x) for part, (name, x) in zip(parts, like.items(), strict=True)}
