"""Work of ``wirecodec advise``; ``wirecodec/cli/advise.py`` has its options."""

from __future__ import annotations

import argparse
import sys
from contextlib import nullcontext

import numpy as np

from collectives.advise.budget import find_budget, format_budget
from collectives.advise.candidates import limit_bytes, parse_candidate
from collectives.advise.cost_model import Network, Step, share_buckets
from collectives.advise.page import format_advice
from collectives.advise.prediction import advise
from collectives.local_updates.outer import Array
from wirecodec.cli.array_files import load_gradient
from wirecodec.cli.files import STANDARD, FileArgument, name_file, name_of
from wirecodec.cli.formatting import escape
from wirecodec.cli.progress import show_progress
from wirecodec.cli.units import parse_bandwidth, parse_bytes, parse_count, parse_seconds

_DEFAULT_RANKS = 8
_OTHER_RANKS = (2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
"""Numbers of ranks that are compared if none is given."""
_MAX_SYNTHETIC = 2**22
"""Synthetic elements that are measured; times and bytes of more elements are computed from these."""


def run(options: argparse.Namespace) -> int:
    """Measure, compare, and print the page; the options are those of ``wirecodec advise``."""
    ranks = _DEFAULT_RANKS if options.ranks is None else options.ranks
    network = Network(ranks, parse_bandwidth(options.bandwidth), parse_seconds(options.latency))
    step = None if options.step is None else parse_seconds(options.step)
    if options.overlap and options.compute is None:
        raise ValueError("--overlap needs --compute, the time of forward and backward")
    compute = 0.0 if options.compute is None else parse_seconds(options.compute)
    candidates = [parse_candidate(text) for text in options.scheme] if options.scheme else None
    gradient, name, scale = _load(options.file, options.elements)
    also = []
    if options.bytes_per_step is not None:
        elements = scale * sum(x.size for x in gradient.values())
        also = [limit_bytes(parse_bytes(options.bytes_per_step), elements)]
    buckets = share_buckets([round(scale * x.nbytes) for x in gradient.values()])
    training = Step(compute, options.overlap, buckets)
    named = nullcontext() if options.file is None else name_file(options.file)
    with named, show_progress("measuring") as progress:
        advice = advise(
            gradient,
            network,
            candidates,
            step=training,
            more=options.all,
            also=also,
            max_error=options.max_error,
            scale=scale,
            progress=progress,
        )
    if options.png is not None:
        from collectives.advise.picture import draw_advice

        draw_advice(advice, name, options.png)
    other_ranks = _OTHER_RANKS if options.ranks is None else ()
    page = sys.stderr if options.png == STANDARD else sys.stdout
    print(format_advice(advice, name, other_ranks=other_ranks), file=page)
    if step is not None:
        with show_progress("finding the budget") as progress:
            budget = find_budget(gradient, network, step, scale=scale, progress=progress)
        print("", *format_budget(budget), sep="\n", file=page)
    return 0


def _load(file: FileArgument | None, elements: str | None) -> tuple[dict[str, Array], str, float]:
    """Load the gradient of a file, or make one of this many elements.

    Returns:
        The tensors to measure, a title, and the size to advise for in sizes of these tensors.

    Raises:
        ValueError: not exactly one of the two is given, or it cannot be read.
    """
    if (file is None) == (elements is None):
        raise ValueError("either a file or --elements must be given, not both")
    if file is not None:
        return load_gradient(file), escape(name_of(file)), 1.0
    count = parse_count(str(elements))
    measured = min(count, _MAX_SYNTHETIC)
    x = np.random.default_rng(0).laplace(size=measured).astype(np.float32)
    sample = "" if measured == count else f", scaled from {measured:,}"
    return {"synthetic": x}, f"synthetic gradient (Laplace, float32{sample})", count / measured
