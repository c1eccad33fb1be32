"""LocalUpdates: steps of a worker's own optimizer, and an exchange of compressed movements every H steps.

    DiLoCo       dense, every 500 steps, Nesterov momentum 0.9, rate 0.7
    SparseLoCo   top 64 of each 4096, every 15 to 100 steps, error feedback with decay 0.95, rate 1

A worker's movement is its parameters after the last exchange minus its parameters now. The mean of what all
workers send is a gradient of the outer optimizer. A failed exchange changes nothing on any worker, so the
next one carries the movement since the last successful one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Literal, overload
from weakref import ReferenceType, ref

import wirecodec as wc
from collectives.allreduce import reduce_made
from collectives.call import counted
from collectives.channel import Channel
from collectives.cltk.allreduce import CLTk
from collectives.communicator import Communicator
from collectives.exchange.inputs import Inputs
from collectives.exchange.pending import Pending
from collectives.local_updates.agreement import (
    StateSummary,
    check_states,
    collect_states,
    fetch_state,
    find_leader,
)
from collectives.local_updates.outer import Array, OuterSettings, OuterState
from collectives.local_updates.outer_step import OuterStep, Replacement, rehearse
from collectives.local_updates.parameters import (
    find_trained,
    measure_movements,
    name_arrays,
    read,
    write,
)
from collectives.local_updates.saved_state import read_state, write_state
from collectives.sites.sites import Sites, find_ends
from collectives.torch.arguments import check_compressor, is_ready, wrap_group
from collectives.torch.optimizer import warn_of_momentum


class LocalUpdates:
    """Optimizer of one worker that averages compressed movements of parameters every H steps.

    Call ``step()`` in place of ``optimizer.step()``, on all ranks equally often. Ranks start from equal
    parameters: call ``synchronize()`` on all ranks before the first step, which also admits a rank that joins
    after a restart.

    Args:
        optimizer: this worker's own (inner) optimizer, any object with ``step()``. None if the program takes
            these steps itself, for example by ``GradScaler``; ``step()`` then only counts them.
        named_parameters: ``model.named_parameters()``, or {name: NumPy array}, which is changed in place. The
            names must be the same on all ranks. Parameters of torch that need no gradient are left out until
            they need one: ``step`` takes them over then, or ``admit`` if the optimizer is None.
        compressor: a Compressor, or a CLTk; this rank's own, with the same settings on all ranks. It encodes
            movements, not gradients. ``wc.Compressor("all | raw-index | raw")`` sends them dense.
        comm: a communicator, its Channel, Sites, or a gloo ProcessGroup. Its timeout must exceed ``every``
            steps of the slowest rank.
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
        comm: Communicator | Channel | Sites,
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
        self._comm = wrap_group(comm)
        if is_ready(self._comm):
            find_ends(self._comm)  # an error is best raised here
        self._optimizer = optimizer
        self._named = name_arrays(named_parameters)
        self._parameters = find_trained(self._named)
        if not self._parameters:
            raise ValueError(
                "named_parameters has no parameter that needs a gradient; pass model.named_parameters(),"
                " which can be iterated only once"
            )
        self._state = OuterState(0, {name: read(p) for name, p in self._parameters.items()})
        self._next: Replacement | None = None  # a step that is not complete
        self._is_reverted = True  # whether the parameters have been set to the values of the state
        self._open: ReferenceType[_Step] | None = None  # an exchange that waits for the caller
        self._is_compared = False  # whether the other ranks had this state, and have taken the same steps
        self.inner_step = 0

    @property
    def _channel(self) -> Channel | Sites:
        return find_ends(self._comm)

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
        self.inner_step += 1  # also if this raises, so that all workers exchange after the same step
        if self.inner_step < self._settings.every:
            self._take_inner_step(closure)
            return False
        self.inner_step = 0
        self._end_period(closure)
        return True

    def _take_inner_step(self, closure: Callable[[], Any] | None) -> None:
        self._complete()
        if self._optimizer is not None:
            self.admit()  # parameters that were unfrozen have not moved yet
            self._optimizer.step(*([] if closure is None else [closure]))

    @counted(lambda self, *_: self._channel, exchanges=2)
    def _end_period(self, closure: Callable[[], Any] | None) -> None:
        """Take the last step before an exchange, and exchange. If it raises, the exchange is skipped."""
        self._take_inner_step(closure)
        self.exchange()

    def admit(self) -> list[str]:
        """Take over parameters that need a gradient now and did not before; no other rank takes part.

        Call it on all ranks after ``requires_grad_(True)``, before the parameters are changed. ``step`` calls
        it before each step of the inner optimizer, unless the program takes these steps itself.

        Returns:
            The names of the new parameters. Their values must be the same on all ranks.

        Raises:
            EncodeError: a new parameter has no float type.
        """
        self._complete()
        new = self._find_new()
        if new:
            self._state = self._state.admit({name: read(p) for name, p in new.items()})
            self._parameters = {**self._parameters, **new}
            self._is_compared = False
        return list(new)

    @overload
    def exchange(self, *, weight: float = ..., commit: Literal[True] = ...) -> None: ...

    @overload
    def exchange(self, *, weight: float = ..., commit: Literal[False]) -> Pending[Any]: ...

    @counted(lambda self, **_: self._channel, exchanges=2)
    def exchange(self, *, weight: float = 1.0, commit: bool = True) -> Pending[Any] | None:
        """Average the workers' movements since the last exchange, and set the parameters to the result.

        All ranks call this together. ``step`` calls it; a program calls it after its last steps.

        Args:
            weight: of this rank's movement, as for ``co.allreduce``. A rank with weight 0 takes over the
                others' result, and its movement is dropped.
            commit: False to leave everything as it is until ``commit()`` of the result is called, the same on
                all ranks. No step can be taken meanwhile.

        Returns:
            None, or without ``commit`` a ``Pending`` whose means are {name: mean of start - end}.

        Raises:
            CollectiveError: a rank failed or ranks differ; the same on all ranks. Parameters, residuals and
                outer state are unchanged: a program that catches it goes on, and the next exchange after
                ``every`` steps carries the whole movement. If a rank's parameters are not finite (reason
                "value"), call ``revert()`` on that rank, or stop. If a parameter was unfrozen, call
                ``admit()`` right after that, on all ranks.
            Timeout: a rank does not take part. Continue on another communicator: make a new LocalUpdates,
                load this one's state, and call ``synchronize()`` on all ranks.

        Another exception on one rank after the exchange leaves its round as it was. The next exchange then
        raises CollectiveError on all ranks, which asks for ``synchronize()``.
        """
        self.inner_step = 0
        is_compared, self._is_compared = self._is_compared, False  # also after an error
        over_sites = isinstance(self._channel, Sites)
        summarize = partial(self._summarize_for_exchange, whole=over_sites or not is_compared)
        check_states(collect_states(self._channel, summarize, None if over_sites else self._digest))
        means: Any
        if isinstance(self._compressor, CLTk):
            means = self._compressor.reduce_made(
                self._channel, self._measure_movements, weight=weight, commit=commit
            )
        else:
            means = reduce_made(
                self._channel, self._measure_movements, self._compressor, weight=weight, commit=commit
            )
        if commit:
            self._take(means)
            return None
        step = _Step(self, means)
        self._open = ref(step)
        return Pending(means.means, step)

    @counted(lambda self: self._channel, exchanges=2)
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
            CollectiveError: a rank failed, or names, shapes or types of the parameters differ; the same on
                all ranks.
            Timeout: a rank does not take part.
        """
        table = collect_states(self._channel, self._summarize)
        if len(set(table)) == 1:
            return False
        self.inner_step = 0
        leader = find_leader(table)
        if len({summary[:3] for summary in table}) == 1:
            return False
        fetched = fetch_state(self._channel, self._state, self._settings, leader, table[leader].round)
        if table[self._channel.rank][:3] == table[leader][:3]:
            return False
        self._compressor.set_step(table[leader].step)
        self._is_compared = False
        self._advance(Replacement(self._state, fetched))
        return True

    def revert(self) -> None:
        """Set this rank's parameters to those of the last exchange; no other rank takes part."""
        self._complete()
        self._is_reverted = False
        self._complete()

    def state_dict(self) -> dict[str, Array]:
        """Return a copy of this rank's state as flat {str: ndarray}: rounds, outer optimizer and compressor.

        The program saves its model and its inner optimizer beside it. With all three, training resumes bit
        for bit, also between two exchanges. ``co.torch_state_dict`` returns the same as tensors.
        """
        self._complete()
        return write_state(self._state, self.inner_step, self._compressor.state_dict())

    def load_state_dict(self, state: Mapping[str, Any], *, strict: bool = True) -> None:
        """Restore a state of ``state_dict``. Load the model and the inner optimizer, too.

        Args:
            state: arrays or tensors, as saved by this rank. ``wc.rename_state`` renames its parameters.
            strict: False to ignore parameters of the state that are not here, and to start others with their
                present values; and to drop what does not fit in the compressor's state, as its
                ``load_state_dict`` does.

        Raises:
            ValueError: a key or its array is not valid; the message names the key. Nothing changes.
        """
        loaded, steps, compressor = read_state(
            state, self._state.parameters, has_momentum=self._settings.momentum > 0, strict=strict
        )
        others = {name: read(p) for name, p in self._parameters.items() if name not in loaded.parameters}
        self._compressor.load_state_dict(compressor, strict=strict)
        self._state = loaded.admit(others)
        self.inner_step, self._next, self._is_reverted, self._is_compared = steps, None, True, False

    def __repr__(self) -> str:
        """Return the settings, the round and the step."""
        return f"LocalUpdates({self._settings}, round={self.round}, inner_step={self.inner_step})"

    def _summarize(self, *, whole: bool = True) -> StateSummary:
        """Complete the last exchange, and summarize this rank's state."""
        self._complete()
        return StateSummary.of(
            self._state, self._settings, self._compressor.step, self.inner_step, whole=whole
        )

    def _summarize_for_exchange(self, *, whole: bool) -> StateSummary:
        """Summarize this rank's state; raise ValueError if a parameter would be left out."""
        summary = self._summarize(whole=whole)
        for name in self._find_new():
            raise ValueError(
                f"parameter {name!r} needs a gradient, and did not when LocalUpdates was made: call"
                " admit() on all ranks right after unfreezing it, before it is changed"
            )
        return summary

    def _digest(self) -> int:
        """Return the digest of the whole state."""
        return self._state.digest()

    def _find_new(self) -> dict[str, Any]:
        """Return the parameters that need a gradient and are not exchanged yet."""
        others = {name: p for name, p in self._named.items() if name not in self._parameters}
        return find_trained(others)

    def _measure_movements(self) -> Inputs:
        """Return the movements of the parameters since the last exchange. Their means replace them."""
        rehearse(x.dtype for x in self._state.parameters.values())
        movements = measure_movements(self._parameters, self._state.parameters)
        return Inputs(movements, movements)

    def _take(self, means: Mapping[str, Any]) -> None:
        """Take the step of the outer optimizer."""
        self._advance(OuterStep(self._state, means, self._settings))
        self._is_compared = True

    def _advance(self, step: Replacement) -> None:
        """Set the state and the parameters to a step's values.

        After an interrupt, the next call completes it. After an error, this rank keeps its round, and the
        next call sets the parameters to the state's values.
        """
        self._next = step
        self._complete()

    def _complete(self) -> None:
        """Complete an interrupted ``_advance``, or set the parameters to the state's values."""
        waiting = None if self._open is None else self._open()
        if waiting is not None and waiting.is_open:
            raise RuntimeError("an exchange with commit=False is open: call its commit() or rollback() first")
        if self._next is None and self._is_reverted:
            return
        step = Replacement(self._state, self._state) if self._next is None else self._next
        self._is_reverted = False
        try:
            for name, value in step.values():
                write(self._parameters[name], value)
        except Exception:
            self._state, self._next = step.abandon(), None
            raise
        self._state, self._next, self._is_reverted = step.after, None, True


class _Step:
    """Step of the outer optimizer and of the compressor, which waits for ``commit`` or ``rollback``."""

    def __init__(self, owner: LocalUpdates, exchange: Pending[Any]) -> None:
        self._owner, self._exchange = owner, exchange
        self.is_open = True

    def commit(self) -> None:
        """Let the compressor's state advance, and set the parameters to the result."""
        self._exchange.commit()
        self.is_open = False
        self._owner._take(self._exchange.means)

    def rollback(self) -> None:
        """Leave everything as it was before the exchange."""
        self._exchange.rollback()
        self.is_open = False
