"""Rows of the page: a paper's result, ours, the verdict, and the reason for the difference."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.collectives.kept import load
from benchmarks.common.results import RESULTS, format_markdown
from benchmarks.common.tables import read_rows
from benchmarks.gpu.cases import KernelTime
from benchmarks.gpu.figure16 import Gain

__all__ = [
    "NOT_TRIED",
    "PARTLY",
    "REPRODUCED",
    "UNDECIDED",
    "VERDICTS",
    "WRONG",
    "Row",
    "Table",
    "count_claims",
    "format_answer",
    "format_counts",
    "format_rows",
    "read_gpu_kernel",
    "read_gpu_speedups",
    "read_machine",
    "read_milliseconds",
    "read_speedups",
    "write_table",
]

REPRODUCED, PARTLY, WRONG = "reproduced", "partly", "not reproduced"
UNDECIDED, NOT_TRIED = "undecided", "not tried"
VERDICTS = (REPRODUCED, PARTLY, WRONG, UNDECIDED, NOT_TRIED)


@dataclass(frozen=True)
class Row:
    """One table or figure of a paper.

    Attributes:
        where: its number and subject.
        theirs: the paper's result.
        ours: our result.
        difference: why they differ, or that they agree.
        verdict: one of ``VERDICTS``, or "" if there is nothing to judge, or another page judges.
    """

    where: str
    theirs: str
    ours: str
    difference: str
    verdict: str = ""


@dataclass(frozen=True)
class Table:
    """Table that a data file has in place of the page; cells are texts."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]


def write_table(path: Path, table: Table) -> None:
    """Write a table as CSV."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([table.header, *table.rows])


JUDGED, DRAWINGS = "[training.md](training.md)", "drawings"
"""Our result of rows that another page judges; their result of rows without one."""
OTHER_MODELS = "Our models; not theirs."
"""Difference of most rows that another page judges, which that page has."""


def format_rows(rows: Sequence[Row]) -> str:
    """Format rows as a Markdown table with numbered notes, and list those judged elsewhere or not tried."""
    elsewhere = [
        row.where if row.difference == OTHER_MODELS else f"{row.where} ({row.difference.rstrip('.')})"
        for row in rows
        if row.ours == JUDGED
    ]
    drawings = [row.where for row in rows if row.theirs == DRAWINGS]
    untried = [f"- {row.where}. {row.difference}\n" for row in rows if row.verdict == NOT_TRIED]
    lines = ["| in the paper | theirs | ours | verdict, note |", "|---|---|---|---|"]
    notes: list[str] = []
    for row in rows:
        if row.ours == JUDGED or row.theirs == DRAWINGS or row.verdict == NOT_TRIED:
            continue
        end = row.verdict or "–"
        if row.difference not in ("", "–"):
            notes.append(row.difference)
            end += f", {len(notes)}"
        lines.append(f"| {row.where} | {row.theirs} | {row.ours} | {end} |")
    text = "\n".join(lines) + "\n"
    if notes:
        text += "\n" + "".join(f"{number}. {note}\n" for number, note in enumerate(notes, 1))
    text += f"\nJudged in {JUDGED}: {'; '.join(elsewhere)}.\n" if elsewhere else ""
    text += f"\nNothing to measure: {'; '.join(drawings)}.\n" if drawings else ""
    return text + (f"\nNot tried:\n\n{''.join(untried)}" if untried else "")


def format_counts(sections: Mapping[str, Sequence[Row]]) -> str:
    """Format how many rows of each paper have each verdict; list those not reproduced or undecided.

    Args:
        sections: {paper: its rows}.
    """
    counts = {paper: Counter(row.verdict for row in rows) for paper, rows in sections.items()}
    table = [[paper, *(str(found[verdict]) for verdict in VERDICTS)] for paper, found in counts.items()]
    table.append(["all", *(str(sum(found[verdict] for found in counts.values())) for verdict in VERDICTS)])
    text = format_markdown(["paper", *VERDICTS], table)
    for verdict in (WRONG, UNDECIDED):
        text += f"\n{verdict.capitalize()}:\n\n"
        for paper, rows in sections.items():
            if named := [row.where for row in rows if row.verdict == verdict]:
                text += f"- {paper}: {'; '.join(named)}.\n"
    return text


def format_answer(sections: Mapping[str, Sequence[Row]], claims: Mapping[str, int]) -> str:
    """Answer the page's question with the counts of all papers.

    Args:
        sections: {paper: its rows}.
        claims: {verdict: number of claims about training}.
    """
    found = Counter(row.verdict for rows in sections.values() for row in rows if row.verdict)
    return (
        f"Of {found.total()} results in {len(sections)} papers' tables and figures, {found[REPRODUCED]} are "
        f"reproduced, {found[PARTLY]} partly, and {found[WRONG]} not. {found[UNDECIDED]} "
        f"{'is' if found[UNDECIDED] == 1 else 'are'} undecided. "
        f"The other {found[NOT_TRIED]} were not tried. Of {sum(claims.values())} claims about training: "
        f"{', '.join(f'{count} {kind}' for kind, count in claims.items())}.\n\n"
    )


def read_speedups(name: str) -> list[tuple[float, float]]:
    """Return a selector's speed-up over torch's top-k and over this library's, in each cell of select.md."""
    found, own = list[tuple[float, float]](), list[float]()
    for line in (RESULTS / "select.md").read_text(encoding="utf-8").splitlines():
        cells = [float(cell) for cell in re.findall(r"([\d.]+)× \|", line)]
        if cells and line.startswith("| `topk(δ)` |"):  # the first row of each table
            own = cells
        if cells and line.startswith(f"| `{name}` |"):
            found += [(over, over / ours) for over, ours in zip(cells, own, strict=True)]
    return found


def read_gpu_speedups(name: str) -> list[float]:
    """Return a selector's speed-up over torch's top-k, in each cell of Figure 16 on a GPU."""
    rows = read_rows(RESULTS / "gpu" / "selectors.csv", Gain)
    return [row.speed_up for row in rows if row.selector == name]


def read_gpu_kernel(name: str) -> dict[int, float]:
    """Return a kernel's milliseconds on a GPU, by the number of elements."""
    rows = read_rows(RESULTS / "gpu" / "kernels.csv", KernelTime)
    return {row.elements: row.ms for row in rows if row.name == name}


def read_machine(page: str) -> str:
    """Return the processor that a page names first, such as ``"AMD EPYC (znver3, AVX2)"``.

    Args:
        page: name of a result page.
    """
    text = (RESULTS / page).read_text(encoding="utf-8")
    return text.split("\n\n")[1].partition(", 2 cores;")[0]


def read_milliseconds(row: str, column: str, *, whole: bool = False) -> dict[tuple[str, int], float]:
    """Return the times of an exchange between hosts, by link and number of hosts.

    Args:
        row: name of the exchange.
        column: elements and density, such as ``"26M, 1 %"``; dense exchanges have one time per size.
        whole: whether selection, encoding and decoding count, too.
    """
    kind, size = "whole" if whole else "exchange", column.partition(",")[0]
    rows = [one for one in load() if (one.mpi, one.kind) == ("Open MPI", kind)]
    found: dict[tuple[str, int], float] = {}
    for key in {(one.rate, one.ranks): None for one in rows if one.case == column}:
        times = {one.case: one.milliseconds for one in rows if (one.rate, one.ranks, one.name) == (*key, row)}
        same = [milliseconds for case, milliseconds in times.items() if case.startswith(size)]
        found[key] = times.get(column, same[0])
    return found


def count_claims() -> dict[str, int]:
    """Return how many claims about training have each verdict, from training.md."""
    lines = (RESULTS / "training.md").read_text(encoding="utf-8").splitlines()
    table = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    head = next((row for row in table if row[0] == "claims of"), ["claims of"])
    total = next((row for row in table if row[0] == "all"), ["all"])
    return {kind: int(count) for kind, count in zip(head[1:], total[1:], strict=True)}
