"""Exact top k of sums that are sent in 16 bits, found while float32 residuals are added to 16-bit gradients.

The k are those of the rounded sums. Rounding is monotone, so that a key of rounded sums has a least float32
that reaches it. The sweep compares with this number, and only candidates are rounded.
"""

from __future__ import annotations

import numpy as np

from wirecodec.arrays import Array, bits_of, index_dtype, read_only
from wirecodec.element_types import BFLOAT16
from wirecodec.select.topk import exact

RUN = 32
"""Neighbours that are sampled together: a cache line of 16-bit elements."""


def select_top_k_rounded(gradient: Array, residual: Array, out: Array, k: int) -> exact.IndicesAndBits | None:
    """Store gradient + residual, and return the positions of the k largest rounded sums, and their bits.

    Args:
        gradient: (n,) float16 or bfloat16.
        residual: (n,) float32.
        out: (n,) float32, aligned to 64 bytes; receives the sums.
        k: as ``can_select_joint`` accepts it.

    Returns None, with undefined contents of ``out``, if the sample misleads, or if a sum is not finite.
    """
    from wirecodec.kernels.cpu.select import rounded_sums, sample, terms

    size = gradient.size
    form = rounded_sums.BFLOAT16 if gradient.dtype == BFLOAT16 else rounded_sums.HALF
    sweep_sums, round_all = rounded_sums.sweep[form], rounded_sums.round_all[form]
    g, v, total = read_only(bits_of(gradient)), read_only(bits_of(residual)), bits_of(out)
    plan = exact.plan_sample(size, k, RUN)
    keys = np.empty(plan.samples, np.uint16)
    if not rounded_sums.sample_runs[form](g, v, keys):
        return None
    low, high, tied = sample.bracket_kth(read_only(keys), RUN, 0, plan.samples, plan.low, plan.high)
    if tied:
        return None
    least = least_float32(low, gradient.dtype)

    def sweep(start: int, stop: int) -> exact.Candidates | None:
        capacity = min(int(plan.fraction * size), stop - start) + terms.SWEEP_SLACK
        found, sums = np.empty(capacity, np.int32), np.empty(capacity, np.uint32)
        n = sweep_sums(g[start:stop], v[start:stop], total[start:stop], least, found, sums)
        if n < 0:
            return None
        words = np.empty(n, np.uint16)
        round_all(read_only(sums[:n]), words)
        return exact.Candidates.collect(start, found[:n], words, low, high)

    swept = exact.map_array_parts(size, sweep)
    parts = [part for part in swept if part is not None]
    if len(parts) < len(swept) or sum(part.words.size for part in parts) < k:
        return None
    threshold, ties, sizes = exact.find_threshold(parts, k, low, high)
    return exact.keep_top(parts, threshold, ties, sizes, index_dtype(size))


def least_float32(key: int, dtype: np.dtype[np.generic]) -> int:
    """Return the bits of the least float32 of 0 or more that rounds to a 16-bit key or a larger one.

    That is the middle between the key's number and the one before, where the even one of both wins.
    """
    if key == 0:
        return 0
    before, number = np.array([key - 1, key], np.uint16).view(dtype).astype(np.float64)
    middle = np.array((before + number) / 2, np.float32)  # exact: it has one bit more than 16-bit numbers
    return int(middle.view(np.uint32)) + (key & 1)
