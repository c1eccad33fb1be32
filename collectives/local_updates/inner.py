"""The worker's own (inner) optimizer, whose steps are LocalUpdates' to take."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable
from typing import Any


class InnerOptimizer:
    """The worker's own optimizer: takes its steps, and warns if the program takes some, too.

    Args:
        optimizer: an object with ``step()``; one of torch tells of its steps.
    """

    def __init__(self, optimizer: Any) -> None:
        self._optimizer = optimizer
        self._own = self._others = 0  # steps so far: of this object, and since its last one by the program
        self._has_warned = False
        if (register := getattr(optimizer, "register_step_post_hook", None)) is not None:
            register(_Counter(self))

    def step(self, closure: Callable[[], Any] | None = None) -> None:
        """Take a step."""
        if self._own and self._others and not self._has_warned:
            self._has_warned = True
            warnings.warn(
                "the program takes steps of the optimizer, and LocalUpdates.step() takes them, too: remove"
                " optimizer.step(), or pass optimizer=None",
                stacklevel=4,
            )
        self._optimizer.step(*([] if closure is None else [closure]))
        self._own, self._others = self._own + 1, 0

    def count(self) -> None:
        """Count a step."""
        self._others += 1


class _Counter:
    """Hook of an optimizer, which may outlive the LocalUpdates."""

    def __init__(self, owner: InnerOptimizer) -> None:
        self._owner = weakref.ref(owner)

    def __call__(self, *_: Any) -> None:
        if (owner := self._owner()) is not None:
            owner.count()
