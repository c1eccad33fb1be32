"""What is measured, and where: each thing a few times, or as often as steady medians take."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.collectives.hosts import RATES
from benchmarks.collectives.simulation import CASE
from benchmarks.collectives.workload import Case

__all__ = ["DENSITIES", "Job", "by_default", "everything"]

DENSITIES = (0.1, 0.01, 0.001)
ALONE, BOTH = ("exchange",), ("exchange", "whole")
_NORMAL = {"seconds": 0.3, "least": {"exchange": 9, "whole": 9}, "most": 15, "budget": 1.0}
_SLOW = {"seconds": 0.3, "least": {"exchange": 1, "whole": 3}, "most": 15, "budget": 1.0}
_HEAVY = {"seconds": 0.3, "least": {"exchange": 5, "whole": 5}, "most": 15, "budget": 1.0}
_LONG = {"seconds": 1.0, "least": {"exchange": 5, "whole": 15}, "most": 30, "budget": 5.0}
_SMALL, _LARGE = 2_600_000, 26_000_000
_SLOWEST = "100 Mbit"


@dataclass
class Job:
    """One launch of ranks: cases at one rate and rank count.

    Attributes:
        rate, ranks: where.
        times: how often each thing is measured, as ``rank`` takes it.
        cases: each with its kinds of measurements, and whether dense vectors are among them.
    """

    rate: str
    ranks: int
    times: dict[str, Any]
    cases: list[dict[str, Any]] = field(default_factory=list)

    def add(self, case: Case, kinds: Sequence[str]) -> None:
        """Measure this case, too; what moves dense vectors alone is measured once for each size."""
        dense = all(other["case"]["elements"] != case.elements for other in self.cases)
        self.cases.append({"case": dict(case.__dict__), "kinds": list(kinds), "dense": dense})

    @property
    def plan(self) -> dict[str, Any]:
        """For the ranks."""
        return {"cases": self.cases, **self.times}


def by_default(mpi: str, *, quick: bool) -> Iterator[Job]:
    """Of each MPI in turn; of MPICH its own collectives and ours on it, in one place.

    Args:
        mpi: its name.
        quick: large vectors in one place, too.
    """
    if mpi == "MPICH":
        job = Job("1 Gbit", 4, _NORMAL)
        for density in DENSITIES:
            job.add(Case(_SMALL, density), ALONE)
        yield job
        return
    for rate in RATES:
        for n in (2, 4, 8):
            job = Job(rate, n, _SLOW if rate == _SLOWEST else _NORMAL)
            for density in DENSITIES:
                slow = rate == _SLOWEST and (density, n) != (0.01, 4)
                job.add(Case(_SMALL, density), ALONE if slow else BOTH)
                if n == 4 and rate != _SLOWEST:
                    job.add(Case(_SMALL, density, 0.9), ("whole",))
            if rate == "1 Gbit":
                job.add(CASE, ALONE)  # for the picture
            yield job
    for rate, n in [("1 Gbit", 4)] if quick else [(rate, n) for rate in RATES for n in (2, 4, 8)]:
        job = Job(rate, n, _SLOW if rate == _SLOWEST else _HEAVY)
        for density in (0.01,) if quick else DENSITIES:
            job.add(Case(_LARGE, density), ALONE)
        yield job


def everything(
    rates: Sequence[str],
    ranks: Sequence[int],
    sizes: Sequence[int],
    densities: Sequence[float],
    alike: Sequence[float],
    *,
    long: bool,
) -> Iterator[Job]:
    """All combinations.

    Args:
        rates, ranks: of the jobs.
        sizes, densities, alike: of their cases.
        long: whether to take the time for steady medians.
    """
    for rate in rates:
        for n in ranks:
            job = Job(rate, n, _LONG if long else _NORMAL)
            for size in sizes:
                for density in densities:
                    for share in alike:
                        job.add(Case(size, density, share), BOTH)
            yield job
