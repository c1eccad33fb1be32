"""First step of a static graph, in which DistributedDataParallel does not tell which bucket is the last one.

The last one has come when all parameters have. DDP passes its buckets one after another, and then waits for
their results. If a parameter is in none of them, both sides would wait for ever.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Set
from contextlib import suppress
from typing import Any

SECONDS = 60.0
"""Time without a further bucket, after which none is expected: DDP has no work between two of them."""


class Expected(Set[int]):
    """Set of the ids of all parameters that DDP averages, as they are at the time.

    Args:
        named: {name: parameter} of the model.

    Attributes:
        buckets: of the present step, by number, with the futures of their results.
    """

    def __init__(self, named: Mapping[str, Any]) -> None:
        self.buckets: dict[int, tuple[Any, Any]] = {}
        self._named = named
        self._timer: threading.Timer | None = None

    def __iter__(self) -> Iterator[int]:
        return (id(parameter) for _, parameter in self._items())

    def __len__(self) -> int:
        return len(list(self._items()))

    def __contains__(self, one: object) -> bool:
        return one in list(self)

    def _items(self) -> Iterator[tuple[str, Any]]:
        """Yield names and parameters; DDP marks those that it ignores."""
        for name, parameter in self._named.items():
            if parameter.requires_grad and not getattr(parameter, "_ddp_ignored", False):
                yield name, parameter

    def watch(self, number: int, *, is_last: bool) -> None:
        """Let ``backward()`` raise a RuntimeError if no bucket follows this one, and it is not the last."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not is_last:
            buckets = [self.buckets[one] for one in range(number + 1)]
            self._timer = threading.Timer(SECONDS, self._fail, [buckets])
            self._timer.daemon = True
            self._timer.start()

    def _fail(self, buckets: list[tuple[Any, Any]]) -> None:
        """Let DDP find an error in place of the results."""
        seen = {id(parameter) for bucket, _ in buckets for parameter in bucket.parameters()}
        missing = [name for name, parameter in self._items() if id(parameter) not in seen]
        more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
        error = ValueError(
            f"DistributedDataParallel has not passed {', '.join(missing[:3])}{more} in the first step of a"
            " static graph: it does not average these parameters. Leave them out of named_parameters, or"
            " wrap the model again after they need gradients"
        )
        for _, future in buckets:
            with suppress(RuntimeError):  # it has a result
                future.set_exception(error)
