"""State of CLT-k on one rank: the step and the residuals, and the selectors with their schedule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

import wirecodec as wc
from collectives.cltk.residuals import on_host
from collectives.cltk.selection import LeaderSelectors
from collectives.device import stage_on_host
from collectives.exchange.specs import ONLY
from collectives.transport.reduce import Dense
from wirecodec.interop import (
    Stateful,
    StateHolder,
    accumulate,
    copy_of,
    read_state,
    schedule_string,
    write_state,
)


class CLTkState(Stateful):
    """State of one rank over the steps of a training.

    Args:
        selectors: of the leader.
        feedback: the filter of the residuals.
    """

    def __init__(self, selectors: LeaderSelectors, feedback: wc.ErrorFeedback) -> None:
        self._selectors = selectors
        self._feedback = feedback
        self._holder = StateHolder()

    def residual(self, name: str = ONLY) -> Dense | None:
        """Return a copy of a tensor's residual, (size,) on its device, or None if it has none."""
        return copy_of(self._holder.state.residuals, name)

    def state_dict(self) -> dict[str, Dense]:
        """Return this rank's state as a flat {str: ndarray}, copied to the host, with its rank and names."""
        state = self._holder.state
        residuals = {name: on_host(x) for name, x in state.residuals.items()}
        saved: dict[str, Dense] = write_state(replace(state, residuals=residuals))
        if text := schedule_string(self._selectors.schedule):
            saved["schedule"] = np.frombuffer(text.encode(), np.uint8).copy()
        return saved

    def load_state_dict(self, state: Mapping[str, Any], *, strict: bool = True) -> None:
        """Restore a state of ``state_dict``, on the host or on a GPU.

        If the ranks' steps differ afterwards, the next exchange raises CollectiveError on all ranks. The rank
        and the names are compared at the first step, as by ``wc.Compressor.load_state_dict``.

        Args:
            state: arrays or tensors.
            strict: False to drop residuals of another rank, or of tensors that the first step does not have.

        Raises:
            ValueError: a key is wrong; the message names it, and nothing changes.
        """
        loaded, schedule = read_state(state, "CLTk", optional=("rank", "schedule"), strict=strict)
        self._selectors.restore(schedule)
        self._holder.load(loaded)

    @property
    def ratios(self) -> dict[Any, float]:
        """{key: ratio} without the schedule; the first match applies."""
        return self._selectors.ratios

    @property
    def signature(self) -> str:
        """Text of all that ranks must agree on: schemes, beta, schedule and step."""
        return f"clt-k({self._selectors}, beta={self._feedback.beta!r}); step {self.step}"

    def selector(self, name: str, shape: tuple[int, ...] | None = None) -> Any:
        """Return a tensor's selector in this step, or None if it is sent whole.

        Args:
            name: the tensor's name.
            shape: its shape, which some Rules need.

        Raises EncodeError if no key matches.
        """
        return self._selectors.at(name, shape, self.step)

    def add_residual(self, name: str, grad: Any) -> Dense:
        """Add a tensor's residual to its gradient; return the sum, flat, on the host.

        Raises EncodeError if an element is not finite, or the residual has another size.
        """
        residual = on_host(self._holder.state.residuals.get(name))
        total: Dense = accumulate(self._feedback, stage_on_host(grad), residual, "clt-k", name).x
        return total
