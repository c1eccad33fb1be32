"""``compress_store``: selected lanes of a vector, stored contiguously."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from wirecodec.kernels.cpu.simd.set_bits import positions_table
from wirecodec.kernels.cpu.simd.vector_type import (
    call_intrinsic,
    element_pointer,
    has_feature,
    llvm_intrinsic,
    shuffle,
)

I1, I32, I64 = ir.IntType(1), ir.IntType(32), ir.IntType(64)


@llvm_intrinsic
def compress_store(typing_context: Any, array: Any, i: Any, vector: Any, selection: Any) -> Any:
    """Store the lanes selected by the bits of a u64, in order, from element i on; return their number.

    The array must have as many elements from i on as the vector has lanes, because all of them may be
    overwritten.
    """

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        at = element_pointer(context, builder, sig.args[0], args[0], args[1], vector.lanes)
        return _choose_method(context, vector)(builder, at, args[2], args[3])

    return types.intp(array, types.intp, vector, types.uint64), generate


def _choose_method(context: Any, vector: Any) -> Any:
    """Return the fastest method that the target processor has."""
    wide = vector.bits >= 32
    if vector.lanes * vector.bits >= 128 and has_feature(context, "avx512f" if wide else "avx512vbmi2"):
        return _store_by_instruction
    if vector.lanes % 8 == 0 and vector.bits >= 16 and has_feature(context, "avx2" if wide else "ssse3"):
        return _store_by_table
    return _store_lane_by_lane


def _store_by_instruction(builder: Any, at: Any, vector: Any, selection: Any) -> Any:
    """Store as many lanes as a register has with one instruction."""
    lanes = min(vector.type.count, 512 // vector.type.element.width)
    part = ir.VectorType(vector.type.element, lanes)
    count = I64(0)
    for first in range(0, vector.type.count, lanes):
        bits = builder.trunc(builder.lshr(selection, I64(first)), ir.IntType(lanes))
        mask = builder.bitcast(bits, ir.VectorType(I1, lanes))
        source = shuffle(builder, vector, vector, list(range(first, first + lanes)))
        packed = call_intrinsic(
            builder, "experimental.vector.compress", part, source, mask, ir.Constant(part, ir.Undefined)
        )
        address = builder.bitcast(builder.gep(at, [count]), part.as_pointer())
        builder.store(packed, address, align=part.element.width // 8)
        ones = builder.call(builder.module.declare_intrinsic("llvm.ctpop", [bits.type]), [bits])
        count = builder.add(count, builder.zext(ones, I64))
    return count


def _store_by_table(builder: Any, at: Any, vector: Any, selection: Any) -> Any:
    """Permute 4 or 8 lanes at a time, by a table of the positions of set bits, and store all of them."""
    width = vector.type.element.width
    lanes = 4 if width == 64 else 8
    unit, name = (8, "llvm.x86.ssse3.pshuf.b.128") if width == 16 else (32, "llvm.x86.avx2.permd")
    parts = width // unit
    units = ir.VectorType(ir.IntType(unit), lanes * parts)
    permute = cgutils.get_or_insert_function(builder.module, ir.FunctionType(units, [units, units]), name)
    within_lane = ir.Constant(units, [j % parts for j in range(units.count)])
    table, count = positions_table(builder), I64(0)
    for first in range(0, vector.type.count, lanes):
        bits = builder.and_(builder.lshr(selection, I64(first)), I64((1 << lanes) - 1))
        row = builder.load(builder.gep(table, [I32(0), bits]))
        order = shuffle(builder, row, row, [j // parts for j in range(units.count)])
        order = builder.zext(order, units) if unit > 8 else order
        order = builder.add(builder.mul(order, ir.Constant(units, [parts] * units.count)), within_lane)
        source = shuffle(builder, vector, vector, list(range(first, first + lanes)))
        packed = builder.bitcast(builder.call(permute, [builder.bitcast(source, units), order]), source.type)
        address = builder.bitcast(builder.gep(at, [count]), source.type.as_pointer())
        builder.store(packed, address, align=width // 8)
        ones = builder.call(builder.module.declare_intrinsic("llvm.ctpop", [I64]), [bits])
        count = builder.add(count, ones)
    return count


def _store_lane_by_lane(builder: Any, at: Any, vector: Any, selection: Any) -> Any:
    """Store every lane and advance only if its bit is set; there is no branch to mispredict."""
    count = I64(0)
    for i in range(vector.type.count):
        builder.store(builder.extract_element(vector, I32(i)), builder.gep(at, [count]))
        count = builder.add(count, builder.and_(builder.lshr(selection, I64(i)), I64(1)))
    return count
