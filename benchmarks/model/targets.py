"""Targets of whole models, checked against the measurements."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.common.targets import TargetResult, check_at_least, check_at_most
from benchmarks.model.stages import RATES, StageTime
from benchmarks.model.sums import INDICES, SMALL, IndexCall, SmallCall, SumTime

__all__ = ["MAX_RATIOS", "MIN_SPEED_UP", "check_targets", "find_limit", "pair_threads"]

MAX_RATIOS = {
    "encode_many": dict.fromkeys(RATES, 1.3),
    "decode_add": {0.01: 1.5, 0.001: 2.0},
    "Compressor step": dict.fromkeys(RATES, 1.3),
}
"""{stage: {density: largest ratio to one flat vector}}."""
MIN_SPEED_UP = 1.7
"""Of two threads over one."""
MAX_MICROSECONDS = {"encode": 40.0, "decode": 30.0}
CONTAINERS, MAX_SUM_RATIO = 16, 1.3
MAX_WHOLE_RATIO = 2.0
"""Of a whole call to its codecs."""


def check_targets(
    stages: Sequence[StageTime],
    sums: Sequence[SumTime],
    small: Sequence[SmallCall],
    indexed: Sequence[IndexCall],
) -> list[TargetResult]:
    """Check every target. Ratios of one thread are of processor times, speed-ups of elapsed times."""
    results = []
    for stage, limits in MAX_RATIOS.items():
        for rate, limit in limits.items():
            chosen = [s for s in stages if (s.stage, s.rate, s.threads) == (stage, rate, 1) and s.targeted]
            ratios = [(f"{s.model}, {s.values}", s.ratio) for s in chosen]
            results.append(check_at_most(f"{stage} ≤ {limit} × flat: {rate:g}", limit, ratios, "{:.2f} ×"))
    for stage in MAX_RATIOS:
        speed_ups = [
            (f"{one.model}, {one.rate:g}, {one.values}", one.many.seconds / two.many.seconds)
            for one, two in pair_threads(stages)
            if one.stage == stage and one.targeted
        ]
        target = f"{stage}: two threads ≥ {MIN_SPEED_UP} × as fast as one"
        results.append(check_at_least(target, MIN_SPEED_UP, speed_ups, "{:.2f} ×"))
    for call, limit in MAX_MICROSECONDS.items():
        times = [(f"`{s.scheme}`".replace("|", "·"), 1e6 * s.time.processor) for s in small if s.call == call]
        target = f"{call} of {SMALL:,} elements ≤ {limit:.0f} µs"
        results.append(check_at_most(target, limit, times, "{:.0f} µs"))
    wholes = [(f"{s.call}, `{s.scheme}`".replace("|", "·"), s.ratio) for s in indexed]
    target = f"whole call on {INDICES:,} indices ≤ {MAX_WHOLE_RATIO:g} × its codecs"
    results.append(check_at_most(target, MAX_WHOLE_RATIO, wholes, "{:.2f} ×"))
    ratios = [(s.model, s.ratio) for s in sums if s.containers == CONTAINERS]
    target = f"{CONTAINERS} containers added ≤ {MAX_SUM_RATIO} × {CONTAINERS} times one flat"
    return [*results, check_at_most(target, MAX_SUM_RATIO, ratios, "{:.2f} ×")]


def pair_threads(stages: Sequence[StageTime]) -> list[tuple[StageTime, StageTime]]:
    """Pair the times on one thread and on two of each model, scheme and stage."""
    two = {(s.model, s.rate, s.values, s.stage): s for s in stages if s.threads == 2}
    keys = [(s, (s.model, s.rate, s.values, s.stage)) for s in stages if s.threads == 1]
    return [(one, two[key]) for one, key in keys if key in two]


def find_limit(stage: StageTime) -> float | None:
    """Return the largest ratio that a stage's target allows, or None if it has no target."""
    limits = MAX_RATIOS.get(stage.stage, {})
    return limits.get(stage.rate) if stage.targeted else None
