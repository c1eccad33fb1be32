"""The benchmark of collectives: what is simulated, what figures say, and what is left out without hosts."""

from __future__ import annotations

import shutil
from itertools import product
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("matplotlib", reason="benchmarks need the extra [bench]")
pytest.importorskip("rich", reason="benchmarks need the extra [bench]")

from benchmarks.collectives import hosts, plot, report
from benchmarks.collectives.__main__ import main
from benchmarks.collectives.measurement import Figure, regrets, verdicts
from benchmarks.collectives.plan import by_default, everything
from benchmarks.collectives.simulation import simulated
from benchmarks.collectives.workload import Case

CASE = Case(100_000, 0.05, 0.5)


def test_ranks_choose_alike_as_far_as_said() -> None:
    one, other = (set(CASE.support(rank).tolist()) for rank in (0, 1))
    assert len(one) == pytest.approx(CASE.kept, rel=0.05)
    assert len(one & other) == pytest.approx(CASE.kept / 2, rel=0.15)
    x = CASE.gradient(1)
    assert set(np.flatnonzero(x >= 2).tolist()) == other


def test_simulated_bytes_are_those_of_the_formulas() -> None:
    """CLT-k sends much the same however many ranks there are, an all-gather n-1 blocks."""
    found = {(p.method, p.ranks): p for p in simulated((2, 4, 8), CASE)}
    block = found["allgather", 2].nbytes
    for n in (4, 8):
        assert found["allgather", n].nbytes == pytest.approx((n - 1) * block)
        assert found["dense", n].nbytes == pytest.approx(2 * (n - 1) / n * 4 * CASE.elements)
    assert found["CLT-k", 8].nbytes < 2 * found["CLT-k", 2].nbytes
    assert all(p.seconds > 0 for p in found.values())


def _figure(name: str, seconds: float, kind: str = "exchange", nbytes: float = 3e6) -> Figure:
    return Figure("Open MPI", "1 Gbit", 4, CASE, kind, name, seconds, nbytes, 1.01 * nbytes, 1e8, "", nbytes)


FIGURES = [
    _figure("allgather", 0.0327),
    _figure("native allgather, pairs", 0.1),
    _figure("agreement", 0.001, nbytes=0),
    _figure("allreduce allgather", 0.2, "whole", 0),
    _figure("allreduce dense", 0.1, "whole", 0),
    _figure("allreduce auto", 0.11, "whole", 0),
]


def test_regret_is_the_time_over_the_best() -> None:
    [(figure, regret)] = regrets(FIGURES)
    assert figure.name == "allreduce auto"
    assert regret == pytest.approx(1.1)


def test_verdicts() -> None:
    found = {v.target: v for v in verdicts(FIGURES)}
    assert found["all-gather of encodings ≤ 1.10× the byte limit, 1 Gbit"].worst == "1.09×"
    assert found["allgather ≥ 1.5 times as fast as native allgather, pairs"].reached
    assert found["… at worst ≤ 1.25"].reached
    assert not found["regret of the automatic choice, median ≤ 1.02"].reached


def test_by_default_everything_is_measured_somewhere() -> None:
    jobs = list(by_default("Open MPI", quick=False))
    alone = {
        (job.rate, job.ranks, one["case"]["elements"], one["case"]["density"])
        for job in jobs
        for one in job.cases
        if "exchange" in one["kinds"]
    }
    assert alone >= set(product(hosts.RATES, (2, 4, 8), (2_600_000, 26_000_000), (0.1, 0.01, 0.001)))
    for job in jobs:
        sizes = {one["case"]["elements"] for one in job.cases}
        assert [one["dense"] for one in job.cases].count(True) == len(sizes)
    assert [(job.rate, job.ranks) for job in by_default("MPICH", quick=False)] == [("1 Gbit", 4)]


def test_quickly_a_part_of_it() -> None:
    jobs = by_default("Open MPI", quick=True)
    large = [job for job in jobs if any(one["case"]["elements"] == 26_000_000 for one in job.cases)]
    assert [(job.rate, job.ranks) for job in large] == [("1 Gbit", 4)]


def test_whatever_is_asked_for_is_measured() -> None:
    jobs = list(everything(["1 Gbit"], [2, 4], [1000], [0.1, 0.01], [0.0], long=False))
    assert [job.ranks for job in jobs] == [2, 4]
    assert [(one["case"]["density"], one["dense"]) for one in jobs[0].cases] == [(0.1, True), (0.01, False)]


def test_tables_and_picture(tmp_path: Path) -> None:
    points = simulated((2, 4), CASE)
    text = report.document(FIGURES, points, ["MPICH: not installed"])
    assert "32.7 (1.09)" in text
    assert "| allgather | 3.03 (1.010) / 3 |" in text
    assert "Skipped: MPICH" in text
    plot.draw(tmp_path / "x.png", FIGURES, points, "a machine")
    assert (tmp_path / "x.png").stat().st_size > 10_000


def test_without_tools_the_simulated_part_remains(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(shutil, "which", lambda tool: None)
    assert hosts.missing() == "ip, tc, unshare not found"
    main(["--no-keep", "--simulate", "2", "--rates", "1Gbit"])
    said = capsys.readouterr().out
    assert "Skipped: everything between hosts: ip, tc, unshare not found" in said
    assert "CLT-k, bytes" in said


def test_a_rate_that_does_not_exist(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--rates", "3bit"])
    assert "3bit is none of 100 Mbit" in capsys.readouterr().err
