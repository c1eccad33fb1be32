"""Conversions between float32 or float64 and 16-bit floats, on raw bits (formats/spec/value/raw.md).

Each value is rounded once, to nearest, ties to even. A NaN keeps its sign and its leading fraction bits. The
narrowing kernels return whether a finite value became infinite, and ``first_overflow`` finds the first one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.compiler.jit import inline, kernel
from wirecodec.kernels.cpu.simd.floats import add_floats, int_to_float, multiply_floats, splat_float
from wirecodec.kernels.cpu.simd.memory import copy_elements
from wirecodec.kernels.cpu.simd.vector import load, mask_to_bits, resize, select, splat, store
from wirecodec.kernels.cpu.simd.words import f32_from_bits, f32_to_bits

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
    elif a >= U32(0x477FF000):  # 65,520 and above round to infinity.
        h = U32(0x7C00)
    elif a < U32(0x38800000):  # Below 2^-14, adding ½ aligns the ulp with 2^-24, and rounds.
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
    """Convert float64 bits to float32 bits, rounding to odd.

    The value is truncated, and its last bit is set if anything was cut off. A later rounding to 16 bits then
    gives the same result as a single rounding. Values below the float32 normals keep all the bits that a
    16-bit type can represent.
    """
    sign = U32((u >> U64(32)) & U64(0x80000000))
    a = u & U64(0x7FFFFFFFFFFFFFFF)
    if a >= U64(0x7FF0000000000000):
        nan = U32(0x400000) if a > U64(0x7FF0000000000000) else U32(0)
        return U32(sign | U32(0x7F800000) | nan | U32((a >> U64(29)) & U64(0x7FFFFF)))
    exponent = np.int64(a >> U64(52)) - 896  # Biased as in float32.
    if exponent >= 255:
        return U32(sign | U32(0x7F7FFFFF))  # Above every 16-bit value; rounds to infinity.
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
def round_to_half(u: Any) -> Any:
    """Apply ``_half`` to each lane."""
    a = u & 0x7FFFFFFF
    small = add_floats(a, splat_float(0.5, a)) - 0x3F000000
    h = select(a < 0x38800000, small, (a + 0xC8000FFF + ((a >> 13) & 1)) >> 13)
    h = select(a < 0x477FF000, h, splat(U32(0x7C00), 32))
    h = select(a > 0x7F800000, ((a >> 13) & 0x3FF) | 0x7E00, h)
    return resize(h | ((u >> 16) & 0x8000), 16)


@inline
def round_to_bfloat16(u: Any) -> Any:
    """Apply ``_bfloat16`` to each lane."""
    rounded = (u + 0x7FFF + ((u >> 16) & 1)) >> 16
    return resize(select((u & 0x7FFFFFFF) > 0x7F800000, (u >> 16) | 0x40, rounded), 16)


@inline
def _overflows(u: Any, threshold: int) -> Any:
    """Return the lanes that are finite and whose magnitude bits are ``threshold`` or more."""
    return ((u & 0x7FFFFFFF) - threshold) < 0x7F800000 - threshold


@kernel
def half_from_f32(bits: Array, out: Array) -> bool:
    """Convert float32 bits (u32) to float16 bits (u16), and return whether one overflowed."""
    over = splat(U32(0), 32) > 0
    whole = bits.size & -LANES
    for i in range(0, whole, LANES):
        u = load(bits, i, 32)
        store(out, i, round_to_half(u))
        over |= _overflows(u, 0x477FF000)
    if whole < bits.size:
        rest, last = _rest(bits, whole), np.empty(LANES, U16)
        store(last, 0, round_to_half(load(rest, 0, 32)))
        over |= _overflows(load(rest, 0, 32), 0x477FF000)
        copy_elements(last, 0, bits.size - whole, out, whole)
    return mask_to_bits(over) != U64(0)


@kernel
def bfloat16_from_f32(bits: Array, out: Array) -> bool:
    """Convert float32 bits (u32) to bfloat16 bits (u16), and return whether one overflowed."""
    over = splat(U32(0), 32) > 0
    whole = bits.size & -LANES
    for i in range(0, whole, LANES):
        u = load(bits, i, 32)
        store(out, i, round_to_bfloat16(u))
        over |= _overflows(u, 0x7F7F8000)
    if whole < bits.size:
        rest, last = _rest(bits, whole), np.empty(LANES, U16)
        store(last, 0, round_to_bfloat16(load(rest, 0, 32)))
        over |= _overflows(load(rest, 0, 32), 0x7F7F8000)
        copy_elements(last, 0, bits.size - whole, out, whole)
    return mask_to_bits(over) != U64(0)


@inline
def _rest(bits: Array, whole: int) -> Array:
    """Return the elements from ``whole`` on, padded with zeros to LANES."""
    rest = np.zeros(LANES, bits.dtype)
    copy_elements(bits, whole, bits.size - whole, rest, 0)
    return rest


@kernel
def half_from_f64(bits: Array, out: Array) -> bool:
    """Convert float64 bits (u64) to float16 bits (u16), and return whether one overflowed."""
    over = False
    for i in range(bits.size):
        out[i] = _half(_single_to_odd(bits[i]))
        over |= _overflowed(out[i], U16(0x7C00), bits[i] & MAGNITUDE, INFINITY)
    return over


@kernel
def bfloat16_from_f64(bits: Array, out: Array) -> bool:
    """Convert float64 bits (u64) to bfloat16 bits (u16), and return whether one overflowed."""
    over = False
    for i in range(bits.size):
        out[i] = _bfloat16(_single_to_odd(bits[i]))
        over |= _overflowed(out[i], U16(0x7F80), bits[i] & MAGNITUDE, INFINITY)
    return over


@kernel
def single_from_half(bits: Array, out: Array) -> None:
    """Convert float16 bits (u16) to float32 bits (u32), exactly."""
    whole = bits.size & -LANES
    for i in range(0, whole, LANES):
        store(out, i, widen_half(load(bits, i, 32)))
    if whole < bits.size:
        last = np.empty(LANES, U32)
        store(last, 0, widen_half(load(_rest(bits, whole), 0, 32)))
        copy_elements(last, 0, bits.size - whole, out, whole)


@inline
def widen_half(halves: Any) -> Any:
    """Convert float16 bits to float32 bits in each lane."""
    u = resize(halves, 32)
    h = u & 0x7FFF
    wide = (h << 13) + 0x38000000
    wide = select(h < 0x7C00, wide, wide + 0x38000000)
    wide = select(h < 0x400, multiply_floats(int_to_float(h), splat_float(2.0**-24, h)), wide)
    return wide | ((u & 0x8000) << 16)


@kernel
def single_from_bfloat16(bits: Array, out: Array) -> None:
    """Convert bfloat16 bits (u16) to float32 bits (u32), exactly."""
    for i in range(bits.size):
        out[i] = U32(U32(bits[i]) << U32(16))


@inline
def _overflowed(narrow: np.uint16, infinity: np.uint16, magnitude: Any, wide_infinity: Any) -> bool:
    """Return whether a finite value became infinite; both are raw bits."""
    return (narrow & U16(0x7FFF)) == infinity and magnitude != wide_infinity


@kernel
def first_overflow(
    narrow: Array, infinity: np.uint16, wide: Array, wide_infinity: Any, magnitude: Any
) -> int:
    """Return the first position that is infinite in ``narrow`` but not in ``wide``, or -1.

    Args:
        narrow: (n,) u16, raw bits after the conversion.
        infinity: raw bits of the narrow type's infinity.
        wide: (n,) raw bits before the conversion.
        wide_infinity: raw bits of the wide type's infinity.
        magnitude: mask that removes the sign of ``wide``.
    """
    for i in range(narrow.size):
        if _overflowed(narrow[i], infinity, wide[i] & magnitude, wide_infinity):
            return i
    return -1
