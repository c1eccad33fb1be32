"""Compiled counter hash of ``wirecodec.prng`` (formats/SPEC.md, section 5)."""

from __future__ import annotations

from typing import Any

import numpy as np

from wirecodec.kernels.compiler.jit import inline
from wirecodec.kernels.cpu.simd.vector import ramp

U32 = np.uint32
U64 = np.uint64


@inline
def splitmix_finalize(z: U64) -> U64:
    """Apply the finaliser of splitmix64: a permutation of u64 in which every bit depends on every bit."""
    z = U64((z ^ (z >> U64(30))) * U64(0xBF58476D1CE4E5B9))
    z = U64((z ^ (z >> U64(27))) * U64(0x94D049BB133111EB))
    return U64(z ^ (z >> U64(31)))


@inline
def draw32(low: U32, high: U32, i: U32) -> U32:
    """Return the i-th u32 of the stream with the halves ``low`` and ``high``."""
    x = U32(i * U32(0x9E3779B9) + low)
    x = U32(x ^ (x >> U32(16)))
    x = U32(x * U32(0x21F0AAAD))
    x = U32(x ^ (x >> U32(15)))
    x = U32(x + high)
    x = U32(x * U32(0xD35A2D97))
    return U32(x ^ (x >> U32(15)))


@inline
def draw32x16(low: U32, high: U32, first: U32) -> Any:
    """Return ``draw32`` of ``first`` and the 15 numbers after it, as a vector."""
    x = ramp(16, 32) * 0x9E3779B9 + U32(first * U32(0x9E3779B9) + low)
    x ^= x >> 16
    x *= 0x21F0AAAD
    x ^= x >> 15
    x += high
    x *= 0xD35A2D97
    return x ^ (x >> 15)
