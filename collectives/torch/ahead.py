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


class EncoderAhead:
    """Thread that works for one step at a time, with kernels that are ready."""

    def __init__(self) -> None:
        self._worker = Worker("collectives.torch: encodes ahead")
        self._lock = threading.Lock()
        self._step: object = None

    def begin(self, step: object) -> None:
        """Work for this step only; return when no work of another one runs, nor will run."""
        with self._lock:
            self._step = step

    def submit(self, step: object, work: Callable[[], object]) -> threading.Event:
        """Do work for a step, if that is the present one; return the event of its end. Errors are dropped."""
        done = threading.Event()
        self._worker.submit(partial(self._run, step, work, done))
        return done

    def _run(self, step: object, work: Callable[[], object], done: threading.Event) -> None:
        try:
            with self._lock, suppress(BaseException), cached_kernels_only():
                if self._step is step:
                    work()
        finally:
            done.set()
