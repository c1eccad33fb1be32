"""What momentum costs on top of error feedback, and what a choice per bucket costs: results/momentum.md.

`python -m benchmarks.training.momentum` trains the character LSTM with each row's settings at several
learning rates, and reports the best rate of each. Results are kept, a line per run, and are not repeated.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.common.command import create_parser
from benchmarks.common.results import RESULTS, format_markdown, write_result
from benchmarks.training.runs import Result, Run, find_result, save_result
from benchmarks.training.systems.codec import Codec, CodecExchange, build_compressor
from benchmarks.training.systems.plain import Dense
from benchmarks.training.systems.system import Exchange, System, Tensors
from benchmarks.training.tasks.registry import TASKS
from benchmarks.training.tasks.task import Settings
from benchmarks.training.train import train

__all__ = ["Bucketed", "Row", "divide", "format_page", "main"]

TASK = "text-lstm"
STEPS = 300
SEEDS = (0, 1)
RATES = (0.016, 0.008)
DENSITIES = (0.01, 0.001)
CODES = "rice | qsgd(bits=4)"
FIRST_BUCKET_MB = 1.0
"""Size of the first bucket of DistributedDataParallel."""
WITH, WITHOUT = (0.9, 0.999), (0.0, 0.99)
"""beta1 and beta2 of Adam with momentum and without."""
CORRECTED = 0.9


@dataclass(frozen=True)
class Bucketed(Codec):
    """Codec that selects from the tensors of each bucket, as a hook that exchanges bucket by bucket.

    Args:
        cap_mb: size of the buckets after the first, in megabytes.
    """

    cap_mb: float = 25.0

    def open(self, workers: int, settings: Settings, steps: int) -> Exchange:
        """Return an Exchange with one Compressor per worker and bucket."""

        def make() -> CodecExchange:
            return CodecExchange(
                [build_compressor(self, settings, steps) for _ in range(workers)], whole=True
            )

        return _BucketExchange(make, self.cap_mb)


class _BucketExchange:
    """Exchange of one container per bucket.

    Args:
        make: returns the Exchange of a bucket.
        cap_mb: size of the buckets after the first.
    """

    def __init__(self, make: Any, cap_mb: float) -> None:
        self._make, self._cap = make, cap_mb
        self._exchanges: list[CodecExchange] = []

    def mean(self, gradients: Sequence[Tensors]) -> tuple[Tensors, int]:
        """Return the means of all buckets, and the bytes of their containers."""
        buckets = divide(gradients[0], self._cap)
        self._exchanges = self._exchanges or [self._make() for _ in buckets]
        means: Tensors = {}
        sent = 0
        for names, exchange in zip(buckets, self._exchanges, strict=True):
            mean, nbytes = exchange.mean([{name: one[name] for name in names} for one in gradients])
            means |= mean
            sent += nbytes
        return {name: means[name] for name in gradients[0]}, sent


def divide(tensors: Tensors, cap_mb: float) -> list[list[str]]:
    """Divide tensors into buckets as DistributedDataParallel does after its first step, last layer first."""
    from torch.distributed import _compute_bucket_assignment_by_size

    names = list(tensors)[::-1]
    limits = [int(min(FIRST_BUCKET_MB, cap_mb) * 2**20), int(cap_mb * 2**20)]
    numbers, _ = _compute_bucket_assignment_by_size([tensors[name] for name in names], limits)
    return [[names[number] for number in bucket] for bucket in numbers]


@dataclass(frozen=True)
class Row:
    """Row of a table.

    Attributes:
        density: in percent, or "dense".
        about: what the row has.
        system: averages the gradients.
        momentum: before the exchange if the system corrects it, else beta1 of Adam.
        beta2: of Adam.
    """

    density: str
    about: str
    system: System
    momentum: float
    beta2: float

    def runs(self, rate: float, seeds: Sequence[int], steps: int) -> list[Run]:
        """Return the runs of all seeds at a rate."""
        settings = Settings(rate, self.momentum, self.beta2)
        data = TASKS[TASK].digest()
        return [
            Run(TASK, self.system.name, settings, seed, steps, self.system.describe_fields(), data)
            for seed in seeds
        ]


def _codec(ratio: float, feedback: str, kind: type[Codec] = Codec, **fields: Any) -> Codec:
    name = f"{kind.__name__.lower()} topk({ratio:g}) {feedback} {fields}"
    fields.setdefault("whole", True)
    return kind(name, "momentum", f"topk({ratio:g}) | {CODES}", feedback, **fields)


def momentum_rows() -> list[Row]:
    """Return the rows of the table of momenta."""
    dense = Dense("dense", "momentum")
    rows = [Row("dense", "momentum in Adam", dense, *WITH), Row("dense", "no momentum", dense, *WITHOUT)]
    for ratio in DENSITIES:
        kept, corrected = _codec(ratio, "error"), _codec(ratio, "momentum")
        rows += [
            Row(f"{ratio:.1%}", "momentum in Adam, on top of the feedback", kept, *WITH),
            Row(f"{ratio:.1%}", "momentum correction, none in Adam", corrected, CORRECTED, WITHOUT[1]),
            Row(f"{ratio:.1%}", "no momentum", kept, *WITHOUT),
        ]
    return rows


def scope_rows() -> list[Row]:
    """Return the rows of the table of scopes."""
    rows = []
    for ratio in DENSITIES:
        density = f"{ratio:.1%}"
        rows += [
            Row(density, "whole model", _codec(ratio, "error"), *WITHOUT),
            Row(density, "2 buckets (25 MB)", _codec(ratio, "error", Bucketed), *WITHOUT),
            Row(density, "3 buckets (0.25 MB)", _codec(ratio, "error", Bucketed, cap_mb=0.25), *WITHOUT),
            Row(density, "each tensor", _codec(ratio, "error", whole=False), *WITHOUT),
        ]
    return rows


def main() -> None:
    """Run what has no result yet, and write the page."""
    parser = create_parser(__doc__, "benchmarks.training.momentum")
    parser.add_argument("--folder", type=Path, default=RESULTS / "momentum", help="folder of results")
    parser.add_argument("--steps", type=int, default=STEPS, help="steps of each run")
    parser.add_argument("--page", action="store_true", help="only write the page")
    wanted = parser.parse_args()
    rows = momentum_rows() + scope_rows()
    for seed in () if wanted.page else SEEDS:
        for rate in RATES:
            for row in rows:
                for run in row.runs(rate, [seed], wanted.steps):
                    if find_result(run, wanted.folder) is None:
                        result = train(run, system=row.system)
                        save_result(result, wanted.folder)
                        print(
                            f"{row.density:6} {row.about:40} {run.settings}, seed {seed}: {result.test:.3f}"
                        )
    path = write_result("momentum", "Momentum and error feedback", format_page(wanted.folder, wanted.steps))
    print(path)


def format_page(folder: Path, steps: int) -> str:
    """Format the page as Markdown."""
    about = (
        f"Character LSTM of [the training benchmark](training.md), 4 workers, {steps} steps, Adam after the"
        f" mean, rates {' and '.join(f'{rate:g}' for rate in RATES)}. Perplexity on test, of the rate that is"
        f" best on validation, mean of the seeds listed. Scheme: `topk | {CODES}`. *Worse than dense*: than"
        " the better dense row, over the same seeds.\n\nCommand: `python -m benchmarks.training.momentum`\n\n"
    )
    found = {row: _pick(row, folder, steps) for row in momentum_rows() + scope_rows()}
    known = [r for row, r in found.items() if row.density == "dense" and r]
    dense = min(known, key=_mean, default=[])
    momenta, scopes = (
        [_cells(row, found[row], dense) for row in rows] for rows in (momentum_rows(), scope_rows())
    )
    header = ["density, momentum", "bits", "rate", "perplexity", "seeds", "worse than dense"]
    text = format_answer(momenta, scopes) + about + "## Momentum\n\nAll tensors are one vector.\n\n"
    text += format_markdown(header, momenta)
    text += "\n## What the choice is over\n\nNo momentum. Buckets are those of DistributedDataParallel.\n\n"
    header[0] = "density, one choice per"
    return text + format_markdown(header, scopes)


def format_answer(momenta: Sequence[Sequence[str]], scopes: Sequence[Sequence[str]]) -> str:
    """Answer the page's questions with the rows of the largest density; nothing if one was not run.

    Args:
        momenta, scopes: cells of the two tables.
    """
    worse = {name.partition(", ")[::2]: cells[-1] for name, *cells in (*momenta, *scopes)}
    density = f"{max(DENSITIES):.1%}"
    plain, both, tensor = (
        worse[density, about].removeprefix("+")
        for about in ("no momentum", "momentum in Adam, on top of the feedback", "each tensor")
    )
    if not (plain and both and tensor):
        return ""
    return (
        f"At {density} of the elements, perplexity is {plain} above dense's without momentum, and {both} "
        f"with Adam's momentum on top of the feedback. With a choice per tensor, it is {tensor} above.\n\n"
    )


def _pick(row: Row, folder: Path, steps: int) -> list[Result]:
    """Return the results of the rate that is best on validation over the seeds that all rates have."""
    tried = [[find_result(run, folder) for run in row.runs(rate, SEEDS, steps)] for rate in RATES]
    known = [[r for r in results if r is not None] for results in tried]
    known = [results for results in known if results and not any(r.diverged for r in results)]
    return min(known, key=lambda results: statistics.fmean(r.validation for r in results), default=[])


def _mean(results: Sequence[Result]) -> float:
    return statistics.fmean(result.test for result in results)


def _cells(row: Row, results: Sequence[Result], dense: Sequence[Result]) -> list[str]:
    name = f"{row.density}, {row.about}"
    if not results:
        return [name, "", "", "not run", "", ""]
    mean, tests = _mean(results), ", ".join(f"{result.test:.3f}" for result in results)
    return [
        name,
        f"{statistics.fmean(r.bits for r in results):.3g}",
        f"{results[0].run.settings.rate:g}",
        f"{mean:.3f}",
        tests,
        _compare(results, dense),
    ]


def _compare(results: Sequence[Result], dense: Sequence[Result]) -> str:
    """Return how much worse than dense a row is, over the seeds that both have."""
    own, best = ({result.run.seed: result.test for result in each} for each in (results, dense))
    both = own.keys() & best.keys()
    if not both:
        return ""
    return f"{sum(own[seed] for seed in both) / sum(best[seed] for seed in both) - 1:+.1%}"


if __name__ == "__main__":
    main()
