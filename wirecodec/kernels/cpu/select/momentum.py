"""Momentum and clipping before selection, for tensors whose terms no selector adds itself."""

from __future__ import annotations

from wirecodec.arrays import Array
from wirecodec.kernels.compiler.jit import kernel

BLOCK_SIZE = 1024


@kernel
def accumulate(
    gradient: Array, momentum: Array, factors: Array, nesterov: bool, out: Array, addend: Array
) -> bool:
    """Compute the next momentum, and with Nesterov's form the addend of the velocity.

    Args:
        gradient: (n,).
        momentum: (n,), or (0,) in the first step.
        factors: (2,) of the momentum and of the gradient.
        nesterov: whether to compute ``addend``.
        out: (n,) receives factors[0] * momentum + factors[1] * gradient.
        addend: (n,) receives factors[0] * out + factors[1] * gradient; (0,) without ``nesterov``.

    Returns whether all results are finite.
    """
    finite = True
    for start in range(0, out.size, BLOCK_SIZE):
        block = slice(start, start + BLOCK_SIZE)
        g, u = gradient[block], out[block]
        if momentum.size > 0:
            before = momentum[block]
            for i in range(u.size):
                u[i] = factors[0] * before[i] + factors[1] * g[i]
        else:
            for i in range(u.size):
                u[i] = factors[1] * g[i]
        for i in range(u.size):
            finite &= u[i] - u[i] == 0
        if nesterov:
            ahead = addend[block]
            for i in range(u.size):
                ahead[i] = factors[0] * u[i] + factors[1] * g[i]
            for i in range(u.size):
                finite &= ahead[i] - ahead[i] == 0
    return finite
