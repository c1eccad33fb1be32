"""The page of delayed local updates, and one rank's steps in this process."""

from __future__ import annotations

import pytest

pytest.importorskip("matplotlib", reason="benchmarks need the extra [bench]")
pytest.importorskip("rich", reason="benchmarks need the extra [bench]")

from benchmarks.step.delayed import SYSTEMS, Row, format_page
from benchmarks.step.models import TINY
from tests.collectives.torch.processes import run_program
from tests.collectives.torch.server import HEAD


def test_the_page_names_the_worst_system() -> None:
    rounds = [
        [
            Row(system, slow * (100 + 4 * number * more), 100, 300 + slow, 10_000.0)
            for number, system in enumerate(SYSTEMS)
        ]
        for slow, more in ((2.0, 0.5), (1.0, 1.0), (1.0, 2.0))
    ]
    text = format_page(rounds)
    assert "| delay of 5 | 116 | 1.08x (1.04 to 1.16) | 100 | 301 | 10000 |" in text
    assert "With a delay of 5 and a delay of 5, 3 fragments, a step takes 1.08 and 1.12 times as long" in text
    assert (
        "10 MB, a step takes 1.16 times as long without a delay, and 1.20 times with a delay of 28." in text
    )
    assert "| 1.12x | **no** | delay of 5, 3 fragments (1 of 2) |" in text


def test_every_system_trains() -> None:
    pytest.importorskip("torch")
    code = f"""
from benchmarks.step.delayed import SYSTEMS, run_rank
dist.init_process_group("gloo")
for number, system in enumerate(SYSTEMS):
    row = run_rank(system, {TINY!r}, 30, 1)
    assert (row.sent > 0) == bool(number), row
"""
    run_program(2, HEAD + code)
