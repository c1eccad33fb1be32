"""Positions of the set bits of words, for bitmaps and unary codes."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils

from wirecodec.arrays import Array
from wirecodec.kernels.compiler.jit import inline
from wirecodec.kernels.cpu.simd.vector_type import (
    Vector,
    broadcast,
    call_intrinsic,
    element_pointer,
    has_feature,
    lane_numbers,
    llvm_intrinsic,
    shuffle,
)
from wirecodec.kernels.cpu.simd.words import load64

I1, I32, I64 = ir.IntType(1), ir.IntType(32), ir.IntType(64)

FEW = 4
"""Most set bits that are stored one by one. If 1 % of the bits are set, 64 of them rarely have more."""
POSITIONS = [[i for i in range(8) if byte >> i & 1] for byte in range(256)]
RANKS = [[(byte & ((1 << i) - 1)).bit_count() for i in range(8)] for byte in range(256)]


@llvm_intrinsic
def store_set_bits(typing_context: Any, array: Any, i: Any, bits: Any, base: Any) -> Any:
    """Store base + the positions of a u64's set bits, ascending, from element i on; return their number.

    The array must have elements i ... i + 63, because all of them may be overwritten.
    """
    element = types.Integer.from_bitwidth(array.dtype.bitwidth, signed=False)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        at = element_pointer(context, builder, sig.args[0], args[0], args[1], 64)
        put = _store_by_compress if has_feature(context, "avx512vbmi2") else _store_few_or_many
        return put(context, builder, at, args[2], args[3], element)

    return types.intp(array, types.intp, types.uint64, element), generate


def _store(context: Any, builder: Any, at: Any, first: Any, lanes: Any, base: Any, element: Any) -> None:
    """Widen bytes, add ``base`` and store them from element ``first`` of ``at`` on."""
    part = Vector(lanes.type.count, element.bitwidth)
    sums = builder.add(builder.zext(lanes, part.form), broadcast(context, builder, base, element, part))
    address = builder.bitcast(builder.gep(at, [first]), part.form.as_pointer())
    builder.store(sums, address, align=part.bits // 8)


def _store_by_compress(context: Any, builder: Any, at: Any, bits: Any, base: Any, element: Any) -> Any:
    """Compress the bytes 0 ... 63 with one instruction, then store 16 at a time as many as there are."""
    all_bytes = Vector(64, 8)
    undefined = ir.Constant(all_bytes.form, ir.Undefined)
    selection = builder.bitcast(bits, ir.VectorType(I1, 64))
    packed = call_intrinsic(
        builder, "experimental.vector.compress", all_bytes.form, lane_numbers(all_bytes), selection, undefined
    )
    count = builder.call(builder.module.declare_intrinsic("llvm.ctpop", [I64]), [bits])

    def put(first: int) -> None:
        lanes = shuffle(builder, packed, undefined, list(range(first, first + 16)))
        _store(context, builder, at, I64(first), lanes, base, element)

    put(0)
    with builder.if_then(builder.icmp_unsigned(">", count, I64(16))):
        put(16)
        put(32)
        with builder.if_then(builder.icmp_unsigned(">", count, I64(48)), likely=False):
            put(48)
    return count


def _store_few_or_many(context: Any, builder: Any, at: Any, bits: Any, base: Any, element: Any) -> Any:
    """Store up to ``FEW`` positions one by one, and more by table."""
    count = builder.call(builder.module.declare_intrinsic("llvm.ctpop", [I64]), [bits])
    with builder.if_else(builder.icmp_unsigned("<=", count, I64(FEW))) as (few, many):
        with few:
            _store_one_by_one(builder, at, bits, base)
        with many:
            _store_by_table(context, builder, at, bits, base, element)
    return count


def _store_one_by_one(builder: Any, at: Any, bits: Any, base: Any) -> None:
    """Store the positions of the lowest ``FEW`` set bits; those that do not exist are 64."""
    find = cgutils.get_or_insert_function(builder.module, ir.FunctionType(I64, [I64, I1]), "llvm.cttz.i64")
    left = bits
    for i in range(FEW):
        position = builder.call(find, [left, I1(0)])
        position = position if base.type == I64 else builder.trunc(position, base.type)
        builder.store(builder.add(base, position), builder.gep(at, [I64(i)]))
        left = builder.and_(left, builder.sub(left, I64(1)))


def _store_by_table(context: Any, builder: Any, at: Any, bits: Any, base: Any, element: Any) -> None:
    """Store eight positions per byte from a table, after those of the bytes before."""
    table = positions_table(builder)
    counts = _prefix_popcounts(builder, bits)
    for i in range(8):
        byte = builder.and_(builder.lshr(bits, I64(8 * i)), I64(255))
        before = builder.and_(builder.lshr(counts, I64(8 * i - 8)), I64(255)) if i else I64(0)
        lanes = builder.load(builder.gep(table, [I32(0), byte]))
        _store(context, builder, at, before, lanes, builder.add(base, base.type(8 * i)), element)


def positions_table(builder: Any) -> Any:
    """Return the address of 256 vectors of 8 bytes: the positions of a byte's set bits, ascending, then 0."""
    return _global_table(builder, "positions", [(found + [0] * 8)[:8] for found in POSITIONS])


def ranks_table(builder: Any) -> Any:
    """Return the address of 256 vectors of 8 bytes: the number of a byte's set bits below each bit."""
    return _global_table(builder, "ranks", RANKS)


def _global_table(builder: Any, name: str, rows: list[list[int]]) -> Any:
    """Return the address of a module's constant vectors of 8 bytes."""
    table = builder.module.globals.get(f"wirecodec.{name}")
    if table is None:
        row = ir.VectorType(ir.IntType(8), 8)
        vectors = [ir.Constant(row, numbers) for numbers in rows]
        table = cgutils.global_constant(
            builder.module, f"wirecodec.{name}", ir.Constant(ir.ArrayType(row, 256), vectors)
        )
    return table


def _prefix_popcounts(builder: Any, bits: Any) -> Any:
    """Return a word whose byte i is the number of set bits of bytes 0 ... i."""
    for shift, mask in ((1, 0x5555555555555555), (2, 0x3333333333333333), (4, 0x0F0F0F0F0F0F0F0F)):
        upper = builder.and_(builder.lshr(bits, I64(shift)), I64(mask))
        bits = builder.add(builder.and_(bits, I64(mask)), upper)
    return builder.mul(bits, I64(0x0101010101010101))


@inline
def find_set_bits(words: Array, w: int, stop: int, n: int, ones: Array) -> bool:
    """Store the positions of the set bits of u32 words w ... stop - 1 in ``ones``; return whether they are n.

    ``ones`` must have n + 64 elements.
    """
    found = 0
    first = w
    while w + 1 < stop and found <= n:
        found += store_set_bits(ones, found, load64(words, w << 2), (w - first) << 5)
        w += 2
    if w + 1 == stop and found <= n:
        found += store_set_bits(ones, found, np.uint64(words[w]), (w - first) << 5)
    return found == n
