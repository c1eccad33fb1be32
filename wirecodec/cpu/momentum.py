"""Addend of a tensor's residual in a step: the gradient, clipped, with momentum if its feedback has it.

    u' = momentum * u + c * g        addend = u'        (momentum * u' + c * g with nesterov)

c is the factor of local clipping. Products and sums are rounded one by one. ``wirecodec.gpu.momentum``
computes the same bits on a GPU.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from wirecodec.arrays import Array, add_in_order, bits_of, read_only, reuse
from wirecodec.cpu.norm import Norm, is_reliable, measure
from wirecodec.errors import EncodeError
from wirecodec.jobs import TensorJob
from wirecodec.settings.feedback import ErrorFeedback, MomentumCorrection
from wirecodec.sparse import SparseTensor

MIN_ELEMENTS_PER_THREAD = 2**17
SQUARES_ROW = 2**16


@dataclass(frozen=True, eq=False)
class Addend:
    """Addend of a tensor's residual in a step.

    Attributes:
        data: (size,) the gradient itself, or float32 or float64 if it was clipped or has momentum or decay.
        momentum: (size,) the next momentum, of the same type; None without one. It may be ``data``.
        finite: True if all elements are known to be finite.
    """

    data: Array
    momentum: Array | None = None
    finite: bool = False


def add_momentum(job: TensorJob, gradient: Array, factor: float) -> Addend:
    """Multiply a gradient by the factor of clipping, and add the momentum of its feedback.

    Args:
        job: the tensor's settings and state.
        gradient: (size,) of a carried float type.
        factor: of clipping, at most 1.

    A result beyond the range of its type is clamped. Inf or NaN of the gradient stays, to be reported later.

    Raises EncodeError if the momentum has another size.
    """
    rule, before = job.feedback, job.momentum
    types = [x.dtype for x in (job.residual, before) if x is not None]
    dtype = np.result_type(gradient.dtype, np.float32, *types)
    g: Array = gradient.astype(dtype, copy=False)
    if not isinstance(rule, MomentumCorrection):
        return Addend(g if factor == 1 else g * dtype.type(factor))
    if before is not None and before.size != g.size:
        raise EncodeError(f"the gradient has {g.size} elements; its momentum has {before.size}")
    u = reuse(job.spare_momentum, g.size, dtype)
    ahead = np.empty(g.size if rule.nesterov else 0, dtype)
    old = np.empty(0, dtype) if before is None else before.astype(dtype, copy=False)
    factors = np.array([rule.momentum, factor], dtype)
    finite = _accumulate(g, old, factors, rule.nesterov, u, ahead)
    if not finite:
        largest = np.finfo(dtype).max
        for x in (u, ahead) if rule.nesterov else (u,):
            np.copyto(x, np.clip(x, -largest, largest), where=np.isfinite(g))
    return Addend(ahead if rule.nesterov else u, u, finite)


def _accumulate(g: Array, old: Array, factors: Array, nesterov: bool, u: Array, ahead: Array) -> bool:
    """Run the kernel on threads."""
    from wirecodec.kernels.cpu.select import feedback
    from wirecodec.kernels.cpu.threads import map_ranges

    unit = 64  # elements, so that no two threads write to one cache line

    def run(first: int, last: int) -> bool:
        part = slice(first * unit, last * unit)
        given = read_only(g[part]), read_only(old[part]), factors, nesterov, u[part], ahead[part]
        return bool(feedback.accumulate(*given))

    return all(map_ranges(run, -(-g.size // unit), MIN_ELEMENTS_PER_THREAD // unit)) if g.size else True


def stop_momentum(job: TensorJob, addend: Addend, sent: SparseTensor) -> Array:
    """Return the next momentum, with 0 for each element that is masked or not finite.

    With masking, the elements that were sent are masked. Overwrites the addend's momentum.
    """
    u = addend.momentum
    assert u is not None
    if is_masked(job):
        u[... if sent.is_full else sent.indices] = 0
    if not addend.finite:
        u[~np.isfinite(u)] = 0  # NaN and Inf were delivered; a momentum would keep them for ever
    return u


def is_masked(job: TensorJob) -> bool:
    """Tell whether the momentum of elements that are sent becomes 0."""
    rule, scheme = job.feedback, job.scheme
    if not (isinstance(rule, MomentumCorrection) and rule.masking):
        return False
    return scheme.transform is None and not scheme.sends_all


def decay_residual(job: TensorJob) -> Array | None:
    """Return the decayed residual, or None if the tensor has no residual."""
    residual, rule = job.residual, job.feedback
    if residual is None or not isinstance(rule, ErrorFeedback) or rule.decay == 1:
        return None if residual is None else np.asarray(residual)
    decayed: Array = residual * residual.dtype.type(rule.decay)
    return decayed


def sum_squares(x: Array) -> float:
    """Return Σ x² of a flat array, in binary64, row by row, as a GPU computes it, too.

    A row has 65,536 elements, which ``kernels.cpu.select.sums`` adds in its order.
    """
    from wirecodec.kernels.cpu.select import sums

    wide = read_only(bits_of(x.astype(np.result_type(x.dtype, np.float32), copy=False)))
    return add_in_order(
        sums.sum_and_squares(wide[at : at + SQUARES_ROW])[1] for at in range(0, x.size, SQUARES_ROW)
    )


def clip_factor(
    squares: Iterable[float], bound: float | None, gradients: Callable[[], Sequence[Array]]
) -> float:
    """Return the factor that limits the norm of a whole model.

    Args:
        squares: Σ x² of each gradient, in the order of keys.
        bound: largest norm; None for no limit.
        gradients: returns all gradients on the host, flat, in this order; called if ``squares`` overflow or
            underflow.

    Returns min(1, bound / norm); 1 if a gradient is not finite, so that NaN and Inf are reported as such.
    """
    if bound is None:
        return 1.0
    total = add_in_order(squares)
    norm = Norm(math.sqrt(total)) if is_reliable(total) else measure(gradients(), sum_squares)
    if not math.isfinite(norm.root) or norm.value <= bound:
        return 1.0
    return math.ldexp(bound / norm.root, -norm.exponent)
