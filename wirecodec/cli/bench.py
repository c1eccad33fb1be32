"""``wirecodec bench``: speed, size and error of one scheme, on one tensor or on a whole model."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from typing import Any

from wirecodec.arrays import Array
from wirecodec.cli.advise_candidates import Candidate
from wirecodec.cli.array_files import load_gradient
from wirecodec.cli.bench_model import format_model, measure_model
from wirecodec.cli.files import name_file, name_of
from wirecodec.cli.formatting import escape, format_table
from wirecodec.cli.measurement import Machine, TimedScheme, allocate_sums, measure
from wirecodec.cli.options import add_command, add_file, add_scheme_options, get_scheme
from wirecodec.cli.progress import ProgressCallback, show_progress
from wirecodec.cli.units import format_seconds
from wirecodec.settings.scheme import Scheme

_MIN_SECONDS = 1e-9  # the resolution of the clock; avoids a division by 0


def add_to(commands: Any) -> None:
    """Add the subcommand."""
    command = add_command(
        commands, "bench", _run, "Measure speed, size and error of a scheme on this machine"
    )
    add_file(command, ".npy, or .npz or .safetensors of named tensors, all in one container")
    command.add_argument("--json", action="store_true", help="print JSON; times are in seconds")
    add_scheme_options(command)


def _run(options: argparse.Namespace) -> int:
    scheme = get_scheme(options)
    tensors = load_gradient(options.file)
    name = name_of(options.file)
    with name_file(options.file), show_progress("measuring") as progress:
        if len(tensors) > 1:
            found = measure_model(tensors, scheme, progress=progress)
            page, facts = format_model(found, escape(name)), found.to_json()
        else:
            machine = _measure_tensor(tensors, scheme, progress)
            page, facts = format_bench(machine, escape(name)), _to_json(machine)
    print(json.dumps({"file": name, **facts}, indent=2) if options.json else page)
    return 0


def _measure_tensor(tensors: Mapping[str, Array], scheme: Scheme, progress: ProgressCallback) -> Machine:
    """Measure one tensor by the stages of its encoding."""
    prepared = TimedScheme.prepare(tensors, Candidate.of(scheme), allocate_sums(tensors))
    return measure(tensors, [prepared], progress=progress)


def _to_json(machine: Machine) -> dict[str, Any]:
    """Return the measurement of one scheme in types that JSON has."""
    (measurement,) = machine.measurements
    stages = measurement.stages
    return {
        "scheme": measurement.scheme,
        "tensors": 1,
        "elements": measurement.elements,
        "dense_bytes": measurement.dense_bytes,
        "bytes": stages.nbytes,
        "stored": measurement.stored,
        "error": measurement.error,
        "copy": machine.copy,
        "add": machine.gradient.add,
        "stages": [
            {"stage": "select", "seconds": stages.select},
            {"stage": "encode", "seconds": stages.encode},
            {"stage": "decode_add", "seconds": stages.decode},
        ],
    }


def format_bench(machine: Machine, name: str) -> str:
    """Format the measurement of one scheme; GB/s count the bytes of the uncompressed gradient."""
    (measurement,) = machine.measurements

    def row(stage: str, seconds: float) -> list[str]:
        return [
            stage,
            format_seconds(seconds),
            f"{measurement.dense_bytes / max(seconds, _MIN_SECONDS) / 1e9:.3g}",
            f"{seconds / max(machine.copy, _MIN_SECONDS):.3g}",
        ]

    stages, stored = measurement.stages, measurement.stored
    bits = 8 * stages.nbytes / stored if stored else 0.0
    lines = [
        f"{name}: {measurement.elements:,} elements, {measurement.dense_bytes:,} bytes; {measurement.scheme}",
        *format_table(
            ["stage", "time", "GB/s", "over np.copyto"],
            [
                row("select", stages.select),
                row("encode", stages.encode),
                row("decode and add", stages.decode),
                row("np.copyto", machine.copy),
            ],
        ),
        f"{stages.nbytes:,} bytes, ratio {measurement.ratio:.1f}; {stored:,} elements stored, "
        f"{bits:.2f} bits each; error {measurement.error:.3g} of the norm",
    ]
    return "\n".join(lines)
