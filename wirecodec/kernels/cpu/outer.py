"""Step of an outer optimizer, SGD with momentum, in one pass over its arrays."""

from __future__ import annotations

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.compiler.jit import kernel

BLOCK_SIZE = 1024


@kernel
def take_outer_step(
    parameters: Array,
    momentum: Array,
    mean: Array,
    factors: Array,
    nesterov: bool,
    is_first: bool,
    done: Array,
) -> None:
    """Change the parameters and the momentum of a tensor in place.

        m' = momentum * m + d        parameters' = parameters - rate * (momentum * m' + d  or  m')

    Args:
        parameters: (n,).
        momentum: (n,), or (0,) without momentum.
        mean: (n,) gradient d.
        factors: (2,) momentum and rate.
        nesterov: whether to apply the momentum once more.
        is_first: whether there is no momentum so far; m' is then d.
        done: (1,) i64, is increased by one at the end, so that an interrupted program can tell.
    """
    keep, rate = factors[0], factors[1]
    update = np.empty(BLOCK_SIZE, mean.dtype)
    for start in range(0, parameters.size, BLOCK_SIZE):
        block = slice(start, start + BLOCK_SIZE)
        p, d = parameters[block], mean[block]
        if momentum.size == 0:
            for i in range(d.size):
                p[i] = p[i] - rate * d[i]
            continue
        m = momentum[block]
        if is_first:
            for i in range(d.size):
                m[i] = d[i]
        else:
            for i in range(d.size):
                m[i] = keep * m[i] + d[i]
        if nesterov:
            for i in range(d.size):
                update[i] = keep * m[i] + d[i]
        else:
            for i in range(d.size):
                update[i] = m[i]
        for i in range(d.size):
            p[i] = p[i] - rate * update[i]
    done[0] += 1
