"""Callbacks of torch's autograd engine, which run at the end of ``backward()`` in their order."""

from __future__ import annotations

from collections.abc import Callable


def after_backward(function: Callable[[], None]) -> None:
    """Queue a function that is called at the end of ``backward()``, or call it at once outside of it.

    A rank that has joined early calls the hook outside of a backward pass.
    """
    import torch

    queue: Callable[[Callable[[], None]], None] = torch.autograd.Variable._execution_engine.queue_callback
    try:
        queue(function)
    except RuntimeError:
        pass
    else:
        return
    function()


def raise_error(error: BaseException) -> None:
    """Raise an error."""
    raise error
