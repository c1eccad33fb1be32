"""Plan of the measurements: rates, rank counts and cases, each with a number of repetitions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.collectives.cases import Case
from benchmarks.collectives.measurement import WHOLE_STEP
from benchmarks.collectives.simulation import CASE
from benchmarks.common.hosts import RATES
from benchmarks.common.inputs import DENSITIES

__all__ = ["Job", "generate_jobs"]

EXCHANGE, BOTH = ("exchange",), ("exchange", "whole")
_NORMAL = {"seconds": 0.3, "min_turns": {"exchange": 9, "whole": 9}, "max_turns": 15, "budget": 1.0}
_SLOW = {"seconds": 0.3, "min_turns": {"exchange": 1, "whole": 3}, "max_turns": 15, "budget": 1.0}
_HEAVY = {"seconds": 0.3, "min_turns": {"exchange": 5, "whole": 5}, "max_turns": 15, "budget": 1.0}
_SMALL, _LARGE = 2_600_000, 26_000_000
_SLOWEST = "100 Mbit"


@dataclass
class Job:
    """One launch of ranks: cases at one rate and rank count.

    Attributes:
        rate, ranks: of the launch.
        times: number of repetitions and time limits, as ``rank`` takes them.
        cases: each with the kinds of its measurements, and those kinds that include dense vectors.
    """

    rate: str
    ranks: int
    times: dict[str, Any]
    cases: list[dict[str, Any]] = field(default_factory=list)

    def add(self, case: Case, kinds: Sequence[str]) -> None:
        """Add a case; dense vectors are measured once per size and kind."""
        alike = [other for other in self.cases if other["case"]["elements"] == case.elements]
        dense = [kind for kind in kinds if all(kind not in other["dense"] for other in alike)]
        self.cases.append({"case": dict(case.__dict__), "kinds": list(kinds), "dense": dense})

    @property
    def plan(self) -> dict[str, Any]:
        """Return the plan for the ranks."""
        return {"cases": self.cases, **self.times}


def generate_jobs(mpi: str, *, quick: bool) -> Iterator[Job]:
    """Yield the jobs of an MPI.

    MPICH's own collectives, and ours on MPICH, are measured at one rate and rank count only.

    Args:
        mpi: name of the MPI.
        quick: True to measure large vectors at one rate and rank count only.
    """
    if mpi == "MPICH":
        job = Job("1 Gbit", 4, _NORMAL)
        for density in DENSITIES:
            job.add(Case(_SMALL, density), EXCHANGE)
        yield job
        return
    for rate in RATES:
        for n in (2, 4, 8):
            job = Job(rate, n, _SLOW if rate == _SLOWEST else _NORMAL)
            for density in DENSITIES:
                slow = rate == _SLOWEST and (density, n) != (0.01, 4)
                job.add(Case(_SMALL, density), EXCHANGE if slow else BOTH)
                if n == 4 and rate != _SLOWEST:
                    job.add(Case(_SMALL, density, 0.9), ("whole",))
            if rate == "1 Gbit":
                job.add(CASE, EXCHANGE)  # shown in the picture
            yield job
    for rate, n in [("1 Gbit", 4)] if quick else [(rate, n) for rate in RATES for n in (2, 4, 8)]:
        job = Job(rate, n, _SLOW if rate == _SLOWEST else _HEAVY)
        for density in (0.01,) if quick else DENSITIES:
            case = Case(_LARGE, density)
            job.add(case, BOTH if (rate, n, case) == WHOLE_STEP else EXCHANGE)
        yield job
