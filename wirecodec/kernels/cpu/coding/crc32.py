"""CRC-32 of many slices, 256 or 64 bytes at a time by carry-less products if the processor has them.

Gopal et al., *Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction*, Intel, 2009. Four
registers of 512 bits are folded over 2048 bits each, then four of 128 bits over 512. The rest, and all bytes
on other processors, are looked up in eight tables.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils

from wirecodec.arrays import Array
from wirecodec.kernels.compiler.jit import inline_without_refcounts, kernel
from wirecodec.kernels.cpu.simd.vector import extract_lane, load
from wirecodec.kernels.cpu.simd.vector_type import Vector, has_feature, llvm_intrinsic, shuffle
from wirecodec.kernels.cpu.threads import next_unit

I8 = ir.IntType(8)
U64 = np.uint64
POLYNOMIAL = 0xEDB88320
ALL_ONES = U64(0xFFFFFFFF)
REMAINDERS = {
    2048: (0x11542778A, 0x1322D1430),
    512: (0x154442BD4, 0x1C6E41596),
    128: (0x1751997D0, 0xCCAA009E),
}
"""Distance in bits: remainders by which the lower and the upper half of 128 bits are multiplied."""
FEATURES = {2: "pclmul", 8: "vpclmulqdq"}
"""Words of a register: what the processor needs to multiply it; the wide form also needs AVX-512."""
MIN_WIDE_WORDS = 64
"""Words of a slice from which 512-bit registers are used."""


def _multiplies(context: Any, lanes: int) -> bool:
    """Return whether the processor has carry-less products of registers of so many words."""
    return has_feature(context, FEATURES[lanes]) and (lanes == 2 or has_feature(context, "avx512f"))


@llvm_intrinsic
def _can_fold(typing_context: Any, words: Any, lanes: Any) -> Any:
    """Return whether registers of so many words can be folded, as a constant."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return ir.IntType(1)(int(_multiplies(context, lanes.literal_value)))

    return types.boolean(words, lanes), generate


@llvm_intrinsic
def _flip_first(typing_context: Any, register: Any) -> Any:
    """Flip the first 32 bits of a register, as the initial state does."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.xor(args[0], ir.Constant(args[0].type, [0xFFFFFFFF] + [0] * (register.lanes - 1)))

    return register(register), generate


@llvm_intrinsic
def _fold(typing_context: Any, register: Any, following: Any, distance: Any) -> Any:
    """Add a register of u64, each 128 bits moved by a distance in bits, to the one that follows there."""
    remainders, lanes = REMAINDERS[distance.literal_value], register.lanes

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        if not _multiplies(context, lanes):  # not called then
            return args[1]
        form = args[0].type
        kind = ir.FunctionType(form, [form, form, I8])
        name = "llvm.x86.pclmulqdq" + (".512" if lanes == 8 else "")
        multiply = cgutils.get_or_insert_function(builder.module, kind, name)
        factors = ir.Constant(form, list(remainders) * (lanes // 2))
        halves = [builder.call(multiply, [args[0], factors, I8(half)]) for half in (0x00, 0x11)]
        return builder.xor(builder.xor(*halves), args[1])

    return following(register, following, distance), generate


@llvm_intrinsic
def _quarter(typing_context: Any, register: Any, i: Any) -> Any:
    """Return words 2 i and 2 i + 1 of a register of 8."""
    first = 2 * i.literal_value

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return shuffle(builder, args[0], args[0], [first, first + 1])

    return Vector(2, register.bits)(register, i), generate


@inline_without_refcounts
def _fold_wide(words: Array, at: int, stop: int) -> Any:
    """Fold at least 32 words, and return a register of the 8 that have their remainder."""
    a, b = _flip_first(load(words, at, 8)), load(words, at + 8, 8)
    c, d = load(words, at + 16, 8), load(words, at + 24, 8)
    for i in range(at + 32, stop - 31, 32):
        a, b = _fold(a, load(words, i, 8), 2048), _fold(b, load(words, i + 8, 8), 2048)
        c, d = _fold(c, load(words, i + 16, 8), 2048), _fold(d, load(words, i + 24, 8), 2048)
    return _fold(_fold(_fold(a, b, 512), c, 512), d, 512)


@inline_without_refcounts
def _feed(state: np.uint64, word: np.uint64, tables: Array) -> np.uint64:
    """Return the state after eight more bytes."""
    mixed = state ^ word
    found = np.uint32(0)
    for i in range(8):
        found ^= tables[((7 - i) << 8) + np.int64((mixed >> U64(8 * i)) & U64(0xFF))]
    return U64(found)


@kernel
def crc32(words: Array, starts: Array, stops: Array, tables: Array, out: Array, turns: Array) -> None:
    """Compute the CRC-32 of each slice, as ``zlib.crc32`` does.

    Args:
        words: u64, which hold all slices.
        starts: (n,) i64, the first word of each slice.
        stops: (n,) i64, the word after its last.
        tables: (2048,) u32: at 256 i + byte, the CRC-32 register of a byte that i zero bytes follow.
        out: (n,) u32, written.
        turns: counters of ``next_unit``; a unit is a slice.
    """
    unit = next_unit(turns, -1)
    while unit >= 0:
        at, stop, state = starts[unit], stops[unit], ALL_ONES
        if _can_fold(words, 2) and stop - at >= 16:
            if _can_fold(words, 8) and stop - at >= MIN_WIDE_WORDS:
                wide = _fold_wide(words, at, stop)
                a, b, c, d = _quarter(wide, 0), _quarter(wide, 1), _quarter(wide, 2), _quarter(wide, 3)
                at += (stop - at) & -32
            else:
                a, b = _flip_first(load(words, at, 2)), load(words, at + 2, 2)
                c, d = load(words, at + 4, 2), load(words, at + 6, 2)
                at += 8
            while stop - at >= 8:
                a, b = _fold(a, load(words, at, 2), 512), _fold(b, load(words, at + 2, 2), 512)
                c, d = _fold(c, load(words, at + 4, 2), 512), _fold(d, load(words, at + 6, 2), 512)
                at += 8
            a = _fold(_fold(_fold(a, b, 128), c, 128), d, 128)
            state = _feed(_feed(U64(0), extract_lane(a, 0), tables), extract_lane(a, 1), tables)
        while at < stop:
            state = _feed(state, words[at], tables)
            at += 1
        out[unit] = np.uint32(state ^ ALL_ONES)
        unit = next_unit(turns, unit)
