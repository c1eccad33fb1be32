"""Methods of the soak: objects with a state that average named arrays, and what each of them promises.

Every method has the sum rule: all ranks' gradients so far are the delivered means times the number of ranks,
plus all residuals. Gradients are whole numbers, so that only a method's own roundings are left.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

import collectives as co
import wirecodec as wc

__all__ = ["METHODS", "Method", "Track"]

Array: TypeAlias = npt.NDArray[Any]
Named: TypeAlias = dict[str, Array]


@dataclass(frozen=True)
class Method:
    """Way to average.

    Attributes:
        make: makes the object that keeps residuals, and gets the channel.
        step: takes a step; returns the means.
        steps: number of steps that count.
        keep: returns a tensor's residual, or None.
        tolerance: relative error of the sum rule.
        has_sum_rule: whether means and residuals together are all gradients.
    """

    make: Callable[[co.Channel], Any]
    step: Callable[[Any, co.Channel, Named], Mapping[str, Any]]
    steps: Callable[[Any], int] = lambda one: int(one.step)
    keep: Callable[[Any, str], Any] = lambda one, name: one.residual(name)
    tolerance: float = 1e-5
    has_sum_rule: bool = True


@dataclass
class Track:
    """What came in and what was delivered on one rank, by tensor, in float64."""

    came_in: dict[str, Array] = field(default_factory=dict)
    delivered: dict[str, Array] = field(default_factory=dict)

    def add(self, gradients: Named, means: Mapping[str, Any], ranks: int) -> None:
        """Add a step that counts."""
        for name, x in gradients.items():
            wide = np.asarray(x, np.float64).reshape(-1)
            self.came_in[name] = self.came_in.get(name, 0) + wide
            mean = np.asarray(means[name], np.float64).reshape(-1)
            self.delivered[name] = self.delivered.get(name, 0) + ranks * mean


def _compressed(
    scheme: Any, tolerance: float = 1e-5, call: Mapping[str, Any] | None = None, **settings: Any
) -> Method:
    options = dict(call or {})

    def step(one: Any, channel: co.Channel, gradients: Named) -> Mapping[str, Any]:
        means: Mapping[str, Any] = co.allreduce(channel, gradients, one, **options)
        return means

    return Method(lambda channel: wc.Compressor(scheme, **settings), step, tolerance=tolerance)


def _in_place(one: Any, channel: co.Channel, gradients: Named) -> Mapping[str, Any]:
    """Write the means into the gradients."""
    out = {name: x.copy() if isinstance(x, np.ndarray) else x for name, x in gradients.items()}
    co.allreduce(channel, out, one, out=out)
    return out


def _gathered(one: Any, channel: co.Channel, gradients: Named) -> Mapping[str, Any]:
    found = co.allgather(channel, gradients, one)
    return {
        name: sum(each[name].to_dense().astype("f8") for each in found) / len(found) for name in gradients
    }


class _Mover:
    """LocalUpdates of every step, whose movements are the gradients."""

    def __init__(self, channel: co.Channel) -> None:
        self.channel, self.compressor = channel, wc.Compressor("topk(0.3) | rice | raw")
        self.w: Named = {}
        self.local: co.LocalUpdates | None = None

    @property
    def step(self) -> int:
        return 0 if self.local is None else self.local.round

    def residual(self, name: str) -> Any:
        return self.compressor.residual(name)

    def move(self, gradients: Named) -> Mapping[str, Any]:
        if self.local is None:
            self.w = {name: np.zeros(x.shape) for name, x in gradients.items()}
            self.local = co.LocalUpdates(None, self.w, self.compressor, self.channel, every=1)
        before = {name: self.local.state_dict()[f"parameter/{name}"] for name in self.w}
        try:
            for name, x in gradients.items():
                self.w[name] -= x
            self.local.step()
        except BaseException:
            self.local.revert()  # the soak counts a failed step as no step
            raise
        return {name: before[name] - x for name, x in self.w.items()}


METHODS: dict[str, Method] = {
    "topk": _compressed("topk(0.2) | rice | raw"),
    "topk dense": _compressed("topk(0.2) | rice | raw", call={"algorithm": "dense"}),
    "topk split": _compressed("topk(0.1) | auto-index | raw", call={"algorithm": "split-pairs"}),
    "topk bitmap": _compressed("topk(0.5) | bitmap | raw", call={"algorithm": "split-bitmap"}),
    "group": _compressed("topk(0.1) | rice | raw", scope="group"),
    "qsgd": _compressed("topk(0.2) | huffman | qsgd(bits=4)"),
    "budget": _compressed("budget(2) | rice | error-bounded", scope="group"),
    "bytes per step": _compressed(None, bytes_per_step=4000),
    "bfloat16": _compressed("topk(0.2) | rice | raw(bfloat16)"),
    "in place": Method(lambda channel: wc.Compressor("topk(0.2) | rice | raw"), _in_place),
    "allgather": Method(lambda channel: wc.Compressor("topk(0.2) | rice | raw"), _gathered),
    "momentum": Method(
        lambda channel: wc.Compressor("topk(0.2) | rice | raw", feedback=wc.MomentumCorrection(0.5)),
        lambda one, channel, gradients: co.allreduce(channel, gradients, one),
        has_sum_rule=False,
    ),
    "clt-k": Method(
        lambda channel: co.CLTk(0.2), lambda one, channel, gradients: one.allreduce(channel, gradients)
    ),
    "gtop-k": Method(
        lambda channel: co.GTopK(0.2), lambda one, channel, gradients: one.allreduce(channel, gradients)
    ),
    "ok-topk": Method(
        lambda channel: co.OkTopK("topk(0.2) | rice | qsgd"),
        lambda one, channel, gradients: one.allreduce(channel, gradients),
    ),
    "local updates": Method(_Mover, lambda one, channel, gradients: one.move(gradients)),
}
