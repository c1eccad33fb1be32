"""Ledger of a worker: its latest exchange, and one of which it does not know whether it counts.

A rank that dies may have sent its payload, or what it forwards, to some ranks and not to others. Some ranks
then complete the exchange, and others do not. A rank that is interrupted may have sent its payload, too.
Ranks that raise keep their step of the compressor open. If the leading rank has completed that exchange,
``synchronize`` commits the step: nothing is lost or sent twice.

All ranks draw a random number for each exchange. The sum identifies the exchange, because the numbers of the
rounds do not: other ranks may have made one in the same round.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from collectives.exchange.encoding import Inputs
from collectives.exchange.transaction import State, Transaction
from collectives.local_updates.agreement import StateSummary
from collectives.local_updates.outer import Array
from wirecodec.interop import OpenStep


@dataclass(eq=False)
class InDoubt:
    """Exchange that broke off on this rank, and that other ranks may have completed.

    Attributes:
        identity: of the exchange.
        step: of the compressor, which is open.
        moved: {name: movement} that is in this rank's message, or in the residual after it.
    """

    identity: int
    step: OpenStep
    moved: Mapping[str, Array]

    def is_last_of(self, leader: StateSummary, number: int) -> bool:
        """Return whether a leader is ahead of this rank by this exchange alone, which can be committed.

        Args:
            leader: its summary.
            number: of this rank's exchanges so far.
        """
        is_last = leader.token == self.identity and leader.round == number + 1
        return is_last and self.step.is_latest

    def find_rest(self, movements: Mapping[str, Array]) -> dict[str, Array]:
        """Return the part of this rank's movements that is not in its message."""
        rest = {name: np.asarray(movements[name] - x) for name, x in self.moved.items()}
        return {name: x for name, x in rest.items() if x.any()}

    def commit(self) -> None:
        """Let the compressor's state advance; again without effect, after an interrupt."""
        if self.step.is_open:
            self.step.commit()


class Ledger:
    """The latest exchange of a worker, and one in doubt.

    Attributes:
        made: identity of this rank's latest complete exchange, which may wait for ``commit``, or 0.
        latest: of the latest one that counts, or 0.
        in_doubt: an exchange that may count, or None.
        dropped: how often the worker has dropped its movements.
    """

    def __init__(self) -> None:
        self.made = self.latest = self.dropped = 0
        self.in_doubt: InDoubt | None = None

    def doubt(
        self, identity: int, measure: Callable[[], Inputs], dropped: int, transaction: Transaction
    ) -> None:
        """Keep the step of an exchange if it is in doubt; a second call has no effect.

        Args:
            identity: of the exchange.
            measure: returns the movements of the message, also after the exchange.
            dropped: how often the worker had dropped its movements before the exchange.
            transaction: of the exchange, which has ended.
        """
        step = transaction.step
        known = self.in_doubt is not None and self.in_doubt.step is step
        if step is None or known or transaction.state is not State.IN_DOUBT:
            return
        step.hold(exclusively=False)  # a program may give up this exchange, and go on with the compressor
        moved = measure().tensors
        assert isinstance(moved, Mapping)
        self.in_doubt = InDoubt(identity, step, moved)
        if self.dropped != dropped:  # during a delayed exchange
            self._clear_moved()

    def drop(self) -> None:
        """Roll back an exchange in doubt: it does not count, or its step was committed."""
        doubt = self.in_doubt
        if doubt is not None and doubt.step.is_open:
            doubt.step.rollback()
        self.in_doubt = None

    def forget(self) -> None:
        """Drop everything: the worker has loaded another state."""
        self.drop()
        self.latest = 0

    def forget_movements(self) -> None:
        """Note that the worker has dropped its movements; those that were sent still count."""
        self.dropped += 1
        self._clear_moved()

    def _clear_moved(self) -> None:
        doubt = self.in_doubt  # the channel's thread may drop it
        if doubt is not None:
            doubt.moved = {name: np.zeros_like(x) for name, x in doubt.moved.items()}
