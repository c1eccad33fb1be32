"""LocalUpdates: steps of a worker's own optimizer, and an exchange of compressed movements every H steps.

    DiLoCo       dense, every 500 steps, Nesterov momentum 0.9, rate 0.7
    SparseLoCo   top 64 of each 4096, every 15 to 100 steps, error feedback with decay 0.95, rate 1

A worker's movement is its parameters after the last exchange minus its parameters now. The mean of what all
workers send is a gradient of the outer optimizer. A failed exchange changes nothing on any worker, so the
next one carries the movement since the last successful one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

import wirecodec as wc
from collectives.allreduce import allreduce
from collectives.channel import Channel
from collectives.cltk.allreduce import CLTk
from collectives.communicator import Communicator
from collectives.local_updates.agreement import (
    StateSummary,
    check_states,
    collect_states,
    fetch_state,
    find_leader,
    join_arrays,
)
from collectives.local_updates.outer import Array, OuterSettings, OuterState, take_outer_step
from collectives.local_updates.parameters import name_arrays, read, round_to, write
from collectives.torch.arguments import check_compressor, wrap_group
from collectives.torch.optimizer import warn_of_momentum
from wirecodec.interop import as_integer

__all__ = ["LocalUpdates"]

_KEYS = ("parameter/", "momentum/", "compressor/")


class LocalUpdates:
    """Optimizer of one worker that averages compressed movements of parameters every H steps.

    Call ``step()`` in place of ``optimizer.step()``, on all ranks equally often. Ranks start from equal
    parameters: call ``synchronize()`` on all ranks before the first step, which also admits a rank that joins
    after a restart.

    Args:
        optimizer: this worker's own (inner) optimizer, any object with ``step()``. None if the program takes
            these steps itself, for example by ``GradScaler``; ``step()`` then only counts them.
        named_parameters: ``model.named_parameters()``, or {name: NumPy array}, which is changed in place. The
            names must be the same on all ranks. Parameters of torch that need no gradient are left out.
        compressor: a Compressor, or a CLTk; this rank's own, with the same settings on all ranks. It encodes
            movements, not gradients. ``wc.Compressor("all | raw-index | raw")`` sends them dense.
        comm: a communicator, its Channel, or a gloo ProcessGroup. Its timeout must exceed ``every`` steps of
            the slowest rank.
        every: steps between two exchanges.
        rate: learning rate of the outer optimizer; 1 moves the parameters by the mean movement.
        momentum: of the outer optimizer, at least 0 and below 1. It follows the exchange: there is a warning
            if the compressor corrects momentum, or if it has error feedback and sends less than 1 % of the
            elements. The inner optimizer's momentum is of no concern here.
        nesterov: whether that momentum is Nesterov's.

    Attributes:
        round: exchanges so far.
        inner_step: steps since the last exchange.

    Raises:
        TypeError: an argument is of another kind; the message names the right one.
        ValueError: a setting is out of range, or there are no parameters.

    Source:
        Douillard et al., 2023, DiLoCo (arXiv 2311.08105), Algorithm 1. Sarfi et al., 2025, SparseLoCo
        (arXiv 2508.15706), Algorithm 1: no outer momentum, because error feedback takes its place.

    Examples:
        >>> import numpy as np, collectives as co, wirecodec as wc
        >>> def train(comm):
        ...     w = np.zeros(4, np.float32)
        ...     compressor = wc.Compressor("topk(0.5) | rice | raw")
        ...     local = co.LocalUpdates(None, {"w": w}, compressor, comm, every=2)
        ...     for _ in range(2):
        ...         w += [1, 0, 2, 3 * comm.rank]  # a step of this worker's own
        ...         local.step()
        ...     return w
        >>> co.simulate(2, train)[0]
        array([1., 0., 4., 3.], dtype=float32)
    """

    def __init__(
        self,
        optimizer: Any,
        named_parameters: Iterable[tuple[str, Any]] | Mapping[str, Any],
        compressor: wc.Compressor | CLTk,
        comm: Communicator | Channel,
        every: int,
        rate: float = 1.0,
        momentum: float = 0.0,
        nesterov: bool = False,
    ) -> None:
        if optimizer is not None and not callable(getattr(optimizer, "step", None)):
            raise TypeError(
                f"optimizer is {type(optimizer).__name__}, which has no step(); pass one, or None"
            )
        self._settings = OuterSettings(every, float(rate), float(momentum), bool(nesterov))
        self._compressor = check_compressor(compressor)
        warn_of_momentum("LocalUpdates", self._settings.momentum, self._compressor, stacklevel=2)
        self._channel = Channel.of(wrap_group(comm))
        self._optimizer = optimizer
        self._parameters = name_arrays(named_parameters)
        self._state = OuterState(0, {name: read(p) for name, p in self._parameters.items()})
        self._is_written = True  # whether the parameters have the state's values since the last exchange
        self.inner_step = 0

    @property
    def round(self) -> int:
        """Exchanges so far."""
        return self._state.round

    def step(self, closure: Callable[[], Any] | None = None) -> bool:
        """Take a step of the inner optimizer, and exchange movements if ``every`` steps are complete.

        Args:
            closure: passed to the inner optimizer.

        Returns:
            Whether the movements were exchanged.

        Raises:
            CollectiveError, Timeout: as for ``exchange``.
        """
        self._finish_writing()
        if self._optimizer is not None:
            self._optimizer.step(*([] if closure is None else [closure]))
        self.inner_step += 1
        if self.inner_step < self._settings.every:
            return False
        self.exchange()
        return True

    def exchange(self) -> None:
        """Average the workers' movements since the last exchange, and set the parameters to the result.

        All ranks call this together. ``step`` calls it; a program calls it after its last steps.

        Raises:
            CollectiveError: a rank failed or ranks differ; the same on all ranks. Parameters, residuals and
                outer state are unchanged: a program that catches it goes on, and the next exchange after
                ``every`` steps carries the whole movement. If a rank's parameters are not finite (reason
                "value"), call ``revert()`` on that rank, or stop.
            Timeout: a rank does not take part. Continue on another communicator: make a new LocalUpdates,
                load this one's state, and call ``synchronize()`` on all ranks.
        """
        self._finish_writing()
        self.inner_step = 0
        check_states(self._collect_states())
        movements = {
            name: round_to(p, self._state.parameters[name]) - read(p) for name, p in self._parameters.items()
        }
        means: Mapping[str, Any]
        if isinstance(self._compressor, CLTk):
            means = self._compressor.allreduce(self._channel, movements)
        else:
            means = allreduce(self._channel, movements, self._compressor)
        self._replace(take_outer_step(self._state, means, self._settings))

    def synchronize(self) -> bool:
        """Give all ranks the state of the rank that has taken part in the most exchanges.

        All ranks call this together, after a start, or after a restart on a new communicator. Of ranks with
        equally many exchanges, the lowest one decides. A rank with another state takes over the parameters,
        the outer momentum and the compressor's step, and keeps its residuals. It has lost the steps that it
        has taken since its last exchange. Other ranks keep theirs. If ranks differ, each starts to count
        ``every`` steps from here.

        Returns:
            Whether this rank has taken over another rank's state.

        Raises:
            CollectiveError: a rank failed; the same on all ranks.
            Timeout: a rank does not take part.
        """
        self._finish_writing()
        table = self._collect_states()
        if len(set(table)) == 1:
            return False
        self.inner_step = 0
        leader = find_leader(table)
        if len({each[:3] for each in table}) == 1:
            return False
        found = fetch_state(self._channel, self._state, self._settings, leader, table[leader].round)
        if table[self._channel.rank][:3] == table[leader][:3]:
            return False
        compressor = self._compressor.state_dict() | {"step": np.array(table[leader].step, np.int64)}
        self._compressor.load_state_dict(compressor)
        self._replace(found)
        return True

    def revert(self) -> None:
        """Set this rank's parameters to those of the last exchange; no other rank takes part."""
        self._is_written = False
        self._finish_writing()

    def state_dict(self) -> dict[str, Array]:
        """Return a copy of this rank's state as flat {str: ndarray}: rounds, outer optimizer and compressor.

        The program saves its model and its inner optimizer beside it. With all three, training resumes bit
        for bit, also between two exchanges. ``co.torch_state_dict`` returns the same as tensors.
        """
        self._finish_writing()
        state = {
            "round": np.array(self.round, np.int64),
            "inner_step": np.array(self.inner_step, np.int64),
        }
        state |= {key: x.copy() for key, x in join_arrays(self._state).items()}
        return state | {f"compressor/{key}": x for key, x in self._compressor.state_dict().items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a state of ``state_dict``. Load the model and the inner optimizer, too.

        Args:
            state: arrays or tensors, as saved by this rank.

        Raises:
            ValueError: a key or its array is not valid; the message names the key. Nothing changes.
        """
        odd = [key for key in state if key not in ("round", "inner_step") and not key.startswith(_KEYS)]
        wanted = {"round", "inner_step"} | {f"parameter/{name}" for name in self._parameters}
        missing = sorted(wanted - state.keys())
        if odd or missing:
            raise ValueError(f"not the state of LocalUpdates for these parameters: {odd or missing}")
        counts = {key: as_integer(state[key], key) for key in ("round", "inner_step")}
        for key, count in counts.items():
            if not 0 <= count < 2**62:
                raise ValueError(f"{key} is {count}; it must be 0 to 2^62")
        parts = {
            kind: {
                key[len(kind) :]: self._check_array(key, x)
                for key, x in state.items()
                if key[: len(kind)] == kind
            }
            for kind in _KEYS[:2]
        }
        self._compressor.load_state_dict(
            {key[len(_KEYS[2]) :]: x for key, x in state.items() if key.startswith(_KEYS[2])}
        )
        self._state = OuterState(counts["round"], parts["parameter/"], parts["momentum/"])
        self.inner_step, self._is_written = counts["inner_step"], True

    def __repr__(self) -> str:
        """Return the settings, the round and the step."""
        return f"LocalUpdates({self._settings}, round={self.round}, inner_step={self.inner_step})"

    def _collect_states(self) -> list[StateSummary]:
        """Gather a summary of every rank's state."""
        step = self._compressor.step
        return collect_states(self._channel, self._state, self._settings, step, self.inner_step)

    def _check_array(self, key: str, x: Any) -> Array:
        """Return a copy of a saved array; raise ValueError unless it fits its parameter."""
        found = np.array(np.asarray(x))
        like = self._state.parameters.get(key.partition("/")[2])
        if like is None:
            raise ValueError(f"{key}: there is no such parameter")
        if found.shape != like.shape or found.dtype != like.dtype:
            raise ValueError(
                f"{key} is {found.dtype} of shape {found.shape}; it must be {like.dtype} of {like.shape}"
            )
        return found

    def _replace(self, state: OuterState) -> None:
        """Set the state, and then the parameters; after an interrupt, the next call completes it."""
        self._is_written = False
        self._state = state
        self._finish_writing()

    def _finish_writing(self) -> None:
        """Set the parameters to the state's values, unless they have been."""
        if not self._is_written:
            for name, parameter in self._parameters.items():
                write(parameter, self._state.parameters[name])
            self._is_written = True
