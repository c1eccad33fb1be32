"""Sixty-four elements at a time: which of them pass, as the bits of one word, and back.

Numba's plain loops do not turn comparisons into bit masks; these words say it in vector IR, of whatever width
the processor has. Bit j stands for element ``start + j``. All 64 elements must lie within the array, which is
contiguous; a kernel takes the rest one by one, or from a padded copy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

__all__ = ["at_least64", "at_most64", "choose64", "negative64", "reach64", "top64"]

LANES = 64
I1, I32, I64 = ir.IntType(1), ir.IntType(32), ir.IntType(64)


def _word(fn: Callable[..., Any]) -> Callable[..., Any]:
    """An instruction that kernels call like a function."""
    made: Callable[..., Any] = intrinsic(fn)
    return made


def _load(context: Any, builder: Any, array_type: Any, array: Any, start: Any) -> Any:
    """64 elements, as a vector; the array need not be aligned beyond its elements."""
    data = context.make_array(array_type)(context, builder, array).data
    lanes = ir.VectorType(data.type.pointee, LANES)
    pointer = builder.bitcast(builder.gep(data, [start]), lanes.as_pointer())
    return builder.load(pointer, align=array_type.dtype.bitwidth // 8)


def _splat(builder: Any, value: Any) -> Any:
    """One number in all lanes."""
    lanes = ir.VectorType(value.type, LANES)
    first = builder.insert_element(ir.Constant(lanes, ir.Undefined), value, ir.Constant(I32, 0))
    zeros = ir.Constant(ir.VectorType(I32, LANES), [0] * LANES)
    return builder.shuffle_vector(first, ir.Constant(lanes, ir.Undefined), zeros)


def _without_sign(builder: Any, words: Any) -> Any:
    width = words.type.element.width
    return builder.and_(words, ir.Constant(words.type, [(1 << (width - 1)) - 1] * LANES))


def _mask(builder: Any, truths: Any) -> Any:
    return builder.bitcast(truths, I64)


@_word
def at_least64(typing_context: Any, bits: Any, start: Any, threshold: Any) -> Any:
    """Which of 64 floats, given as their bits, have a magnitude whose bits are ``threshold`` or more."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        words = _load(context, builder, signature.args[0], *arguments[:2])
        keys = _without_sign(builder, words)
        return _mask(builder, builder.icmp_unsigned(">=", keys, _splat(builder, arguments[2])))

    return types.uint64(bits, types.int64, bits.dtype), generate


@_word
def at_most64(typing_context: Any, words: Any, start: Any, limit: Any) -> Any:
    """Which of 64 unsigned words are ``limit`` or less."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        loaded = _load(context, builder, signature.args[0], *arguments[:2])
        return _mask(builder, builder.icmp_unsigned("<=", loaded, _splat(builder, arguments[2])))

    return types.uint64(words, types.int64, words.dtype), generate


@_word
def negative64(typing_context: Any, bits: Any, start: Any) -> Any:
    """Which of 64 floats, given as their bits, are below zero; -0 is not."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        words = _load(context, builder, signature.args[0], *arguments)
        minus_zero = ir.Constant(words.type, [1 << (words.type.element.width - 1)] * LANES)
        return _mask(builder, builder.icmp_unsigned(">", words, minus_zero))

    return types.uint64(bits, types.int64), generate


@_word
def reach64(typing_context: Any, x: Any, gradient: Any, start: Any, factor: Any, top: Any) -> Any:
    """Which of 64 elements have x ≠ 0 and |x + factor · gradient| ≥ ``top``, each operation rounded."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        values = _load(context, builder, signature.args[0], arguments[0], arguments[2])
        steps = _load(context, builder, signature.args[1], arguments[1], arguments[2])
        ahead = builder.fadd(values, builder.fmul(_splat(builder, arguments[3]), steps))
        words = ir.VectorType(ir.IntType(signature.args[0].dtype.bitwidth), LANES)
        magnitude = builder.bitcast(_without_sign(builder, builder.bitcast(ahead, words)), values.type)
        reaches = builder.fcmp_ordered(">=", magnitude, _splat(builder, arguments[4]))
        present = builder.fcmp_unordered("!=", values, ir.Constant(values.type, [0.0] * LANES))
        return _mask(builder, builder.and_(reaches, present))

    return types.uint64(x, gradient, types.int64, x.dtype, x.dtype), generate


@_word
def top64(typing_context: Any, bits: Any, start: Any, mask: Any) -> Any:
    """The greatest magnitude, as bits, of those of 64 floats whose bits are set in ``mask``; 0 for none."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        words = _load(context, builder, signature.args[0], *arguments[:2])
        wanted = builder.bitcast(arguments[2], ir.VectorType(I1, LANES))
        nothing = ir.Constant(words.type, [0] * LANES)
        keys = builder.select(wanted, _without_sign(builder, words), nothing)
        width = words.type.element.width
        greatest = cgutils.get_or_insert_function(
            builder.module,
            ir.FunctionType(words.type.element, [words.type]),
            f"llvm.vector.reduce.umax.v{LANES}i{width}",
        )
        return builder.call(greatest, [keys])

    return bits.dtype(bits, types.int64, types.uint64), generate


@_word
def choose64(typing_context: Any, out: Any, start: Any, mask: Any, zero: Any, one: Any) -> Any:
    """Write 64 elements: ``one`` where the mask's bit is set, ``zero`` elsewhere."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        truths = builder.bitcast(arguments[2], ir.VectorType(I1, LANES))
        chosen = builder.select(truths, _splat(builder, arguments[4]), _splat(builder, arguments[3]))
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        pointer = builder.bitcast(builder.gep(data, [arguments[1]]), chosen.type.as_pointer())
        builder.store(chosen, pointer, align=signature.args[0].dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(out, types.int64, types.uint64, out.dtype, out.dtype), generate
