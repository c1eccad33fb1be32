"""Benchmark of whole steps: floors and ratios, targets, stages, page and picture, and real ranks."""

from __future__ import annotations

import json
import re
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("matplotlib", reason="benchmarks need the extra [bench]")
pytest.importorskip("rich", reason="benchmarks need the extra [bench]")

from benchmarks.step import launch, plot, report, small
from benchmarks.step.__main__ import main
from benchmarks.step.kept import list_steps
from benchmarks.step.models import MODELS, TINY
from benchmarks.step.plan import Effort, Job, list_jobs
from benchmarks.step.rows import DELAY, FAST, LINKS, LOOPBACK, SLOW, Row, read_rows
from benchmarks.step.small import SmallCalls
from benchmarks.step.stages import DECODE, HEADERS, PAYLOAD, REST, STAGES, Recorder
from benchmarks.step.store import Store
from benchmarks.step.systems import COMPUTING, DEFAULT, LIMITED, NATIVE, OFF, PLAIN, POWERSGD
from benchmarks.step.targets import check_targets

SMALL = SmallCalls([900e-6, 800e-6, 1e-3], [2.8e-3, 3.8e-3, 2.9e-3], [4e-6, 5e-6, 6e-6])


def make_record(link: str, model: str = "MLP") -> dict[str, Any]:
    """Make what rank 0 prints: 125 kB take 1 ms at 1 Gbit/s and 10 ms at 100 Mbit/s."""
    ours = {"sent": 125_000.0, "exchanges": 2.0, "stages": {stage: [0.002, 0.001] for stage in STAGES}}
    systems: dict[str, Any] = {
        COMPUTING: {"times": [0.021, 0.02, 0.01], "processor": [0.02] * 3, "peak": 80e6}
    }
    systems[PLAIN] = {"times": [0.05, 0.06, 0.04], "processor": [0.03] * 3, "sent": 1.0, "peak": 120e6}
    systems[OFF] = ours | {"times": [0.030, 0.031, 0.032], "processor": [0.03] * 3, "peak": 160e6}
    systems[DEFAULT] = ours | {"times": [0.030, 0.031, 0.064], "processor": [0.03] * 3, "peak": 160e6}
    return {
        "model": model,
        "ranks": 2,
        "link": link,
        "parameters": 10_000_000,
        "tensors": 20,
        "add": [0.002, 0.001, 0.003],
        "fill": [0.001, 0.001, 0.002],
        "systems": systems,
    }


def find(link: str, system: str = OFF, model: str = "MLP") -> Row:
    """Return one row of a record."""
    return next(row for row in read_rows(make_record(link, model)) if row.system == system)


@pytest.mark.parametrize(("link", "floor"), [(LOOPBACK, 23), (FAST, 24), (SLOW, 33), (DELAY, 43)])
def test_floor_and_ratio(link: str, floor: float) -> None:
    row = find(link)
    assert row.computing == 0.02
    assert row.floor == pytest.approx(floor / 1000)
    assert row.ratio == pytest.approx(11 / (floor - 20))
    assert row.floats == pytest.approx(2.0)


def test_other_systems_have_no_floor() -> None:
    row = find(SLOW, PLAIN)
    assert (row.sent, row.floor, row.ratio) == (None, None, None)
    assert row.floats == pytest.approx(1.0)


def test_targets() -> None:
    rows = [row for link in LINKS for row in read_rows(make_record(link))]
    rows += read_rows(make_record(LOOPBACK, MODELS[1]))
    found = {result.target: result for result in check_targets(rows, SMALL)}
    met = {target: (result.worst, result.met) for target, result in found.items()}
    assert met == {
        f"MLP, {OFF}: ≤ 4 × the floor, loopback": ("3.67 ×", True),
        f"MLP, {OFF}: ≤ 1.3 × the floor, 100 Mbit": ("0.85 ×", True),
        "topk (default) ≤ 1.05 × overlap=False, median of the rounds": ("1.00 ×", True),
        f"{MODELS[1]}, {OFF}: ≤ 25 ms above computing alone, loopback": ("11.0 ms", True),
        "call with 10 tensors ≤ 1.0 ms": ("0.90 ms", True),
        "each further tensor ≤ 20 µs": ("19.0 µs", True),
    }
    slower = [replace(row, times=[1.1 * t for t in row.times]) for row in rows]
    mixed = [new if new.system == DEFAULT else old for old, new in zip(rows, slower, strict=True)]
    missed = [result.target for result in check_targets(mixed, None) if result.met is False]
    assert missed == ["topk (default) ≤ 1.05 × overlap=False, median of the rounds"]
    assert [result.met for result in check_targets([], None)] == [None] * 6


def test_jobs_cover_all_models_and_links() -> None:
    jobs = list_jobs(quick=False)
    assert {(job.model, job.link) for job in jobs} == {(model, link) for model in MODELS for link in LINKS}
    assert {job.ranks for job in jobs} == {2, 4}
    assert all(set(NATIVE).isdisjoint(job.systems) == (job.link == DELAY) for job in jobs)
    assert all({COMPUTING, DEFAULT, OFF} <= set(job.systems) for job in jobs)
    assert [job.name for job in list_jobs(quick=True)] == ["MLP, 2 ranks, loopback"]


def test_page_and_picture(tmp_path: Path) -> None:
    rows = [row for link in LINKS for row in read_rows(make_record(link))]
    text = report.format_page(rows, SMALL, command="x", versions="torch", load="0", skipped=["a: b"])
    cell = "31.0, 0.85"
    assert re.search(
        rf"^\| topk, overlap=False \|.* {re.escape(cell)} \|.*\| 125 \| 2 \|$", text, re.MULTILINE
    )
    assert re.search(r"^\| plain DDP \| 50\.0 \|.* \|  \|  \|$", text, re.MULTILINE)
    step = next(one for one in list_steps(rows) if (one.link, one.system) == (SLOW, "topk, overlap=False"))
    assert (step.milliseconds, step.cpu, step.sent, step.floor) == pytest.approx((31, 30, 125, 33))
    assert "| MLP, topk | 2.0 (1.0) | 2.0 (1.0) | 2.0 (1.0) | 2.0 (1.0) | 2.0 (1.0) | 10.0 (5.0) |" in text
    assert "| plain DDP | 1.00 |" in text
    stages = [one for one in report.list_stages(rows) if (one.model, one.system) == ("MLP", "topk")]
    assert [(one.milliseconds, one.cpu) for one in stages] == [(2.0, 1.0)] * 5
    assert "| each further tensor | 19.0 [19.0–30.0] |" in text
    assert "Skipped: a: b." in text
    plot.draw(tmp_path / "x.png", list_steps([*rows, *read_rows(make_record(SLOW, "another"))]))
    assert (tmp_path / "x.png").stat().st_size > 10_000


def test_a_stage_excludes_those_inside() -> None:
    clock = [0.0]

    def pass_time(seconds: float) -> None:
        clock[0] += seconds

    recorder = Recorder(clocks=[lambda: clock[0]])
    drive = recorder.wrap(lambda: pass_time(2), PAYLOAD)
    agree = recorder.wrap(drive, HEADERS)
    add = recorder.wrap(drive, DECODE)

    def exchange() -> None:
        pass_time(1)
        agree()
        add()

    recorder.wrap(exchange, REST)()
    walls = {stage: wall for stage, (wall,) in recorder.totals.items() if wall}
    assert walls == {HEADERS: 2, PAYLOAD: 2, REST: 1}
    assert recorder.exchanges == 2


def test_store_keeps_records(tmp_path: Path) -> None:
    store = Store("a", tmp_path)
    assert "MLP, 2 ranks" not in store
    store.save("MLP, 2 ranks", {"x": [1.5]})
    assert Store("a", tmp_path)["MLP, 2 ranks"] == {"x": [1.5]}
    assert "MLP, 2 ranks" not in Store("b", tmp_path)


def test_late_requests() -> None:
    pytest.importorskip("torch", reason="TorchComm needs torch")
    from benchmarks.step.delay import LateRequest

    class Done:
        def Test(self) -> bool:
            return True

    request = LateRequest(Done(), 0.02)
    start = time.perf_counter()
    while not request.Test():
        pass
    assert 0.02 <= time.perf_counter() - start < 1


def test_different_gradients_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch", reason="the model needs torch")
    from benchmarks.step.rank import check_gradients

    def gather(into: list[Any], mine: object) -> None:
        into[:] = [mine, other or mine]

    model = torch.nn.Linear(2, 1)
    model(torch.ones(1, 2)).sum().backward()
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 2)
    monkeypatch.setattr(torch.distributed, "all_gather_object", gather)
    other = ""
    check_gradients("x", model)
    other = "another"
    with pytest.raises(RuntimeError, match="the ranks have different gradients"):
        check_gradients("x", model)
    model.bias.grad[0] = np.inf
    with pytest.raises(RuntimeError, match="a gradient is not finite"):
        check_gradients("x", model)


def test_real_ranks() -> None:
    """Hooks average alike on two ranks, which the ranks check; ours has all its stages."""
    pytest.importorskip("torch", reason="the ranks need torch")
    systems = (COMPUTING, PLAIN, POWERSGD, DEFAULT, OFF, LIMITED)
    record = launch.run_job(Job(TINY, 2, DELAY, Effort(1, 0.01, 1, 1), systems), lambda name: None)
    rows = {row.system: row for row in read_rows(json.loads(json.dumps(record)))}
    assert list(rows) == list(systems)
    assert rows[PLAIN].exchanges == 1
    assert (rows[POWERSGD].exchanges or 0) > 1
    for system in (DEFAULT, OFF, LIMITED):
        row = rows[system]
        assert set(row.stages) == set(STAGES)
        assert all(wall > 0 for stage, (wall, _) in row.stages.items() if stage != PAYLOAD), system
        assert row.stages[HEADERS][0] >= 0.02
        assert row.exchanges in (1, 2)  # small payloads may travel behind the headers
        assert row.seconds >= 0.02
        assert 100 < (row.sent or 0) < 4 * 49_536


def test_a_rank_that_fails_ends_the_job() -> None:
    pytest.importorskip("torch", reason="the ranks need torch")
    with pytest.raises(RuntimeError, match="KeyError: 'unknown'"):
        launch.run_job(Job("unknown", 2, LOOPBACK), lambda name: None)


@pytest.mark.mpi(2)
def test_small_calls() -> None:
    from mpi4py import MPI

    found = SmallCalls(**small.measure(MPI.COMM_WORLD, 2, 2))
    assert [len(times) for times in (found.few, found.many, found.native)] == [2, 2, 2]
    assert min(found.few) > 0


def test_report_without_results(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch", reason="the command needs torch")
    monkeypatch.setattr("benchmarks.step.__main__.Store", lambda settings: {})
    main(["--report"])
    assert "measurements are missing; the page needs all of them." in capsys.readouterr().out
