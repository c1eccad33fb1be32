"""``wirecodec warm``: compile the kernels of schemes in advance, for images and clusters."""

from __future__ import annotations

import argparse
from typing import Any

from wirecodec.cli.formatting import escape, format_table
from wirecodec.cli.options import add_command, add_imports, parse_scheme
from wirecodec.cli.units import format_seconds
from wirecodec.compilation import Warmth, warm
from wirecodec.compressor import Compressor
from wirecodec.element_types import dtype_named
from wirecodec.settings.scheme import LOSSLESS, Scheme


def add_to(commands: Any) -> None:
    """Add the subcommand."""
    command = add_command(
        commands,
        "warm",
        _run,
        "Compile the kernels of schemes, and store them in the disk cache",
        "Kernels that are in the cache are loaded. Those of error feedback and local updates are included.",
    )
    command.add_argument(
        "scheme",
        nargs="*",
        help="a scheme, such as 'topk(0.01) | rice | qsgd', or a preset, such as dgc (default: lossless)",
    )
    command.add_argument(
        "--dtype",
        action="append",
        help="element type of the tensors; may be repeated (default: float32)",
    )
    command.add_argument(
        "--group",
        action="store_true",
        help="those of a Compressor with scope='group' or bytes_per_step, which selects from all tensors as "
        "from one vector (default scheme: budget(0.25) | rice | error-bounded)",
    )
    add_imports(command)


def _run(options: argparse.Namespace) -> int:
    default = parse_scheme("budget(0.25) | rice | error-bounded") if options.group else LOSSLESS
    schemes = [parse_scheme(text) for text in options.scheme] or [default]
    dtypes = [dtype_named(name) for name in options.dtype or ["float32"]]
    for scheme in schemes:
        for dtype in dtypes:
            warmed = Compressor(scheme, scope="group") if options.group else scheme
            warmth = warm(warmed, dtype, feedback=True)
            print(_format(scheme, dtype.name, warmth), flush=True)
    folder = warmth.cache or "none, because no folder is writable; NUMBA_CACHE_DIR names one"
    print(f"cache: {escape(folder)}")
    return 0


def _format(scheme: Scheme, dtype: str, warmth: Warmth) -> str:
    """Format one result: a line, and a table of the kernels that were compiled, slowest first."""
    slowest = sorted(warmth.compiled.items(), key=lambda item: -item[1])
    rows = [[name, format_seconds(seconds)] for name, seconds in slowest]
    head = (
        f"{escape(str(scheme))}, {dtype}: {len(rows)} kernels compiled, {warmth.loaded} loaded, "
        f"{format_seconds(warmth.seconds)}"
    )
    return "\n".join([head, *(format_table(["kernel", "time"], rows) if rows else [])])
