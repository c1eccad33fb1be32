"""Systems: the exchange of each one as real calls of a rank, on buffers like those of a training."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

import collectives as co
import wirecodec as wc
from benchmarks.model.models import Shape, draw_gradient
from benchmarks.scale.library import copy
from benchmarks.scale.powersgd import PowerSGD
from collectives.transport.reduce import sum_dense
from collectives.transport.weights import Weights

__all__ = ["LOCAL", "SYSTEMS", "Options", "Worker", "build_exchange"]

Array = Any
LOCAL = "local updates"
SYSTEMS = ("dense", "fp16", "PowerSGD", "allgather", "split", "CLT-k", "Ok-Topk", LOCAL)


@dataclass(frozen=True)
class Options:
    """Settings of the systems.

    Attributes:
        scheme: of allgather, split, Ok-Topk and local updates, with error feedback.
        ratio: of CLT-k.
        rank: of PowerSGD.
        every: steps between two exchanges of local updates.
    """

    scheme: str = "topk(0.01) | rice | qsgd(bits=4)"
    ratio: float = 0.01
    rank: int = 4
    every: int = 15


class Worker:
    """Gradients of one rank, and memory for the means; named tensors are views of one vector each.

    Args:
        shapes: of the tensors.
        seed: of the gradients.
    """

    def __init__(self, shapes: Sequence[Shape], seed: int) -> None:
        names = [f"parameter.{i:05}" for i in range(len(shapes))]
        self.shapes = dict(zip(names, shapes, strict=True))
        self.flat = draw_gradient(shapes, seed)[1]
        self.out_flat = np.zeros_like(self.flat)
        self.tensors, self.out = self._view(self.flat), self._view(self.out_flat)

    def _view(self, flat: Array) -> dict[str, Array]:
        stops = np.cumsum([prod(shape) for shape in self.shapes.values()])
        parts = np.split(flat, stops[:-1])
        return {name: part.reshape(self.shapes[name]) for name, part in zip(self.shapes, parts, strict=True)}


def build_exchange(
    name: str, worker: Worker, channel: co.Channel, options: Options
) -> tuple[Callable[[], Any], int]:
    """Build the exchange of a system, with its state.

    Args:
        name: one of ``SYSTEMS``.
        worker: of this rank.
        channel: of all ranks.
        options: the settings.

    Returns:
        A function that all ranks call together, and the number of steps that one call serves.
    """
    if name == LOCAL:
        return _build_local_updates(worker, channel, options), options.every
    return _BUILDERS[name](worker, channel, options), 1


def _build_dense(worker: Worker, channel: co.Channel, options: Options) -> Callable[[], Any]:
    return lambda: sum_dense(channel, worker.flat, Weights(channel.size), worker.out_flat)


def _build_fp16(worker: Worker, channel: co.Channel, options: Options) -> Callable[[], Any]:
    half, total = np.empty(worker.flat.size, np.float16), np.empty(worker.flat.size, np.float16)

    def call() -> None:
        copy(half, worker.flat)
        sum_dense(channel, half, Weights(channel.size), total)
        copy(worker.out_flat, total)

    return call


def _build_powersgd(worker: Worker, channel: co.Channel, options: Options) -> Callable[[], Any]:
    power = PowerSGD(worker.shapes, options.rank)
    return lambda: power.step(
        worker.tensors, lambda vector: sum_dense(channel, vector, Weights(channel.size)), worker.out
    )


def _build_allreduce(algorithm: str) -> Callable[[Worker, co.Channel, Options], Callable[[], Any]]:
    def build(worker: Worker, channel: co.Channel, options: Options) -> Callable[[], Any]:
        compressor = wc.Compressor(options.scheme, names=False)
        return lambda: co.allreduce(channel, worker.tensors, compressor, algorithm=algorithm, out=worker.out)

    return build


def _build_cltk(worker: Worker, channel: co.Channel, options: Options) -> Callable[[], Any]:
    cltk = co.CLTk(options.ratio)
    return lambda: cltk.allreduce(channel, worker.tensors, out=worker.out)


def _build_oktopk(worker: Worker, channel: co.Channel, options: Options) -> Callable[[], Any]:
    owners = co.OkTopK(options.scheme, names=False)
    return lambda: owners.allreduce(channel, worker.tensors, out=worker.out)


def _build_local_updates(worker: Worker, channel: co.Channel, options: Options) -> Callable[[], Any]:
    """Build an exchange of movements; before the first one, the parameters move by the gradient."""
    parameters: Mapping[str, Array] = {name: np.zeros_like(x) for name, x in worker.tensors.items()}
    compressor = wc.Compressor(options.scheme, feedback=wc.ErrorFeedback(decay=0.95), names=False)
    local = co.LocalUpdates(None, parameters, compressor, channel, options.every)
    for name, parameter in parameters.items():
        parameter[...] = -worker.tensors[name]
    return local.exchange


_BUILDERS = {
    "dense": _build_dense,
    "fp16": _build_fp16,
    "PowerSGD": _build_powersgd,
    "allgather": _build_allreduce("allgather"),
    "split": _build_allreduce("split-pairs"),
    "CLT-k": _build_cltk,
    "Ok-Topk": _build_oktopk,
}
