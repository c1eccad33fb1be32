"""How a kernel hands a call back to the host."""

from __future__ import annotations


class HostFallback(Exception):
    """A kernel met a value that it cannot process. The CPU's code repeats the work and raises the error."""
