"""``wirecodec bench``: speed, size and error of one scheme, on one tensor or on a whole model."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from wirecodec.arrays import Array
from wirecodec.cli.array_files import load_gradient
from wirecodec.cli.bench_model import MIN_SECONDS, format_model, measure_model
from wirecodec.cli.files import name_file, name_of
from wirecodec.cli.formatting import escape, format_table
from wirecodec.cli.options import add_command, add_file, add_imports, add_scheme_options, get_scheme
from wirecodec.cli.progress import show_progress
from wirecodec.cli.units import format_seconds
from wirecodec.comparison.measurement import EncodedGradient, ProgressCallback, allocate_sums, measure_medians

_BUDGET = 0.15  # seconds per call


def add_to(commands: Any) -> None:
    """Add the subcommand."""
    command = add_command(
        commands,
        "bench",
        _run,
        "Measure speed, size and error of a scheme on this machine",
        "The error is the relative error: the norm of the part of the gradient that is lost, over the norm "
        "of the gradient.",
    )
    add_file(command, ".npy, or .npz or .safetensors of named tensors, all in one container")
    command.add_argument(
        "--json",
        action="store_true",
        help="print JSON; times are in seconds; error and relative_error are both the relative error",
    )
    add_scheme_options(command)
    add_imports(command)


def _run(options: argparse.Namespace) -> int:
    scheme = get_scheme(options)
    tensors = load_gradient(options.file)
    name = name_of(options.file)
    with name_file(options.file), show_progress("measuring") as progress:
        if len(tensors) > 1:
            measurement = measure_model(tensors, scheme, progress=progress)
            page, facts = format_model(measurement, escape(name)), measurement.to_json()
        else:
            encoded = EncodedGradient.of(tensors, scheme, allocate_sums(tensors))
            times = _measure_tensor(next(iter(tensors.values())), encoded, progress)
            page, facts = format_bench(encoded, times, escape(name)), _to_json(encoded, times)
    print(json.dumps({"file": name, **facts}, indent=2) if options.json else page)
    return 0


def _measure_tensor(x: Array, encoded: EncodedGradient, progress: ProgressCallback) -> list[float]:
    """Measure the seconds to copy, add, select, encode, and decode and add."""
    target, (total, other) = x.copy(), (allocate_sums({"x": x})["x"] for _ in range(2))
    own = (lambda: np.copyto(target, x), lambda: np.add(total, other, out=total))
    return measure_medians([*own, *encoded.calls], budget=_BUDGET, progress=progress)


def _to_json(encoded: EncodedGradient, times: Sequence[float]) -> dict[str, Any]:
    """Return the measurement of one scheme in types that JSON has."""
    copy, add, *stages = times
    return encoded.to_json(1) | {
        "copy": copy,
        "add": add,
        "stages": [
            {"stage": stage, "seconds": seconds}
            for stage, seconds in zip(("select", "encode", "decode_add"), stages, strict=True)
        ],
    }


def format_bench(encoded: EncodedGradient, times: Sequence[float], name: str) -> str:
    """Format the measurement of one scheme; GB/s count the bytes of the uncompressed gradient."""
    copy, _, *stages = times
    rows = zip(("select", "encode", "decode and add", "np.copyto"), (*stages, copy), strict=True)
    lines = [
        f"{name}: {encoded.elements:,} elements, {encoded.dense_bytes:,} bytes; {encoded.scheme}",
        *format_table(
            ["stage", "time", "GB/s", "over np.copyto"],
            [
                [
                    stage,
                    format_seconds(seconds),
                    f"{encoded.dense_bytes / max(seconds, MIN_SECONDS) / 1e9:.3g}",
                    f"{seconds / max(copy, MIN_SECONDS):.3g}",
                ]
                for stage, seconds in rows
            ],
        ),
        encoded.format_sizes(),
    ]
    return "\n".join(lines)
