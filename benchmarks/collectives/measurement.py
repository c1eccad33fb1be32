"""One figure of the tables, and what the targets say to all of them."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from benchmarks.collectives.methods import ALGORITHMS, AUTO
from benchmarks.collectives.workload import Case
from benchmarks.common.targets import Measures, Verdict, at_least, at_most

__all__ = ["Figure", "Key", "regrets", "verdicts"]

SMALLEST_PIECE = 50_000  # bytes; below, latency counts for more than bytes
AT = 4  # ranks that the targets are about
SPLITS = tuple(name for name in ALGORITHMS if name.startswith("split"))

Key = tuple[str, str, int, Case]


@dataclass(frozen=True)
class Figure:
    """What one thing took.

    Attributes:
        mpi, rate, ranks, case: where.
        kind: "exchange", communication alone, or "whole".
        name: of what was measured.
        seconds: of the slowest rank, median.
        nbytes: that the busiest rank must send; 0 where that is not the question.
        link: bytes that the busiest link carried.
        links: bytes that a link carried on average.
        goodput: bytes a second that TCP carries on a link, in the same run.
        note: the algorithm that was chosen.
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
        """Seconds that the bytes take at least."""
        return self.nbytes / self.goodput

    @property
    def ratio(self) -> float:
        """Of the time to the limit."""
        return self.seconds / self.limit

    @property
    def key(self) -> Key:
        """Where it was measured."""
        return self.mpi, self.rate, self.ranks, self.case

    @property
    def place(self) -> str:
        """The same, in words."""
        return f"{self.rate}, n = {self.ranks}, {self.case.words}"

    @property
    def piece(self) -> float:
        """About how many bytes a rank sends to one other at a time: its block, or a range of it."""
        parts = {
            "dense": 2 * (self.ranks - 1),
            "allgather": self.ranks - 1,
            "allgather, pairs": self.ranks - 1,
        }
        return self.nbytes / parts.get(self.name, 2 * (self.ranks - 1))


def regrets(figures: Iterable[Figure]) -> list[tuple[Figure, float]]:
    """The automatic choices, each with its time over that of the best algorithm."""
    whole = [f for f in figures if f.kind == "whole"]
    found = []
    for auto in (f for f in whole if f.name == f"allreduce {AUTO}"):
        others = [f.seconds for f in whole if f.key == auto.key and f.name in _CALLS]
        found.append((auto, auto.seconds / min(others)))
    return found


_CALLS = {f"allreduce {name}" for name in ALGORITHMS}


def verdicts(figures: Sequence[Figure]) -> list[Verdict]:
    """On every target."""
    alone = [f for f in figures if f.kind == "exchange" and f.ranks == AT and f.mpi == "Open MPI"]
    large = [f for f in alone if f.nbytes and f.piece >= SMALLEST_PIECE]
    found = []
    for rate in dict.fromkeys(f.rate for f in large):
        for limit, what, names in (
            (1.10, "all-gather of encodings", {"allgather"}),
            (1.08, "dense sum in rank order", {"dense"}),
            (1.10, "CLT-k", {"CLT-k"}),
            (1.25, "split", set(SPLITS)),
        ):
            those = [f for f in large if f.rate == rate and f.name in names]
            target = f"{what} ≤ {limit:.2f}× the byte limit, {rate}"
            found.append(at_most(target, limit, [(f.place, f.ratio) for f in those], "{:.2f}×"))
    for least, ours, native in (
        (1.5, "allgather", "native allgather, pairs"),
        (1.5, "allgather, pairs", "native allgather, pairs"),
        (3.0, "CLT-k", "native CLT-k, raw"),
    ):
        target = f"{ours} ≥ {least:g} times as fast as {native}"
        found.append(at_least(target, least, _faster(large, alone, ours, native), "{:.2f}×"))
    found += _agreement(alone, large)
    costs = regrets(figures)
    if costs:
        median = statistics.median(regret for _, regret in costs)
        found.append(at_most("regret of the automatic choice, median ≤ 1.02", 1.02, [("all", median)]))
        found.append(at_most("… at worst ≤ 1.25", 1.25, [(f.place, regret) for f, regret in costs]))
    return found


def _faster(large: Sequence[Figure], all_: Sequence[Figure], ours: str, native: str) -> Measures:
    times: dict[Key, float] = {f.key: f.seconds for f in all_ if f.name == native}
    return [(f.place, times[f.key] / f.seconds) for f in large if f.name == ours and f.key in times]


def _agreement(alone: Sequence[Figure], large: Sequence[Figure]) -> list[Verdict]:
    """What agreeing adds to the smallest exchange there is."""
    times = {f.key: f.seconds for f in alone if f.name == "agreement"}
    shares = [(f.place, times[f.key] / f.seconds) for f in large if f.name == "allgather" and f.key in times]
    nbytes = [(f.place, 64 * (f.ranks - 1) / f.nbytes) for f in large if f.name == "allgather"]
    return [
        at_most("headers ≤ 5 % of an all-gather's bytes", 0.05, nbytes, "{:.4f}"),
        at_most("agreement ≤ 5 % of an all-gather's time", 0.05, shares),
    ]


def by(figures: Iterable[Figure], key: Callable[[Figure], object]) -> dict[object, list[Figure]]:
    """In groups, in the order of their first members."""
    groups: dict[object, list[Figure]] = {}
    for f in figures:
        groups.setdefault(key(f), []).append(f)
    return groups
