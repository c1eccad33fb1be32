"""Bandwidth of the kernels and times of the selectors on a GPU.

The bandwidth of each kernel is its minimum traffic divided by its time. It is compared with a copy from
device to device in the same run. torch.topk and CuPy's sort and argpartition are measured also. A table that
corresponds to Figure 16 of the SIDCo paper follows. Times are medians over CUDA events, after warm-up calls.
Without a GPU the command exits with the reason and writes nothing.

    python -m benchmarks.gpu [--elements 26000000 260000000]
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial

import wirecodec as wc
from benchmarks.common import results
from benchmarks.common.command import create_parser
from benchmarks.gpu import figure16, kernels, timing
from wirecodec.kernels.cuda.device import CupyDevice, cupy_device

__all__ = ["main"]

SIZES = [26_000_000, 260_000_000]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark, print the page, and write it; exit with the reason if there is no GPU."""
    parser = create_parser(__doc__, __package__)
    parser.add_argument(
        "--elements", type=int, nargs="+", default=SIZES, help="sizes of the gradient (default: %(default)s)"
    )
    parser.add_argument(
        "--figure",
        type=int,
        nargs="+",
        default=figure16.SIZES,
        help="sizes in Figure 16 (default: %(default)s)",
    )
    options = parser.parse_args(arguments)
    try:
        device = cupy_device()
    except wc.DeviceError as error:
        sys.exit(f"nothing was measured: {error}")
    cupy = device.cupy
    gpu = cupy.cuda.runtime.getDeviceProperties(device.number)["name"].decode()
    rows = [row for size in options.elements for row in kernels.measure_rows(device, size)]
    text = f"{gpu}, CuPy {cupy.__version__}\n\n{kernels.CAPTION}"
    text += results.format_markdown(kernels.HEADER, rows)
    text += "\n## The SIDCo paper's Figure 16\n\n" + _measure_figure_16(device, gpu, options.figure)
    print(text)
    print(results.write_result("gpu", "Kernels on a GPU", text))


def _measure_figure_16(device: CupyDevice, gpu: str, sizes: Sequence[int]) -> str:
    """Measure and format the table of Figure 16, and draw its picture if Matplotlib is installed."""
    clock = partial(timing.measure_event_time, device.cupy)
    times: list[figure16.SelectorTime] = []
    for size in sizes:
        x = timing.draw_laplace(device.cupy, size)
        for density in figure16.DENSITIES:
            times += figure16.measure_selectors(device, x, density, clock)
    text = figure16.format_table(times)
    try:
        figure16.draw(results.RESULTS / "gpu.png", times, gpu)
    except ImportError:
        return text
    return text + "\n![speed-ups](gpu.png)\n"


if __name__ == "__main__":
    main()
