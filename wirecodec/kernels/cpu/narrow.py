"""float32 and float64 to 16 bits and back, on bits (formats/spec/value/raw.md).

Rounded once, to nearest, ties to even; NaNs keep their sign and their leading fraction bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.cpu.jit import inline, kernel
from wirecodec.kernels.cpu.words import bits_of_f32, f32_of_bits

__all__ = [
    "bfloat16_from_f32",
    "bfloat16_from_f64",
    "first_overflow",
    "half_from_f32",
    "half_from_f64",
    "single_from_bfloat16",
    "single_from_half",
]

U16 = np.uint16
U32 = np.uint32
U64 = np.uint64
F32 = np.float32


@inline
def _half(u: np.uint32) -> np.uint16:
    sign = U16((u >> U32(16)) & U32(0x8000))
    a = U32(u & U32(0x7FFFFFFF))
    if a > U32(0x7F800000):
        h = U32(U32(0x7E00) | ((a >> U32(13)) & U32(0x3FF)))
    elif a >= U32(0x477FF000):  # 65520 and above round to infinity
        h = U32(0x7C00)
    elif a < U32(0x38800000):  # below 2^-14: adding ½ aligns the result's ulp with 2^-24, and rounds
        h = U32(bits_of_f32(f32_of_bits(a) + F32(0.5)) - U32(0x3F000000))
    else:
        h = U32(U32(a + U32(0xC8000FFF) + ((a >> U32(13)) & U32(1))) >> U32(13))
    return U16(sign | U16(h))


@inline
def _bfloat16(u: np.uint32) -> np.uint16:
    if U32(u & U32(0x7FFFFFFF)) > U32(0x7F800000):
        return U16((u >> U32(16)) | U32(0x40))
    return U16(U32(u + U32(0x7FFF) + ((u >> U32(16)) & U32(1))) >> U32(16))


@inline
def _single_to_odd(u: np.uint64) -> np.uint32:
    """A float64's bits as float32 bits, cut toward zero, the last bit set where anything was cut.

    Rounding to 16 bits afterwards is then the only rounding. Values below the float32 normals keep what a
    16-bit type can see of them.
    """
    sign = U32((u >> U64(32)) & U64(0x80000000))
    a = u & U64(0x7FFFFFFFFFFFFFFF)
    if a >= U64(0x7FF0000000000000):
        nan = U32(0x400000) if a > U64(0x7FF0000000000000) else U32(0)
        return U32(sign | U32(0x7F800000) | nan | U32((a >> U64(29)) & U64(0x7FFFFF)))
    exponent = np.int64(a >> U64(52)) - 896  # biased as float32's
    if exponent >= 255:
        return U32(sign | U32(0x7F7FFFFF))  # above every 16-bit value; rounds to infinity there
    fraction = (a & U64(0xFFFFFFFFFFFFF)) | U64(0x10000000000000)
    shift = U64(29)
    if exponent <= 0:
        shift = U64(min(30 - exponent, 63))
        exponent = np.int64(0)
        kept = fraction >> shift
    else:
        kept = (a & U64(0xFFFFFFFFFFFFF)) >> shift
    odd = U64(1) if (fraction & ((U64(1) << shift) - U64(1))) != U64(0) else U64(0)
    return U32(sign | U32(exponent << 23) | U32(kept | odd))


@kernel
def half_from_f32(bits: Array, out: Array) -> None:
    """binary32 bits (u32) to binary16 bits (u16)."""
    for i in range(bits.size):
        out[i] = _half(bits[i])


@kernel
def bfloat16_from_f32(bits: Array, out: Array) -> None:
    """binary32 bits (u32) to bfloat16 bits (u16)."""
    for i in range(bits.size):
        out[i] = _bfloat16(bits[i])


@kernel
def half_from_f64(bits: Array, out: Array) -> None:
    """binary64 bits (u64) to binary16 bits (u16), rounded once."""
    for i in range(bits.size):
        out[i] = _half(_single_to_odd(bits[i]))


@kernel
def bfloat16_from_f64(bits: Array, out: Array) -> None:
    """binary64 bits (u64) to bfloat16 bits (u16), rounded once."""
    for i in range(bits.size):
        out[i] = _bfloat16(_single_to_odd(bits[i]))


@kernel
def single_from_half(bits: Array, out: Array) -> None:
    """binary16 bits (u16) to binary32 bits (u32), exactly."""
    for i in range(bits.size):
        h = U32(bits[i])
        sign = U32((h & U32(0x8000)) << U32(16))
        exponent = U32((h >> U32(10)) & U32(31))
        fraction = U32(h & U32(0x3FF))
        if exponent == U32(31):
            wide = U32(U32(0x7F800000) | (fraction << U32(13)))
        elif exponent == U32(0):
            wide = bits_of_f32(F32(fraction) * F32(2.0**-24))
        else:
            wide = U32(((exponent + U32(112)) << U32(23)) | (fraction << U32(13)))
        out[i] = U32(sign | wide)


@kernel
def single_from_bfloat16(bits: Array, out: Array) -> None:
    """bfloat16 bits (u16) to binary32 bits (u32), exactly."""
    for i in range(bits.size):
        out[i] = U32(U32(bits[i]) << U32(16))


@kernel
def first_overflow(
    narrow: Array, infinity: np.uint16, wide: Array, wide_infinity: Any, magnitude: Any
) -> int:
    """The first position that is infinite in ``narrow`` and was not in ``wide``, or -1.

    Both are bits; ``magnitude`` masks the sign of ``wide`` off.
    """
    for i in range(narrow.size):
        if (narrow[i] & U16(0x7FFF)) == infinity and (wide[i] & magnitude) != wide_infinity:
            return i
    return -1
