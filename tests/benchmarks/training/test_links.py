"""Training over shaped links: seconds until a loss, targets, page and picture of made-up records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs torch")
pytest.importorskip("matplotlib", reason="benchmarks need the extra [bench]")

from benchmarks.training.links.plot import draw
from benchmarks.training.links.report import OURS, check_targets, format_page
from benchmarks.training.links.rows import build_rows, compute_final_loss, find_seconds

STEPS = 60
LOSSES = np.exp(-np.arange(STEPS) / 10).tolist()


def _record(method: str, per_step: float, link: str = "100 Mbit") -> dict[str, Any]:
    seconds = (per_step * np.arange(1, STEPS + 1)).tolist()
    return {"method": method, "link": link, "losses": LOSSES, "seconds": seconds}


RECORDS = [
    _record("dense", 1.0),
    _record("fp16", 0.5),
    _record("PowerSGD, rank 4", 0.2),
    _record("PowerSGD, rank 8", 0.15),
    _record("budget 0.25, overlapped", 0.09),
    _record("dense", 0.1, "1 Gbit"),
]


def test_seconds_are_those_of_the_step_that_reaches_the_loss() -> None:
    goal = 1.02 * compute_final_loss(RECORDS[0])
    assert find_seconds(RECORDS[1], goal) == pytest.approx(
        0.5 * (found := find_seconds(RECORDS[0], goal) or 0)
    )
    assert 50 <= found <= STEPS
    assert find_seconds(RECORDS[0], 1e-9) is None


def test_a_loss_that_ends_above_the_goal_does_not_reach_it() -> None:
    dips = _record("dense", 1.0) | {"losses": [1.0] * 50 + [0.1] * 5 + [1.0] * 5}
    assert find_seconds(dips, 0.5) is None
    assert find_seconds(dips, 1.0) is not None


def test_targets_compare_the_best_of_ours() -> None:
    results = {result.target: result for result in check_targets(build_rows(RECORDS))}
    assert [result.met for result in results.values()] == [True, True, False]
    assert next(iter(results.values())).worst == "11.11×"
    assert [result.met for result in check_targets(build_rows(RECORDS[-1:]))] == [None] * 3


def test_page_and_picture(tmp_path: Path) -> None:
    rows = build_rows(RECORDS)
    page = format_page(rows, ranks=4, steps=STEPS)
    assert page.startswith(
        "At 100 Mbit/s, budget 0.25, overlapped reach dense's final loss + 2 % after 5 s. PowerSGD"
    )
    assert "| 100 Mbit, fp16 | 500 |" in page
    assert "| 1 Gbit, dense | 100 |" in page
    assert "2.00 × as long" in page
    assert "Their median" not in page
    page = format_page(build_rows([*RECORDS, _record(OURS[-1], 0.05)]), ranks=4, steps=STEPS)
    assert "Their median, 50 ms" in page
    assert "is 20 times as fast" in page
    draw(tmp_path / "links.png", rows)
    assert (tmp_path / "links.png").read_bytes().startswith(b"\x89PNG")
