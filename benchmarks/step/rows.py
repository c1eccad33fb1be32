"""Rows of results: a job's systems, their floors, and the ratios to them."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.common.hosts import RATES
from benchmarks.step.systems import COMPUTING, OURS

__all__ = ["DELAY", "DELAY_SECONDS", "FAST", "LINKS", "LOOPBACK", "SLOW", "Row", "read_rows"]

LOOPBACK, FAST, SLOW = "loopback", "1 Gbit", "100 Mbit"
DELAY_SECONDS = 0.02
DELAY = "loopback, 20 ms"
LINKS = (LOOPBACK, FAST, SLOW, DELAY)


@dataclass(frozen=True)
class Row:
    """Steps of one system.

    Attributes:
        model, parameters, tensors: of the job.
        ranks, link: of the job.
        system: its name.
        times: seconds per step, of each round.
        processor: seconds of rank 0's CPU per step, of each round.
        computing: seconds per step of the model alone, the median of the same job.
        touching: seconds of one add of gradient and residual, and one zero fill, in the same job.
        sent: bytes per step that rank 0 sent as headers and payloads; None if it counts none.
        link_bytes: bytes per step and rank by the counter of the link, with TCP's headers; None without one.
        exchanges: all-gathers and transfers per step, one after another; of torch's hooks, all-reduces.
        stages: {stage: (seconds, seconds of CPU)} per step; empty for other systems than this library's.
        peak: bytes by which the process's peak exceeds its memory before; None if not measured.
        local_peak: the same of the model alone.
    """

    model: str
    parameters: int
    tensors: int
    ranks: int
    link: str
    system: str
    times: Sequence[float]
    processor: Sequence[float]
    computing: float
    touching: float
    sent: float | None = None
    link_bytes: float | None = None
    exchanges: float | None = None
    stages: Mapping[str, Sequence[float]] = field(default_factory=dict)
    peak: float | None = None
    local_peak: float | None = None

    @property
    def seconds(self) -> float:
        """Return the median time of a step."""
        return statistics.median(self.times)

    @property
    def cpu(self) -> float:
        """Return the median CPU time of rank 0 per step."""
        return statistics.median(self.processor)

    @property
    def floor(self) -> float | None:
        """Return the least time of a step: computing, two passes over memory, the bytes, and one delay.

        None if the system does not count its bytes.
        """
        if self.sent is None:
            return None
        rate = RATES.get(self.link)
        sending = 8 * self.sent / rate.bits if rate else 0.0
        delay = DELAY_SECONDS if self.link == DELAY else 0.0
        return self.computing + self.touching + sending + delay

    @property
    def ratio(self) -> float | None:
        """Return the time above computing alone, relative to that of the floor."""
        if self.floor is None:
            return None
        return (self.seconds - self.computing) / (self.floor - self.computing)

    @property
    def floats(self) -> float | None:
        """Return the peak memory above that of the model alone, in float32 numbers per parameter."""
        if self.peak is None or self.local_peak is None:
            return None
        return (self.peak - self.local_peak) / (4 * self.parameters)

    @property
    def case(self) -> str:
        """Return the setup and the system as text."""
        return f"{self.model}, {self.ranks} ranks, {self.link}, {self.system}"


def read_rows(record: Mapping[str, Any]) -> list[Row]:
    """Read the rows of a job from what its rank 0 printed."""
    systems = record["systems"]
    alone = systems[COMPUTING]
    shared = {name: record[name] for name in ("model", "parameters", "tensors", "ranks", "link")}
    computing = statistics.median(alone["times"])
    touching = statistics.median(record["add"]) + statistics.median(record["fill"])
    return [
        Row(
            **shared,
            system=name,
            **{**one, "sent": one.get("sent") if name in OURS else None},
            computing=computing,
            touching=touching,
            local_peak=alone.get("peak"),
        )
        for name, one in systems.items()
    ]
