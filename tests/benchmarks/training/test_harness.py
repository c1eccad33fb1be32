"""Training benchmark without torch: keys, resuming, choice of settings, page and pictures."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("rich", reason="benchmarks need the extra [bench]")
pytest.importorskip("matplotlib", reason="benchmarks need the extra [bench]")

from benchmarks.common.tables import read_rows
from benchmarks.training import plot, report
from benchmarks.training.choices import format_choices, list_answers
from benchmarks.training.plan import Plan, pick_best
from benchmarks.training.rows import Difference, Row, collect_rows, count_steps, measure_difference
from benchmarks.training.runs import Result, Run, find_result, load_results, save_result
from benchmarks.training.systems.system import Exchange, System
from benchmarks.training.targets import format_targets
from benchmarks.training.tasks.task import Settings, Task

GRID = (Settings(0.1, 0.9), Settings(0.2, 0.9), Settings(0.3, 0.9))


class Named(System):
    """System that cannot run."""

    def open(self, workers: int, settings: Settings, steps: int) -> Exchange:
        """Raise, because these tests train nothing."""
        raise NotImplementedError


def fail(_: int) -> Any:
    raise NotImplementedError


TASK = Task("text-lstm", "nothing", "perplexity", False, "sgd", 30, 5, None, GRID, fail, lambda: "data")
DENSE, OURS = Named("dense", "in use today"), Named("budget 0.25", "this library")


def make_result(run: Run, validation: float, test: float, *, bits: float = 32.0, error: str = "") -> Result:
    losses = tuple(3.0 - 2.0 * step / run.steps for step in range(run.steps))
    return Result(run, validation, test, bits, 0.001, 1.0, losses, 100, "torch 1", error)


def save_grid(plan: Plan, system: System, metrics: list[tuple[float, float]], bits: float = 32.0) -> None:
    for run, (validation, test) in zip(plan.tune(TASK, system), metrics, strict=True):
        save_result(make_result(run, validation, test, bits=bits), plan.folder)


def test_every_field_of_a_run_changes_its_key(tmp_path: Path) -> None:
    run = Plan(tmp_path).tune(TASK, DENSE)[0]
    changed: dict[str, Any] = {
        field.name: getattr(run, field.name) + (1 if isinstance(getattr(run, field.name), int) else "x")
        for field in dataclasses.fields(run)
        if field.name != "settings"
    } | {"settings": GRID[1]}
    keys = {run.key} | {dataclasses.replace(run, **{name: x}).key for name, x in changed.items()}
    assert len(keys) == 1 + len(dataclasses.fields(run))


def test_results_are_read_as_they_were_saved(tmp_path: Path) -> None:
    run = Plan(tmp_path).tune(TASK, DENSE)[0]
    diverged = make_result(run, math.nan, math.nan, error="not finite")
    save_result(diverged, tmp_path)
    found = find_result(run, tmp_path)
    assert found is not None
    assert (found.run, found.losses, found.diverged) == (run, diverged.losses, True)
    assert list(load_results(tmp_path, TASK.name)) == [run.key]


def test_a_benchmark_goes_on_with_what_is_missing(tmp_path: Path) -> None:
    plan = Plan(tmp_path, dense_seeds=3, seeds=1)
    assert len(plan.list_missing([(TASK, DENSE), (TASK, OURS)])) == 6
    assert plan.repeat(TASK, DENSE) == []
    save_grid(plan, DENSE, [(4.0, 1.0), (3.0, 9.0), (5.0, 0.5)])
    missing = plan.list_missing([(TASK, DENSE)])
    assert [(run.settings, run.seed) for run in missing] == [(GRID[1], 1), (GRID[1], 2)]  # validation decides
    save_grid(plan, OURS, [(3.0, 3.0)] * 3)
    assert plan.list_missing([(TASK, OURS)]) == []


def test_a_system_near_another_tries_its_best_rate_and_the_next(tmp_path: Path) -> None:
    near = {("", "budget 0.25"): DENSE, ("other", "later"): DENSE}
    plan = Plan(tmp_path, near=near)
    assert plan.tune(TASK, OURS) == []  # before dense is known
    save_grid(plan, DENSE, [(3.0, 3.0), (4.0, 4.0), (5.0, 5.0)])
    assert [run.settings for run in plan.tune(TASK, OURS)] == [GRID[0], GRID[1]]
    assert len(plan.tune(TASK, Named("later", "papers"))) == 3
    assert len(plan.tune(dataclasses.replace(TASK, name="other"), Named("later", "papers"))) == 0


def test_runs_that_diverged_are_never_the_best(tmp_path: Path) -> None:
    runs = Plan(tmp_path).tune(TASK, DENSE)
    diverged, good = make_result(runs[0], math.nan, math.nan), make_result(runs[1], 3.0, 3.0)
    assert pick_best([diverged, good], higher_is_better=False) is good
    assert pick_best([diverged], higher_is_better=True) is None


def test_steps_until_a_loss() -> None:
    losses = [4.0] * 30 + [2.0] * 30
    assert count_steps(losses, 2.0, 60) == 32  # the mean of the last 2 steps
    assert count_steps(losses, 3.0, 60) == 31
    assert count_steps(losses, 1.9, 60) is None
    assert count_steps(losses, 3.0, 1200) == 620
    assert count_steps([], 1.0, 60) is None


def test_page_and_pictures_say_what_is_missing(tmp_path: Path) -> None:
    plan = Plan(tmp_path, dense_seeds=2)
    later = Named("later", "papers")
    save_grid(plan, DENSE, [(4.0, 4.0), (3.0, 3.0), (5.0, 5.0)])
    save_result(make_result(plan.repeat(TASK, DENSE)[1], 3.1, 3.2), tmp_path)
    save_result(make_result(plan.tune(TASK, OURS)[2], 3.0, 3.1, bits=0.246), tmp_path)
    dense, ours = collect_rows(plan, TASK, [DENSE, OURS, later])
    assert (dense.tests, dense.at_edge, ours.at_edge) == ((3.0, 3.2), False, True)
    text = report.format_page(plan, [TASK], [DENSE, OURS, later])
    assert "| budget 0.25 | 0.246 | 3.1 | +0.0% | (1), provisional * |" in text
    details = read_rows(report.write_details(plan, [TASK], [DENSE, OURS, later]), report.Details)
    assert [(one.system, one.settings, one.tries, one.grid) for one in details][1:] == [
        ("budget 0.25", "rate 0.3, momentum 0.9", 1, 3)
    ]
    assert "yes, one seed, provisional: grid incomplete" in text
    assert f"Not run yet of {TASK.name}: later." in text
    pictures = plot.draw(tmp_path, plan, [TASK], [DENSE, OURS, later])
    assert [path.name for path in pictures if path.stat().st_size] == ["training.png", "training_loss.png"]
    assert plot.draw(tmp_path, plan, [TASK], [DENSE]) == []
    assert plot.draw(tmp_path, Plan(tmp_path / "none"), [TASK], [DENSE]) == []


def test_a_folder_of_its_own_leaves_the_repositorys_page_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch", reason="the registry of tasks imports models")
    from benchmarks.common.results import RESULTS
    from benchmarks.training.__main__ import main
    from benchmarks.training.systems.registry import SYSTEMS
    from benchmarks.training.tasks.registry import TASKS

    kept = [RESULTS / name for name in ("training.md", "training.png", "training/systems.csv")]
    before = [path.read_bytes() for path in kept]
    task = TASKS["images-16-workers"]
    for run in Plan(tmp_path).tune(task, SYSTEMS["dense"]):
        save_result(make_result(run, 90.0, 90.0), tmp_path)
    main(["--report", "--folder", str(tmp_path), "--task", task.name])
    printed = capsys.readouterr().out
    assert "| dense | 32 | 90 | +0.0% |" in printed
    assert "## images-large" not in printed  # the others are on the page
    assert [path.read_bytes() for path in kept] == before
    assert f"- {task.name}: " in (tmp_path / "training.md").read_text(encoding="utf-8")
    details = read_rows(tmp_path / "systems.csv", report.Details)
    assert [(one.task, one.system, one.test, one.worse) for one in details] == [
        (task.name, "dense", 90.0, 0.0)
    ]


def make_row(tests: tuple[float, ...], steps: tuple[int | None, ...] = ()) -> Row:
    best = make_result(Run("text-lstm", "a", GRID[0], 0, 30, "", ""), tests[0], tests[0])
    return Row(Named("a", "papers"), best, 1, 1, tests, False, steps or (10,) * len(tests))


def test_an_interval_is_that_of_two_means_of_unequal_variances() -> None:
    """Compared with scipy's own test of Welch, and by hand."""
    stats = pytest.importorskip("scipy.stats")
    dense = make_row((4.0, 4.1, 3.9))
    assert measure_difference(TASK, make_row((4.0, 4.4)), dense).half is None
    for one, other in (((4.0, 4.4, 3.6), (4.0, 4.1, 3.9)), ((5.0, 5.2, 5.1, 4.7), (4.0, 4.4, 3.6))):
        low, high = stats.ttest_ind(one, other, equal_var=False).confidence_interval(0.95)
        found = measure_difference(TASK, make_row(one), make_row(other))
        mean = sum(other) / len(other)
        assert found.half == pytest.approx((high - low) / 2 / mean)
        assert found.worse == pytest.approx((high + low) / 2 / mean)
    accuracy = dataclasses.replace(TASK, higher_is_better=True)
    found = measure_difference(accuracy, make_row((90.0, 91.0, 92.0)), make_row((90.0,) * 3))
    assert found.worse == pytest.approx(-0.1)
    assert found.half == pytest.approx(4.3027 / 3**0.5 / 10, rel=1e-4)
    assert measure_difference(accuracy, make_row((90.0,) * 3), make_row((90.0,) * 3)) == Difference(0.0, 0.0)


def test_choices_count_deviations_and_directions(tmp_path: Path) -> None:
    plan, tensors = Plan(tmp_path, seeds=3, tries=1), Named("budget 0.1, per tensor", "ablation")
    whole = Named("budget 0.1", "this library")
    task = dataclasses.replace(TASK, grid=GRID[:1])

    def save(system: System, tests: tuple[float, ...], bits: float) -> None:
        save_result(make_result(plan.tune(task, system)[0], 2.0, tests[0], bits=bits), tmp_path)
        for run, test in zip(plan.repeat(task, system)[1:], tests[1:], strict=False):
            save_result(make_result(run, 2.0, test, bits=bits), tmp_path)

    def format_page(*tests: float) -> list[str]:
        save(tensors, tests, 0.2)
        rows = collect_rows(plan, task, [whole, tensors])
        return format_choices(list_answers({TASK.name: rows}, [task])).splitlines()

    def format_row(*tests: float) -> list[str]:
        return format_page(*tests)[-4].split(" | ")

    save(whole, (3.1, 3.1, 3.1), 0.1)
    assert "also 1 undecided ones, of which 1" in format_page(3.2)[-2]
    question, _, one, other, *_ = format_row(3.2, 3.2, 3.2)
    assert question == "| one vector of the whole model, or a choice per tensor?"
    assert one == "budget 0.1: 3.1"
    assert other == "budget 0.1, per tensor: 3.2"
    assert format_row(3.2, 3.2, 3.2)[-2:] == ["-3.1% ± 0.0%", "better |"]
    assert format_row(3.0, 3.0, 3.0)[-2:] == ["+3.3% ± 0.0%", "worse |"]
    assert "also 1 undecided ones, of which 0" in format_page(3.2, 3.1, 3.3)[-2]
    [answer] = list_answers({TASK.name: collect_rows(plan, task, [whole, tensors])}, [task])
    assert answer.verdict == "undecided"
    assert answer.difference == pytest.approx(-0.03125)
    assert answer.half == pytest.approx(0.0776, rel=1e-2)
    assert format_row(3.11, 3.1, 3.09)[-2:] == ["+0.0% ± 0.8%", "no difference |"]
    assert format_choices(list_answers({TASK.name: collect_rows(plan, task, [whole])}, [task])) == ""


def test_a_task_may_be_for_some_systems(tmp_path: Path) -> None:
    plan, only = Plan(tmp_path), dataclasses.replace(TASK, systems=("dense",))
    assert [run.system for run in plan.list_missing([(only, DENSE), (only, OURS)])] == ["dense"] * 3
    assert collect_rows(plan, only, [OURS]) == []


def test_targets_compare_with_deviation_and_other_systems(tmp_path: Path) -> None:
    plan, images = Plan(tmp_path, dense_seeds=2), dataclasses.replace(TASK, name="images", grid=GRID[:1])
    power, top = Named("PowerSGD, rank 4", "in use today"), Named("top-k 0.1 %", "ablation")
    found = {DENSE: (3.0, 32.0), power: (3.3, 4.0), OURS: (3.2, 0.25), top: (3.1, 0.02)}
    for system, (metric, bits) in found.items():
        save_result(make_result(plan.tune(images, system)[0], metric, metric, bits=bits), tmp_path)

    def check() -> list[list[str]]:
        rows = collect_rows(plan, images, list(found))
        table = format_targets({"images": rows}, [images])
        return [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()[4:] if line]

    least, elements, quality = check()
    assert least[1:] == ["top-k 0.1 %", "0.02", "+3.3%", "no, one seed"]
    assert elements[-1] == "one seed of dense"
    assert quality == [
        *("images: quality of PowerSGD, rank 4 (+10.0% at 4 bits), at most 0.5 bits",),
        *("top-k 0.1 %", "0.02", "+3.3%", "yes, one seed"),
    ]
    save_result(make_result(plan.repeat(images, DENSE)[1], 3.0, 3.2), tmp_path)
    assert check()[1] == [
        *("images: 0.1 % of the elements, within dense's deviation (+4.6%)",),
        *("top-k 0.1 %", "0.02", "+0.0%", "yes, one seed"),
    ]
