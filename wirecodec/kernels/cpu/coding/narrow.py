"""float32 and float64 to 16 bits and back, on bits (formats/spec/value/raw.md).

Rounded once, to nearest, ties to even; NaNs keep their sign and their leading fraction bits. What narrows
says whether a finite value has become infinite, and ``first_overflow`` where.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.cpu.jit import inline, kernel
from wirecodec.kernels.cpu.simd.floats import add_floats, int_to_float, multiply_floats, splat_float
from wirecodec.kernels.cpu.simd.vector import load, mask_to_bits, resize, select, splat, store
from wirecodec.kernels.cpu.simd.words import f32_from_bits, f32_to_bits

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

LANES = 32
MAGNITUDE, INFINITY = U64(0x7FFFFFFFFFFFFFFF), U64(0x7FF0000000000000)


@inline
def _half(u: np.uint32) -> np.uint16:
    sign = U16((u >> U32(16)) & U32(0x8000))
    a = U32(u & U32(0x7FFFFFFF))
    if a > U32(0x7F800000):
        h = U32(U32(0x7E00) | ((a >> U32(13)) & U32(0x3FF)))
    elif a >= U32(0x477FF000):  # 65520 and above round to infinity
        h = U32(0x7C00)
    elif a < U32(0x38800000):  # below 2^-14: adding ½ aligns the result's ulp with 2^-24, and rounds
        h = U32(f32_to_bits(f32_from_bits(a) + F32(0.5)) - U32(0x3F000000))
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


@inline
def _halves(u: Any) -> Any:
    """``_half`` of each lane."""
    a = u & 0x7FFFFFFF
    small = add_floats(a, splat_float(0.5, a)) - 0x3F000000
    h = select(a < 0x38800000, small, (a + 0xC8000FFF + ((a >> 13) & 1)) >> 13)
    h = select(a < 0x477FF000, h, splat(U32(0x7C00), 32))
    h = select(a > 0x7F800000, ((a >> 13) & 0x3FF) | 0x7E00, h)
    return resize(h | ((u >> 16) & 0x8000), 16)


@inline
def _bfloat16s(u: Any) -> Any:
    """``_bfloat16`` of each lane."""
    rounded = (u + 0x7FFF + ((u >> 16) & 1)) >> 16
    return resize(select((u & 0x7FFFFFFF) > 0x7F800000, (u >> 16) | 0x40, rounded), 16)


@inline
def _overflows(u: Any, least: int) -> Any:
    """Which lanes are finite and of magnitude bits of ``least`` or more."""
    return ((u & 0x7FFFFFFF) - least) < 0x7F800000 - least


@kernel
def half_from_f32(bits: Array, out: Array) -> bool:
    """binary32 bits (u32) to binary16 bits (u16); whether one overflowed."""
    over = splat(U32(0), 32) > 0
    whole = bits.size & -LANES
    for i in range(0, whole, LANES):
        u = load(bits, i, 32)
        store(out, i, _halves(u))
        over |= _overflows(u, 0x477FF000)
    if whole < bits.size:
        rest, last = _rest(bits, whole), np.empty(LANES, U16)
        store(last, 0, _halves(load(rest, 0, 32)))
        over |= _overflows(load(rest, 0, 32), 0x477FF000)
        out[whole:] = last[: bits.size - whole]
    return mask_to_bits(over) != U64(0)


@kernel
def bfloat16_from_f32(bits: Array, out: Array) -> bool:
    """binary32 bits (u32) to bfloat16 bits (u16); whether one overflowed."""
    over = splat(U32(0), 32) > 0
    whole = bits.size & -LANES
    for i in range(0, whole, LANES):
        u = load(bits, i, 32)
        store(out, i, _bfloat16s(u))
        over |= _overflows(u, 0x7F7F8000)
    if whole < bits.size:
        rest, last = _rest(bits, whole), np.empty(LANES, U16)
        store(last, 0, _bfloat16s(load(rest, 0, 32)))
        over |= _overflows(load(rest, 0, 32), 0x7F7F8000)
        out[whole:] = last[: bits.size - whole]
    return mask_to_bits(over) != U64(0)


@inline
def _rest(bits: Array, whole: int) -> Array:
    """The elements from ``whole`` on, and zeros."""
    rest = np.zeros(LANES, bits.dtype)
    rest[: bits.size - whole] = bits[whole:]
    return rest


@kernel
def half_from_f64(bits: Array, out: Array) -> bool:
    """binary64 bits (u64) to binary16 bits (u16), rounded once; whether one overflowed."""
    over = False
    for i in range(bits.size):
        out[i] = _half(_single_to_odd(bits[i]))
        over |= _overflowed(out[i], U16(0x7C00), bits[i] & MAGNITUDE, INFINITY)
    return over


@kernel
def bfloat16_from_f64(bits: Array, out: Array) -> bool:
    """binary64 bits (u64) to bfloat16 bits (u16), rounded once; whether one overflowed."""
    over = False
    for i in range(bits.size):
        out[i] = _bfloat16(_single_to_odd(bits[i]))
        over |= _overflowed(out[i], U16(0x7F80), bits[i] & MAGNITUDE, INFINITY)
    return over


@kernel
def single_from_half(bits: Array, out: Array) -> None:
    """binary16 bits (u16) to binary32 bits (u32), exactly."""
    whole = bits.size & -LANES
    for i in range(0, whole, LANES):
        store(out, i, _singles(load(bits, i, 32)))
    if whole < bits.size:
        last = np.empty(LANES, U32)
        store(last, 0, _singles(load(_rest(bits, whole), 0, 32)))
        out[whole:] = last[: bits.size - whole]


@inline
def _singles(halves: Any) -> Any:
    """binary16 bits to binary32 bits, each lane."""
    u = resize(halves, 32)
    h = u & 0x7FFF
    wide = (h << 13) + 0x38000000
    wide = select(h < 0x7C00, wide, wide + 0x38000000)
    wide = select(h < 0x400, multiply_floats(int_to_float(h), splat_float(2.0**-24, h)), wide)
    return wide | ((u & 0x8000) << 16)


@kernel
def single_from_bfloat16(bits: Array, out: Array) -> None:
    """bfloat16 bits (u16) to binary32 bits (u32), exactly."""
    for i in range(bits.size):
        out[i] = U32(U32(bits[i]) << U32(16))


@inline
def _overflowed(narrow: np.uint16, infinity: np.uint16, magnitude: Any, wide_infinity: Any) -> bool:
    """Whether a value became infinite that was not, given as bits."""
    return (narrow & U16(0x7FFF)) == infinity and magnitude != wide_infinity


@kernel
def first_overflow(
    narrow: Array, infinity: np.uint16, wide: Array, wide_infinity: Any, magnitude: Any
) -> int:
    """The first position that is infinite in ``narrow`` and was not in ``wide``, or -1.

    Both are bits; ``magnitude`` masks the sign of ``wide`` off.
    """
    for i in range(narrow.size):
        if _overflowed(narrow[i], infinity, wide[i] & magnitude, wide_infinity):
            return i
    return -1
