"""Settings and state of the outer optimizer of local updates; ``outer_step`` has its step."""

from __future__ import annotations

import zlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields
from numbers import Real
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from collectives.local_updates.fragments import Groups

Array: TypeAlias = "npt.NDArray[Any]"

DIVISORS = "ranks", "senders"
BLOCK_BYTES = 4096
"""Bytes of the blocks into which arrays are divided for digests."""
MIN_DIVIDED = 2**20
"""Bytes of a state below which each digest is one of all blocks."""
CHECKED_STEPS = 16
"""Steps of a worker in which every block of a larger state is digested once."""


@dataclass(frozen=True)
class OuterSettings:
    """Settings of the outer optimizer; ``LocalUpdates`` describes them.

    Attributes:
        division: of the parameters into fragments, as ``summarize_fragments`` returns it.

    Raises:
        TypeError: rate, momentum, alpha or keep is not a number.
        ValueError: a setting is out of range.
    """

    every: int
    rate: float
    momentum: float
    nesterov: bool
    fragments: Groups = 1
    delay: int = 0
    alpha: float = 0.0
    divide: str = "ranks"
    keep: float = 0.0
    division: int = field(default=0, repr=False)

    def __post_init__(self) -> None:
        for name in ("rate", "momentum", "alpha", "keep"):
            number: Any = getattr(self, name)
            if isinstance(number, bool) or not isinstance(number, Real):
                raise TypeError(f"{name} is {number!r}; pass a number")
            object.__setattr__(self, name, float(number))
        if isinstance(self.every, bool) or not isinstance(self.every, int) or self.every < 1:
            raise ValueError(f"every is {self.every!r}; it must be a number of steps, 1 or more")
        if not 0 < self.rate < np.inf:
            raise ValueError(f"rate is {self.rate!r}; it must be above 0")
        if not 0 <= self.momentum < 1:
            raise ValueError(f"momentum is {self.momentum!r}; it must be at least 0 and below 1")
        if self.nesterov and not self.momentum:
            raise ValueError("nesterov is True without momentum; pass momentum=0.9, for example")
        if self.fragment_count > self.every:
            raise ValueError(
                f"{self.fragment_count} fragments and every={self.every}: a step exchanges one at most"
            )
        is_integer = isinstance(self.delay, int) and not isinstance(self.delay, bool)
        if not (is_integer and 0 <= self.delay < self.every):
            raise ValueError(f"delay is {self.delay!r}; it must be a number of steps, 0 to every - 1")
        if not 0 <= self.alpha < 1:
            raise ValueError(f"alpha is {self.alpha!r}; it must be at least 0 and below 1")
        if not 0 <= self.keep <= 1:
            raise ValueError(f"keep is {self.keep!r}; it must be 0 to 1")
        if self.divide not in DIVISORS:
            raise ValueError(f"divide is {self.divide!r}; it must be {' or '.join(map(repr, DIVISORS))}")

    def describe(self) -> str:
        """Return what ranks must agree on, a line per setting."""
        return "\n".join([f"{one.name}={getattr(self, one.name)!r}" for one in fields(self)])

    @property
    def fragment_count(self) -> int:
        """Number of fragments."""
        return self.fragments if isinstance(self.fragments, int) else len(self.fragments)


@dataclass(frozen=True, eq=False)
class OuterState:
    """State after an exchange, the same bits on all ranks. An ``OuterStep`` changes the arrays in place.

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

    def part(self, names: Collection[str]) -> OuterState:
        """Return the state of some parameters."""
        kinds = self.parameters, self.momenta
        return OuterState(
            self.round, *({name: x for name, x in kind.items() if name in names} for kind in kinds)
        )

    def describe(self) -> str:
        """Return names, shapes and types of the parameters, on which ranks must agree, as text."""
        named, known = sorted(self.parameters, key=str.encode), self.parameters
        return repr([(name, known[name].shape, known[name].dtype.name) for name in named])

    def digest(self, part: int = 0, parts: int = 1) -> int:
        """Return a CRC-32 of names and arrays, by which ranks compare their states.

        Args:
            part, parts: only each block with number i is read for which i mod ``parts`` is ``part``. Blocks
                have ``BLOCK_BYTES``, and are counted through all arrays.
        """
        crc, first = 0, part
        for kind in (self.parameters, self.momenta):
            for name in sorted(kind, key=str.encode):
                data = np.ascontiguousarray(kind[name]).reshape(-1).view(np.uint8)
                whole, rest = divmod(data.size, BLOCK_BYTES)
                if first < whole:
                    rows = data[: whole * BLOCK_BYTES].reshape(whole, BLOCK_BYTES)[first::parts]
                    crc = zlib.crc32(np.ascontiguousarray(rows).data, crc)
                if rest and (whole - first) % parts == 0:
                    crc = zlib.crc32(data[-rest:].data, crc)
                crc = zlib.crc32(name.encode(), crc)
                first = (first - whole - (rest > 0)) % parts
        return crc

    def next_digest(self, every: int) -> int:
        """Return the digest of some blocks, which are others in each round.

        Every block has its turn in ``CHECKED_STEPS`` steps of a worker, or in each round if ``every`` is not
        smaller.
        """
        size = sum([x.nbytes for kind in (self.parameters, self.momenta) for x in kind.values()])
        parts = max(1, CHECKED_STEPS // every) if size >= MIN_DIVIDED else 1
        return self.digest(self.round % parts, parts)
