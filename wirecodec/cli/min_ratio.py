"""``wirecodec min-ratio``: the cost model of the FFT paper (Wang et al., 2020, section 3.3).

Compressing M bytes takes M · c seconds, c = 2/T_m + 1/T_f + 1/T_p + 1/T_s (equation 1), and decompressing
takes as long. A ratio k reduces the communication from M / T_comm to M / (k · T_comm) seconds (equations 2
and 3). This pays if k > 1 / (1 - 2 · T_comm · c) (equation 4). ``advise`` has a model for any number of ranks
and measures the stages.
"""

from __future__ import annotations

import argparse
import math
from typing import Any

from wirecodec.cli.options import add_command
from wirecodec.cli.units import format_bandwidth, parse_bandwidth

_STAGES = {
    "conversion": "T_m, to a shorter float, done twice",
    "transform": "T_f, of the transform",
    "packing": "T_p, of the selected elements",
    "selection": "T_s, of the elements",
}


def add_to(commands: Any) -> None:
    """Add the subcommand."""
    command = add_command(
        commands,
        "min-ratio",
        _run,
        "Compute the ratio from which compression pays, by the cost model of the FFT paper",
        "All throughputs count bytes of the gradient. A stage that is left out takes no time. The model has "
        "one message between two ranks; `advise` has one for any number of them.",
    )
    command.add_argument("--bandwidth", required=True, help="T_comm, of the network: 10Gbit, 1.25GB/s")
    for stage, meaning in _STAGES.items():
        command.add_argument(f"--{stage}", metavar="RATE", help=f"{meaning}: 34GB/s")


def _run(options: argparse.Namespace) -> int:
    bandwidth = parse_bandwidth(options.bandwidth)
    rates = {
        stage: math.inf if (text := getattr(options, stage)) is None else parse_bandwidth(text)
        for stage in _STAGES
    }
    ratio = published_min_ratio(bandwidth, **rates)
    per_byte = 2 / rates["conversion"] + sum(1 / rates[s] for s in ("transform", "packing", "selection"))
    if ratio == math.inf:
        print(f"no ratio pays at {format_bandwidth(bandwidth)}")
    else:
        print(f"compression pays at {format_bandwidth(bandwidth)} from a ratio of {ratio:.4g} on")
    if per_byte > 0:
        print(f"no ratio pays from {format_bandwidth(1 / (2 * per_byte))} on")
    return 0


def published_min_ratio(
    bandwidth: float, *, conversion: float, transform: float, packing: float, selection: float
) -> float:
    """Compute the ratio above which the pipeline of the FFT paper pays (equation 4).

    All arguments have the same unit, such as bytes per second, and count uncompressed bytes. The paper
    assumes that decompression takes as long as compression.

    Args:
        bandwidth: T_comm, of one message between two ranks.
        conversion: T_m, to a shorter float, which is done twice.
        transform: T_f.
        packing: T_p.
        selection: T_s.

    Returns:
        The ratio; inf if no ratio pays.

    Examples:
        >>> published_min_ratio(1, conversion=float("inf"), transform=8, packing=8, selection=float("inf"))
        2.0
    """
    compressing = 2 / conversion + 1 / transform + 1 / packing + 1 / selection
    remaining = 1 - 2 * bandwidth * compressing
    return 1 / remaining if remaining > 0 else math.inf
