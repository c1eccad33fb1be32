"""Measurements of the benchmark on disk, so that the page can be written again from a changed model."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.common.results import RESULTS
from benchmarks.scale.check import Run, Series
from benchmarks.scale.rates import Rates, read_rates
from collectives.advise.cost_model import Network

__all__ = ["PATH", "Kept", "load", "save"]

PATH = RESULTS / "scale" / "measurements.json"
"""Part of the repository."""


@dataclass(frozen=True)
class Kept:
    """Measurements of a run.

    Attributes:
        machine: that measured.
        library: that computes PowerSGD.
        cores: of the machine.
        load: of the machine, as text.
        skipped: why there are no real runs; empty if there are.
        rates: {model of the maps: its rates}.
        series: real runs.
    """

    machine: str
    library: str
    cores: int
    load: str
    skipped: str
    rates: dict[str, Rates]
    series: Sequence[Series]


def load(path: Path = PATH) -> Kept:
    """Read the measurements."""
    fields = json.loads(path.read_text(encoding="utf-8"))
    fields["rates"] = {model: read_rates(json.dumps(found)) for model, found in fields["rates"].items()}
    fields["series"] = [
        Series(
            read_rates(json.dumps(one["rates"])),
            [Run(**run | {"network": Network(**run["network"])}) for run in one["runs"]],
        )
        for one in fields["series"]
    ]
    return Kept(**fields)


def save(kept: Kept, path: Path = PATH) -> None:
    """Write the measurements."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(asdict(kept), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
