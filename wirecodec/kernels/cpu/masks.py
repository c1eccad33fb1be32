"""Sixty-four elements at a time: which of them pass, as the bits of one word, and back.

Bit j stands for element ``start + j``. All 64 elements must lie within the array, which is contiguous; a
kernel takes the rest one by one, or from a padded copy. Thresholds are compared as the bits of magnitudes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types

from wirecodec.arrays import Array
from wirecodec.kernels.cpu.jit import inline
from wirecodec.kernels.cpu.vector import load, mask_bits
from wirecodec.kernels.cpu.vector_type import Vector, call, place, splatted, word

__all__ = ["at_least64", "at_most64", "choose64", "negative64", "reach64", "top64"]

U64 = np.uint64
LANES = 64


@inline
def at_least64(bits: Array, start: int, threshold: Any) -> np.uint64:
    """Which of 64 floats, given as their bits, have a magnitude whose bits are ``threshold`` or more."""
    return mask_bits((load(bits, start, 64) << 1) >= (U64(threshold) << U64(1)))


@inline
def at_most64(words: Array, start: int, limit: Any) -> np.uint64:
    """Which of 64 unsigned words are ``limit`` or less."""
    return mask_bits(load(words, start, 64) <= limit)


@inline
def negative64(bits: Array, start: int) -> np.uint64:
    """Which of 64 floats, given as their bits, are below zero; -0 is not."""
    return mask_bits(load(bits, start, 64) > (U64(1) << U64(8 * bits.itemsize - 1)))


def _loaded(context: Any, builder: Any, kind: Any, array: Any, start: Any, form: Any) -> Any:
    at = builder.bitcast(place(context, builder, kind, array, start, LANES), form.as_pointer())
    return builder.load(at, align=kind.dtype.bitwidth // 8)


def _magnitudes(builder: Any, words: Any) -> Any:
    """Without the sign."""
    ones = (1 << (words.type.element.width - 1)) - 1
    return builder.and_(words, ir.Constant(words.type, [ones] * LANES))


def _chosen(builder: Any, mask: Any) -> Any:
    """The bits of a u64 as truths of lanes."""
    return builder.bitcast(mask, ir.VectorType(ir.IntType(1), LANES))


@word
def top64(typing_context: Any, bits: Any, start: Any, mask: Any) -> Any:
    """The greatest magnitude, as bits, of those of 64 floats whose bits are set in ``mask``; 0 for none."""
    vector = Vector(LANES, bits.dtype.bitwidth)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        keys = _magnitudes(builder, _loaded(context, builder, sig.args[0], args[0], args[1], vector.form))
        wanted = builder.select(_chosen(builder, args[2]), keys, ir.Constant(vector.form, [0] * LANES))
        return call(builder, "vector.reduce.umax", vector.form.element, wanted)

    return bits.dtype(bits, types.intp, types.uint64), generate


@word
def reach64(typing_context: Any, x: Any, gradient: Any, start: Any, factor: Any, top: Any) -> Any:
    """Which of 64 elements have x ≠ 0 and |x + factor · gradient| ≥ ``top``, each operation rounded."""
    vector = Vector(LANES, x.dtype.bitwidth)
    floats = ir.VectorType(ir.FloatType() if vector.bits == 32 else ir.DoubleType(), LANES)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        here, steps = (
            _loaded(context, builder, kind, array, args[2], floats)
            for kind, array in zip(sig.args[:2], args[:2], strict=True)
        )
        by = builder.bitcast(args[3], vector.form.element)
        scales = builder.bitcast(splatted(context, builder, by, vector.element, vector), floats)
        ahead = builder.bitcast(builder.fadd(here, builder.fmul(scales, steps)), vector.form)
        tops = splatted(context, builder, args[4], vector.element, vector)
        reaches = builder.icmp_unsigned(">=", _magnitudes(builder, ahead), tops)
        present = builder.fcmp_unordered("!=", here, ir.Constant(floats, [0.0] * LANES))
        return builder.bitcast(builder.and_(reaches, present), ir.IntType(LANES))

    return types.uint64(x, gradient, types.intp, x.dtype, vector.element), generate


@word
def choose64(typing_context: Any, out: Any, start: Any, mask: Any, zero: Any, one: Any) -> Any:
    """Write 64 elements: ``one`` where the mask's bit is set, ``zero`` elsewhere."""
    vector = Vector(LANES, out.dtype.bitwidth)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        zeros, ones = (splatted(context, builder, number, out.dtype, vector) for number in args[3:])
        lanes = builder.select(_chosen(builder, args[2]), ones, zeros)
        at = place(context, builder, sig.args[0], args[0], args[1], LANES)
        builder.store(lanes, builder.bitcast(at, vector.form.as_pointer()), align=vector.bits // 8)
        return context.get_dummy_value()

    return types.void(out, types.intp, types.uint64, out.dtype, out.dtype), generate
