"""Rows of the page: seconds, bytes, staleness and requests of each method, from the records of the runs."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from benchmarks.feed.records import Published, Served

__all__ = ["Row", "build_rows", "find_delays", "measure_lag"]

Key = tuple[int, int]
"""(rollout, version)."""


@dataclass(frozen=True)
class Row:
    """Results of one method, of all rollouts and of the versions after the first ones.

    Attributes:
        method: its name.
        median, worst: seconds from the end of a step until a rollout has these weights, or newer ones.
        step: median seconds between the ends of two steps.
        publish: median seconds for which the trainer publishes.
        pause: median seconds for which sampling waits for an update.
        written: bytes of a version, mean.
        read: bytes that a rollout reads per version, mean.
        requests: of a rollout per update, with looks that found nothing new, mean.
        updates: of a rollout per version, mean.
        stale: share of the time in which a rollout's weights are older than the newest step.
        lag: versions that a rollout is behind, mean over the time.
        most: versions that a rollout is behind, at most.
        tokens: that a rollout samples per second, mean.
    """

    method: str
    median: float
    worst: float
    step: float
    publish: float
    pause: float
    written: float
    read: float
    requests: float
    updates: float
    stale: float
    lag: float
    most: int
    tokens: float


def build_rows(published: Sequence[Published], served: Sequence[Served], warm_up: int) -> list[Row]:
    """Build a row per method, in the order of the records.

    Args:
        published, served: of all runs.
        warm_up: first versions, which are left out.
    """
    methods = dict.fromkeys(one.method for one in published)
    return [
        _build_row(
            [one for one in published if one.method == method],
            [one for one in served if one.method == method],
            warm_up,
        )
        for method in methods
    ]


def find_delays(published: Sequence[Published], served: Sequence[Served], warm_up: int) -> dict[Key, float]:
    """Return the seconds from the end of a step until a rollout has these weights, or newer ones.

    Args:
        published, served: of one method.
        warm_up: first versions, which are left out.
    """
    found: dict[Key, float] = {}
    for made in published:
        for update in sorted(served, key=lambda one: -one.version):
            if update.version >= made.version > warm_up:
                found[update.rollout, made.version] = update.at - made.ended
    return found


def measure_lag(published: Sequence[Published], served: Sequence[Served], warm_up: int) -> dict[int, float]:
    """Return {versions behind the newest step: share of the time}, over all rollouts of one method.

    The time begins with the end of the first step that counts, and ends with that of the last one.
    """
    ends = {one.version: one.ended for one in published}
    start, stop = ends[warm_up + 1], max(ends.values())
    spent: dict[int, float] = {}
    rollouts = {one.rollout for one in served}
    for rollout in rollouts:
        known = {one.at: one.version for one in served if one.rollout == rollout}
        times = sorted({start, stop, *(t for t in (*ends.values(), *known) if start < t < stop)})
        for begin, end in pairwise(times):
            lag = _newest(ends, begin) - max((v for t, v in known.items() if t <= begin), default=0)
            spent[lag] = spent.get(lag, 0.0) + (end - begin) / ((stop - start) * len(rollouts))
    return dict(sorted(spent.items()))


def _newest(ends: Mapping[int, float], at: float) -> int:
    return max(version for version, ended in ends.items() if ended <= at)


def _build_row(published: Sequence[Published], served: Sequence[Served], warm_up: int) -> Row:
    counted = [one for one in published if one.version > warm_up]
    updates = [one for one in served if one.version > warm_up]
    delays = find_delays(published, served, warm_up).values()
    lags = measure_lag(published, served, warm_up)
    rollouts = len({one.rollout for one in served})
    per_version = 1 / (len(counted) * rollouts)
    seconds = max(one.at for one in updates) - next(one.ended for one in published if one.version == warm_up)
    return Row(
        counted[0].method,
        statistics.median(delays),
        max(delays),
        statistics.median(b.ended - a.ended for a, b in pairwise(counted)),
        statistics.median(one.published - one.ended for one in counted),
        statistics.median(one.pause for one in updates),
        statistics.fmean(one.bytes for one in counted),
        sum(one.bytes for one in updates) * per_version,
        sum(one.requests for one in updates) / len(updates),
        len(updates) * per_version,
        sum(share for lag, share in lags.items() if lag),
        sum(lag * share for lag, share in lags.items()),
        max(lags),
        sum(one.tokens for one in updates) / seconds / rollouts,
    )
