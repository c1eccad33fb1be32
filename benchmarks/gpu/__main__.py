"""Kernels, whole steps, training steps and selectors on a GPU: benchmarks/results/gpu.md and its pictures.

kernels    Bandwidth of each kernel: its minimum traffic divided by its time, compared with a copy from device
           to device in the same run. Third-party selectors are measured also.
steps      Time of whole steps of a Compressor and of encode_many, with the number of launches and of waits.
training   Steps of a language model with torch's systems and ours.
figure     Figure 16 of the SIDCo paper with our selectors.

The rows of each section are written to a JSON file after each measurement. The page is formatted from them,
also if they come from another machine. Without a GPU the command exits with the reason and writes nothing.
With the default times, the whole takes at most 200 s, beside the compilation of kernels.

    python -m benchmarks.gpu [--only "kernels; steps; training; figure"] [--seconds 50] [--rows FOLDER]
                             [--report] [--note TEXT]
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import wirecodec as wc
from benchmarks.common import results
from benchmarks.common.command import choose_names, create_parser, create_progress
from benchmarks.common.tables import write_rows
from benchmarks.gpu import figure16, kernels, steps, training
from benchmarks.gpu.page import SECTIONS, format_page, list_tables
from benchmarks.gpu.rows import FOLDER, Job, guard, measure
from benchmarks.gpu.targets import LARGE
from benchmarks.gpu.trace import has_cuda
from wirecodec.kernels.cuda.device import CupyDevice, cupy_device

__all__ = ["main"]

TITLE = "Kernels and steps on a GPU"
SIZES = [26_000_000, LARGE]
QUICK_SIZES, QUICK_FIGURE = [20_000], [3_000, 9_000]
SECONDS = {"kernels": 35.0, "steps": 55.0, "training": 60.0, "figure": 20.0}
"""After which no measurement of a section begins; the last one takes up to 15 s more."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print the page, and write it; exit with the reason if there is no GPU."""
    parser = create_parser(__doc__, __package__)
    add = parser.add_argument
    add("--only", default="", metavar="NAMES", help="only these sections, in this order, separated by ;")
    add("--seconds", type=float, help=f"time of each section, default: {SECONDS}")
    add("--rows", type=Path, default=FOLDER, metavar="FOLDER", help="of the rows (default: %(default)s)")
    add("--report", action="store_true", help="measure nothing; format the rows")
    add(
        "--note", default="", metavar="TEXT", help="a paragraph before the tables, such as what changed since"
    )
    add("--quick", action="store_true", help="small sizes, which show that every measurement runs")
    options = parser.parse_args(arguments)
    names = choose_names(options.only, SECTIONS)
    if not options.report:
        try:
            device = cupy_device()
        except wc.DeviceError as error:
            sys.exit(f"nothing was measured: {error}")
        _measure_sections(device, names, options.rows, options.seconds, quick=options.quick)
    text = format_page(options.rows, options.note)
    print(text)
    print(results.write_result("gpu", TITLE, text, machine=""))
    for name, rows in list_tables(options.rows).items():
        write_rows(results.RESULTS / "gpu" / f"{name}.csv", rows)


def _measure_sections(
    device: CupyDevice, names: Sequence[str], folder: Path, seconds: float | None, *, quick: bool
) -> None:
    """Measure sections one after the other, with a progress bar."""
    machine = describe(device)
    with create_progress() as progress:
        for name in names:
            bar = progress.add_task(name, total=None)

            def show(job: str, name: str = name, bar: int = bar) -> None:
                progress.update(bar, description=f"{name}: {job}", advance=1)  # type: ignore[arg-type]

            jobs = guard(name, generate_jobs(device, name, quick=quick))
            limit = SECONDS[name] if seconds is None else seconds
            done = measure(folder / f"{name}.json", machine, jobs, limit, show)
            progress.update(bar, description=f"{name}: {len(done.rows)} rows, {done.seconds:.0f} s")
            _free_memory(device)


def generate_jobs(device: CupyDevice, name: str, *, quick: bool) -> Iterator[Job]:
    """Yield the measurements of a section."""
    if name == "kernels":
        yield from kernels.generate_jobs(device, QUICK_SIZES if quick else SIZES)
    elif name == "steps":
        yield from steps.generate_jobs(device, quick=quick)
    elif name == "training":
        yield from training.generate_jobs(quick=quick)
    else:
        yield from figure16.generate_jobs(device, QUICK_FIGURE if quick else figure16.SIZES)


def describe(device: CupyDevice) -> str:
    """Describe the device, first its name, and the host."""
    cupy = device.cupy
    runtime = cupy.cuda.runtime
    gpu = runtime.getDeviceProperties(device.number)["name"].decode()
    versions = f"CuPy {cupy.__version__}, CUDA {runtime.runtimeGetVersion()}"
    if "torch" in sys.modules or has_cuda():
        versions += f", torch {sys.modules['torch'].__version__}"
    return f"{gpu}, {versions}, {platform.system()}; {results.describe_machine()}"


def _free_memory(device: CupyDevice) -> None:
    """Return the memory that CuPy and torch keep, so that the next section has it."""
    device.cupy.get_default_memory_pool().free_all_blocks()
    if has_cuda():
        import torch

        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
