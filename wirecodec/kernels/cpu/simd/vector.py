"""Operations on vectors, for loops that no compiler vectorises by itself.

``vector_type`` has ``Vector`` and its operators. Numbers of lanes and widths are constants of the kernel.
LLVM maps every operation to the processor's instructions, from SSE2 to AVX-512; the results are the same.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types

from wirecodec.kernels.cpu.simd.vector_type import (
    Vector,
    broadcast,
    call_intrinsic,
    element_pointer,
    lane_count,
    lane_numbers,
    llvm_intrinsic,
    shuffle,
)

I32, I64 = ir.IntType(32), ir.IntType(64)


@llvm_intrinsic
def load(typing_context: Any, array: Any, i: Any, lanes: Any) -> Any:
    """Load elements i ... i + lanes - 1 of a contiguous array: unsigned integers, or bits of floats.

    ``lanes`` is a constant, or a vector with as many.
    """
    vector = Vector(lane_count(lanes), array.dtype.bitwidth)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        at = element_pointer(context, builder, sig.args[0], args[0], args[1], vector.lanes)
        return builder.load(builder.bitcast(at, vector.form.as_pointer()), align=vector.bits // 8)

    return vector(array, types.intp, lanes), generate


@llvm_intrinsic
def store(typing_context: Any, array: Any, i: Any, vector: Any) -> Any:
    """Store a vector from element i on in a contiguous array of integers of its width."""
    if not isinstance(vector, Vector) or array.dtype.bitwidth != vector.bits:
        return None

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        at = element_pointer(context, builder, sig.args[0], args[0], args[1], vector.lanes)
        builder.store(args[2], builder.bitcast(at, vector.form.as_pointer()), align=vector.bits // 8)
        return context.get_dummy_value()

    return types.void(array, types.intp, vector), generate


@llvm_intrinsic
def splat(typing_context: Any, number: Any, lanes: Any) -> Any:
    """Copy an integer to every lane; its type gives the width."""
    kind = types.unliteral(number)
    vector = Vector(lanes.literal_value, kind.bitwidth)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return broadcast(context, builder, args[0], kind, vector)

    return vector(kind, lanes), generate


@llvm_intrinsic
def ramp(typing_context: Any, lanes: Any, bits: Any) -> Any:
    """Return the vector 0, 1, 2, ..."""
    vector = Vector(lanes.literal_value, bits.literal_value)
    return vector(lanes, bits), lambda context, builder, sig, args: lane_numbers(vector)


@llvm_intrinsic
def extract_lane(typing_context: Any, vector: Any, i: Any) -> Any:
    """Return the integer in lane i."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.extract_element(*args)

    return vector.element(vector, types.intp), generate


@llvm_intrinsic
def broadcast_lane(typing_context: Any, vector: Any, i: Any) -> Any:
    """Copy lane i, a constant, to every lane."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return shuffle(builder, args[0], args[0], [i.literal_value] * vector.lanes)

    return vector(vector, i), generate


@llvm_intrinsic
def shift_in(typing_context: Any, vector: Any, number: Any) -> Any:
    """Move every lane up by one, and put ``number`` in lane 0."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        undefined = ir.Constant(vector.form, ir.Undefined)
        moved = shuffle(builder, args[0], undefined, [0, *range(vector.lanes - 1)])
        first = context.cast(builder, args[1], sig.args[1], vector.element)
        return builder.insert_element(moved, first, I32(0))

    return vector(vector, types.unliteral(number)), generate


@llvm_intrinsic
def even_lanes(typing_context: Any, a: Any, b: Any) -> Any:
    """Return lanes 0, 2, 4, ... of ``a``, then those of ``b``."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return shuffle(builder, args[0], args[1], list(range(0, 2 * a.lanes, 2)))

    return a(a, b), generate


@llvm_intrinsic
def odd_lanes(typing_context: Any, a: Any, b: Any) -> Any:
    """Return lanes 1, 3, 5, ... of ``a``, then those of ``b``."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return shuffle(builder, args[0], args[1], list(range(1, 2 * a.lanes, 2)))

    return a(a, b), generate


@llvm_intrinsic
def resize(typing_context: Any, vector: Any, bits: Any) -> Any:
    """Zero-extend or truncate the lanes to ``bits`` bits each."""
    result = Vector(vector.lanes, bits.literal_value)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return (builder.zext if result.bits > vector.bits else builder.trunc)(args[0], result.form)

    return result(vector, bits), generate


@llvm_intrinsic
def widen(typing_context: Any, vector: Any) -> Any:
    """Zero-extend lanes of fewer than 32 bits to 32; keep wider ones."""
    result = Vector(vector.lanes, max(vector.bits, 32))

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.zext(args[0], result.form)

    return result(vector), generate


@llvm_intrinsic
def lower_half(typing_context: Any, vector: Any) -> Any:
    """Return the first half of the lanes."""
    half = vector.lanes // 2

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return shuffle(builder, args[0], args[0], list(range(half)))

    return Vector(half, vector.bits)(vector), generate


@llvm_intrinsic
def upper_half(typing_context: Any, vector: Any) -> Any:
    """Return the second half of the lanes."""
    half = vector.lanes // 2

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return shuffle(builder, args[0], args[0], list(range(half, vector.lanes)))

    return Vector(half, vector.bits)(vector), generate


@llvm_intrinsic
def reinterpret(typing_context: Any, vector: Any, bits: Any) -> Any:
    """Reinterpret the same memory as lanes of another width, little-endian."""
    result = Vector(vector.lanes * vector.bits // bits.literal_value, bits.literal_value)
    return result(vector, bits), lambda context, builder, sig, args: builder.bitcast(args[0], result.form)


@llvm_intrinsic
def mask_to_bits(typing_context: Any, mask: Any) -> Any:
    """Convert a mask of at most 64 lanes to a u64, lane 0 in bit 0."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.zext(builder.bitcast(args[0], ir.IntType(mask.lanes)), I64)

    return types.uint64(mask), generate


@llvm_intrinsic
def bits_to_mask(typing_context: Any, bits: Any, lanes: Any) -> Any:
    """Convert the lowest bits of a u64 to a mask, bit 0 for lane 0; ``lanes`` as in ``load``."""
    mask = Vector(lane_count(lanes), 1)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.bitcast(builder.trunc(args[0], ir.IntType(mask.lanes)), mask.form)

    return mask(types.uint64, lanes), generate


@llvm_intrinsic
def select(typing_context: Any, mask: Any, a: Any, b: Any) -> Any:
    """Return lanes of ``a`` if the mask is set, else of ``b``."""
    return a(mask, a, b), lambda context, builder, sig, args: builder.select(*args)


@llvm_intrinsic
def funnel_shift_right(typing_context: Any, high: Any, low: Any, count: Any) -> Any:
    """Return the lower half of high:low >> (count modulo the width) per lane.

    An integer count applies to all lanes.
    """
    kind = types.unliteral(count)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        by = args[2] if kind == high else broadcast(context, builder, args[2], kind, high)
        return call_intrinsic(builder, "fshr", high.form, *args[:2], by)

    return high(high, low, kind), generate


@llvm_intrinsic
def reduce_add(typing_context: Any, vector: Any) -> Any:
    """Return the sum of all lanes; it wraps."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return call_intrinsic(builder, "vector.reduce.add", vector.form.element, *args)

    return vector.element(vector), generate


@llvm_intrinsic
def reduce_max(typing_context: Any, vector: Any) -> Any:
    """Return the maximum of all lanes."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return call_intrinsic(builder, "vector.reduce.umax", vector.form.element, *args)

    return vector.element(vector), generate


@llvm_intrinsic
def prefix_sum(typing_context: Any, vector: Any) -> Any:
    """Return the inclusive prefix sums: lane i is the sum of lanes 0 ... i; it wraps."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        n, sums, zeros = vector.lanes, args[0], ir.Constant(vector.form, [0] * vector.lanes)
        step = 1
        while step < n:
            moved = [n + i if i < step else i - step for i in range(n)]
            sums = builder.add(sums, shuffle(builder, sums, zeros, moved))
            step *= 2
        return sums

    return vector(vector), generate
