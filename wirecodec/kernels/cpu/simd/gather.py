"""Operations in which each lane has its own address or count."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from wirecodec.kernels.cpu.simd.vector_type import (
    Vector,
    element_pointer,
    has_feature,
    lane_count,
    llvm_intrinsic,
)

__all__ = ["divide_approximately", "expand_load", "floor_log2", "gather"]

I1, I32, I64 = ir.IntType(1), ir.IntType(32), ir.IntType(64)
F32 = ir.FloatType()


@llvm_intrinsic
def expand_load(typing_context: Any, array: Any, i: Any, selection: Any, lanes: Any, bits: Any) -> Any:
    """Load elements i, i + 1, ... into the lanes selected by the bits of a u64, in order; the others are 0.

    ``bits`` is the width of the lanes, at least that of the elements. ``lanes`` is a constant, or a vector
    with as many. The array must have elements i ... i + lanes - 1.
    """
    vector = Vector(lane_count(lanes), bits.literal_value)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        at = element_pointer(context, builder, sig.args[0], args[0], args[1], vector.lanes)
        has_instruction = has_feature(context, "avx512f" if array.dtype.bitwidth >= 32 else "avx512vbmi2")
        has_instruction &= vector.lanes * array.dtype.bitwidth >= 128
        return (_load_by_instruction if has_instruction else _load_lane_by_lane)(builder, at, args[2], vector)

    return vector(array, types.intp, types.uint64, lanes, bits), generate


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

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        wide = builder.zext(args[1], ir.VectorType(I64, vector.lanes))
        if context.enable_boundscheck:
            view = context.make_array(sig.args[0])(context, builder, args[0])
            for i in range(vector.lanes):
                cgutils.do_boundscheck(context, builder, builder.extract_element(wide, I32(i)), view.nitems)
        data = context.make_array(sig.args[0])(context, builder, args[0]).data
        found: Any = ir.Constant(vector.form, ir.Undefined)
        for i in range(vector.lanes):
            element = builder.load(builder.gep(data, [builder.extract_element(wide, I32(i))]))
            found = builder.insert_element(found, element, I32(i))
        return found

    return vector(array, indices), generate


@llvm_intrinsic
def floor_log2(typing_context: Any, vector: Any) -> Any:
    """Return the index of each lane's highest one bit; all ones for 0."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        form = args[0].type
        kind = ir.FunctionType(form, [form, I1])
        name = f"llvm.ctlz.v{form.count}i{form.element.width}"
        zeros = builder.call(cgutils.get_or_insert_function(builder.module, kind, name), [args[0], I1(0)])
        last = ir.Constant(form, [form.element.width - 1] * form.count)
        return builder.sub(last, zeros)

    return vector(vector), generate


@llvm_intrinsic
def divide_approximately(typing_context: Any, a: Any, b: Any) -> Any:
    """Return ⌊a / b⌋, or an integer next to it, per 32-bit lane.

    Quotients must be below 2^20; the error of binary32 is then at most 0.2.
    """

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        form = ir.VectorType(F32, a.lanes)
        inverse = builder.fdiv(ir.Constant(form, [1.0] * a.lanes), builder.uitofp(args[1], form))
        return builder.fptosi(builder.fmul(builder.uitofp(args[0], form), inverse), a.form)

    return a(a, b), generate
