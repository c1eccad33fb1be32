"""Parts of a run that are not in its tables, on disk beside them, so that a page can be written again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.common.targets import TargetResult

__all__ = ["Rest", "load_rest", "save_rest"]


@dataclass(frozen=True)
class Rest:
    """Parts of a run that are not in the tables.

    Attributes:
        machine: that measured.
        missing: packages of peers that were not installed.
        results: of the targets that need more than the tables.
        sections: Markdown of the other measurements, in the order of the page.
    """

    machine: str
    missing: Sequence[str]
    results: Sequence[TargetResult]
    sections: Sequence[str]


def load_rest(folder: Path) -> Rest | None:
    """Read the parts from a folder of results, or return None if the run has not ended."""
    path = folder / "rest.json"
    if not path.exists():
        return None
    fields = json.loads(path.read_text(encoding="utf-8"))
    results = [TargetResult(**one) for one in fields.pop("results")]
    return Rest(results=results, **fields)


def save_rest(rest: Rest, folder: Path) -> None:
    """Write the parts into a folder of results."""
    text = json.dumps(asdict(rest), indent=1, ensure_ascii=False)
    (folder / "rest.json").write_text(text + "\n", encoding="utf-8")
