"""Lines about single measurements: the figures that each serves, its result, and the complete rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from benchmarks.papers import adacomp, deepreduce, fft, scalecom, sidco
from benchmarks.papers.pages import adacomp as adacomp_page
from benchmarks.papers.pages import deepreduce as deepreduce_page
from benchmarks.papers.pages import fft as fft_page
from benchmarks.papers.pages import scalecom as scalecom_page
from benchmarks.papers.pages import sidco as sidco_page
from benchmarks.papers.pages.table import Row
from benchmarks.papers.plan import REPRODUCTIONS, Steps
from benchmarks.value.papers import DecodedGradient

__all__ = ["choose_figures", "format_measurement", "list_complete", "list_figures", "read_figures"]

SERVED = (
    (r"SIDCo: fits", "SIDCo", "Figures 2, 7, 8"),
    (r"SIDCo: ", "SIDCo", "Figures 1c, 3c, 3f, 4b, 4d, 5b, 6c, 6f, 9, 9o, 11a, 13c, 13f, 18"),
    (r"ScaleCom: 2a, 2b", "ScaleCom", "Figures 2a, 2b"),
    (r"ScaleCom: 2c:", "ScaleCom", "Figure 2c"),
    (r"ScaleCom: 2c, 2d", "ScaleCom", "Figures 2c, 2d"),
    (r"ScaleCom: 3:", "ScaleCom", "Figure 3"),
    (r"ScaleCom: bytes", "ScaleCom", "Figure 1a"),
    (r"ScaleCom: Table 1", "ScaleCom", "Table 1"),
    (r"AdaComp: \d+ learners", "AdaComp", "Figure 7b"),
    (r"AdaComp: dense training, 32", "AdaComp", "Figures 1, 4"),
    (r"AdaComp: .*(FC layers|bins of 333)", "AdaComp", "Figures 1, 5, 6"),
    (r"AdaComp: .*, 32 images", "AdaComp", "Figure 4"),
    (r"AdaComp: ", "AdaComp", "Figure 7a"),
    (r"DeepReduce: Table 2", "DeepReduce", "Table 2"),
    (r"DeepReduce: policies", "DeepReduce", "Figures 6a, 6b, 6c"),
    (r"DeepReduce: curve fits", "DeepReduce", "Figures 5, 13, Section 6.2"),
    (r"FFT: status vector", "FFT", "Figure 6"),
    (r"FFT: representable", "FFT", "Figures 7, 9"),
    (r"FFT: error of the mean", "FFT", "Figure 12"),
    (r"FFT: Figure 5", "FFT", "Figure 5"),
    (r"DeepReduce and FFT", "DeepReduce", "Sections 6.1, 6.2, Figures 10a, 10b"),
)
"""(Pattern of names, paper, its figures and tables): the first pattern that matches counts."""
ALSO_FFT = "Figures 4, 5, 15, Section 4.2"
"""Figures of the second paper that the measurement of two papers serves."""

SHOWN = 8
"""Elements of a result that are printed; of more, the range."""


def list_figures(name: str) -> list[str]:
    """Return the figures and tables that a measurement serves, such as ``"DeepReduce: Figure 6b"``.

    The list is empty if the page has the measurement in a section of its own.
    """
    paper, where = next((found for pattern, *found in SERVED if re.match(pattern, name)), ("", ""))
    also = [f"FFT: {figure}" for figure in read_figures(ALSO_FFT)] if name == REPRODUCTIONS else []
    return [f"{paper}: {figure}" for figure in read_figures(where)] + also


def read_figures(where: str) -> list[str]:
    """Return each figure, table and section that a text names, such as ``"Figure 4"``.

    Args:
        where: text before a row's colon, such as ``"Figures 3-5, Table 1"``.
    """
    found: list[str] = []
    kind = ""
    for word, first, last in re.findall(r"(Figure|Table|Section)s?|(\d+(?:\.\d+)?[a-z]?)(?:-(\d+))?", where):
        if word:
            kind = word
        elif kind:
            numbers = range(int(first), int(last) + 1) if last else [first]
            found += [f"{kind} {number}" for number in numbers]
    return list(dict.fromkeys(found))


def choose_figures(names: Iterable[str], chosen: Sequence[str]) -> list[str]:
    """Return the measurements that are chosen by their names or by a figure that they serve."""
    return [name for name in names if name in chosen or set(list_figures(name)) & set(chosen)]


def format_measurement(result: Any) -> str:
    """Format the numbers of any measurement's result in one line.

    Args:
        result: numbers, texts, arrays, dataclasses, sequences and mappings of these.
    """
    if isinstance(result, float | np.floating):
        return f"{result:.4g}"
    if isinstance(result, np.ndarray) and result.size > SHOWN:
        mean, low, high = (f"{pick(result):.4g}" for pick in (np.mean, np.min, np.max))
        return f"{result.size} numbers, mean {mean}, {low} to {high}"
    if isinstance(result, DecodedGradient):
        times = f"encoded in {result.encode:.2g} s, decoded in {result.decode:.2g} s"
        return f"{result.method} {result.nbytes} bytes, error {result.error:.4g}, {times}"
    if is_dataclass(result):
        named = ((each.name, getattr(result, each.name)) for each in fields(result))
        return ", ".join(f"{name} {format_measurement(one)}" for name, one in named)
    if isinstance(result, Mapping):
        return "; ".join(f"{name}: {format_measurement(one)}" for name, one in result.items())
    if isinstance(result, list | tuple | np.ndarray):
        more = f", … {len(result)} in all" if len(result) > SHOWN else ""
        between = "; " if len(result) and is_dataclass(result[0]) else ", "
        return f"({between.join(format_measurement(one) for one in result[:SHOWN])}{more})"
    return str(result)


def list_complete(
    found: Mapping[str, Any], steps: Steps, names: Sequence[str], missing: Sequence[str]
) -> list[Row]:
    """List the rows that some measurements serve, of each paper of which nothing is missing.

    Args:
        found: {measurement: its result}.
        steps: of the trainings.
        names: of the measurements.
        missing: names of those without a result.
    """
    figures = {figure for name in names for figure in list_figures(name)}
    rows: list[Row] = []
    for paper, list_rows in PAPERS.items():
        if any(paper in name.partition(":")[0] for name in missing):
            continue
        if not any(figure.startswith(f"{paper}:") for figure in figures):
            continue
        served: list[str] = []
        for row in list_rows(found, steps):
            if not row.where.startswith("the same"):
                served = read_figures(row.where.partition(":")[0])
            if {f"{paper}: {figure}" for figure in served} & figures:
                rows.append(row)
    return rows


PAPERS: dict[str, Callable[[Mapping[str, Any], Steps], list[Row]]] = {
    "SIDCo": lambda found, steps: sidco_page.list_rows(sidco.collect(found, steps.sidco)),
    "DeepReduce": lambda found, _: deepreduce_page.list_rows(deepreduce.collect(found, found[REPRODUCTIONS])),
    "FFT": lambda found, _: fft_page.list_rows(fft.collect(found, found[REPRODUCTIONS])),
    "ScaleCom": lambda found, steps: scalecom_page.list_rows(scalecom.collect(found, steps.scalecom)),
    "AdaComp": lambda found, steps: adacomp_page.list_rows(adacomp.collect(found, steps.adacomp)),
}
"""Rows of each paper, from the results of its measurements."""
