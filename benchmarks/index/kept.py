"""Results of the index benchmark on disk, so that a run goes on, and the page can be written without one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.common.results import RESULTS
from benchmarks.common.tables import append_rows, read_rows
from benchmarks.common.targets import TargetResult
from benchmarks.index.measurement import Measurement

__all__ = ["FOLDER", "Rest", "load", "load_rest", "save", "save_rest"]

FOLDER = RESULTS / "index"
"""Part of the repository: the page shows a selection of its table."""


@dataclass(frozen=True)
class Rest:
    """Parts of a run that are not in the table.

    Attributes:
        machine: that measured.
        missing: packages of peers that were not installed.
        results: of the targets that need more than the table.
        sections: Markdown of the other measurements, in the order of the page.
    """

    machine: str
    missing: Sequence[str]
    results: Sequence[TargetResult]
    sections: Sequence[str]


def load(folder: Path = FOLDER) -> list[Measurement]:
    """Read all measurements."""
    return read_rows(folder / "measurements.csv", Measurement)


def save(measurements: Sequence[Measurement], folder: Path = FOLDER) -> None:
    """Append the measurements of some supports."""
    append_rows(folder / "measurements.csv", measurements)


def load_rest(folder: Path = FOLDER) -> Rest | None:
    """Read the other parts, or return None if the run has not ended."""
    path = folder / "rest.json"
    if not path.exists():
        return None
    fields = json.loads(path.read_text(encoding="utf-8"))
    return Rest(results=[TargetResult(**one) for one in fields.pop("results")], **fields)


def save_rest(rest: Rest, folder: Path = FOLDER) -> None:
    """Write the other parts."""
    text = json.dumps(asdict(rest), indent=1, ensure_ascii=False)
    (folder / "rest.json").write_text(text + "\n", encoding="utf-8")
