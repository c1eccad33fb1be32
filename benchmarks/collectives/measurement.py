"""Measurements of collectives, and their targets."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from benchmarks.collectives.cases import Case
from benchmarks.collectives.methods import ALGORITHMS, AUTO
from benchmarks.common.targets import LabelledValues, TargetResult, check_at_least, check_at_most

__all__ = ["WHOLE_STEP", "Key", "Measurement", "check_targets", "compute_regrets"]

MIN_MESSAGE = 50_000  # bytes; latency dominates below
TARGET_RANKS = 4
WHOLE_STEP = "1 Gbit", TARGET_RANKS, Case(26_000_000, 0.01)
"""Rate, ranks and case in which a whole step of CLT-k is compared with MPI's own all-reduce."""
SPLITS = tuple(name for name in ALGORITHMS if name.startswith("split"))
CALLS = {f"allreduce {name}" for name in ALGORITHMS}

Key = tuple[str, str, int, Case]


@dataclass(frozen=True)
class Measurement:
    """Time and bytes of one method.

    Attributes:
        mpi, rate, ranks, case: setup of the measurement.
        kind: "exchange", or "whole" for a whole call.
        name: name of the method.
        seconds: median time of the slowest rank.
        nbytes: smallest number of bytes that the busiest rank must send, or 0 if not compared with the limit.
        link: bytes on the busiest link.
        goodput: bytes per second of TCP on one link, in the same run.
        note: the algorithm that was chosen.
        links: mean bytes on a link.
    """

    mpi: str
    rate: str
    ranks: int
    case: Case
    kind: str
    name: str
    seconds: float
    nbytes: float
    link: float
    goodput: float
    note: str = ""
    links: float = 0.0

    @property
    def limit(self) -> float:
        """Return the byte limit: the seconds that the bytes need at the goodput."""
        return self.nbytes / self.goodput

    @property
    def ratio(self) -> float:
        """Return the time relative to the byte limit."""
        return self.seconds / self.limit

    @property
    def key(self) -> Key:
        """Return the setup of the measurement."""
        return self.mpi, self.rate, self.ranks, self.case

    @property
    def case_name(self) -> str:
        """Return the rate, the number of ranks and the case as text."""
        return f"{self.rate}, n = {self.ranks}, {self.case.name}"

    @property
    def message(self) -> float:
        """Return the approximate bytes of one message: a rank's block, or a range of it."""
        messages = {
            "dense": 2 * (self.ranks - 1),
            "allgather": self.ranks - 1,
            "allgather, pairs": self.ranks - 1,
        }
        return self.nbytes / messages.get(self.name, 2 * (self.ranks - 1))


def compute_regrets(measurements: Iterable[Measurement]) -> list[tuple[Measurement, float]]:
    """Return each automatic choice with its time relative to the best algorithm."""
    whole = [m for m in measurements if m.kind == "whole"]
    regrets = []
    for auto in (m for m in whole if m.name == f"allreduce {AUTO}"):
        times = [m.seconds for m in whole if m.key == auto.key and m.name in CALLS]
        regrets.append((auto, auto.seconds / min(times)))
    return regrets


def check_targets(measurements: Sequence[Measurement]) -> list[TargetResult]:
    """Check every target."""
    exchanges = [
        m for m in measurements if m.kind == "exchange" and m.ranks == TARGET_RANKS and m.mpi == "Open MPI"
    ]
    large = [m for m in exchanges if m.nbytes and m.message >= MIN_MESSAGE]
    return [
        *_check_byte_limits(large),
        *_check_native(exchanges, large),
        *_check_whole_calls(measurements),
        *_check_agreement(exchanges, large),
        *_check_regrets(measurements),
    ]


def _check_byte_limits(large: Sequence[Measurement]) -> list[TargetResult]:
    results = []
    for rate in dict.fromkeys(m.rate for m in large):
        for limit, label, names in (
            (1.10, "all-gather of encodings", {"allgather"}),
            (1.08, "dense sum in rank order", {"dense"}),
            (1.10, "CLT-k", {"CLT-k"}),
            (1.25, "split", set(SPLITS)),
        ):
            ratios = [(m.case_name, m.ratio) for m in large if m.rate == rate and m.name in names]
            target = f"{label} ≤ {limit:.2f}× the byte limit, {rate}"
            results.append(check_at_most(target, limit, ratios, "{:.2f}×"))
    return results


def _check_native(exchanges: Sequence[Measurement], large: Sequence[Measurement]) -> list[TargetResult]:
    """Compare our methods with MPI's own."""
    results = []
    for limit, ours, native in (
        (1.5, "allgather", "native allgather, pairs"),
        (1.5, "allgather, pairs", "native allgather, pairs"),
        (3.0, "CLT-k", "native CLT-k, raw"),
    ):
        times = {m.key: m.seconds for m in exchanges if m.name == native}
        speed_ups: LabelledValues = [
            (m.case_name, times[m.key] / m.seconds) for m in large if m.name == ours and m.key in times
        ]
        target = f"{ours} ≥ {limit:g} × as fast as {native}"
        results.append(check_at_least(target, limit, speed_ups, "{:.2f}×"))
    return results


def _check_whole_calls(measurements: Sequence[Measurement]) -> list[TargetResult]:
    """Compare a whole step of CLT-k with MPI's own all-reduce of dense vectors."""
    whole = [m for m in measurements if m.kind == "whole" and (m.rate, m.ranks, m.case) == WHOLE_STEP]
    times = {m.key: m.seconds for m in whole if m.name == "native dense"}
    speed_ups: LabelledValues = [
        (m.case_name, times[m.key] / m.seconds) for m in whole if m.name == "CLT-k" and m.key in times
    ]
    return [check_at_least("a step of CLT-k ≥ 20 × as fast as native dense", 20, speed_ups, "{:.1f}×")]


def _check_agreement(exchanges: Sequence[Measurement], large: Sequence[Measurement]) -> list[TargetResult]:
    """Compare the cost of agreement with the smallest exchange."""
    times = {m.key: m.seconds for m in exchanges if m.name == "agreement"}
    allgathers = [m for m in large if m.name == "allgather"]
    fractions = [(m.case_name, times[m.key] / m.seconds) for m in allgathers if m.key in times]
    nbytes = [(m.case_name, 64 * (m.ranks - 1) / m.nbytes) for m in allgathers]
    return [
        check_at_most("headers ≤ 5 % of an all-gather's bytes", 0.05, nbytes, "{:.4f}"),
        check_at_most("agreement ≤ 5 % of an all-gather's time", 0.05, fractions),
    ]


def _check_regrets(measurements: Sequence[Measurement]) -> list[TargetResult]:
    regrets = compute_regrets(measurements)
    if not regrets:
        return []
    median = statistics.median(regret for _, regret in regrets)
    worst = [(m.case_name, regret) for m, regret in regrets]
    return [
        check_at_most("regret of the automatic choice, median ≤ 1.02", 1.02, [("all", median)]),
        check_at_most("regret of the automatic choice, maximum ≤ 1.25", 1.25, worst),
    ]
