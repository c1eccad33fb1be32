"""``wirecodec bench``: speed, size and error of one scheme."""

from __future__ import annotations

import argparse
from typing import Any

from wirecodec.cli.array_files import load_gradient
from wirecodec.cli.files import name_file, name_of
from wirecodec.cli.formatting import escape, format_table
from wirecodec.cli.measurement import Machine, TimedScheme, allocate_sums, measure
from wirecodec.cli.options import add_command, add_file, add_scheme_options, get_scheme
from wirecodec.cli.progress import show_progress
from wirecodec.cli.units import format_seconds

__all__ = ["add_to", "format_bench"]

_MIN_SECONDS = 1e-9  # the resolution of the clock; avoids a division by 0


def add_to(commands: Any) -> None:
    """Add the subcommand."""
    command = add_command(
        commands, "bench", _run, "Measure speed, size and error of a scheme on this machine"
    )
    add_file(command, ".npy, or .npz of named tensors, all in one container")
    add_scheme_options(command)


def _run(options: argparse.Namespace) -> int:
    scheme = get_scheme(options)
    tensors = load_gradient(options.file)
    with name_file(options.file), show_progress("measuring") as progress:
        prepared = TimedScheme.prepare(tensors, scheme, allocate_sums(tensors))
        machine = measure(tensors, [prepared], progress=progress)
    print(format_bench(machine, escape(name_of(options.file))))
    return 0


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
