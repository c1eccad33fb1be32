"""Warning of tensors whose budget does not hold their header and one element."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence

_MOST_TOLD = 1000
"""Names that are remembered; no further one is warned of."""
_told: set[str] = set()


_BETWEEN = ("wirecodec.", "collectives.", "contextlib", "torch.")
"""Modules between the line of a user and the warning; torch calls the hooks of a backward pass."""


def warn_of_small(names: Sequence[str], reason: str, *, can_join: bool = True) -> None:
    """Warn of small tensors, once per process and first name; not of those by which kernels are compiled.

    Args:
        names: of the tensors, or of one in each group; "" for a tensor without a name.
        reason: what their budget is, and what is sent instead.
        can_join: whether a selection from several tensors as from one would help.
    """
    first = names[0]
    if first in _told or len(_told) >= _MOST_TOLD:
        return
    level = _find_caller()
    if level is None:
        return
    which = f"tensor {first!r}" if first else "the tensor"
    others = {1: "", 2: " and another"}.get(len(names), f" and {len(names) - 1} others")
    join = ' select from all as from one by scope="group",' if can_join else ""
    warnings.warn(
        f"{which}{others}: {reason}. Give small tensors to 'all | raw-index | raw',{join} or raise the"
        " budget",
        stacklevel=level,
    )
    _told.add(first)


def _find_caller() -> int | None:
    """Return the stack level of the first caller outside the library; None if it compiles kernels.

    The level counts from the caller of this function.
    """
    frame, level = sys._getframe(1).f_back, 2
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if name.startswith("wirecodec.compilation"):
            return None
        if not name.startswith(_BETWEEN):
            break
        frame, level = frame.f_back, level + 1
    return level
