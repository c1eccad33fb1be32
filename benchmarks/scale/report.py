"""Result page of the maps: targets, winners, times of a step, rates, and the check of the model."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.common.results import format_markdown, pivot_rows
from benchmarks.common.targets import TargetResult, check_at_most, format_targets
from benchmarks.scale.check import CheckedTime
from benchmarks.scale.models import MODELS
from benchmarks.scale.plot import format_factor
from benchmarks.scale.prediction import Cell, Site
from benchmarks.scale.systems import LOCAL, Options
from wirecodec.cli.units import format_bandwidth, format_seconds

__all__ = ["MAX_ERROR", "check_targets", "format_page", "list_cells", "list_runs"]

MAX_ERROR = 0.15
"""Largest relative error of a prediction."""
MODEL = """The cost model is that of `wirecodec advise`: messages, bytes, and computing at this machine's
rates ([measurements.json](scale/measurements.json)). A step is the slowest rank's. Dense, fp16 and PowerSGD
are summed in the fewest messages that send no more bytes, as by MPI's recursive halving and doubling.
Ranks' supports are independent, the worst case for split. Each rank computes on one core like one of this
machine; faster processors favour compression more. Only time is compared; [training.md](training.md) has
the quality. A cell has the fastest system, and how many times as fast as dense it is; the pictures and
[cells.csv](scale/cells.csv), with the seconds of all systems, have all ranks and bandwidths.
"""
SITES = """{ranks} ranks are on one fast network, at {bandwidth} each, and share the link of their site, whose
bandwidths are the rows. Ranks sum densely within a site, and exchange parts between sites
(`collectives.Sites`).
"""
OURS = ("allgather", "split", "CLT-k", "Ok-Topk")
FEWEST, SLOWEST, FASTEST = 16, 1e8, 1e10
"""Networks of the target: ranks, and bits per second."""
LOCAL_NOTE = """Local updates change the training: workers take {every} steps of their own between two
exchanges. The time is that of an exchange over {every} steps: times as fast as dense, and as the fastest
other system.
"""
CHECK = """Real exchanges of ResNet-50's gradient between network namespaces with shaped links, one rank each,
over MPI: ms predicted and measured, and the error. A time is the slowest rank's, the shortest of several
turns. All ranks share {cores} cores, so the model computes with n/{cores} ranks per core. The link's figures
are medians while all ranks send. With many ranks on fast links, copies and the network stack take the cores
as well. Load of the machine before and after: {load}.
"""
STEPS_NOTE = """[runs.csv](scale/runs.csv) also has training steps over the same networks, predicted by
`wirecodec advise --compute`. *Computing* is the same step without exchange, in turns with it, of all ranks at
once. On an emulated accelerator, forward waits 0.1 s and backward 0.2 s. The steps with *overlap* are
DistributedDataParallel's over gloo: its own all-reduce, and this library's hook per bucket. Overlap on cores
that compute the gradients made no step shorter.
"""
SHOWN_RANKS = (4, 16, 64, 256, 1024)
SHOWN_BANDWIDTHS = (1e7, 1e8, 1e9, 1e10, 1e11)
"""Columns and rows of the maps on the page: ranks, and bits per second."""


def check_targets(
    checked: Sequence[CheckedTime], maps: Mapping[str, Sequence[Cell]] | None = None
) -> list[TargetResult]:
    """Check the errors of all predictions, and the times of this library's methods beside all others."""
    results = []
    for kind, wanted in (("exchange", False), ("whole step", True)):
        errors = [(f"{c.run.model}, {c.name}", abs(c.error)) for c in checked if c.is_step == wanted]
        what = f"prediction of {kind} within 15 % of the real run"
        results += [check_at_most(what, MAX_ERROR, errors, "{:.1%}")] if errors else []
    for model, cells in (maps or {}).items():
        ratios = [(_name_network(cell), _compare_with_others(cell)) for cell in cells if _is_wanted(cell)]
        what = f"{model}: ours ≤ 1 x the fastest of the others, 16 ranks and more, 0.1 to 10 Gbit/s"
        results.append(check_at_most(what, 1.0, ratios, "{:.2f} x"))
    return results


def _is_wanted(cell: Cell) -> bool:
    bits = 8 * cell.network.bandwidth
    return cell.network.ranks >= FEWEST and SLOWEST <= bits <= FASTEST


def _compare_with_others(cell: Cell) -> float:
    """Return the time of the fastest of this library's methods, in times of the fastest other system."""
    others = [seconds for name, seconds in cell.seconds.items() if name not in (*OURS, LOCAL)]
    return min(cell.seconds[name] for name in OURS) / min(others)


def _name_network(cell: Cell) -> str:
    return f"{format_bandwidth(cell.network.bandwidth)}, {cell.network.ranks:,} ranks"


def format_page(
    maps: Mapping[str, Sequence[Cell]],
    checked: Sequence[CheckedTime],
    *,
    options: Options,
    latency: float,
    library: str,
    cores: int,
    load: str,
    skipped: str = "",
) -> str:
    """Format the page as Markdown.

    Args:
        maps: {model: cells}.
        checked: of the check.
        options: of the systems.
        latency: seconds per message.
        library: that computes PowerSGD.
        cores: of this machine.
        load: of this machine, as text.
        skipped: why there is no check; empty if there is one.
    """
    about = (
        f"A step: communication and compression alone, {format_seconds(latency)} per message. "
        f"allgather, split, Ok-Topk and local updates: `{options.scheme}` with error feedback. "
        f"CLT-k: {options.ratio:.1%} of the elements, in 32 bits. PowerSGD: rank {options.rank}. "
        f"{library} rounds to fp16 and computes PowerSGD; fp16 is summed by `collectives`, in float32.\n"
    )
    parts = [_answer(maps, checked)]
    parts += ["## Targets\n", format_targets(check_targets(checked, maps))] if checked else []
    parts += ["## Which system is the fastest\n", about, MODEL, "![maps](scale.png)\n"]
    for model, cells in maps.items():
        parts += [f"### {model}, {MODELS[model].elements:,} parameters\n", _format_winners(cells)]
    within = Site()
    text = SITES.format(ranks=within.ranks, bandwidth=format_bandwidth(within.bandwidth))
    parts += ["## With sites\n", text, "![maps with sites](scale_sites.png)\n"]
    parts += ["## Local updates\n", LOCAL_NOTE.format(every=options.every)]
    parts += ["![local updates](scale_local.png)\n"]
    parts += ["## Real runs\n"]
    parts += (
        [f"Skipped: {skipped}.\n"]
        if skipped
        else [CHECK.format(cores=cores, load=load), _format_check([c for c in checked if not c.is_step])]
    )
    parts += ["## Whole steps\n", STEPS_NOTE] if any(c.is_step for c in checked) else []
    return "\n".join(parts)


@dataclass(frozen=True)
class Seconds:
    """Predicted seconds of a step of one system, as a row of a data file; bandwidth in bits per second."""

    model: str
    sites: bool
    ranks: int
    bandwidth: float
    system: str
    seconds: float


@dataclass(frozen=True)
class Checked:
    """Real exchange or step, as a row of a data file; times in seconds, ``computing`` 0 for exchanges."""

    model: str
    link: str
    ranks: int
    system: str
    computing: float
    predicted: float
    measured: float
    error: float


def list_cells(maps: Mapping[str, Sequence[Cell]], sites: Mapping[str, Sequence[Cell]]) -> list[Seconds]:
    """List the seconds of every system in every cell, for a data file."""
    return [
        Seconds(model, found is sites, cell.network.ranks, 8 * cell.network.bandwidth, name, seconds)
        for found in (maps, sites)
        for model, cells in found.items()
        for cell in cells
        for name, seconds in cell.seconds.items()
    ]


def list_runs(checked: Sequence[CheckedTime]) -> list[Checked]:
    """List all real runs, for a data file."""
    return [
        Checked(
            *(c.run.model, c.run.link, c.run.network.ranks, c.run.system),
            *(c.run.computing, c.predicted, c.run.seconds, c.error),
        )
        for c in checked
    ]


def _answer(maps: Mapping[str, Sequence[Cell]], checked: Sequence[CheckedTime]) -> str:
    """Say in a few sentences where compression pays, which method is the fastest, and how exact that is."""
    lines = []
    for model, cells in maps.items():
        ends: dict[int, float] = {}
        for cell in cells:
            if min(cell.seconds[name] for name in OURS) < cell.seconds["dense"]:
                ends[cell.network.ranks] = max(ends.get(cell.network.ranks, 0.0), cell.network.bandwidth)
        low, high = min(ends.values()), max(ends.values())
        wanted = [cell for cell in cells if _is_wanted(cell)]
        won = [cell for cell in wanted if _compare_with_others(cell) <= 1]
        until = format_bandwidth(low)
        if high > low:
            until += f", and up to {format_bandwidth(high)} with some numbers of ranks"
        lost = sorted({cell.winner for cell in wanted if cell not in won})
        others = f"; {' or '.join(lost)} is on the others" if lost else ""
        lines.append(
            f"{model}: a method of this library is faster than dense gradients up to {until}."
            f" With 16 ranks and more at 0.1 to 10 Gbit/s, one is the fastest of all systems"
            f" on {len(won)} of {len(wanted)} networks{others}."
        )
    alone = [c for c in checked if c.run.network.ranks_per_core == 1]
    if alone:
        counts = [
            f"{sum(abs(c.error) <= MAX_ERROR for c in some)} of {len(some)}" for some in (alone, checked)
        ]
        lines.append(
            f"Predictions are within {MAX_ERROR:.0%} of real exchanges and steps in {counts[0]} runs of one"
            f" rank per core, and in {counts[1]} runs of all. The others share cores."
        )
    return "\n".join(f"- {line}" for line in lines) + "\n"


def _pivot(cells: Sequence[Cell], texts: Sequence[str]) -> str:
    """Format a table with a row per bandwidth and a column per number of ranks, of those that are shown."""
    ranks = [n for n in dict.fromkeys(cell.network.ranks for cell in cells) if n in SHOWN_RANKS]
    found = {cell.network.bandwidth for cell in cells}
    bandwidths = {one for one in found if 8 * one in SHOWN_BANDWIDTHS} or found
    rows: dict[str, list[str]] = {}
    for cell, text in zip(cells, texts, strict=True):
        if cell.network.ranks in ranks and cell.network.bandwidth in bandwidths:
            rows.setdefault(format_bandwidth(cell.network.bandwidth), []).append(text)
    return format_markdown(
        ["ranks", *(f"{n:,}" for n in ranks)], [[name, *row] for name, row in rows.items()]
    )


def _format_winners(cells: Sequence[Cell]) -> str:
    return _pivot(cells, [f"{c.winner} {format_factor(c.speed_up(c.winner))}×" for c in cells])


def _format_check(checked: Sequence[CheckedTime]) -> str:
    """Format the exchanges with a row per system, below the links that were measured."""
    checked = _pick_shown(checked)
    columns = dict.fromkeys(map(_name_case, checked))
    links = [
        statistics.median_low(c.run.network.bandwidth * 8e-6 for c in checked if _name_case(c) == case)
        for case in columns
    ]
    delays = [
        statistics.median_low(c.run.network.latency * 1e6 for c in checked if _name_case(c) == case)
        for case in columns
    ]
    cells = [
        *(
            ("measured link", case, f"{link:.0f} Mbit/s, {delay:.0f} µs")
            for case, link, delay in zip(columns, links, delays, strict=True)
        ),
        *(
            (
                c.run.system,
                _name_case(c),
                f"{1e3 * c.predicted:.1f}, {1e3 * c.run.seconds:.1f}, {c.error:+.1%}",
            )
            for c in checked
        ),
    ]
    return format_markdown(["run", *columns], pivot_rows(cells, list(columns)))


def _pick_shown(checked: Sequence[CheckedTime]) -> list[CheckedTime]:
    """Return the runs of the fewest and of the most ranks."""
    ranks = [c.run.network.ranks for c in checked]
    return [c for c in checked if c.run.network.ranks in (min(ranks), max(ranks))]


def _name_case(checked: CheckedTime) -> str:
    """Return the link and the number of ranks, the start of a run's name."""
    return checked.name.removesuffix(f", {checked.run.system}")
