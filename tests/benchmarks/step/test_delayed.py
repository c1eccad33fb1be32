"""The page of delayed local updates, and one rank's steps in this process."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("matplotlib", reason="benchmarks need the extra [bench]")
pytest.importorskip("rich", reason="benchmarks need the extra [bench]")

from benchmarks.step.delayed import SYSTEMS, Row, format_page
from benchmarks.step.models import TINY
from tests.collectives.torch.processes import run_program
from tests.collectives.torch.server import HEAD


def test_the_page_names_the_worst_system() -> None:
    rows = [Row(system, 100.0 + 4 * number, 100, 300, 5.0) for number, system in enumerate(SYSTEMS)]
    text = format_page(rows)
    assert "| delay of 5 | 108 | 1.08x | 100 | 300 | 5 |" in text
    assert "| 1.12x | delay of 5, 3 fragments; missed in 1 of 2 | **no** |" in text


def test_every_system_trains(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    code = f"""
from benchmarks.step.delayed import SYSTEMS, run_rank
for number, system in enumerate(SYSTEMS):
    store = f"file://{tmp_path}/" + str(number)
    row = run_rank(system, int(os.environ["RANK"]), store, {TINY!r}, 6, 1)
    assert (row.sent > 0) == bool(number), row
    dist.destroy_process_group()
"""
    run_program(2, HEAD + code)
