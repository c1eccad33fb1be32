"""Guard against compilation: a block in which only kernels that are ready may be called.

A compilation takes seconds, in which a rank is silent. ``collectives`` runs its work under this guard, so
that it can inform the other ranks before it compiles. Kernels in memory and in the disk cache are ready.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_allowed: ContextVar[bool] = ContextVar("compilation allowed", default=True)


class CompilationNeeded(BaseException):
    """Signal that a kernel is not ready, raised in place of its compilation.

    It is no Exception, so that a codec that catches all of them does not catch it.
    """


@contextmanager
def cached_kernels_only() -> Iterator[None]:
    """Raise CompilationNeeded if this thread calls a kernel that must be compiled first.

    Raises:
        CompilationNeeded: the block called such a kernel. It can be run again outside the guard.
    """
    token = _allowed.set(False)
    try:
        yield
    finally:
        _allowed.reset(token)


def is_compilation_allowed() -> bool:
    """Return whether this thread is outside the guard."""
    return _allowed.get()
