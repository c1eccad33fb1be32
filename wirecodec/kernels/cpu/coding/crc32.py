"""CRC-32 of many slices, 64 bytes at a time by carry-less products if the processor has them.

Gopal et al., *Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction*, Intel, 2009. Four
registers of 128 bits are folded over 512 bits each. The rest, and all bytes on other processors, are looked
up in eight tables.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils

from wirecodec.arrays import Array
from wirecodec.kernels.cpu.jit import inline_without_refcounts, kernel
from wirecodec.kernels.cpu.simd.vector import extract_lane, load
from wirecodec.kernels.cpu.simd.vector_type import has_feature, llvm_intrinsic
from wirecodec.kernels.cpu.threads import next_unit

__all__ = ["POLYNOMIAL", "crc32"]

I8 = ir.IntType(8)
U64 = np.uint64
POLYNOMIAL = 0xEDB88320
ALL_ONES = U64(0xFFFFFFFF)
REMAINDERS = {512: (0x154442BD4, 0x1C6E41596), 128: (0x1751997D0, 0xCCAA009E)}
"""Distance in bits: remainders by which the lower and the upper half of a register are multiplied."""


@llvm_intrinsic
def _can_fold(typing_context: Any, words: Any) -> Any:
    """Return whether the processor has carry-less products, as a constant."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return ir.IntType(1)(int(has_feature(context, "pclmul")))

    return types.boolean(words), generate


@llvm_intrinsic
def _flip_first(typing_context: Any, register: Any) -> Any:
    """Flip the first 32 bits of a register, as the initial state does."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.xor(args[0], ir.Constant(args[0].type, [0xFFFFFFFF, 0]))

    return register(register), generate


@llvm_intrinsic
def _fold(typing_context: Any, register: Any, following: Any, distance: Any) -> Any:
    """Add a register of two u64, moved by a distance in bits, to the one that follows there."""
    remainders = REMAINDERS[distance.literal_value]

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        if not has_feature(context, "pclmul"):  # not called then
            return args[1]
        form = args[0].type
        kind = ir.FunctionType(form, [form, form, I8])
        multiply = cgutils.get_or_insert_function(builder.module, kind, "llvm.x86.pclmulqdq")
        factors = ir.Constant(form, list(remainders))
        halves = [builder.call(multiply, [args[0], factors, I8(half)]) for half in (0x00, 0x11)]
        return builder.xor(builder.xor(*halves), args[1])

    return following(register, following, distance), generate


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
        if _can_fold(words) and stop - at >= 16:
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
