"""Denormal numbers: whether arithmetic of a thread keeps them, as IEEE 754 says, or flushes them to zero.

The mode is one of the processor, per thread: ``torch.set_flush_denormal`` sets it, and libraries that were
built with ``-ffast-math`` do when they are loaded. A thread starts with the mode of the one that starts it.
"""

from __future__ import annotations

import sys

_LEAST = sys.float_info.min  # a variable: the compiler would compute a constant product


def flushes_denormals() -> bool:
    """Return whether arithmetic of this thread takes denormal numbers for zero, or returns zero for them."""
    return _LEAST * 0.5 == 0.0
