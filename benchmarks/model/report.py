"""Result page of whole models: targets, stages, sums of containers, single tensors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from benchmarks.common.results import format_markdown, pivot_rows
from benchmarks.common.targets import format_targets
from benchmarks.common.timing import CallTime
from benchmarks.model.stages import DenseTime, SchemeTime, StageTime, format_scheme
from benchmarks.model.sums import DIMENSION, INDICES, SMALL, IndexCall, SmallCall, SumTime
from benchmarks.model.targets import check_targets, find_limit, pair_threads

__all__ = ["Measurements", "StageRow", "format_page", "list_stages"]

PICTURE = "![time relative to one flat vector](model.png)\n"
CAPTION = """Times are the shortest of several runs, in ms. The calls of one model and scheme take turns. A
number in parentheses is processor time, which other programs affect less. Ratios compare processor times,
speed-ups elapsed times. *Flat* is the same call on one vector with the same values.
The load average was {load:.1f} at the start and {end:.1f} at the end.

Command: `{command}`
"""
MODEL_CAPTION = """Values are drawn from a Laplace distribution with a fixed seed. The transformer has layers
of width 256. Tiny tensors have 100 to 1,000 elements; no target applies to them. Copy and add are those of
the dense gradient as one vector. The last column is the speed-up of two threads that copy it.
"""
STAGE_CAPTION = """Milliseconds of the model; of flat; the ratio model / flat of processor times.
[stages.csv](model/stages.csv) has all schemes, and times on two threads. Rice, auto-index, raw, qsgd and
error-bounded process all tensors in one or two calls; auto-index takes one more per tensor that may have
structure, or may suit huffman. Other codecs are called once per tensor to encode.
"""
THREAD_CAPTION = """Milliseconds with two threads; the speed-up over one; that of flat. The threads take turns
with one. If other programs use the second core, two threads take as long as one.
"""
SUM_CAPTION = """`decode_add` runs once per container. The ratio is to the time of one flat container, times
their number; the last column is the ratio to as many flat containers. Scheme: `{scheme}`.
"""
INDEX_CAPTION = f"""The largest 1 % of {DIMENSION:,} elements, as a SparseTensor. A container stores it in two
chunks. *Codecs* are the index codec and the value codec alone, on the whole tensor, without the container and
its checksums.
"""


@dataclass(frozen=True)
class Measurements:
    """All measurements of a run.

    Attributes:
        dense: copy and add, per model.
        stages: whole calls.
        sums: several containers.
        small: one small tensor.
        indexed: one sparse tensor.
        schemes: whole calls with schemes without targets.
    """

    dense: Sequence[DenseTime]
    stages: Sequence[StageTime]
    sums: Sequence[SumTime]
    small: Sequence[SmallCall]
    indexed: Sequence[IndexCall]
    schemes: Sequence[SchemeTime]


def format_page(found: Measurements, *, command: str, load: float, end: float) -> str:
    """Format the result page as Markdown.

    Args:
        found: all measurements.
        command: the command line.
        load, end: load average at the start and at the end.
    """
    parts = [
        format_answer(found.stages),
        PICTURE,
        "## Targets\n",
        format_targets(check_targets(found.stages, found.sums, found.small, found.indexed)),
        "## Method\n",
        CAPTION.format(load=load, end=end, command=command),
        "## Models\n",
        MODEL_CAPTION,
        _format_models(found.dense),
        "## Stages, one thread\n",
        STAGE_CAPTION,
        _format_stages(found),
        "## Two threads\n",
        THREAD_CAPTION,
        _format_threads(found.stages),
        "## Containers of several ranks\n",
        SUM_CAPTION.format(scheme=format_scheme(0.01, "qsgd(bits=4)")),
        _format_sums(found.sums),
        f"## One tensor of {SMALL:,} elements\n",
        _format_small(found.small),
        f"## One tensor of {INDICES:,} indices\n",
        INDEX_CAPTION,
        _format_indexed(found.indexed),
    ]
    return "\n".join(parts)


def format_answer(stages: Sequence[StageTime]) -> str:
    """Answer the benchmark's question with the models that have targets; nothing without them."""
    chosen = [s for s in stages if s.targeted and s.threads == 1]
    if not chosen:
        return ""
    models = " and ".join(dict.fromkeys(s.model for s in chosen))
    ranges = []
    for stage in ("encode_many", "decode_add", "Compressor step"):
        ratios = [s.ratio for s in chosen if s.stage == stage]
        ranges.append(f"{stage} {min(ratios):.1f} to {max(ratios):.1f} times" if ratios else stage)
    return (
        f"Calls on the tensors of {models} take longer than on one flat vector of the same size. "
        f"On one thread, the factors are: {', '.join(ranges)}.\n"
    )


def _format_time(time: CallTime) -> str:
    return f"{1e3 * time.seconds:.3g} ({1e3 * time.processor:.3g})"


def _format_code(scheme: str) -> str:
    return f"`{scheme}`".replace("|", "·")


def _format_models(dense: Sequence[DenseTime]) -> str:
    rows = [
        [
            d.model.name,
            f"{len(d.model.shapes):,}",
            f"{d.model.elements:,}",
            *map(_format_time, (d.copy, d.add)),
            f"{d.speedup:.2f}",
        ]
        for d in dense
    ]
    return format_markdown(["model", "tensors", "elements", "copy, ms", "add, ms", "two threads"], rows)


def _format_stages(found: Measurements) -> str:
    return _pivot_stages(
        (
            f"{s.model}, {_format_code(format_scheme(s.rate, s.values))}",
            s.stage,
            _format_ratio(s.many, s.flat),
        )
        for s in found.stages
        if s.threads == 1 and _is_shown(s)
    )


def _is_shown(stage: StageTime) -> bool:
    """Return whether the page has a stage: with small values at the larger rate, exact ones at the other."""
    return (stage.rate, stage.values) in ((0.01, "qsgd(bits=4)"), (0.001, "raw"))


@dataclass(frozen=True)
class StageRow:
    """Time of a whole call, as a row of a data file.

    Attributes:
        model, scheme, stage, threads: of the call.
        milliseconds, flat: of the model's tensors, and of one vector.
        ratio: of their processor times.
        limit: target of the ratio, or None.
        speed_up, flat_speed_up: of two threads over one.
    """

    model: str
    scheme: str
    stage: str
    threads: int
    milliseconds: float
    flat: float | None
    ratio: float | None
    limit: float | None = None
    speed_up: float | None = None
    flat_speed_up: float | None = None


def list_stages(found: Measurements) -> list[StageRow]:
    """List the times of all whole calls, for a data file."""
    rows = []
    single = {id(two): one for one, two in pair_threads(found.stages)}
    for s in found.stages:
        times = (1e3 * s.many.seconds, 1e3 * s.flat.seconds, s.many.processor / s.flat.processor)
        gains: tuple[float, ...] = ()
        if one := single.get(id(s)):
            gains = (one.many.seconds / s.many.seconds, one.flat.seconds / s.flat.seconds)
        scheme, limit = format_scheme(s.rate, s.values), find_limit(s) if s.threads == 1 else None
        rows.append(StageRow(s.model, scheme, s.stage, s.threads, *times, limit, *gains))
    for other in found.schemes:
        ratio = other.many.processor / other.flat.processor
        times = (1e3 * other.many.seconds, 1e3 * other.flat.seconds, ratio)
        rows.append(StageRow(other.model, other.scheme, other.stage, 1, *times))
    return rows


def _format_ratio(many: CallTime, flat: CallTime) -> str:
    times = (f"{1e3 * time.seconds:.3g}" for time in (many, flat))
    return f"{'; '.join(times)}; {many.processor / flat.processor:.2f}"


def _pivot_stages(cells: Iterable[tuple[str, str, str]]) -> str:
    """Format a table with a row per model and scheme, and a column per stage."""
    found = list(cells)
    stages = list(dict.fromkeys(stage for _, stage, _ in found))
    return format_markdown(["model, scheme", *stages], pivot_rows(found, stages))


def _format_threads(stages: Sequence[StageTime]) -> str:
    cells = [
        (
            f"{one.model}, {_format_code(format_scheme(one.rate, one.values))}",
            one.stage,
            f"{1e3 * two.many.seconds:.3g}; {one.many.seconds / two.many.seconds:.2f}; "
            f"{one.flat.seconds / two.flat.seconds:.2f}",
        )
        for one, two in pair_threads(stages)
        if one.targeted and _is_shown(one)
    ]
    return _pivot_stages(cells) if cells else "Not measured: Numba has one thread.\n"


def _format_sums(sums: Sequence[SumTime]) -> str:
    rows = [
        [
            f"{s.model}, {s.containers}",
            *map(_format_time, (s.many, s.flat)),
            f"{s.ratio:.2f}",
            f"{s.many.processor / s.flat.processor:.2f}",
        ]
        for s in sums
    ]
    header = ["model, containers", "model, ms", "flat, ms", "ratio to n × one flat", "ratio to n flat"]
    return format_markdown(header, rows)


def _format_small(small: Sequence[SmallCall]) -> str:
    rows = [
        [_format_code(s.scheme), s.call, f"{1e6 * s.time.seconds:.0f}", f"{1e6 * s.time.processor:.0f}"]
        for s in small
    ]
    return format_markdown(["scheme", "call", "µs", "processor, µs"], rows)


def _format_indexed(indexed: Sequence[IndexCall]) -> str:
    rows = [
        [_format_code(s.scheme), s.call, *map(_format_time, (s.whole, s.codecs)), f"{s.ratio:.2f}"]
        for s in indexed
    ]
    return format_markdown(["scheme", "call", "call, ms", "codecs, ms", "call / codecs"], rows)
