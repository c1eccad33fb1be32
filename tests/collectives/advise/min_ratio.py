"""The cost model of the FFT paper (Wang et al., 2020, section 3.3).

Compressing M bytes takes M · c seconds, c = 2/T_m + 1/T_f + 1/T_p + 1/T_s (equation 1), and decompressing
takes as long. A ratio k reduces the communication from M / T_comm to M / (k · T_comm) seconds (equations 2
and 3). This pays if k > 1 / (1 - 2 · T_comm · c) (equation 4). ``wirecodec advise`` has a model for any
number of ranks and measures the stages.
"""

from __future__ import annotations

import math

__all__ = ["published_min_ratio"]


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
