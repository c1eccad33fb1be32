"""Exceptions that a trace function raises at the k-th Python call of a rank."""

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
    """

    files: tuple[str, ...]
    number: int = 0
    calls: int = 0
    place: str = ""

    def __call__(self, frame: FrameType, event: str, arg: object) -> None:
        path = frame.f_code.co_filename
        if event == "call" and path.startswith(self.files) and not path.startswith(SIMULATOR):
            self.calls += 1
            if self.calls == self.number:
                sys.settrace(None)
                self.place = f"{path}:{frame.f_lineno} {frame.f_code.co_name}"
                raise Injected(self.place) if self.number % 2 else MemoryError(self.place)

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
