"""Steps of an outer optimizer, SGD with momentum, in one pass over its arrays."""

from __future__ import annotations

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.compiler.jit import kernel
from wirecodec.kernels.cpu.simd.memory import view_at

BLOCK_SIZE = 1024


@kernel
def take_outer_steps(rows: Array, like: Array, factors: Array, nesterov: bool, done: Array) -> None:
    """Change the parameters and the momenta of tensors in place, from number ``done[0]`` on.

        m' = momentum * m + d        parameters' = parameters - rate * (momentum * m' + d  or  m')

    Args:
        rows: (n, 5) i64, of each tensor the addresses of its parameters, of its momentum and of its mean d,
            its number of elements, and 1 if there is a momentum so far; without it, m' is d. The address of
            the momentum is 0 without momentum.
        like: an array of the tensors' type.
        factors: (2,) momentum and rate.
        nesterov: whether to apply the momentum once more.
        done: (1,) i64, is increased by one after each tensor, so that an interrupted program can tell.
    """
    keep, rate = factors[0], factors[1]
    update = np.empty(BLOCK_SIZE, like.dtype)
    for row in range(done[0], rows.shape[0]):
        size = rows[row, 3]
        parameters, mean = view_at(rows[row, 0], size, like), view_at(rows[row, 2], size, like)
        momentum = view_at(rows[row, 1], size if rows[row, 1] != 0 else 0, like)
        for start in range(0, size, BLOCK_SIZE):
            block = slice(start, start + BLOCK_SIZE)
            p, d = parameters[block], mean[block]
            if momentum.size == 0:
                for i in range(d.size):
                    p[i] = p[i] - rate * d[i]
                continue
            m = momentum[block]
            if rows[row, 4] == 0:
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
