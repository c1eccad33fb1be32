"""Times of the stages of a hook, measured from outside: functions of the library are wrapped for a while.

A stage's time excludes the stages that it calls. Timed steps run without the wrappers.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any, TypeAlias

__all__ = ["STAGES", "Recorder", "count_all_reduces", "recorded"]

PREPARE, HEADERS, PAYLOAD, DECODE, REST = "prepare", "headers", "payload", "decode and mean", "rest"
STAGES = (PREPARE, HEADERS, PAYLOAD, DECODE, REST)
FUNCTIONS = (
    ("collectives.torch.step:TrainingStep", "exchange_bucket", REST),
    ("collectives.torch.step:TrainingStep", "exchange", REST),
    ("collectives.exchange.session", "encode_tensors", PREPARE),
    ("collectives.exchange.session", "agree", HEADERS),
    ("collectives.tuning.choice", "sum_tensors", DECODE),
    ("collectives.channel:Channel", "drive", PAYLOAD),
)
"""(module or module:class, function, stage) of the functions that are wrapped."""

Clock: TypeAlias = Callable[[], float]
CLOCKS: tuple[Clock, ...] = (time.perf_counter, time.thread_time)


class Recorder:
    """Sums of the times of each stage.

    Args:
        stages: all that are recorded.
        clocks: return seconds; by default those of the world, and of the thread's CPU.

    Attributes:
        totals: {stage: [seconds by each clock]}.
        exchanges: all-gathers and transfers, which follow one another.
    """

    def __init__(self, stages: Sequence[str] = STAGES, clocks: Sequence[Clock] = CLOCKS) -> None:
        self.totals = {stage: [0.0] * len(clocks) for stage in stages}
        self.exchanges = 0
        self._clocks = clocks
        self._stack: list[tuple[str, list[float]]] = []

    def wrap(self, function: Callable[..., Any], stage: str) -> Callable[..., Any]:
        """Wrap a function so that its time counts for a stage.

        Args:
            function: of the library.
            stage: of ``STAGES``. A payload inside of the headers counts for them.
        """

        @wraps(function)
        def timed(*arguments: Any, **named: Any) -> Any:
            zeros = [0.0] * len(self._clocks)
            outer = self._stack[-1] if self._stack else ("", list(zeros))
            own = outer[0] if stage == PAYLOAD and outer[0] == HEADERS else stage
            self.exchanges += stage == PAYLOAD
            inner = zeros
            self._stack.append((own, inner))
            start = [clock() for clock in self._clocks]
            try:
                return function(*arguments, **named)
            finally:
                spent = [clock() - before for clock, before in zip(self._clocks, start, strict=True)]
                self._stack.pop()
                for i, seconds in enumerate(spent):
                    self.totals[own][i] += seconds - inner[i]
                    outer[1][i] += seconds

        return timed


@contextmanager
def recorded(
    functions: Sequence[tuple[str, str, str]] = FUNCTIONS,
    stages: Sequence[str] = STAGES,
    clocks: Sequence[Clock] = CLOCKS,
) -> Iterator[Recorder]:
    """Record the stages of all exchanges in the block; one thread makes them.

    Args:
        functions: to wrap, as ``FUNCTIONS``.
        stages: all that the functions have.
        clocks: as for ``Recorder``.
    """
    recorder = Recorder(stages, clocks)
    places = []
    for path, name, stage in functions:
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
