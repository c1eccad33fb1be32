"""All that exists for speed alone: if it is switched off, only time changes.

Two ideas make a step fast. Many tensors go through each stage in one kernel call (``encode``, ``decode``,
``add``, ``residual``), as columns (``selected``, ``DecodedBatch``). And a selector may choose from sums while
their terms are added (``sums``, ``group``, ``terms``). ``columns`` describes many arrays at once, and
``stream`` writes past the caches.

A fast form takes the tensors that it can, and leaves the others to the plain way. Bytes, states and errors
are the same:

    >>> import numpy as np, wirecodec as wc
    >>> from wirecodec.cpu import fast
    >>> model = {name: np.arange(100, dtype=np.float32) for name in "ab"}
    >>> with fast.off():
    ...     plain = wc.encode_many(model, "topk(0.1) | rice | raw")
    >>> bool((plain == wc.encode_many(model, "topk(0.1) | rice | raw")).all())
    True
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

MIN_TENSORS = 2
"""Tensors that one call needs to be faster: of one scheme to encode, of one container to decode."""

_on: ContextVar[bool] = ContextVar("fast forms are used", default=True)


def is_on() -> bool:
    """Tell whether fast forms are used in this context."""
    return _on.get()


@contextmanager
def off() -> Iterator[None]:
    """Use no fast form in the block; other threads are not affected."""
    token = _on.set(False)
    try:
        yield
    finally:
        _on.reset(token)
