"""Operations in which each lane has its own address or count."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from wirecodec.kernels.cpu.simd.set_bits import ranks_table
from wirecodec.kernels.cpu.simd.vector_type import (
    Vector,
    element_pointer,
    has_feature,
    lane_count,
    llvm_intrinsic,
    shuffle,
)

I1, I32, I64 = ir.IntType(1), ir.IntType(32), ir.IntType(64)
F32 = ir.FloatType()


@llvm_intrinsic
def expand_load(typing_context: Any, array: Any, i: Any, selection: Any, lanes: Any, bits: Any) -> Any:
    """Load elements i, i + 1, ... into the lanes selected by the bits of a u64, in order.

    The other lanes have any value. ``bits`` is the width of the lanes, at least that of the elements.
    ``lanes`` is a constant, or a vector with as many. The array must have elements i ... i + lanes - 1.
    """
    vector = Vector(lane_count(lanes), bits.literal_value)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        at = element_pointer(context, builder, sig.args[0], args[0], args[1], vector.lanes)
        return _choose_load(context, array.dtype.bitwidth, vector)(builder, at, args[2], vector)

    return vector(array, types.intp, types.uint64, lanes, bits), generate


def _choose_load(context: Any, width: int, vector: Vector) -> Any:
    """Return the fastest method that the target processor has, for elements of ``width`` bits."""
    if vector.lanes * width >= 128 and has_feature(context, "avx512f" if width >= 32 else "avx512vbmi2"):
        return _load_by_instruction
    if vector.bits == 32 and vector.lanes % 8 == 0 and has_feature(context, "avx2"):
        return _load_by_table
    return _load_lane_by_lane


def _load_by_instruction(builder: Any, at: Any, selection: Any, vector: Vector) -> Any:
    """Load with one instruction."""
    source = ir.VectorType(at.type.pointee, vector.lanes)
    mask = builder.bitcast(
        builder.trunc(selection, ir.IntType(vector.lanes)), ir.VectorType(I1, vector.lanes)
    )
    kind = ir.FunctionType(source, [at.type, mask.type, source])
    name = f"llvm.masked.expandload.v{vector.lanes}i{at.type.pointee.width}"
    expand = cgutils.get_or_insert_function(builder.module, kind, name)
    found = builder.call(expand, [at, mask, ir.Constant(source, None)])
    return builder.zext(found, vector.form)


def _load_by_table(builder: Any, at: Any, selection: Any, vector: Vector) -> Any:
    """Load 8 elements at a time, and permute them by a table of the set bits below each bit."""
    eight, source = ir.VectorType(I32, 8), ir.VectorType(at.type.pointee, 8)
    kind = ir.FunctionType(eight, [eight, eight])
    permute = cgutils.get_or_insert_function(builder.module, kind, "llvm.x86.avx2.permd")
    count_ones = builder.module.declare_intrinsic("llvm.ctpop", [I64])
    table, count, parts = ranks_table(builder), I64(0), []
    for first in range(0, vector.lanes, 8):
        bits = builder.and_(builder.lshr(selection, I64(first)), I64(255))
        order = builder.zext(builder.load(builder.gep(table, [I32(0), bits])), eight)
        address = builder.bitcast(builder.gep(at, [count]), source.as_pointer())
        found = builder.zext(builder.load(address, align=source.element.width // 8), eight)
        parts.append(builder.call(permute, [found, order]))
        count = builder.add(count, builder.call(count_ones, [bits]))
    while len(parts) > 1:
        whole = list(range(2 * parts[0].type.count))
        parts = [shuffle(builder, *pair, whole) for pair in zip(parts[::2], parts[1::2], strict=True)]
    return parts[0]


def _load_lane_by_lane(builder: Any, at: Any, selection: Any, vector: Vector) -> Any:
    """Load per lane; there is no branch to mispredict."""
    found: Any = ir.Constant(vector.form, None)
    count = I64(0)
    for i in range(vector.lanes):
        bit = builder.and_(builder.lshr(selection, I64(i)), I64(1))
        element = builder.zext(builder.load(builder.gep(at, [count])), vector.form.element)
        lane = builder.select(builder.trunc(bit, I1), element, vector.form.element(0))
        found = builder.insert_element(found, lane, I32(i))
        count = builder.add(count, bit)
    return found


@llvm_intrinsic
def gather(typing_context: Any, array: Any, indices: Any) -> Any:
    """Load the element of a contiguous array at each lane's index; all indices must be within it."""
    vector = Vector(indices.lanes, array.dtype.bitwidth)

    return vector(array, indices), _gather_lanes


def _gather_lanes(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    """Load per lane; LLVM knows when an instruction that gathers is faster."""
    vector = sig.return_type
    wide = builder.zext(args[1], ir.VectorType(I64, vector.lanes))
    view = context.make_array(sig.args[0])(context, builder, args[0])
    if context.enable_boundscheck:
        for i in range(vector.lanes):
            cgutils.do_boundscheck(context, builder, builder.extract_element(wide, I32(i)), view.nitems)
    found: Any = ir.Constant(vector.form, ir.Undefined)
    for i in range(vector.lanes):
        element = builder.load(builder.gep(view.data, [builder.extract_element(wide, I32(i))]))
        found = builder.insert_element(found, element, I32(i))
    return found


@llvm_intrinsic
def floor_log2(typing_context: Any, vector: Any) -> Any:
    """Return the index of each lane's highest one bit, for numbers from 1 to 2^31 - 1."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        form = args[0].type
        if vector.bits == 32 and not has_feature(context, "avx512cd"):
            return _read_exponents(builder, args[0])
        kind = ir.FunctionType(form, [form, I1])
        name = f"llvm.ctlz.v{form.count}i{form.element.width}"
        zeros = builder.call(cgutils.get_or_insert_function(builder.module, kind, name), [args[0], I1(0)])
        last = ir.Constant(form, [form.element.width - 1] * form.count)
        return builder.sub(last, zeros)

    return vector(vector), generate


def _read_exponents(builder: Any, numbers: Any) -> Any:
    """Return the exponents of the numbers as binary32.

    The bit below the highest one is cleared first, so that rounding never reaches the next power of two.
    """
    form = numbers.type
    one, fraction, bias = (ir.Constant(form, [number] * form.count) for number in (1, 23, 127))
    top = builder.and_(numbers, builder.not_(builder.lshr(numbers, one)))
    floats = builder.bitcast(builder.sitofp(top, ir.VectorType(F32, form.count)), form)
    return builder.sub(builder.lshr(floats, fraction), bias)


@llvm_intrinsic
def divide_approximately(typing_context: Any, a: Any, b: Any) -> Any:
    """Return ⌊a / b⌋, or an integer next to it, per 32-bit lane.

    Quotients must be below 2^20, and divisors below 2^31; the error of binary32 is then at most 0.2.
    """

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        form = ir.VectorType(F32, a.lanes)
        inverse = builder.fdiv(ir.Constant(form, [1.0] * a.lanes), builder.sitofp(args[1], form))
        return builder.fptosi(builder.fmul(builder.uitofp(args[0], form), inverse), a.form)

    return a(a, b), generate
