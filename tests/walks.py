"""Measurement of a call's walk through packages: the files it enters, its calls, and how deep they nest."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).parents[1]
PACKAGES = "wirecodec", "collectives"
SETTLING = 4
"""Calls before the one that is measured: they import modules, compile kernels and fill caches."""


@dataclass(frozen=True)
class Walk:
    """Walk of one call, on the thread that makes it.

    Attributes:
        steps: (depth, file, function) of each call of a function of the packages, in the order of the calls.
    """

    steps: tuple[tuple[int, str, str], ...]

    @property
    def files(self) -> int:
        """Number of files of which a function is called."""
        return len({file for _, file, _ in self.steps})

    @property
    def calls(self) -> int:
        """Number of calls; a generator counts each time that it is resumed."""
        return len(self.steps)

    @property
    def depth(self) -> int:
        """Largest number of functions that are active at once."""
        return max((depth for depth, _, _ in self.steps), default=0)

    def __str__(self) -> str:
        """Return a line per call, indented by its depth."""
        return "\n".join(f"{'  ' * depth}{function}  {file}" for depth, file, function in self.steps)


def walk(call: Callable[[], Any], packages: Collection[str] = PACKAGES, root: Path = ROOT) -> Walk:
    """Make a call several times, and measure the last one.

    Args:
        call: what is measured.
        packages: folders whose functions count.
        root: where these folders are.
    """
    folders = tuple(f"{root / package}/" for package in packages)
    steps: list[tuple[int, str, str]] = []
    active: list[FrameType] = []

    def note(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(folders):
            active.append(frame)
            function = getattr(code, "co_qualname", code.co_name)  # Python 3.10 has no qualified names here
            steps.append((len(active), code.co_filename.removeprefix(f"{root}/"), function))
        elif event == "return" and active and active[-1] is frame:
            active.pop()

    for _ in range(SETTLING):
        call()
    before = sys.getprofile()
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(before)
    return Walk(tuple(steps))
