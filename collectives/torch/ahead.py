"""Encoding of a bucket while earlier ones are on their way.

It changes only the time. A bucket that could not be encoded ahead, for any reason, is encoded when its turn
comes: only then are errors and compilations reported to the other ranks.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from collectives.waiting.worker import Worker
from wirecodec.interop import cached_kernels_only

MAX_WAIT = 10.0
"""Seconds that work waits for its step to begin; the backward of a step may have failed."""


class EncoderAhead:
    """Thread that works for one step at a time, with kernels that are ready."""

    def __init__(self) -> None:
        self._worker = Worker("collectives.torch: encodes ahead")
        self._turn = threading.Condition()
        self._step: object = None
        self._begun = 0  # steps that have begun

    def begin(self, step: object) -> None:
        """Work for this step only; return when no work of another one runs, nor will run."""
        with self._turn:
            if self._step is not step:
                self._step = step
                self._begun += 1
                self._turn.notify_all()

    def submit(self, step: object, work: Callable[[], object]) -> threading.Event:
        """Do work for a step when it has begun; return the event of its end. Errors are dropped.

        The work is dropped, too, if another step begins.
        """
        done = threading.Event()
        self._worker.submit(partial(self._run, step, self._begun, work, done))
        return done

    def _run(self, step: object, begun: int, work: Callable[[], object], done: threading.Event) -> None:
        try:
            with self._turn, suppress(BaseException), cached_kernels_only():
                self._turn.wait_for(lambda: self._step is step or self._begun > begun, MAX_WAIT)
                if self._step is step:
                    work()
        finally:
            done.set()
