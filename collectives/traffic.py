"""Bytes per rank of MPI's all-gathers, which are counted as rings."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["count_equal_ring_bytes", "count_ring_bytes"]


def count_ring_bytes(counts: Sequence[int], rank: int) -> int:
    """Count the bytes that a rank sends in a ring all-gather: every block except its right neighbour's.

    Args:
        counts: bytes of every rank's block.
        rank: the sender.
    """
    return sum(counts) - counts[(rank + 1) % len(counts)]


def count_equal_ring_bytes(nbytes: int, size: int) -> int:
    """Count the bytes that each of ``size`` ranks sends in a ring all-gather of blocks of ``nbytes``."""
    return nbytes * (size - 1)
