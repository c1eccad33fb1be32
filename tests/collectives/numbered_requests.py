"""A communicator of which one request, by its number, goes wrong after it has begun."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class NumberedRequests:
    """A communicator that counts its requests, and passes one of them to a function.

    Args:
        comm: the communicator.
        number: of the request, from 1 on; None for none.
        spoil: returns what the caller gets in place of the request, or raises.

    Attributes:
        requests: number of requests so far.
    """

    def __init__(self, comm: Any, number: int | None, spoil: Callable[[Any], Any]) -> None:
        self._comm, self._number, self._spoil, self.requests = comm, number, spoil, 0

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._comm, name)
        if not name.startswith("I"):
            return found

        def begin(*args: Any, **kwargs: Any) -> Any:
            self.requests += 1
            request = found(*args, **kwargs)
            return self._spoil(request) if self.requests == self._number else request

        return begin
