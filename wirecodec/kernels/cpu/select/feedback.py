"""Error feedback: add the residual."""

from __future__ import annotations

from wirecodec.arrays import Array
from wirecodec.kernels.compiler.jit import kernel

BLOCK_SIZE = 1024


@kernel
def add(a: Array, b: Array, out: Array) -> bool:
    """Compute out = a + b; return whether all of it is finite."""
    finite = True
    for start in range(0, a.size, BLOCK_SIZE):
        x, y, z = (
            a[start : start + BLOCK_SIZE],
            b[start : start + BLOCK_SIZE],
            out[start : start + BLOCK_SIZE],
        )
        for i in range(z.size):
            z[i] = x[i] + y[i]
        for i in range(z.size):
            finite &= z[i] - z[i] == 0
    return finite
