"""What a worker has not sent yet, of which its own parameters keep a share.

An exchange sets all workers to the common parameters. A worker whose message leaves much out then computes
gradients without the progress that waits in its residual, and sends it twice. With ``keep``, its parameters
start from the common ones less a share of its residual; that share is no new movement.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from collectives.local_updates.outer import Array, OuterState
from collectives.local_updates.outer_step import Replacement
from collectives.local_updates.parameters import round_to


class Kept(Replacement):
    """Step after which a worker's parameters keep a share of what it has not sent.

    What is carried is the share as the parameter holds it, after rounding to its type: a rounding error must
    not count as a movement.

    Args:
        step: of the outer optimizer.
        read_unsent: returns the share of a parameter's residual, or None if it has none.
        parameters: {name: parameter} of the worker.
    """

    def __init__(
        self, step: Replacement, read_unsent: Callable[[str], Array | None], parameters: Mapping[str, Any]
    ) -> None:
        self._step, self._read_unsent, self._parameters = step, read_unsent, parameters
        self.after, self.names = step.after, step.names
        self.carried: dict[str, Array] = {}

    def values(self) -> Iterator[tuple[str, Array]]:
        """Take the step, and yield (name, next parameters). Another call continues, and yields all again."""
        for name, value in self._step.values():
            unsent = self._read_unsent(name)
            if unsent is None:
                yield name, value
                continue
            own, parameter = np.asarray(value - unsent), self._parameters[name]
            self.carried[name] = np.asarray(round_to(parameter, own) - round_to(parameter, value))
            yield name, own

    def salvage(self) -> OuterState:
        """Return the state of a rank that cannot write its parameters."""
        return self._step.salvage()


def read_share(compressor: Any, parameters: Mapping[str, Array], share: float, name: str) -> Array | None:
    """Return a share of a parameter's residual, in its shape and type; None if it has none."""
    residual, like = compressor.residual(name), parameters[name]
    if residual is None:
        return None
    residual *= residual.dtype.type(share)  # it is a copy
    shares: Array = residual.astype(like.dtype, copy=False).reshape(like.shape)
    return shares
