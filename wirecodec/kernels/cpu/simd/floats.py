"""Vectors whose lanes are the bits of binary32 or binary64 numbers.

Every operation is rounded to nearest, and none is fused with another. Results are the same on every machine.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types

from wirecodec.kernels.cpu.simd.vector_type import Vector, llvm_intrinsic, shuffle

I32 = ir.IntType(32)
FORMS = {32: ir.FloatType(), 64: ir.DoubleType()}


def _define(name: str) -> Callable[..., Any]:
    """Generate an LLVM operation on two vectors of floats."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        form = ir.VectorType(FORMS[sig.args[0].bits], sig.args[0].lanes)
        found = getattr(builder, name)(*(builder.bitcast(side, form) for side in args))
        return builder.bitcast(found, sig.args[0].form)

    return generate


@llvm_intrinsic
def add_floats(typing_context: Any, a: Any, b: Any) -> Any:
    """Compute a + b per lane."""
    return a(a, b), _define("fadd")


@llvm_intrinsic
def subtract_floats(typing_context: Any, a: Any, b: Any) -> Any:
    """Compute a - b per lane."""
    return a(a, b), _define("fsub")


@llvm_intrinsic
def multiply_floats(typing_context: Any, a: Any, b: Any) -> Any:
    """Compute a · b per lane."""
    return a(a, b), _define("fmul")


@llvm_intrinsic
def int_to_float(typing_context: Any, vector: Any) -> Any:
    """Convert two's complement integers to floats of the same width."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        form = ir.VectorType(FORMS[vector.bits], vector.lanes)
        return builder.bitcast(builder.sitofp(args[0], form), vector.form)

    return vector(vector), generate


@llvm_intrinsic
def float_to_int(typing_context: Any, vector: Any) -> Any:
    """Convert floats, truncated toward zero, to two's complement integers of the same width; all must fit."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        floats = builder.bitcast(args[0], ir.VectorType(FORMS[vector.bits], vector.lanes))
        return builder.fptosi(floats, vector.form)

    return vector(vector), generate


@llvm_intrinsic
def splat_float(typing_context: Any, number: Any, like: Any) -> Any:
    """Round a binary64 number to the width of the lanes of ``like``, and copy it to as many lanes."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        value = args[0] if like.bits == 64 else builder.fptrunc(args[0], FORMS[like.bits])
        undefined = ir.Constant(like.form, ir.Undefined)
        first = builder.insert_element(undefined, builder.bitcast(value, like.form.element), I32(0))
        return shuffle(builder, first, undefined, [0] * like.lanes)

    return like(types.float64, like), generate


def _to_float64(builder: Any, vector: Any, lanes: Any) -> Any:
    """Convert the lanes to binary64."""
    found = builder.bitcast(lanes, ir.VectorType(FORMS[vector.bits], vector.lanes))
    return found if vector.bits == 64 else builder.fpext(found, ir.VectorType(FORMS[64], vector.lanes))


@llvm_intrinsic
def to_float64(typing_context: Any, vector: Any) -> Any:
    """Convert the lanes to binary64."""
    result = Vector(vector.lanes, 64)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.bitcast(_to_float64(builder, vector, args[0]), result.form)

    return result(vector), generate


@llvm_intrinsic
def sum_floats(typing_context: Any, vector: Any) -> Any:
    """Sum 2^n lanes in binary64, in halves: the upper half is added to the lower, until one lane is left."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        sums, lanes = _to_float64(builder, vector, args[0]), vector.lanes
        while lanes > 1:
            lanes //= 2
            lower, upper = (shuffle(builder, sums, sums, list(range(at, at + lanes))) for at in (0, lanes))
            sums = builder.fadd(lower, upper)
        return builder.extract_element(sums, I32(0))

    return types.float64(vector), generate
