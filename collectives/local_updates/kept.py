"""What a worker has not sent yet, of which its own parameters keep a share.

An exchange sets all workers to the common parameters. A worker whose message leaves much out then computes
gradients without the progress that waits in its residual, and sends it twice. With ``keep``, its parameters
start from the common ones less a share of its residual; that share is no new movement.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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
        unsent: {name: share of the residual}; it may lack names.
        parameters: {name: parameter} of the worker.
    """

    def __init__(self, step: Replacement, unsent: Mapping[str, Array], parameters: Mapping[str, Any]) -> None:
        self._step, self._unsent, self._parameters = step, unsent, parameters
        self.after, self.names = step.after, step.names
        self.carried: dict[str, Array] = {}

    def values(self) -> Iterator[tuple[str, Array]]:
        """Take the step, and yield (name, next parameters). Another call continues, and yields all again."""
        for name, value in self._step.values():
            if name not in self._unsent:
                yield name, value
                continue
            own, parameter = np.asarray(value - self._unsent[name]), self._parameters[name]
            self.carried[name] = np.asarray(round_to(parameter, own) - round_to(parameter, value))
            yield name, own

    def abandon(self) -> OuterState:
        """Return the state of a rank that cannot write its parameters."""
        return self._step.abandon()


def read_unsent(compressor: Any, parameters: Mapping[str, Array], share: float) -> dict[str, Array]:
    """Return a share of the residuals of some parameters, in their shapes and types."""
    found = {}
    for name, x in parameters.items():
        residual = compressor.residual(name)
        if residual is not None:
            found[name] = (residual * residual.dtype.type(share)).astype(x.dtype, copy=False).reshape(x.shape)
    return found
