"""What mutations begin with: the golden vectors that are small."""

from __future__ import annotations

from functools import cache

from formats import conformance

_MOST = 3000


@cache
def valid_seeds() -> tuple[bytes, ...]:
    """Containers that must be read."""
    return tuple(v.data for v in conformance.load_all() if v.result == "ok" and len(v.data) <= _MOST)


@cache
def all_seeds() -> tuple[bytes, ...]:
    """Those, and those that must not: what one check stops may pass another one once it is changed."""
    return tuple(v.data for v in conformance.load_all() if len(v.data) <= _MOST)
