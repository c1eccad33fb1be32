"""Exceptions that a trace function raises at the k-th call, return or line of Python code on a rank."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

__all__ = ["OWN", "ROOT", "Injected", "Injector"]

ROOT = os.fspath(Path(__file__).parents[2]) + os.sep
OWN = (ROOT + "collectives" + os.sep, contextlib.__file__)
SIMULATOR = f"{ROOT}collectives{os.sep}simulation{os.sep}"


@dataclass
class Injector:
    """Trace function that raises at the k-th call in these files; with 0 it only counts.

    Attributes:
        files: prefixes of their paths.
        number: k.
        calls: calls so far.
        place: location of the call at which it raised.
        returns: whether a return counts as another call; the caller then does not know that it returned.
        lines: whether each line counts, in place of calls.
    """

    files: tuple[str, ...]
    number: int = 0
    returns: bool = False
    lines: bool = False
    calls: int = 0
    place: str = ""

    def __call__(self, frame: FrameType, event: str, arg: object) -> Injector | None:
        path = frame.f_code.co_filename
        if not path.startswith(self.files) or path.startswith(SIMULATOR):
            return None
        frame.f_trace_lines = self.lines
        if event == "exception" or self.lines == (event != "line"):  # which a local trace function sees, too
            return self
        self.calls += 1
        if self.calls == self.number:
            sys.settrace(None)
            self.place = f"{path}:{frame.f_lineno} {frame.f_code.co_name}"
            raise Injected(self.place) if self.number % 2 else MemoryError(self.place)
        return self if self.returns else None

    @contextlib.contextmanager
    def active(self) -> Iterator[None]:
        before = sys.gettrace()
        sys.settrace(self)
        try:
            yield
        finally:
            sys.settrace(before)


class Injected(KeyboardInterrupt):
    """Interrupt of a test."""
