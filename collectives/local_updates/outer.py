"""Outer optimizer of local updates, as a pure function of arrays, and the state that it changes."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = "npt.NDArray[Any]"


@dataclass(frozen=True)
class OuterSettings:
    """Settings of the outer optimizer; ``LocalUpdates`` describes them.

    Raises:
        ValueError: a setting is out of range.
    """

    every: int
    rate: float
    momentum: float
    nesterov: bool

    def __post_init__(self) -> None:
        if isinstance(self.every, bool) or not isinstance(self.every, int) or self.every < 1:
            raise ValueError(f"every is {self.every!r}; it must be a number of steps, 1 or more")
        if not 0 < self.rate < np.inf:
            raise ValueError(f"rate is {self.rate!r}; it must be above 0")
        if not 0 <= self.momentum < 1:
            raise ValueError(f"momentum is {self.momentum!r}; it must be at least 0 and below 1")
        if self.nesterov and not self.momentum:
            raise ValueError("nesterov is True without momentum; pass momentum=0.9, for example")


@dataclass(frozen=True, eq=False)
class OuterState:
    """State after an exchange, the same bits on all ranks.

    Attributes:
        round: exchanges so far.
        parameters: {name: array} in float32 or float64, from which the workers start their next steps.
        momenta: {name: array} of the outer optimizer; empty without momentum or before the first exchange.
    """

    round: int = 0
    parameters: Mapping[str, Array] = field(default_factory=dict)
    momenta: Mapping[str, Array] = field(default_factory=dict)

    def admit(self, parameters: Mapping[str, Array]) -> OuterState:
        """Return the state with further parameters, which have no momentum so far."""
        momenta = {name: np.zeros_like(x) for name, x in parameters.items()} if self.momenta else {}
        return OuterState(self.round, {**self.parameters, **parameters}, {**self.momenta, **momenta})

    def describe(self) -> str:
        """Return names, shapes and types of the parameters, on which ranks must agree, as text."""
        named = sorted(self.parameters.items(), key=lambda item: item[0].encode())
        return repr([(name, x.shape, x.dtype.name) for name, x in named])

    def digest(self) -> int:
        """Return a CRC-32 of names and arrays, by which ranks compare their states."""
        crc = 0
        for kind in (self.parameters, self.momenta):
            for name in sorted(kind, key=str.encode):
                crc = zlib.crc32(np.ascontiguousarray(kind[name]).reshape(-1).view(np.uint8).data, crc)
                crc = zlib.crc32(name.encode(), crc)
        return crc


def take_outer_step(state: OuterState, movements: Mapping[str, Array], settings: OuterSettings) -> OuterState:
    """Apply the mean movement of the workers; nothing is changed in place.

    With the mean movement d = mean(start - end) as gradient, momentum m and rate a, this is SGD:

        m' = momentum * m + d
        parameters' = parameters - a * (d + momentum * m'  if nesterov, else  m')

    Args:
        state: before the exchange.
        movements: {name: mean of start - end}, in the parameters' shapes and types.
        settings: of the outer optimizer.

    Source:
        Douillard et al., 2023, DiLoCo, Algorithm 1, lines 12 to 14.
    """
    parameters, momenta = {}, {}
    for name, before in state.parameters.items():
        update = movements[name]
        if settings.momentum:
            old = state.momenta.get(name)
            new = np.asarray(update.copy() if old is None else settings.momentum * old + update)
            momenta[name] = new
            update = update + settings.momentum * new if settings.nesterov else new
        parameters[name] = np.asarray(before - settings.rate * update)  # a scalar if it is 0-d
    return OuterState(state.round + 1, parameters, momenta)
