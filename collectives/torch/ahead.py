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
from wirecodec.interop import Latch, cached_kernels_only

MAX_WAIT = 10.0
"""Seconds that work waits for its step to begin; the backward of a step may have failed."""


class EncoderAhead:
    """Thread that works for one step at a time, with kernels that are ready."""

    def __init__(self) -> None:
        self._worker = Worker("collectives.torch: encodes ahead")
        self._working = threading.Lock()
        self._step: object = None
        self._next = Latch()  # set when the next step begins

    def begin(self, step: object) -> None:
        """Work for this step only; return when no work of another one runs, nor will run."""
        with self._working:
            if self._step is not step:
                self._step = step
                begun, self._next = self._next, Latch()
                begun.set()

    def submit(self, step: object, work: Callable[[], object]) -> Latch:
        """Do work for a step when it has begun; return the latch of its end. Errors are dropped.

        The work is dropped, too, if another step begins.
        """
        done = Latch()
        following = self._next  # read first: ``begin`` replaces it last
        begun = None if self._step is step else following
        self._worker.submit(partial(self._run, step, begun, work, done))
        return done

    def _run(self, step: object, begun: Latch | None, work: Callable[[], object], done: Latch) -> None:
        try:
            if begun is not None:
                begun.wait_for(MAX_WAIT)
            with self._working, suppress(BaseException), cached_kernels_only():
                if self._step is step:
                    work()
        finally:
            done.set()
