"""Targets of feeds: seconds, staleness and bytes, compared with whole files and with another format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchmarks.common.targets import TargetResult, check_at_least, check_at_most
from benchmarks.feed.rows import Row

__all__ = ["NAMES", "PEER", "READ", "UNREAD", "WHOLE", "check_targets"]

WHOLE, PEER = "whole files", "int32 + values + zstd-1"
READ, UNREAD = 'feed, base="read"', 'feed, base="unread"'
NAMES = (WHOLE, PEER, UNREAD, READ)
"""Of all methods, in the order of the page."""


def check_targets(rows: Sequence[Row]) -> list[TargetResult]:
    """Check the targets of all feeds that were measured."""
    found: Mapping[str, Row] = {row.method: row for row in rows}
    feeds = [found[name] for name in (READ, UNREAD) if name in found]
    whole, peer = found.get(WHOLE), found.get(PEER)

    def compare(field: str, other: Row | None, of: Sequence[Row]) -> list[tuple[str, float]]:
        if other is None:
            return []
        return [(row.method, getattr(row, field) / getattr(other, field)) for row in of]

    smaller = [(name, 1 / ratio) for name, ratio in compare("read", whole, feeds)]
    smallest = [row for row in feeds if row.method == READ]
    return [
        check_at_most("median seconds: at most .30 of whole files", 0.30, compare("median", whole, feeds)),
        check_at_most("median seconds: at most 1.5 of the peer's", 1.5, compare("median", peer, feeds)),
        check_at_most(
            "time with older weights: at most .40 of whole files", 0.40, compare("stale", whole, feeds)
        ),
        check_at_least("bytes that a rollout reads: 80 times fewer than whole files", 80, smaller, "{:.0f}×"),
        check_at_most(
            "the same, base read: at most .45 of the peer's", 0.45, compare("read", peer, smallest)
        ),
    ]
