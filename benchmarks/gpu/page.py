"""The page and its pictures, from the rows on disk."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.common import results
from benchmarks.common.results import format_markdown
from benchmarks.common.targets import format_targets
from benchmarks.gpu import figure16, patches, training
from benchmarks.gpu.cases import DENSITY, SCHEME, KernelTime
from benchmarks.gpu.figure16 import SelectorTime
from benchmarks.gpu.rows import SectionRows, load, make
from benchmarks.gpu.steps import StepTime, format_steps
from benchmarks.gpu.targets import check_targets

__all__ = ["SECTIONS", "format_page", "list_tables"]

KERNELS_HEADER = [
    "",
    "elements",
    "ms",
    "copies",
    "minimum bytes per element",
    "fraction of the copy bandwidth",
]
KERNELS_CAPTION = f"""`copies` is the time as a multiple of that of a copy of the gradient on the device. A
copy reads and writes 8 bytes per element. The fraction is minimum bytes / copy bandwidth / time. The input is
Laplace values, float32, of which {DENSITY:g} are kept. QSGD and packing use 4 bits, OffsetFloat uses 8.
Times are medians over CUDA events, with the host's work between them.

Encoding is that of `{SCHEME}` to a whole container, with the minimum bytes of a top-k.
`decode_add` adds that container to float32. Its minimum bytes are the container, and the 32-byte sectors of
the target that have a stored element, read and written.

`diff` and `apply` are those of [patches of weights](patches.md), in which {patches.CHANGED:.0%} of the
elements change. The kernels of each are also measured without the host's coding.

The minimum bytes of an exact top-k, also of third parties, and of compaction by torch (CUB) and by cuSPARSE,
which get the threshold, are one read and the output. [kernels.csv](gpu/kernels.csv) has all sizes.

"""

ANSWER = "exact top-k, warm", "torch.topk + gather", "encode"
"""Names of the answer's kernels."""


def format_answer(device: str, times: Sequence[KernelTime]) -> str:
    """Answer the benchmark's question with the largest gradient's selection and encoding; may be empty.

    Args:
        device: name of the GPU.
        times: of the kernels.
    """
    elements = max((time.elements for time in times), default=0)
    copies = {time.name: f"{time.copies:.2f}" for time in times if time.elements == elements}
    own, other, whole = (copies.get(name) for name in ANSWER)
    if not (own and other and whole):
        return ""
    return (
        f"On an {device}, `topk` of {DENSITY:.0%} of {elements:,} elements takes {own} times as long as a "
        f"copy, and `torch.topk` {other} times. Encoding a whole container takes {whole} times as long.\n\n"
    )


def list_tables(folder: Path) -> dict[str, list[Any]]:
    """List the rows of the data files beside the page: {name: rows}; without those of empty sections."""
    kinds = {"kernels": KernelTime, "steps": StepTime, "figure": SelectorTime}
    found = {}
    for name, kind in kinds.items():
        section = load(folder / f"{name}.json")
        if section and section.rows:
            found[name] = make(kind, section)
    if "figure" in found:
        found["selectors"] = figure16.list_gains(found.pop("figure"))
    return found


def format_kernels(section: SectionRows) -> str:
    """Format the table of kernels, and that of their targets."""
    times = make(KernelTime, section)
    rows = []
    largest = max((time.elements for time in times), default=0)
    for time in (time for time in times if time.elements == largest):
        fraction = f"{time.fraction:.0%}"
        if time.name == "copy":
            fraction = f"{8 * time.elements / time.ms / 1e6:,.0f} GB/s"
        cells = f"{time.elements:,}", f"{time.ms:.3f}", f"{time.copies:.2f}", f"{time.traffic:.3g}"
        rows.append([time.name, *cells, fraction])
    text = KERNELS_CAPTION + format_markdown(KERNELS_HEADER, rows)
    return text + "\n### Targets\n\n" + format_targets(check_targets(times))


def _format_steps(section: SectionRows) -> str:
    return format_steps(make(StepTime, section))


def _format_training(section: SectionRows) -> str:
    rows = make(training.Row, section)
    return training.format_rows(rows) + _draw(training.draw, "gpu_training.png", rows, section.machine)


def _format_figure(section: SectionRows) -> str:
    times = make(SelectorTime, section)
    return figure16.format_table(times) + _draw(figure16.draw, "gpu.png", times, section.machine)


def _draw(draw: Callable[[Path, Any, str], None], name: str, rows: list[Any], machine: str) -> str:
    """Draw a picture, and return the line that shows it; nothing without Matplotlib."""
    try:
        draw(results.RESULTS / name, rows, _name_device(machine))
    except ImportError:
        return ""
    return f"\n![{name}]({name})\n"


def _name_device(machine: str) -> str:
    return machine.split(",", maxsplit=1)[0]


SECTIONS: dict[str, tuple[str, Callable[[SectionRows], str]]] = {
    "kernels": ("Kernels", format_kernels),
    "steps": ("Steps", _format_steps),
    "training": ("Training", _format_training),
    "figure": ("The SIDCo paper's Figure 16", _format_figure),
}
"""Title and format of each section, by name."""


def format_page(folder: Path, note: str = "") -> str:
    """Format the answer, the note and the sections that have rows.

    Args:
        folder: of the rows.
        note: a paragraph before the tables.
    """
    parts, machine = [f"{note}\n"] if note else [], ""
    for name, (title, format_section) in SECTIONS.items():
        section = load(folder / f"{name}.json")
        if section is None:
            parts.append(f"## {title}\n\nNothing was measured.\n")
            continue
        text = f"## {title}\n\n"
        if section.machine != machine:
            machine = section.machine
            text += f"{machine}\n\n"
        if section.rows:
            text += format_section(section)
        if not section.complete:
            text += "\nThe time was over before the last measurement.\n"
        text += "".join(f"\nFailed: {job}: {reason}\n" for job, reason in section.failures)
        parts.append(text)
    first = load(folder / "kernels.json")
    answer = format_answer(_name_device(first.machine), make(KernelTime, first)) if first else ""
    return answer + "\n".join(parts)
