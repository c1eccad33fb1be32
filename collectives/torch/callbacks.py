"""Callbacks of torch's autograd engine, which run at the end of ``backward()`` in their order."""

from __future__ import annotations

import logging
from collections.abc import Callable

from collectives.errors import CollectiveError

_log = logging.getLogger("wirecodec")


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


def report_error(error: BaseException, rank: int) -> None:
    """Log an error on one rank, before torch prints it with a long traceback on every rank.

    Args:
        error: of the exchange.
        rank: of this process; the lowest one that is not at fault logs.
    """
    ranks = error.ranks if isinstance(error, CollectiveError) else ()
    if rank == next(n for n in range(len(ranks) + 1) if n not in ranks):
        _log.error("wirecodec: no gradients were averaged: %s: %s", type(error).__name__, error)


def raise_error(error: BaseException) -> None:
    """Raise an error; the way of one that the ranks have agreed on says nothing about its cause."""
    raise error.with_traceback(None) if isinstance(error, CollectiveError) else error
