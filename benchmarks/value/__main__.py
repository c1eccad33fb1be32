"""Size, error and speed of value codecs, compared with other compressors at equal error.

Measures every registered value codec in several configurations, and every installed peer, on the same
vectors: the largest values of known distributions and of real gradients. Sizes are compared with the
rate-distortion bound of each vector. Times are multiples of ``np.copyto`` of the same values in the same run.
Tables and figures of two papers, reproduced with our data, follow.

    python -m benchmarks.value [--quick] [--data FOLDER] [--only WORD,WORD]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import wirecodec as wc
from benchmarks.common.command import PARTIAL_RUN, create_parser, create_progress, filter_by_name
from benchmarks.common.inputs import TEST_GRADIENTS, list_gradient_files
from benchmarks.common.peers import load_peers
from benchmarks.common.results import RESULTS, describe_machine, write_result
from benchmarks.common.targets import TargetResult
from benchmarks.value import papers, papers_plot, papers_report, peers, plot, report, supplement
from benchmarks.value.cases import CACHE, ELEMENTS, Case, generate_cases, generate_time_cases
from benchmarks.value.coders import Coder, build_codecs
from benchmarks.value.measurement import Measurement, measure_coder
from benchmarks.value.rate_distortion import Curve
from benchmarks.value.targets import check_targets

__all__ = ["main", "measure"]

SLOW = 10.0
"""Nanoseconds per value above which a codec is not measured on the vector that exceeds the caches."""

Curves = dict[tuple[str, str], Curve]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark, print the page, and write it if the run is complete."""
    parser = create_parser(__doc__, __package__)
    parser.add_argument("--quick", action="store_true", help="use vectors of 2.6M elements instead of 26M")
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="folder of more gradients (*.npy)")
    parser.add_argument(
        "--only",
        default="",
        metavar="WORDS",
        help="measure coders and vectors whose name contains one of these words: qsgd,SZ3,laplace",
    )
    options = parser.parse_args(arguments)
    elements = ELEMENTS // 10 if options.quick else ELEMENTS
    folders = [TEST_GRADIENTS, *([options.data] if options.data else [])]
    installed, missing = load_peers(peers.PACKAGES)
    coders = filter_by_name([*build_codecs(), *installed], options.only, lambda coder: coder.name)
    every_case = [*generate_time_cases(elements), *generate_cases(elements, list_gradient_files(*folders))]
    cases = filter_by_name(every_case, options.only, lambda case: case.group)
    complete = not options.only
    with create_progress() as progress:
        extra_steps = 3 + len(papers.PARTS) if complete else 0
        task = progress.add_task("", total=len(coders) * len(cases) + extra_steps)

        def step(name: str) -> None:
            progress.update(task, description=name, advance=1)

        measurements, curves = measure(coders, cases, step, 0.01 if options.quick else 0.03)
        results: list[TargetResult] = []
        notes: list[str] = []
        if complete:
            results, note = supplement.measure(elements, step)
            reproductions = papers.reproduce(list_gradient_files(TEST_GRADIENTS), step)
            notes = [note, *papers_report.format_sections(reproductions)]
    text = report.format_page([*check_targets(measurements), *results], measurements, curves, missing, notes)
    print(text)
    if options.quick or options.data or options.only:
        print(PARTIAL_RUN)
        return
    print(write_result("value", "Size, error and speed of value codecs", text))
    plot.draw(RESULTS / "value.png", measurements, curves, describe_machine())
    papers_plot.draw(RESULTS, reproductions)


def measure(
    coders: Sequence[Coder], cases: Sequence[Case], step: Callable[[str], None], budget: float
) -> tuple[list[Measurement], Curves]:
    """Measure every coder on every vector.

    Args:
        coders: codecs and peers.
        cases: the vectors.
        step: called with the name of each measurement before it starts.
        budget: seconds per time.

    Returns:
        The measurements, and the bounds of the vectors by (group, column).
    """
    measurements: list[Measurement] = []
    curves: Curves = {}
    slowest: dict[str, float] = {}
    for case in cases:
        values = case.make()
        curve = case.bound(values)
        if curve is not None:
            curves[case.group, case.column] = curve
        for coder in coders:
            step(f"{case.group}, {case.column}: {coder.name}")
            if values.size > 10 * CACHE and (coder.peer or slowest.get(coder.name, 0) > SLOW):
                continue
            with suppress(wc.EncodeError):  # the tables show "unsupported"
                measurements.append(measure_coder(coder, case, values, curve, budget=budget))
                slowest[coder.name] = max(measurements[-1].encode_ns, measurements[-1].decode_ns)
    return measurements, curves


if __name__ == "__main__":
    main()
