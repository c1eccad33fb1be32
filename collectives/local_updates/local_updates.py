"""LocalUpdates: steps of a worker's own optimizer, and an exchange of compressed movements every H steps.

    DiLoCo             dense, every 500 steps, Nesterov momentum 0.9, rate 0.7
    Streaming DiLoCo   a fragment of the parameters at a time, while the next steps are computed
    SparseLoCo         top 64 of each 4096, every 15 to 100 steps, error feedback with decay 0.95, rate 1

A worker's movement is its parameters after the last exchange minus its parameters now. The mean of what all
workers send is a gradient of the outer optimizer. An exchange that fails on all workers changes nothing, so
the next one carries the movement since the last successful one. If a worker dies, an exchange may fail on
some workers only; ``synchronize`` then completes it on the others.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, overload

import wirecodec as wc
from collectives.call import counted, exclusive, refuse_nested, this_thread
from collectives.channel import Channel
from collectives.cltk.allreduce import CLTk
from collectives.communicator import Communicator
from collectives.errors import name_kind
from collectives.exchange.transaction import Pending
from collectives.local_updates.anchor import Anchor
from collectives.local_updates.delayed import DelayedQueue
from collectives.local_updates.ends import Link, check_communicator, check_method, check_successor
from collectives.local_updates.fragments import (
    Fragments,
    divide_parameters,
    freeze_fragments,
    make_schedule,
    summarize_fragments,
)
from collectives.local_updates.inner import InnerOptimizer, warn_of_other_tensors
from collectives.local_updates.outer import Array, OuterSettings
from collectives.local_updates.outer_loop import OuterLoop, Rounds
from collectives.local_updates.outer_step import require_finite_step
from collectives.local_updates.parameters import count_elements, name_arrays, read
from collectives.local_updates.ranks import EXCHANGES
from collectives.local_updates.saved_state import (
    list_parameters,
    read_carried,
    read_delayed,
    read_own_digest,
    read_state,
    write_carried,
    write_delayed,
    write_state,
)
from collectives.sites.sites import Sites
from collectives.store.communicator import StoreComm
from collectives.torch.arguments import check_compressor, is_ready, wrap_group
from collectives.torch.optimizer import warn_of_momentum
from collectives.transport.weights import check_weight


class LocalUpdates:
    """Optimizer of one worker that averages compressed movements of parameters every H steps.

    Call ``step()`` in place of ``optimizer.step()``, on all ranks equally often. Ranks start from equal
    parameters: call ``synchronize()`` on all ranks before the first step, which also admits a rank that joins
    after a restart.

    Args:
        optimizer: this worker's own (inner) optimizer, any object with ``step()``. None if the program takes
            these steps itself, for example by ``GradScaler``; ``step()`` then only counts them. There is a
            warning if its ``param_groups`` lack a parameter.
        named_parameters: ``model.named_parameters()``, or {name: NumPy array}, which is changed in place. The
            names must be the same on all ranks. No two share memory. Tensors of torch that are no Parameter,
            such as buffers, are exchanged, too. Parameters that need no gradient are left out until they need
            one: ``step`` takes them over then, or ``admit`` if the optimizer is None. They stay if
            they are frozen later: the outer momentum and the residual may then still move them.
        compressor: a Compressor, or a CLTk; this rank's own, with the same settings on all ranks. It encodes
            movements, not gradients. ``wc.Compressor("all | raw-index | raw")`` sends them dense.
        comm: a communicator, its Channel, Sites, a StoreComm, or a gloo ProcessGroup. Its timeout must exceed
            ``every`` steps of the slowest rank. Over a StoreComm, ranks come and go: one that does not count
            takes the others' result, and its next exchange has its movement.
        every: steps between two exchanges.
        rate: learning rate of the outer optimizer; 1 moves the parameters by the mean movement.
        momentum: of the outer optimizer, at least 0 and below 1. It follows the exchange: there is a warning
            if the compressor corrects momentum, or if it has error feedback and sends less than 1 % of the
            elements. The inner optimizer's momentum is of no concern here.
        nesterov: whether that momentum is Nesterov's.
        fragments: number of groups of parameters, which are exchanged in turn: group f of P after the steps t
            with t mod ``every`` = floor(f · every / P). Or for each group a glob, or a list of globs or
            names: ``[["blocks.0.*", "blocks.2.*"], "*"]``. A parameter belongs to the first that matches. The
            exchange of a group is a step of the compressor, which its schedule counts.
        delay: steps, below ``every``, during which an exchange runs in a thread while training goes on; its
            result is applied after the last of them. Other exchanges of this library over ``comm`` wait for
            it; collectives of torch do not.
        alpha: share of the worker's own parameters that stays when a result is applied; 0 replaces them.
            After the last exchange, ``revert`` sets all workers to the common values.
        divide: "ranks", or "senders": the mean of an element is over the ranks that sent it.
        weight: of this rank's movements, as for ``co.allreduce``.
        keep: share of the movement that this worker has not sent yet, which its own parameters keep. 0.5
            trained best with few bits. Ranks then have different parameters, also after the last exchange:
            ``revert`` sets them to the common ones. It takes one more number per parameter.

    Attributes:
        round: exchanges so far, of all fragments.
        inner_step: steps of the present period of ``every`` steps.

    Raises:
        TypeError: an argument is of another kind; the message names the right one.
        ValueError: a setting is out of range, there are no parameters, or two share memory.
        EncodeError: a parameter that needs a gradient, or a buffer, has no float type.

    Source:
        Douillard et al., 2023, DiLoCo (arXiv 2311.08105), Algorithm 1. Douillard et al., 2025, Streaming
        DiLoCo (arXiv 2501.18512), section 2: fragments, delay and alpha. Sarfi et al., 2025, SparseLoCo
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
        comm: Communicator | Channel | Sites | StoreComm,
        every: int,
        rate: float = 1.0,
        momentum: float = 0.0,
        nesterov: bool = False,
        *,
        fragments: Fragments = 1,
        delay: int = 0,
        alpha: float = 0.0,
        divide: Literal["ranks", "senders"] = "ranks",
        weight: float = 1.0,
        keep: float = 0.0,
    ) -> None:
        if isinstance(optimizer, type) or not (
            optimizer is None or callable(getattr(optimizer, "step", None))
        ):
            raise TypeError(f"optimizer is {name_kind(optimizer)}; pass an object with a step(), or None")
        named = name_arrays(named_parameters)
        self._link = Link(wrap_group(comm))
        self._anchor = Anchor(named, frozen=self._link.kind.is_divided)
        if not self._anchor.parameters:
            raise ValueError(
                "named_parameters has no parameter that needs a gradient; pass model.named_parameters(),"
                " which can be iterated only once"
            )
        self._fragments = divide_parameters({name: count_elements(p) for name, p in named.items()}, fragments)
        groups = freeze_fragments(fragments)
        outer = every, rate, momentum, bool(nesterov), groups, delay, alpha, divide, keep
        self._settings = OuterSettings(*outer, summarize_fragments(self._fragments))
        self._compressor = check_compressor(compressor)
        check_method(self._settings, self._compressor)
        warn_of_momentum("LocalUpdates", self._settings.momentum, self._compressor, stacklevel=2)
        if is_ready(self._link.comm):  # an error is best raised here
            check_communicator(self._settings, self._link.comm, self._compressor)
        warn_of_other_tensors(optimizer, self._anchor.parameters, stacklevel=2)
        self._optimizer = None if optimizer is None else InnerOptimizer(optimizer)
        self._weight = check_weight(weight)
        self._saved_own: tuple[int, list[str]] | None = None  # digest and names of a loaded state, to compare
        self._outer = OuterLoop(self._anchor, self._settings, self._compressor)
        self._delayed = DelayedQueue(self._outer, delay, self._link)
        self._is_split = self._has_parts()
        self._schedule = make_schedule(every, len(self._fragments))

    def _has_parts(self) -> bool:
        """Return whether an exchange of all parameters is one of each fragment."""
        return self._link.kind.is_divided and len(self._fragments) > 1

    @property
    def round(self) -> int:
        """Exchanges so far."""
        return self._anchor.state.round

    @property
    def inner_step(self) -> int:
        """Steps of the present period of ``every`` steps."""
        return self._outer.inner_step

    @inner_step.setter
    def inner_step(self, number: int) -> None:
        self._outer.inner_step = number

    def step(self, closure: Callable[[], Any] | None = None) -> bool:
        """Take a step of the inner optimizer; exchange movements, and apply results, that are due after it.

        Args:
            closure: passed to the inner optimizer.

        Returns:
            Whether parameters were set to the result of an exchange.

        Raises:
            CollectiveError, Timeout: as for ``exchange``; of a delayed exchange, when its result is due.
        """
        if this_thread.frame is not None:  # no call before those that count an interrupt
            refuse_nested()
        outer, settings = self._outer, self._settings
        due, one = self._schedule.get(outer.inner_step + 1), None
        for other in self._delayed.waiting:
            other.left -= 1
        # The step counts from here, also if it raises, so that all workers exchange after the same step. No
        # call and no loop come before the try: an interrupt there would skip no exchange.
        outer.inner_step = outer.inner_step + 1 if outer.inner_step + 1 < settings.every else 0
        if due is not None and not settings.delay:
            self._end_period(closure, due)
            return True
        if due is None:
            self._take_inner_step(closure)
            return self._delayed.apply_due()
        try:
            self._take_inner_step(closure)
            names = self._names_of(due)
            has_applied = self._delayed.apply_due(names)
            one = self._delayed.make(names)
            self._delayed.start(one, self._weight)
        except BaseException:
            self._delayed.skip(one)
            raise
        return has_applied

    def _take_inner_step(self, closure: Callable[[], Any] | None) -> None:
        self._outer.complete()
        if self._optimizer is not None:
            self._compare_model()
            self.admit()  # parameters that were unfrozen have not moved yet
            self._optimizer.step(closure)
        self._saved_own = None

    def _apply_all(self) -> None:
        self._compare_model()
        self._delayed.apply_all()

    def _settle(self) -> None:
        self._compare_model()
        self._delayed.settle()

    def _compare_model(self) -> None:
        """Warn if the parameters are not those that a loaded state was saved with, before they move.

        Without an optimizer, the program may have moved them.
        """
        saved, self._saved_own = self._saved_own, None
        if (
            self._optimizer is not None
            and saved is not None
            and self._anchor.digest_own(saved[1]) != saved[0]
        ):
            warnings.warn(
                "the parameters are not those with which the loaded state was saved, so the difference counts"
                " as a movement: load the model, too, or call revert() to start from the common parameters",
                stacklevel=3,
            )

    @counted(lambda self, *_: self._link.find(), exchanges=EXCHANGES, is_exclusive=False)
    def _end_period(self, closure: Callable[[], Any] | None, fragment: int) -> None:
        """Take the last step before an exchange, and exchange. If it raises, the exchange is skipped."""
        self._take_inner_step(closure)  # which may exchange gradients
        self._exchange_due(self._names_of(fragment))

    @exclusive
    def _exchange_due(self, names: list[str]) -> None:
        if self._delayed.waiting:
            self._delayed.apply_due(names)
        self._link.find_rounds(self._outer).exchange(names, self._weight, is_whole=len(self._fragments) == 1)

    def _names_of(self, fragment: int | None = None) -> list[str]:
        """Return the names of a fragment, or of all parameters, that are exchanged."""
        named = self._anchor.parameters
        return [*named] if fragment is None else [x for x in self._fragments[fragment] if x in named]

    def admit(self) -> list[str]:
        """Take over parameters that need a gradient now and did not before; no other rank takes part.

        Call it on all ranks after ``requires_grad_(True)``, before the parameters are changed. ``step`` calls
        it before each step of the inner optimizer, unless the program takes these steps itself.

        Returns:
            The names of the new parameters. Their values must be the same on all ranks.

        Raises:
            EncodeError: a new parameter has no float type.
        """
        refuse_nested()
        self._outer.complete()
        new = self._anchor.find_new()
        if new:
            self._anchor.admit(new)
            self._outer.is_compared = False
        return list(new)

    @overload
    def exchange(self, *, weight: float | None = ..., commit: Literal[True] = ...) -> None: ...

    @overload
    def exchange(self, *, weight: float | None = ..., commit: Literal[False]) -> Pending[Any]: ...

    def exchange(self, *, weight: float | None = None, commit: bool = True) -> Pending[Any] | None:
        """Average the workers' movements since the last exchange, and set the parameters to the result.

        All ranks call this together, after their last steps. It applies the results of delayed exchanges, and
        then exchanges all fragments at once; over Sites one by one.

        Args:
            weight: of this rank's movement, as for ``co.allreduce``; None for that of this object. A rank
                with weight 0 takes over the others' result, also with ``alpha``, and its movement is dropped.
            commit: False to leave everything as it is until ``commit()`` of the result is called, the same on
                all ranks. No step can be taken meanwhile.

        Returns:
            None, or without ``commit`` a ``Pending`` whose means are {name: mean of start - end}.

        Raises:
            CollectiveError: a rank failed or ranks differ; the same on all ranks. The exchange that failed
                has changed no parameter, residual or outer state: a program that catches it goes on, and the
                next exchange carries the whole movement. What was applied before it stays: results of earlier
                delayed exchanges, and over Sites those of earlier fragments. If a rank's parameters are not
                finite (reason "value"), call ``revert()`` on that rank, or stop; on all ranks if theirs are
                finite, and the step of the outer optimizer is not. If a parameter was unfrozen,
                call ``admit()`` right after that, on all ranks. If a rank has gone (reason "transport"),
                continue on another communicator: call ``rebind``.
            Timeout: a rank does not take part. Call ``rebind``, too.

        Another exception on one rank after the exchange leaves its round as it was. The next exchange then
        raises CollectiveError on all ranks, which asks for ``synchronize()``.
        """
        if this_thread.frame is not None:  # no call before those that count an interrupt
            refuse_nested()
        if self._is_split and not commit:
            raise ValueError("commit=False over Sites needs fragments=1: fragments are exchanged one by one")
        if self._delayed.waiting or not self._delayed.is_idle:
            self._delayed.free_channel(self._apply_all)
        if not self._is_split:
            return self._exchange_part(None, weight, commit=commit)
        for fragment in range(len(self._fragments)):  # residuals are of ranges, which these names decide
            self._exchange_part(fragment, weight)
        return None

    @counted(lambda self, *_, **__: self._link.find(), exchanges=EXCHANGES)
    def _exchange_part(
        self, fragment: int | None, weight: float | None, *, commit: bool = True
    ) -> Pending[Any] | None:
        """Exchange a fragment, or all parameters."""
        self._compare_model()
        self.inner_step = 0
        names, own = self._names_of(fragment), self._weight if weight is None else weight
        is_whole = fragment is None or len(self._fragments) == 1
        rounds: Rounds = self._link.find_rounds(self._outer)
        return rounds.exchange(names, own, is_whole=is_whole, commit=commit)

    def synchronize(self) -> bool:
        """Give all ranks the state of the rank that has taken part in the most exchanges.

        All ranks call this together, after a start, or after a restart on a new communicator. Of ranks with
        equally many exchanges, the lowest one decides. A rank with another state takes over the parameters,
        the outer momentum and the compressor's step, and keeps its residuals. Of parameters that the other
        rank's exchanges have changed, it has lost the steps that it has taken since its last exchange. It
        loses none if it is behind by one exchange only, which broke off here after this rank had sent. That
        exchange then counts on this rank, too, and the next one carries its later steps. With an OkTopK, this
        is not possible: it does not know what arrived. Other ranks keep theirs. If ranks differ, each starts
        to count ``every`` steps from here. Results of delayed exchanges are applied before; their errors
        change nothing.

        Returns:
            Whether this rank has taken over another rank's state.

        Raises:
            CollectiveError: a rank failed, or names, shapes or types of the parameters differ; the same on
                all ranks.
            Timeout: a rank does not take part.
        """
        if this_thread.frame is not None:  # no call before those that count an interrupt
            refuse_nested()
        if self._delayed.waiting or not self._delayed.is_idle:
            self._delayed.free_channel(self._settle)
        return self._synchronize()

    @counted(lambda self: self._link.find(), exchanges=EXCHANGES)
    def _synchronize(self) -> bool:
        self._compare_model()
        has_changed: bool = self._link.find_rounds(self._outer).synchronize()
        if (rank := self._link.find_rank()) is not None:
            self._compressor.take_rank(rank)  # another one, if a rank has gone or joined
        return has_changed

    def rebind(self, comm: Communicator | Channel | Sites | StoreComm) -> None:
        """Go on with another communicator; no other rank takes part.

        After a Timeout, or a CollectiveError because a rank has gone, the ranks that are left make a
        communicator of their own and pass it here, without a restart. They and ranks that join then call
        ``synchronize()``. Movements and residuals stay as they are, so nothing is lost but those of the rank
        that has gone. It may have gone in the middle of an exchange, which then is complete on some ranks and
        not on others: ``synchronize`` lets it count on all. With an OkTopK, and on ranks that load a saved
        state before ``synchronize``, the movements of that exchange are lost, and what arrived of residuals
        is sent again. Results of delayed exchanges that this rank received are applied before; this waits for
        those that still run, at most for the timeout of their communicator.

        Residuals over Sites are of ranges, which depend on the site. So Sites are followed by Sites in which
        this rank has the same number in a site of as many ranks; the number of sites may change.

        Args:
            comm: as for the class; of the same kind as before, if one of them is Sites.

        Raises:
            TypeError: it is no communicator.
            ValueError: it cannot be used with these settings, it is Sites and the present one is not, or the
                reverse, or it has another range for this rank than the residuals. Nothing changes.
        """
        refuse_nested()
        wrapped = wrap_group(comm)
        if is_ready(wrapped):
            check_communicator(self._settings, wrapped, self._compressor)
        check_successor(self._link, wrapped, self._outer.range, self._compressor)
        self._delayed.settle()
        self._outer.complete_round()
        if self._link.kind.has_members:
            self._link.comm.rollback()
        self._link.bind(wrapped)
        self._outer.is_compared = False
        self._is_split = self._has_parts()

    def revert(self) -> None:
        """Set this rank's parameters to the common ones of the last exchange; no other rank takes part.

        Its steps since then are dropped. If a delayed exchange has sent some of them, they count, and its
        result replaces the parameters, also with ``alpha``. ``state_dict`` has the common parameters without
        that effect, as ``parameter/NAME``.
        """
        refuse_nested()
        self._saved_own = None
        self._delayed.replace_own()
        self._outer.revert()

    def state_dict(self) -> dict[str, Array]:
        """Return a copy of this rank's state as flat {str: ndarray}: rounds, outer optimizer and compressor.

        The program saves its model and its inner optimizer beside it. With all three, training resumes bit
        for bit, also between two exchanges, and during a delayed one, for whose result this waits. Over a
        StoreComm, it also waits for the result of a round from which an exception has broken off.
        ``co.torch_state_dict`` returns the same as tensors.
        """
        self._outer.settle()
        delayed = self._delayed.wait()
        own = self._anchor.digest_own(self._anchor.parameters)
        state = write_state(self._anchor.state, self.inner_step, own, self._compressor.state_dict())
        state |= write_carried(self._anchor.carried)
        return state | write_delayed(delayed)

    def load_state_dict(self, state: Mapping[str, Any], *, strict: bool = True) -> None:
        """Restore a state of ``state_dict``. Load the model and the inner optimizer, too.

        Args:
            state: arrays or tensors, as saved by this rank. ``wc.rename_state`` renames its parameters. The
                settings may be others: results of delayed exchanges are then applied when they are due by
                these settings. Parameters that were unfrozen are taken over.
            strict: False to ignore parameters of the state that are not here, and to start others with their
                present values; and to drop what does not fit in the compressor's state, as its
                ``load_state_dict`` does.

        Raises:
            ValueError: a key or its array is not valid; the message names the key. Nothing changes.
        """
        refuse_nested()
        self._outer.require_closed()
        self._delayed.wait()
        saved = list_parameters(state)
        new = {name: p for name, p in self._anchor.find_new().items() if name in saved}
        shapes = {**self._anchor.state.parameters, **{name: read(p) for name, p in new.items()}}
        loaded, steps, compressor = read_state(
            state, shapes, has_momentum=self._settings.momentum > 0, strict=strict
        )
        carried = read_carried(state, shapes, strict=strict)
        delayed = read_delayed(state, shapes, self._settings.delay, strict=strict)
        for one in delayed:  # the settings may be others than those by which they were accepted
            require_finite_step(loaded, one.means, self._settings)
        own, rank = read_own_digest(state), self._link.find_rank()
        self._compressor.load_state_dict(compressor, strict=strict)  # nothing is refused after this line
        self._outer.forget()
        self._link.rounds = None
        self._anchor.admit(new)
        self._anchor.restore(loaded, carried)
        self._outer.inner_step = steps % self._settings.every  # which may have been larger
        self._outer.is_compared, self._outer.is_loaded = False, True
        self._delayed.restore(delayed)
        is_complete = self._anchor.parameters.keys() >= set(saved)
        self._saved_own = (own, list(saved)) if own is not None and is_complete else None
        if rank is not None:
            self._compressor.take_rank(rank)  # a rank may go before the first exchange

    def __repr__(self) -> str:
        """Return the settings, the round and the step."""
        return f"LocalUpdates({self._settings}, round={self.round}, inner_step={self.inner_step})"
