"""Size, error and speed of value codecs, compared with other compressors at equal error.

Measures every registered value codec in several configurations, and every installed peer, on the same
vectors: the largest values of known distributions and of real gradients. Sizes are compared with the
rate-distortion bound of each vector. Times are multiples of ``np.copyto`` of the same values in the same run.

    python -m benchmarks.value [--quick] [--data FOLDER] [--only "WORD; WORD"] [--minutes 8]

The results of each vector are kept in benchmarks/results/value, and a run goes on from there. --report
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
from benchmarks.value import kept, peers, plot, report
from benchmarks.value.cases import CACHE, ELEMENTS, Case, generate_cases, generate_time_cases
from benchmarks.value.coders import Coder, build_codecs
from benchmarks.value.kept import Curves
from benchmarks.value.measurement import Measurement, measure_coder

__all__ = ["main", "measure"]

SLOW = 10.0
"""Nanoseconds per value above which a codec is not measured on the vector that exceeds the caches."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark, and write the page if the run is complete; a partial run is only printed."""
    parser = create_parser(
        __doc__,
        __package__,
        quick="use vectors of 2.6M elements instead of 26M",
        data=None,
        only="measure these coders and vectors; names, or parts of names: qsgd; SZ3; laplace",
        minutes="start no vector after them",
        report=None,
    )
    options = parser.parse_args(arguments)
    partial = options.quick or options.data or options.only
    if not options.report:
        elements = ELEMENTS // 10 if options.quick else ELEMENTS
        folders = [TEST_GRADIENTS, *([options.data] if options.data else [])]
        cases = [*generate_time_cases(elements), *generate_cases(elements, list_gradient_files(*folders))]
        installed, missing = load_peers(peers.PACKAGES)
        coders = [*build_codecs(), *installed]
        if partial:
            names = choose_names(options.only, [*(c.name for c in coders), *(c.group for c in cases)])
            coders = [coder for coder in coders if coder.name in names] or coders
            cases = [case for case in cases if case.group in names] or cases
            print(_measure_part(coders, cases, missing, 0.01 if options.quick else 0.03))
            print(PARTIAL_RUN)
            return
        _continue_run(coders, cases, missing, time.monotonic() + 60 * options.minutes)
    rest = load_rest(kept.FOLDER)
    if rest is None:
        sys.exit("the run is not complete: start it again")
    measurements, curves = kept.load()
    text = report.format_page(measurements, curves, rest)
    print(text)
    print(write_result("value", "Size, error and speed of value codecs", text, rest.machine))
    plot.draw(RESULTS / "value.png", measurements, curves)


def _measure_part(
    coders: Sequence[Coder], cases: Sequence[Case], missing: Sequence[str], budget: float
) -> str:
    """Measure some coders, or short vectors, and return the page."""
    with show_steps(len(coders) * len(cases)) as step:
        measurements, curves = measure(coders, cases, step, budget)
    return report.format_page(measurements, curves, _describe_run(missing), every=True)


def _describe_run(missing: Sequence[str]) -> Rest:
    return Rest(describe_machine(), missing, [], [])


def _continue_run(
    coders: Sequence[Coder], cases: Sequence[Case], missing: Sequence[str], stop: float
) -> None:
    """Measure the vectors that have no results, and keep each of them.

    Args:
        coders: codecs and peers.
        cases: all vectors.
        missing: packages of peers that are not installed.
        stop: no vector is started after this time.
    """
    found, _ = kept.load()
    done = {(m.group, m.column) for m in found}
    left = [case for case in cases if (case.group, case.column) not in done]
    with show_steps(len(coders) * len(left)) as step:
        for case in left:
            if time.monotonic() > stop:
                return
            measurements, curves = measure(coders, [case], step, 0.03, found)
            kept.save(measurements, curves, kept.FOLDER)
            found += measurements
    if load_rest(kept.FOLDER) is None:
        save_rest(_describe_run(missing), kept.FOLDER)


def measure(
    coders: Sequence[Coder],
    cases: Sequence[Case],
    step: Callable[[str], None],
    budget: float,
    earlier: Sequence[Measurement] = (),
) -> tuple[list[Measurement], Curves]:
    """Measure every coder on every vector.

    Args:
        coders: codecs and peers.
        cases: the vectors.
        step: called with the name of each measurement before it starts.
        budget: seconds per time.
        earlier: measurements of other vectors, which show the coders that are slow.

    Returns:
        The measurements, and the bounds of the vectors by (group, column).
    """
    measurements: list[Measurement] = []
    curves: Curves = {}
    slowest = {m.coder: max(m.encode_ns, m.decode_ns) for m in earlier}
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
