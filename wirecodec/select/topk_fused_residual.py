"""Exact top k of gradient + residual, found while the two are added.

One sweep reads both arrays and writes their sum, with +0 at the candidates. Candidates outside the top k are
then written back. The inputs are not modified.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from wirecodec.arrays import Array, bits_of, read_only
from wirecodec.select import topk_exact
from wirecodec.sparse import index_dtype


@dataclass(frozen=True, eq=False)
class Terms:
    """Terms of x = decay * residual + addend, in the form of ``kernels.cpu.select.momentum``.

    Attributes:
        gradient: (n,) float32 or float64.
        residual: (n,) of the same type.
        momentum: (n,) of the same type, or (0,) if the form is PLAIN.
        after: (n,) aligned to 64 bytes; it receives the next momentum; (0,) if the form is PLAIN.
        factors: (3,) float64: of the momentum, the gradient and the residual.
        form: PLAIN, HEAVY_BALL or NESTEROV.
    """

    gradient: Array
    residual: Array
    momentum: Array
    after: Array
    factors: Array
    form: int


def select_top_k_of_sum(a: Array, b: Array, k: int, left: Array) -> topk_exact.IndicesAndBits | None:
    """Return the positions of the k largest sums of flat ``a`` and ``b``, and the bits of these sums.

    Args:
        a: (n,) float32 or float64.
        b: (n,) of the same type.
        k: 0 < k < n.
        left: (n,) aligned to 64 bytes; it receives the sums, with +0 at the selected elements.

    Returns None, with undefined contents of ``left``, if adding first is no slower.
    """
    from wirecodec.kernels.cpu.select import feedback

    x, y, rest = read_only(bits_of(a)), read_only(bits_of(b)), bits_of(left)

    def bracket(run: int, plan: topk_exact.SamplePlan) -> tuple[int, int, bool]:
        found: tuple[int, int, bool] = feedback.bracket_sum(x, y, run, 0, plan.samples, plan.low, plan.high)
        return found

    def sweep(part: slice, low: int, found: Array, words: Array) -> int:
        return int(feedback.sweep_sum(x[part], y[part], low, rest[part], found, words))

    return _select(bracket, sweep, k, rest)


def select_top_k_of_terms(terms: Terms, k: int, left: Array) -> topk_exact.IndicesAndBits | None:
    """Return what ``select_top_k_of_sum`` returns for the sum of several terms."""
    from wirecodec.kernels.cpu.select import momentum

    g, v, u = (read_only(bits_of(x)) for x in (terms.gradient, terms.residual, terms.momentum))
    after, rest, given = bits_of(terms.after), bits_of(left), (read_only(terms.factors), terms.form)

    def bracket(run: int, plan: topk_exact.SamplePlan) -> tuple[int, int, bool]:
        sample = run, 0, plan.samples, plan.low, plan.high
        found: tuple[int, int, bool] = momentum.bracket_total(g, u, v, *given, *sample)
        return found

    def sweep(part: slice, low: int, found: Array, words: Array) -> int:
        rows = g[part], u[part], v[part]
        return int(momentum.sweep_total(*rows, *given, low, after[part], rest[part], found, words))

    return _select(bracket, sweep, k, rest)


def _select(
    bracket: Callable[[int, topk_exact.SamplePlan], tuple[int, int, bool]],
    sweep_part: Callable[[slice, int, Array, Array], int],
    k: int,
    rest: Array,
) -> topk_exact.IndicesAndBits | None:
    """Select the k largest sums.

    Args:
        bracket: samples the sums, and returns bounds of the k-th key.
        sweep_part: sweeps a part of the sums, as ``feedback.sweep_sum``.
        k: 0 < k < n.
        rest: (n,) bits of the sums; the sweep writes them.
    """
    from wirecodec.kernels.cpu.select import feedback, topk

    if rest.size <= topk_exact.MAX_UNSAMPLED_SIZE or topk_exact.MIN_SPARSE_RECIPROCAL * k > rest.size:
        return None
    run = 64 // rest.itemsize
    plan = topk_exact.plan_sample(rest.size, k, run)
    low, high, tied = bracket(run, plan)
    if tied:
        return None

    def sweep(start: int, stop: int) -> topk_exact.Candidates | None:
        capacity = min(int(plan.fraction * rest.size), stop - start) + topk.SWEEP_SLACK
        found, words = np.empty(capacity, np.int32), np.empty(capacity, rest.dtype)
        n = sweep_part(slice(start, stop), low, found, words)
        return topk_exact.Candidates.collect(start, found[:n], words[:n], low, high) if n >= 0 else None

    swept_parts = topk_exact.map_array_parts(rest.size, sweep)
    parts = [part for part in swept_parts if part is not None]
    if len(parts) < len(swept_parts) or sum(part.words.size for part in parts) < k:
        return None
    threshold, ties, sizes = topk_exact.find_threshold(parts, k, low, high)

    def put_back(i: int) -> None:
        part = parts[i]
        feedback.restore_unselected(rest[part.start :], part.found, part.words, threshold, ties[i])

    topk_exact.map_parts(put_back, len(parts), k)
    return topk_exact.keep_top(parts, threshold, ties, sizes, index_dtype(rest.size))
