"""Residuals of CLT-k, and the memory in which they are computed.

A step computes gradient + residual in another array than the residual, so that a failed step changes
nothing. New arrays would cost more than the sum. So a tensor on the host has two arrays, which swap their
roles after each successful step.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

import wirecodec as wc
from collectives.device import find_gpu, stage_on_host
from collectives.transport.reduce import Dense
from wirecodec.interop import (
    AccumulatedGradient,
    HostGradient,
    accumulate,
    accumulate_on_gpu,
    aligned,
    copy_to_host,
)

MIN_KEPT = 2**16
"""Elements below which a new array costs less than its bookkeeping."""


class Residuals:
    """Residuals of one rank.

    Args:
        feedback: computes the next residual.

    Attributes:
        current: {name: (size,)} on the devices of the last gradients.
    """

    def __init__(self, feedback: wc.ErrorFeedback) -> None:
        self.current: dict[str, Any] = {}
        self._feedback = feedback
        self._memory: dict[str, list[Dense]] = {}
        self._searches: dict[str, Any] = {}  # ends of searches on a GPU; the results do not depend on them

    def fork(self) -> Residuals:
        """Return the same residuals, whose changes do not change these."""
        forked = Residuals(self._feedback)
        forked.current, forked._memory = dict(self.current), dict(self._memory)
        forked._searches = self._searches
        return forked

    def accumulate(
        self, name: str, grad: Any, *, on_gpu: bool, held: bool, selector: wc.TopK | None = None
    ) -> AccumulatedGradient:
        """Add a tensor's residual to its gradient.

        Args:
            name: of the tensor.
            grad: its gradient.
            on_gpu: whether all gradients are on one GPU, where the sum is then computed.
            held: whether the residual stays as it is, so that the sum is the gradient.
            selector: the selector whose ``top`` follows if this rank leads, else None.

        Raises EncodeError, which names the tensor, if an element is not finite or the sizes differ.
        """
        residual = None if held else self.current.get(name)
        if on_gpu:
            found = accumulate_on_gpu(self._feedback, grad, residual, self._searches, name)
            if found is not None:
                return found
        residual = on_host(residual)
        return self._accumulate_on_host(name, grad, residual, self._find_memory(name, residual), selector)

    def add(self, name: str, grad: Any) -> Dense:
        """Return gradient + residual, flat, in new memory on the host. Raises EncodeError."""
        return self._accumulate_on_host(name, grad, on_host(self.current.get(name)), None).x

    def copy(self, name: str) -> Dense | None:
        """Return a copy of a tensor's residual, (size,) on its device, or None if it has none."""
        found: Dense | None = self.current.get(name)
        return None if found is None else found.copy()

    def to_dict(self) -> dict[str, Dense]:
        """Return copies on the host, by name."""
        return {name: np.array(on_host(x)) for name, x in self.current.items()}

    def replace(self, residuals: Mapping[str, Any]) -> None:
        """Set all residuals."""
        self.current, self._memory = dict(residuals), {}

    def drop(self, names: Collection[str]) -> None:
        """Remove the residuals of these tensors."""
        if names:
            self.current = {name: x for name, x in self.current.items() if name not in names}

    def _accumulate_on_host(
        self,
        name: str,
        grad: Any,
        residual: Dense | None,
        out: Dense | None,
        selector: wc.TopK | None = None,
    ) -> HostGradient:
        try:
            return accumulate(self._feedback, stage_on_host(grad), residual, "clt-k", out, selector)
        except wc.EncodeError as error:
            raise error.of(name) from None

    def _find_memory(self, name: str, residual: Dense | None) -> Dense | None:
        """Return an array of the residual's size and type that is not the residual; None for small ones."""
        if residual is None or residual.size < MIN_KEPT:
            return None
        kept = [
            each
            for each in self._memory.get(name, [])
            if each.size == residual.size and each.dtype == residual.dtype
        ]
        for each in kept:
            if not np.may_share_memory(each, residual):
                return each
        found: Dense = aligned(residual.size, residual.dtype)
        self._memory[name] = [*kept, found][-2:]
        return found


def on_host(residual: Any) -> Any:
    """Return a residual on the host: a finished copy if it is on a GPU; None for None."""
    gpu = None if residual is None else find_gpu(residual)
    if gpu is None:
        return residual
    gpu.synchronize()
    return copy_to_host(residual)
