"""``spread_chosen``: elements that lie side by side, to some lanes of a vector: ``store_chosen`` undone."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from wirecodec.kernels.cpu.vector_type import Vector, has, place, word

__all__ = ["spread_chosen"]

I1, I32, I64 = ir.IntType(1), ir.IntType(32), ir.IntType(64)


@word
def spread_chosen(typing_context: Any, array: Any, i: Any, chosen: Any, lanes: Any, bits: Any) -> Any:
    """Elements i, i + 1, … in the lanes whose bit is set in a u64, in order, and 0 in the others.

    Lanes get ``bits`` bits, no fewer than the elements have. The array must have elements i … i + lanes - 1.
    """
    vector = Vector(lanes.literal_value, bits.literal_value)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        at = place(context, builder, sig.args[0], args[0], args[1], vector.lanes)
        fast = has(context, "avx512f" if array.dtype.bitwidth >= 32 else "avx512vbmi2")
        return (_expanded if fast else _one_by_one)(builder, at, args[2], vector)

    return vector(array, types.intp, types.uint64, lanes, bits), generate


def _expanded(builder: Any, at: Any, chosen: Any, vector: Vector) -> Any:
    """By one instruction."""
    source = ir.VectorType(at.type.pointee, vector.lanes)
    mask = builder.bitcast(builder.trunc(chosen, ir.IntType(vector.lanes)), ir.VectorType(I1, vector.lanes))
    kind = ir.FunctionType(source, [at.type, mask.type, source])
    name = f"llvm.masked.expandload.v{vector.lanes}i{at.type.pointee.width}"
    expand = cgutils.get_or_insert_function(builder.module, kind, name)
    found = builder.call(expand, [at, mask, ir.Constant(source, None)])
    return builder.zext(found, vector.form)


def _one_by_one(builder: Any, at: Any, chosen: Any, vector: Vector) -> Any:
    """Each lane reads; no branch to mispredict."""
    found: Any = ir.Constant(vector.form, None)
    count = I64(0)
    for i in range(vector.lanes):
        bit = builder.and_(builder.lshr(chosen, I64(i)), I64(1))
        element = builder.zext(builder.load(builder.gep(at, [count])), vector.form.element)
        kept = builder.select(builder.trunc(bit, I1), element, vector.form.element(0))
        found = builder.insert_element(found, kept, I32(i))
        count = builder.add(count, bit)
    return found
