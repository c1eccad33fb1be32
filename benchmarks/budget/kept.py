"""Results of the budget benchmark on disk, so that a run goes on, and the page can be written without one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.budget.bounds import Bound
from benchmarks.budget.cost import Cost
from benchmarks.budget.feedback import FeedbackRun
from benchmarks.budget.measurement import Point
from benchmarks.common.results import RESULTS
from benchmarks.common.tables import append_rows, read_rows

__all__ = ["FOLDER", "Bounds", "Rest", "load", "load_rest", "save", "save_rest"]

FOLDER = RESULTS / "budget"
"""Part of the repository: the page shows a selection of its points."""
DIGITS = 7

Bounds = dict[str, tuple[Bound, Bound]]
"""Bounds of a Laplace source and of the generalized Gaussian that is fitted to a gradient."""


@dataclass(frozen=True)
class Rest:
    """Parts of a run that are not points.

    Attributes:
        machine: that measured.
        command: that measured.
        loads: load averages before and after the times were measured.
        costs: times.
        runs: steps under error feedback, ``budget`` first.
    """

    machine: str
    command: str
    loads: tuple[float, float]
    costs: Sequence[Cost]
    runs: Sequence[FeedbackRun]


def load(folder: Path = FOLDER) -> tuple[list[Point], Bounds]:
    """Read all points, and the bounds of each gradient."""
    bounds: Bounds = {}
    path = folder / "bounds.jsonl"
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        fields = json.loads(line)
        laplace, fitted = (_parse_bound(one) for one in fields["bounds"])
        bounds[fields["gradient"]] = laplace, fitted
    return read_rows(folder / "points.csv", Point), bounds


def _parse_bound(fields: dict[str, Any]) -> Bound:
    return Bound(fields["shape"], tuple(fields["slopes"]), tuple(fields["intercepts"]), fields["inner"])


def save(points: Sequence[Point], bounds: Bounds, folder: Path = FOLDER) -> None:
    """Append the points and bounds of some gradients."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "bounds.jsonl").open("a", encoding="utf-8") as file:
        for gradient, pair in bounds.items():
            fields = {"gradient": gradient, "bounds": [_round(asdict(bound)) for bound in pair]}
            file.write(json.dumps(fields) + "\n")
    append_rows(folder / "points.csv", points)


def load_rest(folder: Path = FOLDER) -> Rest | None:
    """Read the other parts, or return None if the run has not ended."""
    path = folder / "rest.json"
    if not path.exists():
        return None
    fields = json.loads(path.read_text(encoding="utf-8"))
    return Rest(
        fields["machine"],
        fields["command"],
        (fields["loads"][0], fields["loads"][1]),
        [Cost(**one) for one in fields["costs"]],
        [FeedbackRun(**one) for one in fields["runs"]],
    )


def save_rest(rest: Rest, folder: Path = FOLDER) -> None:
    """Write the other parts."""
    (folder / "rest.json").write_text(json.dumps(_round(asdict(rest))) + "\n", encoding="utf-8")


def _round(value: Any) -> Any:
    """Round all floats of nested lists and dictionaries."""
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, dict):
        return {key: _round(one) for key, one in value.items()}
    return [_round(one) for one in value] if isinstance(value, list | tuple) else value
