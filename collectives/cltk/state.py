"""State of CLT-k on one rank: the step, the residuals, and the selectors with their schedule."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

import wirecodec as wc
from collectives.cltk.residuals import Residuals
from collectives.cltk.selection import LeaderSelectors
from collectives.exchange.specs import ONLY
from collectives.transport.reduce import Dense
from wirecodec.interop import (
    UNKNOWN_RANK,
    Loaded,
    saved_rank,
    saved_residual,
    saved_schedule,
    saved_step,
    schedule_string,
)


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
        self._rank = UNKNOWN_RANK
        self._loaded: Loaded | None = None
        self._residuals = Residuals(feedback)

    @property
    def step(self) -> int:
        """Steps taken so far."""
        return self._step

    def residual(self, name: str = ONLY) -> Dense | None:
        """Return a copy of a tensor's residual, (size,) on its device, or None if it has none."""
        return self._residuals.copy(name)

    def state_dict(self) -> dict[str, Dense]:
        """Return this rank's state as a flat {str: ndarray}, copied to the host, with its rank and names."""
        residuals = {f"residual/{name}": x for name, x in self._residuals.to_dict().items()}
        state = {
            "step": np.array(self._step, np.int64),
            "rank": np.array(self._rank, np.int64),
            **residuals,
        }
        if text := schedule_string(self._selectors.schedule):
            state["schedule"] = np.frombuffer(text.encode(), np.uint8).copy()
        return state

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
        odd = [
            key
            for key in state
            if key not in ("step", "schedule", "rank") and not key.startswith("residual/")
        ]
        if odd or "step" not in state:
            raise ValueError(f"not a state of CLTk: {f'unknown keys {odd}' if odd else 'step is missing'}")
        step = saved_step(state)
        residuals = {key[9:]: saved_residual(key, x) for key, x in state.items() if key[:9] == "residual/"}
        schedule = saved_schedule(state) if "schedule" in state else None
        loaded = Loaded(saved_rank(state), strict)
        self._selectors.restore(schedule)
        self._step, self._rank, self._loaded = step, loaded.rank, loaded
        self._residuals.replace(residuals)

    def require_names(self, names: Collection[str]) -> None:
        """Compare a loaded state with the names of all tensors of the training.

        Raises EncodeError if it has other names, and was loaded with ``strict``.
        """
        if self._loaded is not None:
            self._residuals.drop(self._loaded.find_unnamed(self._residuals.current, names))
            self._loaded = self._loaded.with_names()

    def set_step(self, step: int) -> None:
        """Set the number of steps taken, and keep all residuals."""
        self._step = step

    def _settle(self, rank: int, names: Collection[str]) -> Residuals:
        """Return the residuals of a step; those of a loaded state are compared, and stale ones dropped.

        Raises EncodeError if another rank has saved the state. It changes only if the step succeeds.
        """
        if self._loaded is None:
            return self._residuals
        settled = self._residuals.fork()
        settled.drop(self._loaded.find_dropped(settled.current, rank, names))
        return settled

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
