"""Size and speed of index codecs, compared with other compressors.

Measures every registered index codec, and every installed peer, on the same supports. Sizes are compared with
the entropy bound of each kind of support. Speeds are relative to ``np.copyto`` of the same uint32 indices in
the same run: 0.20× means that the copy takes a fifth of the time.

    python -m benchmarks.index [--quick] [--data FOLDER] [--only "WORD; WORD"] [--minutes 8]

The results of each support are kept in benchmarks/results/index, and a run goes on from there. --report
measures nothing. Remove that folder to start over.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

import wirecodec as wc
from benchmarks.common.command import PARTIAL_RUN, choose_names, create_parser, show_steps
from benchmarks.common.inputs import TEST_GRADIENTS, list_gradient_files
from benchmarks.common.peers import load_peers
from benchmarks.common.rest import Rest, load_rest, save_rest
from benchmarks.common.results import RESULTS, describe_machine, write_result
from benchmarks.index import kept, peers, plot, report
from benchmarks.index.cases import SIZES, Case, generate_cases
from benchmarks.index.coders import Coder, build_codecs
from benchmarks.index.measurement import LARGE, Measurement, measure_coder

__all__ = ["main", "measure"]

BUDGET, QUICK_BUDGET = 0.06, 0.015
"""Seconds per time."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark, and write the page if the run is complete; a partial run is only printed."""
    parser = create_parser(
        __doc__,
        __package__,
        quick="skip 26M elements and zstd-19",
        data=None,
        only="measure these coders and supports; names, or parts of names: rice; zstd; runs",
        minutes="start no support after them",
        report=None,
    )
    options = parser.parse_args(arguments)
    if not options.report:
        installed, missing = load_peers(peers.PACKAGES)
        coders = [*build_codecs(), *installed]
        if options.quick:
            coders = [coder for coder in coders if not coder.name.startswith("zstd-19")]
        sizes = SIZES[:2] if options.quick else SIZES
        folders = [TEST_GRADIENTS, *([options.data] if options.data else [])]
        cases = list(generate_cases(sizes, list_gradient_files(*folders)))
        names = choose_names(options.only, [*(c.name for c in coders), *(c.group for c in cases)])
        coders = [coder for coder in coders if coder.name in names] or coders
        cases = [case for case in cases if case.group in names] or cases
        if options.quick or options.data or options.only:
            budget = QUICK_BUDGET if options.quick else BUDGET
            print(_measure_part(coders, cases, missing, budget))
            print(PARTIAL_RUN)
            return
        _continue_run(coders, cases, missing, time.monotonic() + 60 * options.minutes)
    rest = load_rest(kept.FOLDER)
    if rest is None:
        sys.exit("the run is not complete: start it again")
    measurements = kept.load()
    text = report.format_page(measurements, rest)
    print(text)
    print(write_result("index", "Size and speed of index codecs", text, rest.machine))
    plot.draw(RESULTS / "index.png", measurements)


def _measure_part(
    coders: Sequence[Coder], cases: Sequence[Case], missing: Sequence[str], budget: float
) -> str:
    """Measure some coders and supports, and return the page."""
    with show_steps(len(coders) * len(cases)) as step:
        measurements = measure(coders, cases, budget, step)
    return report.format_page(measurements, _describe_run(missing), every=True)


def _describe_run(missing: Sequence[str]) -> Rest:
    return Rest(describe_machine(), missing, [], [])


def _continue_run(
    coders: Sequence[Coder], cases: Sequence[Case], missing: Sequence[str], stop: float
) -> None:
    """Measure the supports that have no results, and keep each of them.

    Args:
        coders: codecs and peers.
        cases: all supports.
        missing: packages of peers that are not installed.
        stop: no support is started after this time.
    """
    done = {m.case_name for m in kept.load()}
    left = [case for case in cases if f"{case.group}, {case.column}" not in done]
    with show_steps(len(coders) * len(left)) as step:
        for case in left:
            if time.monotonic() > stop:
                return
            kept.save(measure(coders, [case], BUDGET, step))
    if load_rest(kept.FOLDER) is None:
        save_rest(_describe_run(missing), kept.FOLDER)


def measure(
    coders: Sequence[Coder], cases: Sequence[Case], budget: float, step: Callable[[str], None]
) -> list[Measurement]:
    """Measure every coder on every support.

    Args:
        coders: codecs and peers.
        cases: the supports.
        budget: seconds per time.
        step: called with the name of each measurement before it starts.
    """
    measurements: list[Measurement] = []
    for case in cases:
        support = case.make()
        for coder in coders:
            step(f"{case.group}, {case.column}: {coder.name}")
            large = support.r >= LARGE
            with suppress(wc.EncodeError):  # the tables show "unsupported"
                measurements.append(measure_coder(coder, case, support, budget=budget, two_threads=large))
    return measurements


if __name__ == "__main__":
    main()
