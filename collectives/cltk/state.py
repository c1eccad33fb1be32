"""State of CLT-k on one rank: the step, the residuals, and the selectors with their schedule."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import wirecodec as wc
from collectives.cltk.residuals import Residuals
from collectives.cltk.selection import LeaderSelectors
from collectives.exchange.specs import ONLY
from collectives.transport.reduce import Dense
from wirecodec.interop import saved_residual, saved_schedule, saved_step, schedule_string

__all__ = ["CLTkState"]


class CLTkState:
    """State of one rank over the steps of a training.

    Args:
        selectors: of the leader.
        feedback: the filter of the residuals.
    """

    def __init__(self, selectors: LeaderSelectors, feedback: wc.ErrorFeedback) -> None:
        self._selectors = selectors
        self._feedback = feedback
        self._step = 0
        self._residuals = Residuals(feedback)

    @property
    def step(self) -> int:
        """Steps taken so far."""
        return self._step

    def residual(self, name: str = ONLY) -> Dense | None:
        """Return a copy of a tensor's residual, (size,) on its device, or None if it has none."""
        return self._residuals.copy(name)

    def state_dict(self) -> dict[str, Dense]:
        """Return this rank's state as a flat {str: ndarray}, copied to the host."""
        residuals = {f"residual/{name}": x for name, x in self._residuals.to_dict().items()}
        state = {"step": np.array(self._step, np.int64), **residuals}
        if text := schedule_string(self._selectors.schedule):
            state["schedule"] = np.frombuffer(text.encode(), np.uint8).copy()
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a state of ``state_dict``, on the host or on a GPU.

        If the ranks' steps differ afterwards, the next exchange raises CollectiveError on all ranks.

        Raises:
            ValueError: a key is wrong; the message names it, and nothing changes.
        """
        odd = [key for key in state if key not in ("step", "schedule") and not key.startswith("residual/")]
        if odd or "step" not in state:
            raise ValueError(f"not a state of CLTk: {f'unknown keys {odd}' if odd else 'step is missing'}")
        step = saved_step(state)
        residuals = {key[9:]: saved_residual(key, x) for key, x in state.items() if key[:9] == "residual/"}
        schedule = saved_schedule(state) if "schedule" in state else None
        self._selectors.restore(schedule)
        self._step = step
        self._residuals.replace(residuals)

    @property
    def ratios(self) -> dict[Any, float]:
        """{key: ratio} without the schedule; the first match applies."""
        return self._selectors.ratios

    @property
    def signature(self) -> str:
        """Text of all that ranks must agree on: ratios, beta, warm-up and step."""
        return f"clt-k({self._selectors}, beta={self._feedback.beta!r}); step {self._step}"

    def selector(self, name: str, shape: tuple[int, ...] | None = None) -> Any:
        """Return a tensor's selector in this step, or None if it is sent whole.

        Args:
            name: the tensor's name.
            shape: its shape, which some Rules need.

        Raises EncodeError if no key matches.
        """
        return self._selectors.at(name, shape, self._step)

    def add_residual(self, name: str, grad: Any) -> Dense:
        """Add a tensor's residual to its gradient; return the sum, flat, on the host.

        Raises EncodeError if an element is not finite, or the residual has another size.
        """
        return self._residuals.add(name, grad)
