"""Times of the stages of a hook, measured from outside: functions of the library are wrapped for a while.

A stage's time excludes the stages that it calls. Timed steps run without the wrappers.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

__all__ = ["STAGES", "Recorder", "count_all_reduces", "recorded"]

PREPARE, HEADERS, PAYLOAD, DECODE, REST = "prepare", "headers", "payload", "decode and mean", "rest"
STAGES = (PREPARE, HEADERS, PAYLOAD, DECODE, REST)
FUNCTIONS = (
    ("collectives.torch.step:TrainingStep", "exchange_bucket", REST),
    ("collectives.torch.step:TrainingStep", "exchange_all", REST),
    ("collectives.exchange.session", "encode_tensors", PREPARE),
    ("collectives.exchange.session", "agree", HEADERS),
    ("collectives.allreduce", "sum_tensors", DECODE),
    ("collectives.channel:Channel", "drive", PAYLOAD),
)
"""(module or module:class, function, stage) of the functions that are wrapped."""


class Recorder:
    """Sums of the times of each stage.

    Attributes:
        totals: {stage: [seconds, seconds of CPU of the thread]}.
        exchanges: all-gathers and transfers, which follow one another.
    """

    def __init__(self) -> None:
        self.totals = {stage: [0.0, 0.0] for stage in STAGES}
        self.exchanges = 0
        self._stack: list[tuple[str, list[float]]] = []

    def wrap(self, function: Callable[..., Any], stage: str) -> Callable[..., Any]:
        """Wrap a function so that its time counts for a stage.

        Args:
            function: of the library.
            stage: of ``STAGES``. A payload inside of the headers counts for them.
        """

        @wraps(function)
        def timed(*arguments: Any, **named: Any) -> Any:
            outer = self._stack[-1] if self._stack else ("", [0.0, 0.0])
            own = outer[0] if stage == PAYLOAD and outer[0] == HEADERS else stage
            self.exchanges += stage == PAYLOAD
            inner = [0.0, 0.0]
            self._stack.append((own, inner))
            start, used = time.perf_counter(), time.thread_time()
            try:
                return function(*arguments, **named)
            finally:
                spent = time.perf_counter() - start, time.thread_time() - used
                self._stack.pop()
                for i in (0, 1):
                    self.totals[own][i] += spent[i] - inner[i]
                    outer[1][i] += spent[i]

        return timed


@contextmanager
def recorded() -> Iterator[Recorder]:
    """Record the stages of all exchanges in the block; one thread makes them."""
    recorder = Recorder()
    places = []
    for path, name, stage in FUNCTIONS:
        module, _, kind = path.partition(":")
        owner: Any = importlib.import_module(module)  # a package's attribute may be a function of that name
        owner = getattr(owner, kind) if kind else owner
        places.append((owner, name, recorder.wrap(getattr(owner, name), stage)))
    with _replaced(places):
        yield recorder


@contextmanager
def count_all_reduces() -> Iterator[list[None]]:
    """Yield a list that gets one entry per all-reduce of torch's hooks in the block."""
    import torch.distributed as dist

    calls: list[None] = []
    original = dist.all_reduce

    @wraps(original)
    def counted(*arguments: Any, **named: Any) -> Any:
        calls.append(None)
        return original(*arguments, **named)

    with _replaced([(dist, "all_reduce", counted)]):
        yield calls


@contextmanager
def _replaced(places: list[tuple[Any, str, Any]]) -> Iterator[None]:
    """Replace attributes, (owner, name, value), and restore them after the block."""
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in places]
    try:
        for owner, name, value in places:
            setattr(owner, name, value)
        yield
    finally:
        for owner, name, value in before:
            setattr(owner, name, value)
