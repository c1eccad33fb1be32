"""Table of the fast forms of the host's stages: ``cpu.fast`` fills it, and stages look their form up.

    form = forms.current().add_rounded
    rounded = form(gradient, residual, out)        None: the plain way adds

A form takes what it can, and leaves the rest to the plain way: it returns None, False or an empty list. So do
the forms of ``PLAIN``, which take nothing and apply in ``with fast.off():``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from wirecodec.arrays import Array, Bytes
from wirecodec.container.reader import ContainerHeader
from wirecodec.container.writer import EntryBatch
from wirecodec.cpu.columns import ArrayColumns, DecodedBatch, Targets
from wirecodec.cpu.selected import Selected, Shapes
from wirecodec.jobs import StepInput
from wirecodec.limits import DecodeLimits
from wirecodec.select.base import Selection, Selector
from wirecodec.settings.scheme import Scheme
from wirecodec.support import Support

MIN_TENSORS = 2
"""Tensors that one call needs to be faster: of one scheme to encode, of one container to decode."""


class Sums(Protocol):
    """Protocol of arrays to which one kernel call adds what several containers hold."""

    def decode(
        self, data: Bytes, header: ContainerHeader, limits: DecodeLimits, batches: Sequence[DecodedBatch]
    ) -> Any | None:
        """Describe a container's values as parts of the sums; None if the plain way must decode it."""
        ...

    def of_sent(self, sent: Any) -> Any | None:
        """Describe tensors that this process has encoded; None for others."""
        ...

    def add(self, decoded: Sequence[Any], scales: Sequence[float], divisor: float | None = None) -> bool:
        """Add scale * values, then divide the sums; return whether all quotients are finite."""
        ...


class Terms(Protocol):
    """Protocol of the terms of a step's sums."""

    @property
    def shapes(self) -> list[Any]:
        """Shapes of the gradients."""
        ...


def _take_none(*_: Any) -> None:
    """Leave a tensor to the plain way."""


def _take_nothing(*_: Any) -> bool:
    """Leave an array to the plain way."""
    return False


def _list_none(*_: Any) -> list[Any]:
    """Leave all tensors to the plain way."""
    return []


@dataclass(frozen=True)
class Forms:
    """Fast forms by stage; the module of ``cpu.fast`` that has a form describes its arguments.

    Attributes:
        describe: objects as columns.
        describe_terms: terms of a step's sums; None if the plain way adds them.
        list_groups, select_group: selection from these terms, from several tensors as from one vector.
        select_tensors, select_budgets: the same from each tensor by itself.
        complete: sums of a selection become the next residuals.
        select_many: selection from tensors without feedback; None if the plain way takes all.
        encode_many: entries of tensors.
        decode_batches: entries of a container.
        sums: arrays that several containers are added to.
        select_rounded, select_sum: selection while a residual is added.
        add_rounded, round_sums, add_streamed: sums.
        take_streamed, scatter_streamed, clear_all: large arrays.
    """

    describe: Callable[[Sequence[Any]], ArrayColumns] = ArrayColumns.of_attributes
    describe_terms: Callable[[Sequence[Any], StepInput, float], Terms | None] = _take_none
    list_groups: Callable[[Any], list[Any]] = _list_none
    select_group: Callable[[Any, Any], Selected | None] = _take_none
    select_tensors: Callable[[Any], list[Selected]] = _list_none
    select_budgets: Callable[[Any], list[Selected]] = _list_none
    complete: Callable[[Selected, Array], None] = _take_none
    select_many: Callable[
        [Sequence[Any], Sequence[Scheme], int, bool], tuple[list[Any], list[Selected]] | None
    ] = _take_none
    encode_many: Callable[
        [Sequence[Selected], Mapping[int, Support], Sequence[Scheme], Shapes, Collection[int], int],
        list[EntryBatch],
    ] = _list_none
    decode_batches: Callable[[Bytes, ContainerHeader], list[DecodedBatch]] = _list_none
    sums: Callable[[Targets], Sums | None] = _take_none
    select_rounded: Callable[[Scheme, Array, Array, Array], Selection | None] = _take_none
    select_sum: Callable[[Selector | None, Array, Array, Array], Selection | None] = _take_none
    add_rounded: Callable[[Array, Array, Array], Array | None] = _take_none
    round_sums: Callable[[Array, np.dtype[Any]], Array | None] = _take_none
    add_streamed: Callable[[Array, Array, Array], bool] = _take_nothing
    take_streamed: Callable[[Array, Array], Array | None] = _take_none
    scatter_streamed: Callable[[Array, Array, Array], bool] = _take_nothing
    clear_all: Callable[[Sequence[Array]], bool] = _take_nothing


PLAIN = Forms()
"""Forms that take nothing."""
_table = {False: PLAIN, True: PLAIN}  # by whether fast forms are used
_on: ContextVar[bool] = ContextVar("fast forms are used", default=True)


def fill(forms: Forms) -> None:
    """Fill the table; ``cpu.fast`` does, when it is imported."""
    _table[True] = forms


def current() -> Forms:
    """Return the forms of this context."""
    return _table[_on.get()]


def is_on() -> bool:
    """Tell whether fast forms are used in this context."""
    return _on.get()


@contextmanager
def off() -> Iterator[None]:
    """Use no fast form in the block; other threads are not affected."""
    token = _on.set(False)
    try:
        yield
    finally:
        _on.reset(token)


def describe(objects: Sequence[Any]) -> ArrayColumns:
    """Describe objects, most of which are arrays."""
    return current().describe(objects)
