"""Memory that a thread keeps for its next call: fresh pages cost more than what is written to them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from wirecodec.arrays import Array


class _Kept(threading.local):
    """Memory of one thread that nobody uses, by name."""

    def __init__(self) -> None:
        self.free: dict[str, Array] = {}


_KEPT = _Kept()


@contextmanager
def borrow(name: str, shape: tuple[int, ...], dtype: Any) -> Iterator[Array]:
    """Lend an array with undefined elements; the thread keeps its memory for the next user of the name.

    Two users of a name at the same time, of which one interrupts the other, get different memory.

    Args:
        name: of the use. Its memory never shrinks, so borrow a bounded size.
        shape, dtype: of the array.

    Examples:
        >>> import numpy as np
        >>> from wirecodec.kernels.scratch import borrow
        >>> with borrow("example", (2, 3), np.uint32) as first:
        ...     first[:] = 7
        >>> with borrow("example", (5,), np.uint16) as second:
        ...     bool(np.shares_memory(first, second))
        True
    """
    kind = np.dtype(dtype)
    size = kind.itemsize
    for length in shape:
        size *= length
    memory = _KEPT.free.pop(name, None)
    if memory is None or memory.size < size:
        memory = np.empty(size, np.uint8)
    try:
        yield memory[:size].view(kind).reshape(shape)
    finally:
        _KEPT.free[name] = memory
