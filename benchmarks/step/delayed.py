"""Training steps with local updates on a slow link: without an exchange, at once, and delayed.

Each of two emulated hosts trains the transformer on one core, and exchanges every 30 steps at 100 Mbit/s: few
bits, which the link hardly notices, and all parameters, which take longer than most of the steps.

    python -m benchmarks.step.delayed        needs root, ip and tc; results/local_delay.md; 12 minutes
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from benchmarks.common.command import create_parser, create_progress
from benchmarks.common.hosts import RATES, Hosts, find_missing_tools
from benchmarks.common.ranks import is_rank, run_ranks, run_torch_rank
from benchmarks.common.results import format_markdown, write_result
from benchmarks.common.targets import check_at_most, format_targets
from benchmarks.step.models import MODELS, build

__all__ = ["SYSTEMS", "Row", "format_page", "main"]

MODULE = "benchmarks.step.delayed"
LINK, EVERY, PERIODS, WARM_UP, ROUNDS = "100 Mbit", 30, 2, 1, 3
SCHEME, DENSE = "budget(bits=0.219) | rice | error-bounded", "all | raw-index | raw"
ALONE, AT_ONCE, DENSE_AT_ONCE, DENSE_DELAYED = (
    "no exchange",
    "at once",
    "dense, at once",
    "dense, delay of 28",
)
SYSTEMS: dict[str, tuple[str, dict[str, Any]] | None] = {
    ALONE: None,
    AT_ONCE: (SCHEME, {}),
    "delay of 5": (SCHEME, {"delay": 5, "alpha": 0.5}),
    "delay of 5, 3 fragments": (SCHEME, {"delay": 5, "alpha": 0.5, "fragments": 3}),
    DENSE_AT_ONCE: (DENSE, {}),
    DENSE_DELAYED: (DENSE, {"delay": 28, "alpha": 0.5}),
}
"""{system: scheme of an exchange, and settings of LocalUpdates}."""
MOST = 1.1
"""Largest ratio of a step with delay to one without an exchange."""


@dataclass(frozen=True)
class Row:
    """Steps of one system on rank 0.

    Attributes:
        system: a key of ``SYSTEMS``.
        step: mean milliseconds of a step over whole periods.
        median, longest: milliseconds.
        sent: kB that leave a host per period.
    """

    system: str
    step: float
    median: float
    longest: float
    sent: float


def run_rank(system: str, model: str, every: int, periods: int) -> Row:
    """Train as one of two ranks, whose process group exists."""
    import torch
    import torch.distributed as dist

    import collectives as co
    import wirecodec as wc

    problem = build(model, dist.get_rank())
    optimizer = torch.optim.AdamW(problem.model.parameters(), lr=1e-4)
    comm = co.TorchComm(dist.new_group(backend="gloo"))  # of its own: exchanges run beside the barriers
    channel, local, given = co.Channel(comm), None, SYSTEMS[system]
    if given is not None:
        scheme, settings = given
        named = problem.model.named_parameters()
        local = co.LocalUpdates(
            optimizer, named, wc.Compressor(scheme, scope="group"), channel, every, **settings
        )
    times: list[float] = []
    for number in range((WARM_UP + periods) * every):
        if number == WARM_UP * every:
            dist.barrier()
            times, before = [], channel.bytes_sent
        start = time.perf_counter()
        optimizer.zero_grad()
        problem.loss(problem.model).backward()
        (optimizer.step if local is None else local.step)()
        times.append(time.perf_counter() - start)
    sent = (channel.bytes_sent - before) / periods
    if local is not None:
        local.exchange()
    dist.barrier()
    ordered = sorted(times)
    mean = sum(times) / len(times)
    return Row(system, 1000 * mean, 1000 * ordered[len(times) // 2], 1000 * ordered[-1], sent / 1000)


def measure(system: str, model: str = MODELS[1], every: int = EVERY, periods: int = PERIODS) -> Row:
    """Run a system on two hosts with shaped links."""
    with Hosts(2) as hosts:
        hosts.shape(RATES[LINK])
        return Row(**run_ranks(MODULE, [system, model, every, periods], hosts.names))


def format_page(rounds: Sequence[Sequence[Row]]) -> str:
    """Format the table and the target.

    Args:
        rounds: the rows of all systems, in the order of ``SYSTEMS``; a round's systems ran one after another.
    """
    cases = [_Case.of(rows, rounds) for rows in zip(*rounds, strict=True)]
    columns = "exchange", "step, ms", "of no exchange", "median, ms", "longest, ms", "kB per period"
    table = [
        [
            case.system,
            f"{case.find_median('step'):.0f}",
            f"{median(case.ratios):.2f}x ({min(case.ratios):.2f} to {max(case.ratios):.2f})",
            f"{case.find_median('median'):.0f}",
            f"{case.find_median('longest'):.0f}",
            f"{case.find_median('sent'):.0f}",
        ]
        for case in cases
    ]
    text = f"""{_format_answer(cases)}A transformer of 11.7M parameters, AdamW, on two hosts of one core each,
linked at {LINK}.
An exchange every {EVERY} steps sends `{SCHEME}` over the whole model, or all parameters in float32 (dense).
`step` is the mean over {PERIODS} periods. The systems ran in turns, in {len(rounds)} rounds. All figures are
medians over the rounds; the ratio, with its range, is that of each round. The target is for few bits: all
parameters keep the link busy for almost a whole period, and a core that trains copies and sends them, too.

"""
    delayed = [(case.system, median(case.ratios)) for case in cases if case.system.startswith("delay")]
    targets = [check_at_most(f"a step with delay: at most {MOST}x one without", MOST, delayed, "{:.2f}x")]
    return text + format_markdown(columns, table) + "\n" + format_targets(targets)


@dataclass(frozen=True)
class _Case:
    """One system's rows of all rounds, and the ratios of its steps to those without an exchange."""

    rows: Sequence[Row]
    ratios: Sequence[float]

    @classmethod
    def of(cls, rows: Sequence[Row], rounds: Sequence[Sequence[Row]]) -> _Case:
        alone = [next(row for row in one if row.system == ALONE) for one in rounds]
        return cls(rows, [row.step / other.step for row, other in zip(rows, alone, strict=True)])

    @property
    def system(self) -> str:
        return self.rows[0].system

    def find_median(self, column: str) -> float:
        return float(median(getattr(row, column) for row in self.rows))


def _format_answer(cases: Sequence[_Case]) -> str:
    """Answer the benchmark's question with the rows of the delayed exchanges."""
    by_name = {case.system: case for case in cases}
    at_once, delayed = by_name[AT_ONCE], [case for case in cases if case.system.startswith("delay")]
    dense = [median(by_name[name].ratios) for name in (DENSE_AT_ONCE, DENSE_DELAYED)]
    size = by_name[DENSE_AT_ONCE].find_median("sent") / 1000
    ratios = " and ".join(f"{median(case.ratios):.2f}" for case in delayed)
    longest = " and ".join(f"{case.find_median('longest'):.0f}" for case in delayed)
    names = " and ".join(f"a {case.system}" for case in delayed)
    return (
        f"With {names}, a step takes {ratios} times as long as without any exchange. The longest step takes "
        f"{longest} ms, and {at_once.find_median('longest'):.0f} ms without a delay. If all parameters are"
        f" sent, {size:.0f} MB, a step takes {dense[0]:.2f} times as long without a delay, and {dense[1]:.2f}"
        " times with a delay of 28.\n\n"
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure all systems, print the page and write it."""
    create_parser(__doc__, MODULE).parse_args(arguments)
    if missing := find_missing_tools():
        sys.exit(f"nothing was measured: {missing}")
    rounds: list[list[Row]] = []
    with create_progress() as progress:
        bar = progress.add_task("local updates", total=ROUNDS * len(SYSTEMS))
        for _ in range(ROUNDS):
            rounds.append([])
            for system in SYSTEMS:
                progress.update(bar, description=system)
                rounds[-1].append(measure(system))
                progress.advance(bar)
    text = format_page(rounds)
    print(text)
    print(write_result("local_delay", "Local updates with a delay", text))


if __name__ == "__main__":
    run_torch_rank(lambda plan: asdict(run_rank(*plan))) if is_rank() else main()
