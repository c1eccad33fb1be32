"""The worker's own (inner) optimizer, whose steps are LocalUpdates' to take."""

from __future__ import annotations

import sys
import warnings
import weakref
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any

from collectives.torch.optimizer import list_wrapped
from wirecodec.interop import Layout


class InnerOptimizer:
    """The worker's own optimizer: takes its steps, and warns if the program takes some, too.

    Args:
        optimizer: an object with ``step()``; one of torch tells of its steps, also inside of a wrapper, which
            may have inherited the method, and not the attributes.
    """

    def __init__(self, optimizer: Any) -> None:
        self._optimizer = optimizer
        self._own = self._others = 0  # steps so far: of this object, and since its last one by the program
        self._has_warned = False
        for one in list_wrapped(optimizer):
            with suppress(Exception):
                one.register_step_post_hook(_Counter(self))
                break

    def step(self, closure: Callable[[], Any] | None = None) -> None:
        """Take a step."""
        if self._own and self._others and not self._has_warned:
            self._has_warned = True
            warnings.warn(
                "the program takes steps of the optimizer, and LocalUpdates.step() takes them, too: remove"
                " optimizer.step(), or pass optimizer=None",
                stacklevel=_find_caller(),
            )
        self._optimizer.step(*([] if closure is None else [closure]))
        self._own, self._others = self._own + 1, 0

    def count(self) -> None:
        """Count a step."""
        self._others += 1


def _find_caller() -> int:
    """Return the stack level, seen from the caller, of the first line outside this package."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("collectives."):
        frame, level = frame.f_back, level + 1
    return level


class _Counter:
    """Hook of an optimizer, which may outlive the LocalUpdates."""

    def __init__(self, owner: InnerOptimizer) -> None:
        self._owner = weakref.ref(owner)

    def __call__(self, *_: Any) -> None:
        if (owner := self._owner()) is not None:
            owner.count()


def warn_of_other_tensors(optimizer: Any, parameters: Mapping[str, Any], stacklevel: int) -> None:
    """Warn of parameters that an optimizer does not hold, if it has parameter groups of torch.

    Its steps then do not move them, or set them back from a copy that no exchange has changed.

    Args:
        optimizer: of the worker.
        parameters: {name: parameter}; buffers and arrays are no optimizer's.
        stacklevel: of the warning; 1 for the line that calls this function.
    """
    tensors = _list_tensors(optimizer)
    if not tensors:
        return
    held = {id(tensor) for tensor in tensors}
    spans = [(found.start, found.stop) for tensor in tensors if (found := Layout.of(tensor)) is not None]
    foreign = [
        name
        for name, parameter in parameters.items()
        if getattr(parameter, "requires_grad", False)
        and id(parameter) not in held
        and not _lies_within(parameter, spans)
    ]
    if foreign:
        more = f" and {len(foreign) - 1} more" if len(foreign) > 1 else ""
        warnings.warn(
            f"optimizer.param_groups lacks parameter {foreign[0]!r}{more}, so the optimizer's steps do not"
            " start from the result of an exchange. If it holds float32 masters, pass these as"
            " named_parameters. If the model was moved or materialized after the optimizer was made, make a"
            " new one. If the parameter is not trained, call requires_grad_(False)",
            stacklevel=stacklevel + 1,
        )


def _list_tensors(optimizer: Any) -> list[Any]:
    """Return the tensors in an optimizer's groups; none if it has no groups of torch's kind."""
    torch, groups = sys.modules.get("torch"), getattr(optimizer, "param_groups", None)
    if torch is None or not isinstance(groups, list):
        return []
    members = [group.get("params") for group in groups if isinstance(group, Mapping)]
    lists = [some for some in members if isinstance(some, list | tuple)]
    return [x for some in lists for x in some if isinstance(x, torch.Tensor)]


def _lies_within(parameter: Any, spans: Iterable[tuple[int, int]]) -> bool:
    """Return whether a tensor is a part of another one, as of a flat vector; so is one without elements."""
    layout = Layout.of(parameter)
    return layout is None or any(start <= layout.start and layout.stop <= stop for start, stop in spans)
