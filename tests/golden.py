"""Golden vectors, loaded once per process, also grouped by result."""

from __future__ import annotations

from functools import cache

from formats import conformance
from formats.conformance import Vector

__all__ = ["RESULTS", "vectors", "vectors_of"]

RESULTS = (
    *("ok", "Truncated", "Malformed", "Invalid", "ChecksumMismatch"),
    *("Unsupported", "LimitExceeded", "SchemaMismatch"),
)
"""Required results of decoding a vector: success, or an error class."""


@cache
def vectors() -> tuple[Vector, ...]:
    """Return every vector, the valid ones first."""
    return tuple(conformance.load_all())


def vectors_of(result: str) -> list[Vector]:
    """Return the vectors with a result; every result has some."""
    found = [vector for vector in vectors() if vector.result == result]
    assert found
    return found
