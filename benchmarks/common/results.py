"""Result pages: Markdown tables, the machine's name, and files in ``benchmarks/results``."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

__all__ = ["RESULTS", "describe_machine", "format_markdown", "pivot_rows", "write_result"]

RESULTS = Path(__file__).parents[1] / "results"
VECTORS = {"avx512f": "AVX-512", "avx2": "AVX2", "neon": "NEON"}
"""Names of instruction sets by LLVM's features, the widest first."""


def describe_machine() -> str:
    """Describe the processor, the cores available to this process, and the versions of the main libraries.

    The parenthesis has what decides about the kernels: LLVM's name of the processor, and its widest vectors.
    """
    import numba
    from llvmlite import binding

    name = platform.processor() or platform.machine()
    if Path("/proc/cpuinfo").exists():
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        name = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), name)
    features = binding.get_host_cpu_features()
    vectors = [text for key, text in VECTORS.items() if features.get(key)] or ["no AVX2"]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    versions = f"Python {platform.python_version()}, NumPy {np.__version__}, Numba {numba.__version__}"
    return f"{name} ({binding.get_host_cpu_name()}, {vectors[0]}), {cores} cores; {versions}"


def format_markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Format a Markdown table with a left-aligned first column and right-aligned others."""
    lines = ["| " + " | ".join(header) + " |", "|---|" + "---:|" * (len(header) - 1)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"


def pivot_rows(
    cells: Iterable[tuple[str, object, str]], columns: Sequence[object], missing: str = ""
) -> list[list[str]]:
    """Arrange cells as table rows, in the order in which row names first occur.

    Args:
        cells: (row name, column, text) of each cell.
        columns: the columns, in order.
        missing: text of a cell that does not occur.
    """
    rows: dict[str, dict[object, str]] = {}
    for name, column, text in cells:
        rows.setdefault(name, {})[column] = text
    return [[name, *(row.get(column, missing) for column in columns)] for name, row in rows.items()]


def write_result(
    name: str, title: str, text: str, machine: str | None = None, folder: Path | None = None
) -> Path:
    """Write ``results/NAME.md`` with a title, the machine and the text; return its path.

    Args:
        name: of the page.
        title: its heading.
        text: below the machine.
        machine: that measured; this one by default, and "" if the text names it.
        folder: of the page, ``results`` by default.
    """
    path = (folder or RESULTS) / f"{name}.md"
    machine = describe_machine() if machine is None else machine
    path.write_text(f"# {title}\n\n{machine}\n\n{text}" if machine else f"# {title}\n\n{text}")
    return path
