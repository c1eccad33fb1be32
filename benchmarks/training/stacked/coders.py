"""Processes that encode and decode the movements of a stack, in memory that all share."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.multiprocessing as mp

import wirecodec as wc

__all__ = ["Coded", "Coders", "Order", "Shared"]

NAME = "model"
"""Name of the vector of all tensors, as in ``systems.codec``."""


@dataclass(frozen=True)
class Shared:
    """Memory for the largest elements of each model, and then for those that its container stores.

    Attributes:
        places: ascending, int32, (models, most).
        values: float32, (models, most).
        elements: of a model.
    """

    places: Any
    values: Any
    elements: int


@dataclass(frozen=True)
class Order:
    """One container: of the first ``count`` elements in a row of the shared memory.

    Attributes:
        row, count: where its elements are.
        scheme: of the container.
    """

    row: int
    count: int
    scheme: str


@dataclass(frozen=True)
class Coded:
    """A container that was encoded and decoded; its elements are in the shared memory.

    Attributes:
        row, count: where its elements are.
        nbytes: of the container.
        seconds: of CPU time.
    """

    row: int
    count: int
    nbytes: int
    seconds: float


class Coders:
    """Pool of processes that code movements.

    Args:
        jobs: number of processes; 0 works in this one.
    """

    def __init__(self, jobs: int) -> None:
        self._pipes: list[Any] = [] if jobs else [_Local()]
        context = mp.get_context("spawn")
        for _ in range(jobs):
            own, other = context.Pipe()
            context.Process(target=_serve, args=(other,), daemon=True).start()
            self._pipes.append(own)

    def open(self, shared: Shared) -> None:
        """Use other memory from now on."""
        self._ask([shared] * len(self._pipes))

    def code(self, orders: Sequence[Order]) -> list[Coded]:
        """Encode and decode containers; return them in the order of their rows."""
        count = len(self._pipes)
        found = self._ask([orders[turn::count] for turn in range(count)])
        return sorted((one for answer in found for one in answer), key=lambda one: one.row)

    def close(self) -> None:
        """End the processes."""
        for pipe in self._pipes:
            pipe.send(None)

    def _ask(self, requests: Sequence[Any]) -> list[Any]:
        for pipe, request in zip(self._pipes, requests, strict=True):
            pipe.send(request)
        answers = [pipe.recv() for pipe in self._pipes]
        for answer in answers:
            if isinstance(answer, str):
                raise RuntimeError(answer)
        return answers


class _Server:
    """What a process does with requests."""

    def __init__(self) -> None:
        self._shared: Any = None

    def answer(self, request: Shared | Sequence[Order]) -> list[Coded] | str:
        """Follow a request; return what was coded, or an error's text."""
        try:
            if isinstance(request, Shared):
                self._shared = request
                return []
            return [_code(order, self._shared) for order in request]
        except Exception as error:
            return f"{type(error).__name__}: {error}"


class _Local:
    """The end of a pipe to a server in this process."""

    def __init__(self) -> None:
        self._server = _Server()
        self._answer: Any = None

    def send(self, request: Any) -> None:
        self._answer = None if request is None else self._server.answer(request)

    def recv(self) -> Any:
        return self._answer


def _serve(pipe: Any) -> None:
    torch.set_num_threads(1)
    server = _Server()
    while (request := pipe.recv()) is not None:
        pipe.send(server.answer(request))


def _code(order: Order, shared: Shared) -> Coded:
    """Encode the largest elements, and replace them by those that the container stores."""
    before = time.process_time()
    places, values = shared.places[order.row].numpy(), shared.values[order.row].numpy()
    largest = wc.SparseTensor(
        indices=places[: order.count], values=values[: order.count], shape=(shared.elements,)
    )
    blob = wc.encode_many({NAME: largest}, order.scheme, names=False)
    (stored,) = wc.decode_many(blob).values()
    if stored.nnz == order.count < shared.elements:
        raise ValueError(f"the budget takes more than the {order.count} largest elements")
    places[: stored.nnz], values[: stored.nnz] = stored.indices, stored.values
    return Coded(order.row, stored.nnz, len(blob), time.process_time() - before)
