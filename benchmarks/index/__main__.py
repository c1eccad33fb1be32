"""Size and speed of index codecs, compared with other compressors.

Measures every registered index codec, and every installed peer, on the same supports. Sizes are compared with
the entropy bound of each kind of support. Speeds are relative to ``np.copyto`` of the same uint32 indices in
the
same run: 0.20× means that the copy takes a fifth of the time.

    python -m benchmarks.index [--quick] [--data FOLDER] [--only WORD,WORD]
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import wirecodec as wc
from benchmarks.common.command import PARTIAL_RUN, create_parser, create_progress, filter_by_name
from benchmarks.common.inputs import TEST_GRADIENTS, TRAINED_GRADIENTS, list_gradient_files
from benchmarks.common.peers import load_peers
from benchmarks.common.results import RESULTS, describe_machine, write_result
from benchmarks.common.targets import TargetResult
from benchmarks.index import peers, plot, report, supplement
from benchmarks.index.cases import SIZES, Case, generate_cases
from benchmarks.index.coders import Coder, build_codecs
from benchmarks.index.measurement import LARGE, Measurement, measure_coder
from benchmarks.index.targets import check_targets

__all__ = ["main", "measure"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark, print the page, and write it if the run is complete."""
    parser = create_parser(__doc__, __package__)
    parser.add_argument(
        "--quick", action="store_true", help="skip 26M elements, zstd-19 and the output of `make gradients`"
    )
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="folder of more gradients (*.npy)")
    parser.add_argument(
        "--only",
        default="",
        metavar="WORDS",
        help="measure coders and supports whose name contains one of these words: rice,zstd,runs",
    )
    options = parser.parse_args(arguments)
    installed, missing = load_peers(peers.PACKAGES)
    coders = filter_by_name([*build_codecs(), *installed], options.only, lambda coder: coder.name)
    if options.quick:
        coders = [coder for coder in coders if not coder.name.startswith("zstd-19")]
    sizes = SIZES[:2] if options.quick else SIZES
    folders = [TEST_GRADIENTS]
    folders += [] if options.quick else [TRAINED_GRADIENTS]
    folders += [options.data] if options.data else []
    every_case = list(generate_cases(sizes, list_gradient_files(*folders)))
    cases = filter_by_name(every_case, options.only, lambda case: case.group)
    measurements, (results, notes) = measure(
        coders, cases, 0.015 if options.quick else 0.06, 0 if options.only else sizes[-1]
    )
    text = report.format_page([*check_targets(measurements), *results], measurements, missing, notes)
    print(text)
    if options.quick or options.data or options.only:
        print(PARTIAL_RUN)
        return
    print(write_result("index", "Size and speed of index codecs", text))
    plot.draw(RESULTS / "index.png", measurements, describe_machine())


def measure(
    coders: Sequence[Coder], cases: Sequence[Case], budget: float, supplement_size: int
) -> tuple[list[Measurement], tuple[list[TargetResult], str]]:
    """Measure every coder on every support with a progress bar, then the supplement.

    Args:
        coders: codecs and peers.
        cases: the supports.
        budget: seconds per time.
        supplement_size: elements of the supplement's supports, or 0 to skip it.
    """
    measurements: list[Measurement] = []
    with create_progress() as progress:
        task = progress.add_task("", total=len(coders) * len(cases) + (3 if supplement_size else 0))

        def step(name: str) -> None:
            progress.update(task, description=name, advance=1)

        for case in cases:
            support = case.make()
            for coder in coders:
                step(f"{case.group}, {case.column}: {coder.name}")
                large = support.r >= LARGE
                with suppress(wc.EncodeError):  # the tables show "unsupported"
                    measurements.append(measure_coder(coder, case, support, budget=budget, two_threads=large))
        if not supplement_size:
            return measurements, ([], "")
        return measurements, supplement.measure(supplement_size, step, budget=5 * budget)


if __name__ == "__main__":
    main()
