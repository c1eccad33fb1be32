"""Result page of whole steps: targets, steps, stages, memory and small calls."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from benchmarks.common.results import format_markdown, pivot_rows
from benchmarks.common.targets import format_targets
from benchmarks.step.rows import DELAY, DELAY_SECONDS, LOOPBACK, SLOW, Row
from benchmarks.step.small import ELEMENTS, FEW, MANY, NATIVE_BYTES, SmallCalls
from benchmarks.step.stages import STAGES
from benchmarks.step.systems import BUDGETED, ELEMENTS_PER_BYTE, TOPK
from benchmarks.step.targets import check_targets

__all__ = ["format_page", "list_stages"]

STEPS = f"""A step is forward, backward with the exchange of gradients, and SGD, over gloo. All systems are in
one process per rank and take turns, with `gradient_as_bucket_view=True` and one thread per rank. Links other
than loopback are emulated. All ranks share this machine's cores.

- `topk`: `{TOPK.replace("|", "·")}`, with the hook's default of `overlap`.
- `budget`: `{BUDGETED.replace("|", "·")}` with `scope="group"`.
- `bytes_per_step`: the same with the parameters / {ELEMENTS_PER_BYTE} as bytes.

A cell has the median of the rounds in ms, and the *ratio*: the time above
computing alone, relative to that of a floor. The floor is computing alone, one add of gradient and residual
in place, one zero fill, and the bytes sent at the link's rate. *kB sent*: headers and payloads on loopback.
*Exchanges*: all-gathers and transfers, which follow one another; of torch's hooks, all-reduces. At
"{DELAY}", each message and each all-gather arrives {1e3 * DELAY_SECONDS:g} ms later, which torch's hooks
cannot emulate; the floor has one such delay. [steps.csv](step/steps.csv) also has steps of 4 ranks, the
lowest and the highest time, the CPU time of rank 0, the bytes by the link's counter, and the floors.
"""
STAGE_TEXT = """Milliseconds per step of the thread that exchanges, in parentheses its CPU time, with two
ranks on loopback, in steps of their own, in which functions of the library are wrapped. Payloads that
travel behind the headers count as headers. *Rest* is what remains of the hook's exchange. With
`overlap=True`, another thread encodes most buckets ahead, which does not count. [stages.csv](step/stages.csv)
has all systems.
"""
MEMORY = """Peak of a process's memory while a system is built and takes its first steps, above that of the
model alone, in float32 numbers per parameter. Two ranks on loopback.
"""
SMALL_TEXT = """Two MPI ranks, `allreduce` with a Compressor of `{scheme}` and `out`, tensors of {elements:,}
float32. Microseconds per call: the median of the rounds, the lowest and the highest.
"""
FEWEST, SHOWN_SYSTEMS = 2, ("topk", "budget(0.25), group")
"""Ranks of the tables of steps, and systems of the table of stages; data files have the others."""


@dataclass(frozen=True)
class Stage:
    """Milliseconds of a stage of the hook, and of CPU time, as a row of a data file."""

    model: str
    system: str
    stage: str
    milliseconds: float
    cpu: float


def list_stages(rows: Sequence[Row]) -> list[Stage]:
    """List the stages of all systems with two ranks on loopback, for a data file."""
    return [
        Stage(row.model, row.system, stage, 1e3 * wall, 1e3 * cpu)
        for row in rows
        if (row.ranks, row.link) == (FEWEST, LOOPBACK) and row.stages
        for stage, (wall, cpu) in row.stages.items()
    ]


def format_page(
    rows: Sequence[Row],
    small: SmallCalls | None,
    *,
    command: str,
    versions: str,
    load: str,
    skipped: Sequence[str] = (),
) -> str:
    """Format the result page as Markdown.

    Args:
        rows: of all jobs.
        small: times of small calls, if they were measured.
        command: that made the page.
        versions: of torch.
        load: of the machine before and after.
        skipped: measurements that were skipped, with the reasons.
    """
    parts = [format_answer(rows)]
    parts += ["![step times](step.png)\n"] if rows else []
    parts += ["## Targets\n", format_targets(check_targets(rows, small))]
    parts += [f"`{command}`; {versions}; load {load}.\n"]
    parts += [f"Skipped: {line}.\n" for line in skipped]
    if rows:
        parts += ["## Steps\n", STEPS]
    for _, group in groupby(rows, key=lambda row: (row.model, row.ranks)):
        chosen = list(group)
        first = chosen[0]
        if first.ranks > FEWEST:
            continue
        size = f"{first.parameters / 1e6:.1f}M parameters in {first.tensors} tensors"
        parts += [f"### {first.model}, {first.ranks} ranks: {size}\n", _format_steps(chosen)]
    base = [row for row in rows if (row.ranks, row.link) == (2, LOOPBACK)]
    if any(row.stages for row in base):
        parts += ["## Stages of the hook\n", STAGE_TEXT, _format_stages(base)]
    if any(row.floats is not None for row in base):
        parts += ["## Memory\n", MEMORY, _format_memory(base)]
    if small is not None:
        parts += ["## Small calls\n", SMALL_TEXT.format(scheme=TOPK.replace("|", "·"), elements=ELEMENTS)]
        parts.append(_format_small(small))
    return "\n".join(parts)


def format_answer(rows: Sequence[Row]) -> str:
    """Answer the benchmark's question with two ranks, on the slowest link and over loopback."""
    answers = []
    for link, place in ((SLOW, f"At {SLOW}/s"), (LOOPBACK, "Over loopback")):
        times = {
            system: [
                1e3 * row.seconds for row in rows if (row.ranks, row.link, row.system) == (2, link, system)
            ]
            for system in ("topk", "plain DDP")
        }
        if all(times.values()):
            ours, plain = (f"{min(found):,.0f} to {max(found):,.0f} ms" for found in times.values())
            answers.append(
                f"{place}, a step on 2 ranks takes {ours} with `topk`, and {plain} with plain DDP."
            )
    return " ".join(answers) + "\n" if answers else ""


def _format_steps(rows: Sequence[Row]) -> str:
    links = list(dict.fromkeys(row.link for row in rows))
    first: dict[str, Row] = {}
    for row in rows:
        first.setdefault(row.system, row)
    cells = [(row.system, row.link, _format_time(row)) for row in rows]
    lines = pivot_rows(cells, links, "–")
    for line in lines:
        row = first[line[0]]
        exchanges = "" if row.exchanges is None else f"{row.exchanges:.3g}"
        line += [_format_optional(row.sent, 1e-3), exchanges]
    return format_markdown(["system", *links, "kB sent", "exchanges"], lines)


def _format_time(row: Row) -> str:
    ratio = "" if row.ratio is None else f", {row.ratio:.2f}"
    return f"{_format_number(1e3 * statistics.median(row.times))}{ratio}"


def _format_stages(rows: Sequence[Row]) -> str:
    lines = []
    for row in (row for row in rows if row.stages and row.system in SHOWN_SYSTEMS):
        pairs = [row.stages[stage] for stage in STAGES]
        pairs.append([sum(pair[i] for pair in pairs) for i in (0, 1)])
        lines.append(
            [f"{row.model}, {row.system}", *(f"{1e3 * wall:.1f} ({1e3 * cpu:.1f})" for wall, cpu in pairs)]
        )
    return format_markdown(["model, system", *STAGES, "sum"], lines)


def _format_memory(rows: Sequence[Row]) -> str:
    models = list(dict.fromkeys(row.model for row in rows))
    found = {(row.system, row.model): row.floats for row in rows}
    lines = [
        [system, *(_format_floats(found.get((system, model))) for model in models)]
        for system in dict.fromkeys(row.system for row in rows)
    ]
    return format_markdown(["system", *models], lines)


def _format_small(small: SmallCalls) -> str:
    sizes = " and ".join(f"{size} B" for size in NATIVE_BYTES)
    lines = [
        [f"allreduce, {FEW} tensors", _format_spread(small.few, 1e6)],
        [f"allreduce, {MANY} tensors", _format_spread(small.many, 1e6)],
        ["each further tensor", _format_spread(small.per_tensor, 1e6)],
        [f"native all-gathers of {sizes}", _format_spread(small.native, 1e6)],
        [f"{FEW} tensors / native", f"{small.call / statistics.median(small.native):.0f} ×"],
    ]
    return format_markdown(["call", "µs"], lines)


def _format_spread(times: Sequence[float], unit: float) -> str:
    median, least, most = (_format_number(unit * f(times)) for f in (statistics.median, min, max))
    return f"{median} [{least}–{most}]"


def _format_optional(value: float | None, unit: float) -> str:
    return "" if value is None else _format_number(unit * value)


def _format_floats(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _format_number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"
