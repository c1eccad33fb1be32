"""Benchmark of collectives: simulation, targets, plan, result page, and runs without hosts."""

from __future__ import annotations

import shutil
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("matplotlib", reason="benchmarks need the extra [bench]")
pytest.importorskip("rich", reason="benchmarks need the extra [bench]")

from benchmarks.collectives import kept, plot, report
from benchmarks.collectives.__main__ import main
from benchmarks.collectives.cases import Case
from benchmarks.collectives.measurement import WHOLE_STEP, Measurement, check_targets, compute_regrets
from benchmarks.collectives.plan import generate_jobs
from benchmarks.collectives.simulation import simulate_methods
from benchmarks.common import hosts

CASE = Case(100_000, 0.05, 0.5)


def test_ranks_share_the_requested_fraction() -> None:
    one, other = (set(CASE.support(rank).tolist()) for rank in (0, 1))
    assert len(one) == pytest.approx(CASE.count, rel=0.05)
    assert len(one & other) == pytest.approx(CASE.count / 2, rel=0.15)
    x = CASE.gradient(1)
    assert set(np.flatnonzero(x >= 2).tolist()) == other


def test_simulated_bytes_agree_with_the_formulas() -> None:
    """An all-gather sends n-1 blocks; the bytes of CLT-k hardly grow with n."""
    found = {(p.method, p.ranks): p for p in simulate_methods((2, 4, 8), CASE)}
    block = found["allgather", 2].nbytes
    for n in (4, 8):
        assert found["allgather", n].nbytes == pytest.approx((n - 1) * block)
        assert found["dense", n].nbytes == pytest.approx(2 * (n - 1) / n * 4 * CASE.elements)
    assert found["CLT-k", 8].nbytes < 2 * found["CLT-k", 2].nbytes
    assert all(p.seconds > 0 for p in found.values())


def _measurement(name: str, seconds: float, kind: str = "exchange", nbytes: float = 3e6) -> Measurement:
    return Measurement(
        "Open MPI", "1 Gbit", 4, CASE, kind, name, seconds, nbytes, 1.01 * nbytes, 1e8, "", nbytes
    )


MEASUREMENTS = [
    _measurement("allgather", 0.0327),
    _measurement("native allgather, pairs", 0.1),
    _measurement("agreement", 0.001, nbytes=0),
    _measurement("allreduce allgather", 0.2, "whole", 0),
    _measurement("allreduce dense", 0.1, "whole", 0),
    _measurement("allreduce auto", 0.11, "whole", 0),
    replace(_measurement("native dense", 1.9, "whole", 0), case=WHOLE_STEP[2]),
    replace(_measurement("CLT-k", 0.1, "whole", 0), case=WHOLE_STEP[2]),
]


def test_regret_is_relative_to_the_best_algorithm() -> None:
    [(figure, regret)] = compute_regrets(MEASUREMENTS)
    assert figure.name == "allreduce auto"
    assert regret == pytest.approx(1.1)


def test_targets() -> None:
    found = {r.target: r for r in check_targets(MEASUREMENTS)}
    assert found["all-gather of encodings ≤ 1.10× the byte limit, 1 Gbit"].worst == "1.09×"
    assert found["allgather ≥ 1.5 × as fast as native allgather, pairs"].met
    assert found["a step of CLT-k ≥ 20 × as fast as native dense"].worst == "19.0×"
    assert found["regret of the automatic choice, maximum ≤ 1.25"].met
    assert not found["regret of the automatic choice, median ≤ 1.02"].met


def test_jobs_cover_every_case() -> None:
    jobs = list(generate_jobs("Open MPI", quick=False))
    alone = {
        (job.rate, job.ranks, one["case"]["elements"], one["case"]["density"])
        for job in jobs
        for one in job.cases
        if "exchange" in one["kinds"]
    }
    assert alone >= set(product(hosts.RATES, (2, 4, 8), (2_600_000, 26_000_000), (0.1, 0.01, 0.001)))
    for job in jobs:
        measured = {(one["case"]["elements"], kind) for one in job.cases for kind in one["kinds"]}
        dense = [(one["case"]["elements"], kind) for one in job.cases for kind in one["dense"]]
        assert sorted(dense) == sorted(measured)
    assert [(job.rate, job.ranks) for job in generate_jobs("MPICH", quick=False)] == [("1 Gbit", 4)]


def test_quick_jobs_have_large_vectors_at_one_rate() -> None:
    jobs = generate_jobs("Open MPI", quick=True)
    large = [job for job in jobs if any(one["case"]["elements"] == 26_000_000 for one in job.cases)]
    assert [(job.rate, job.ranks) for job in large] == [("1 Gbit", 4)]


def test_page_and_picture(tmp_path: Path) -> None:
    points = simulate_methods((2, 4), CASE)
    text = report.format_page(MEASUREMENTS, points, ["MPICH: not installed"])
    assert "32.7 (1.09)" in text
    sent = {row.name: row.megabytes for row in kept.list_rows(MEASUREMENTS) if row.kind == "exchange"}
    assert sent["allgather"] == pytest.approx(3.03)
    assert "Skipped: MPICH" in text
    plot.draw(tmp_path, kept.list_rows([*MEASUREMENTS, _measurement("CLT-k", 0.05)]), points)
    for name in ("collectives.png", "collectives_ranks.png"):
        assert (tmp_path / name).stat().st_size > 10_000


def test_simulation_runs_without_tools(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(shutil, "which", lambda tool: None)
    assert hosts.find_missing_tools() == "ip, tc, unshare not found"
    main(["--no-keep", "--simulate", "2"])
    printed = capsys.readouterr().out
    assert "Skipped: all measurements between hosts: ip, tc, unshare not found" in printed
    assert "CLT-k, bytes" in printed
