"""Bit packing of codes of 1 to 24 bits, in blocks of 512 and a shorter last one (formats/SPEC.md, 1.1).

A block is 32 rows of 16 lanes. Each lane is a bit stream of its own, so that a row is one vector. Codes are
u8, u16 or u32, below 2^n; n is at most 24 and at most the width of their type. ``pack`` and ``unpack``
convert all codes of a section. The functions for one block and for the rest serve kernels that produce or
consume codes block by block, in a buffer of 512 that stays in cache.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types

from wirecodec.arrays import Array
from wirecodec.kernels.compiler.jit import inline, kernel
from wirecodec.kernels.cpu.simd.vector_type import Vector, element_pointer, llvm_intrinsic
from wirecodec.kernels.layout import PACK_BLOCK, PACK_LANES

U32 = np.uint32
U64 = np.uint64

ROWS = PACK_BLOCK // PACK_LANES
MAX_BITS = 24
WORD_ROW = Vector(PACK_LANES, 32)


def _for_each_width(builder: Any, n: Any, max_width: int, generate: Callable[[int], None]) -> None:
    """Emit a switch over ``n`` with a case for each width 1 … ``max_width``; other widths do nothing."""
    done = builder.append_basic_block("packed")
    switch = builder.switch(n, done)
    for bits in range(1, min(max_width, MAX_BITS) + 1):
        block = builder.append_basic_block(f"bits{bits}")
        switch.add_case(ir.Constant(n.type, bits), block)
        with builder.goto_block(block):
            generate(bits)
            builder.branch(done)
    builder.position_at_end(done)


def _splat(number: int) -> Any:
    """Return a constant vector with ``number`` in all lanes."""
    return ir.Constant(WORD_ROW.form, [number] * PACK_LANES)


def _rows(builder: Any, first: Any, form: Any) -> Callable[[int], Any]:
    """Return a function from a row to the address of its vector, counted from ``first``."""
    vectors = builder.bitcast(first, form.as_pointer())
    return lambda row: builder.gep(vectors, [ir.Constant(ir.IntType(64), row)])


@llvm_intrinsic
def _pack_block(typing_context: Any, codes: Any, i: Any, n: Any, words: Any, w: Any) -> Any:
    """See ``pack_block``."""
    row = Vector(PACK_LANES, codes.dtype.bitwidth)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        codes_at = _rows(
            builder, element_pointer(context, builder, sig.args[0], args[0], args[1], PACK_BLOCK), row.form
        )

        def put(bits: int) -> None:
            first = element_pointer(context, builder, sig.args[3], args[3], args[4], PACK_LANES * bits)
            words_at, held = _rows(builder, first, WORD_ROW.form), _splat(0)
            for j in range(ROWS):
                code = builder.load(codes_at(j), align=row.bits // 8)
                code = code if row.bits == 32 else builder.zext(code, WORD_ROW.form)
                index, shift = divmod(j * bits, 32)
                held = builder.or_(held, builder.shl(code, _splat(shift))) if shift else code
                if shift + bits >= 32:
                    builder.store(held, words_at(index), align=1)
                if shift + bits > 32:
                    held = builder.lshr(code, _splat(32 - shift))

        _for_each_width(builder, args[2], row.bits, put)
        return context.get_dummy_value()

    return types.void(codes, types.intp, types.intp, words, types.intp), generate


@llvm_intrinsic
def _unpack_block(typing_context: Any, words: Any, w: Any, n: Any, codes: Any, i: Any) -> Any:
    """See ``unpack_block``."""
    row = Vector(PACK_LANES, codes.dtype.bitwidth)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        codes_at = _rows(
            builder, element_pointer(context, builder, sig.args[3], args[3], args[4], PACK_BLOCK), row.form
        )

        def put(bits: int) -> None:
            first = element_pointer(context, builder, sig.args[0], args[0], args[1], PACK_LANES * bits)
            words_at = _rows(builder, first, WORD_ROW.form)
            held = after = builder.load(words_at(0), align=1)
            for j in range(ROWS):
                index, shift = divmod(j * bits, 32)
                if shift == 0:
                    held = after
                code = builder.lshr(held, _splat(shift)) if shift else held
                if shift + bits >= 32 and index + 1 < bits:
                    after = builder.load(words_at(index + 1), align=1)
                if shift + bits > 32:
                    code = builder.or_(code, builder.shl(after, _splat(32 - shift)))
                    held = after
                code = builder.and_(code, _splat((1 << bits) - 1))
                code = code if row.bits == 32 else builder.trunc(code, row.form)
                builder.store(code, codes_at(j), align=row.bits // 8)

        _for_each_width(builder, args[2], row.bits, put)
        return context.get_dummy_value()

    return types.void(words, types.intp, types.intp, codes, types.intp), generate


@inline
def pack_block(codes: Array, i: int, n: int, words: Array, w: int) -> None:
    """Pack 512 codes, from element i on, into the u32 words w … w + 16n - 1."""
    _pack_block(codes, i, n, words, w)


@inline
def unpack_block(words: Array, w: int, n: int, codes: Array, i: int) -> None:
    """Unpack 512 codes from the u32 words w … w + 16n - 1 to elements i, i + 1, …"""
    _unpack_block(words, w, n, codes, i)


@inline
def pack_rest(codes: Array, i: int, stop: int, n: int, words: Array, w: int) -> None:
    """Pack the codes i … stop - 1, fewer than 512, as one bit stream into the u32 words from w on."""
    held, filled = U64(0), U64(0)
    for j in range(i, stop):
        held |= U64(codes[j]) << filled
        filled += U64(n)
        if filled >= U64(32):
            words[w] = U32(held & U64(0xFFFFFFFF))
            w += 1
            held >>= U64(32)
            filled -= U64(32)
    if filled:
        words[w] = U32(held)


@inline
def unpack_rest(words: Array, w: int, n: int, codes: Array, i: int, stop: int) -> None:
    """Unpack the codes i … stop - 1, fewer than 512, from the bit stream in the u32 words from w on."""
    held, filled = U64(0), U64(0)
    for j in range(i, stop):
        if filled < U64(n):
            held |= U64(words[w]) << filled
            w += 1
            filled += U64(32)
        codes[j] = held & ((U64(1) << U64(n)) - U64(1))
        held >>= U64(n)
        filled -= U64(n)


@kernel
def pack(codes: Array, n: int, words: Array) -> None:
    """Pack all codes into u32 words; every word is written, and the bits after the last code are 0."""
    whole = codes.size & -PACK_BLOCK
    w = 0
    for i in range(0, whole, PACK_BLOCK):
        pack_block(codes, i, n, words, w)
        w += PACK_LANES * n
    pack_rest(codes, whole, codes.size, n, words, w)


@kernel
def unpack(words: Array, n: int, codes: Array) -> None:
    """Unpack ``codes.size`` codes from u32 words; the bits after the last code are ignored."""
    whole = codes.size & -PACK_BLOCK
    w = 0
    for i in range(0, whole, PACK_BLOCK):
        unpack_block(words, w, n, codes, i)
        w += PACK_LANES * n
    unpack_rest(words, w, n, codes, whole, codes.size)
