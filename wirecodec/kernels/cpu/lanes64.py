"""The vocabulary of sweeps over floats: what 64 elements at a time can do and a plain loop does not.

Elements come as bits, u16, u32 or u64; a *key* is an element's magnitude bits, which order as magnitudes do.
Sums are taken in 64 lanes, float32 lanes for up to 32 bits and float64 lanes for 64, and folded in halves in
float64: one order, whatever the machine's vectors are. They are written out because a plain loop over floats
may not be reordered, and takes two to ten reads; so is the prefetch, without which a sweep that does more
than a sum takes nearly two.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

__all__ = ["LANES", "ROWS", "at_least64", "logs64", "moments64"]

LANES = 64
ROWS = 64
"""At most so many at a time, of 64 elements each: then a lane's sum keeps five digits or more."""

_AHEAD = 8192
"""Bytes between what is read and what is fetched."""

I8, I32, I64 = ir.IntType(8), ir.IntType(32), ir.IntType(64)
F32, F64 = ir.FloatType(), ir.DoubleType()


def _word(fn: Callable[..., Any]) -> Callable[..., Any]:
    """An instruction, or a short loop of them, that kernels call like a function."""
    made: Callable[..., Any] = intrinsic(fn)
    return made


class _Lanes:
    """Instructions on vectors of 64 elements of one array, and their types."""

    def __init__(self, context: Any, builder: Any, array_type: Any, array: Any) -> None:
        self.builder = builder
        self.width = array_type.dtype.bitwidth
        self.data = context.make_array(array_type)(context, builder, array).data
        self.wide = I64 if self.width == 64 else I32
        self.float = F64 if self.width == 64 else F32
        self.fraction = 52 if self.width == 64 else 23

    def splat(self, value: Any, n: int = LANES) -> Any:
        """``value`` in every lane."""
        undefined = ir.Constant(ir.VectorType(value.type, n), ir.Undefined)
        first = self.builder.insert_element(undefined, value, I32(0))
        return self.builder.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(I32, n), [0] * n))

    def constant(self, element: Any, value: Any) -> Any:
        """A constant in every lane."""
        return ir.Constant(ir.VectorType(element, LANES), [value] * LANES)

    def keys(self, at: Any) -> Any:
        """The magnitude bits of 64 elements from ``at`` on, widened to at least 32 bits."""
        element = ir.IntType(self.width)
        where = self.builder.gep(self.data, [at])
        self._prefetch(where)
        loaded = self.builder.load(self.builder.bitcast(where, ir.VectorType(element, LANES).as_pointer()))
        loaded.align = self.width // 8
        magnitude = self.builder.and_(loaded, self.constant(element, 2 ** (self.width - 1) - 1))
        wide = ir.VectorType(self.wide, LANES)
        return magnitude if self.width >= 32 else self.builder.zext(magnitude, wide)

    def _prefetch(self, where: Any) -> None:
        """Ask for a row further on; its address need not exist."""
        kind = ir.FunctionType(ir.VoidType(), [I8.as_pointer(), I32, I32, I32])
        fetch = cgutils.get_or_insert_function(self.builder.module, kind, "llvm.prefetch.p0")
        start = self.builder.bitcast(where, I8.as_pointer())
        for line in range(0, LANES * self.width // 8, 64):
            ahead = self.builder.gep(start, [ir.Constant(I64, _AHEAD + line)])
            self.builder.call(fetch, [ahead, I32(0), I32(3), I32(1)])

    def magnitudes(self, keys: Any, scale: Any, half: Any) -> Any:
        """|x| · scale, in the lanes' float type; of 16 bits, binary16 where ``half``, else bfloat16."""
        b, floats = self.builder, ir.VectorType(self.float, LANES)
        if self.width == 16:
            shifted = b.shl(keys, self.splat(b.select(half, I32(13), I32(16))))
            rebiased = b.add(shifted, self.splat(b.select(half, I32(112 << 23), I32(0))))
            # Below binary16's normals: as a fraction of the least normal, which is then taken off.
            raised = b.bitcast(b.add(rebiased, self.constant(I32, 1 << 23)), floats)
            fraction = b.fsub(raised, self.constant(F32, 2.0**-14))
            tiny = b.icmp_unsigned("<", keys, self.splat(b.select(half, I32(0x400), I32(0))))
            found = b.select(tiny, fraction, b.bitcast(rebiased, floats))
        else:
            found = b.bitcast(keys, floats)
        return b.fmul(found, self.splat(self.narrow(scale)))

    def narrow(self, value: Any) -> Any:
        """A float64 in the lanes' float type."""
        return value if self.width == 64 else self.builder.fptrunc(value, F32)

    def inside(self, keys: Any, low: Any, span: Any) -> Any:
        """64 flags: low <= key < low + span."""
        low, span = (value if self.width == 64 else self.builder.trunc(value, I32) for value in (low, span))
        return self.builder.icmp_unsigned("<", self.builder.sub(keys, self.splat(low)), self.splat(span))

    def rows(self, start: Any, count: Any) -> Any:
        """A loop over ``count`` rows of 64 elements from ``start`` on; gives where each begins."""
        return _Rows(self.builder, start, count)

    def variable(self, element: Any, value: Any) -> Any:
        """A vector that a loop changes, first ``value`` in every lane."""
        slot = cgutils.alloca_once(self.builder, ir.VectorType(element, LANES))
        self.builder.store(self.constant(element, value), slot)
        return slot

    def fold(self, vector: Any, combine: Callable[[Any, Any], Any], n: int = LANES, to: int = 1) -> Any:
        """The lanes combined in halves, the upper with the lower, until ``to`` are left."""
        while n > to:
            n //= 2
            halves = [
                self.builder.shuffle_vector(
                    vector, vector, ir.Constant(ir.VectorType(I32, n), list(range(first, first + n)))
                )
                for first in (0, n)
            ]
            vector = combine(*halves)
        return vector if to > 1 else self.builder.extract_element(vector, I32(0))

    def doubles(self, vector: Any) -> Any:
        """Float lanes as float64."""
        return vector if self.width == 64 else self.builder.fpext(vector, ir.VectorType(F64, LANES))


class _Rows:
    """``with`` gives the place of each row; what stands inside is the loop's body."""

    def __init__(self, builder: Any, start: Any, count: Any) -> None:
        self.builder, self.start = builder, start
        self.loop = cgutils.for_range(builder, count)

    def __enter__(self) -> Any:
        row = self.loop.__enter__().index
        return self.builder.add(self.start, self.builder.mul(row, I64(LANES)))

    def __exit__(self, *error: Any) -> Any:
        return self.loop.__exit__(*error)


@_word
def moments64(
    typing_context: Any,
    bits: Any,
    start: Any,
    rows: Any,
    low: Any,
    span: Any,
    origin: Any,
    scale: Any,
    half: Any,
) -> Any:
    """Count, Σ y, Σ y² of the elements with low <= key < low + span, and the largest key of all.

    y = |x| · scale - origin, of rows of 64 elements from ``start`` on, all of which must lie within ``bits``.
    """
    numbers = types.Tuple((types.int64, types.float64, types.float64, types.uint64))

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array, start, rows, low, span, origin, scale, half = arguments
        v = _Lanes(context, builder, signature.args[0], array)
        total, squares = v.variable(v.float, 0.0), v.variable(v.float, 0.0)
        largest = v.variable(v.wide, 0)
        count = cgutils.alloca_once_value(builder, I64(0))
        nothing = v.constant(v.float, 0.0)
        with v.rows(start, rows) as at:
            keys = v.keys(at)
            taken = v.inside(keys, low, span)
            y = builder.fsub(v.magnitudes(keys, scale, half), v.splat(v.narrow(origin)))
            y = builder.select(taken, y, nothing)
            builder.store(builder.fadd(builder.load(total), y), total)
            builder.store(builder.fadd(builder.load(squares), builder.fmul(y, y)), squares)
            flags = builder.ctpop(builder.bitcast(taken, I64))
            builder.store(builder.add(builder.load(count), flags), count)
            before = builder.load(largest)
            larger = builder.icmp_unsigned(">", keys, before)
            builder.store(builder.select(larger, keys, before), largest)
        sums = [v.fold(v.doubles(builder.load(slot)), builder.fadd) for slot in (total, squares)]
        top = v.fold(
            builder.load(largest), lambda a, b: builder.select(builder.icmp_unsigned(">", a, b), a, b)
        )
        top = top if v.width == 64 else builder.zext(top, I64)
        return context.make_tuple(builder, numbers, [builder.load(count), *sums, top])

    place, key, real = types.int64, types.uint64, types.float64
    return numbers(bits, place, place, key, key, real, real, types.boolean), generate


@_word
def logs64(typing_context: Any, bits: Any, start: Any, rows: Any, scale: Any, half: Any) -> Any:
    """(e, p) with e · ln 2 + ln p = Σ ln(|x| · scale) of the elements that are not 0, in at most 64 rows.

    Exponents are summed and fractions multiplied, so that one logarithm does for a block: 1 <= p < 2^8. What
    underflows counts as the least normal number or so.
    """
    numbers = types.Tuple((types.int64, types.float64))

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array, start, rows, scale, half = arguments
        v = _Lanes(context, builder, signature.args[0], array)
        bias = 1023 if v.width == 64 else 127
        product, exponents = v.variable(v.float, 1.0), v.variable(v.wide, 0)
        nothing, one = v.constant(v.wide, 0), v.constant(v.float, 1.0)
        fraction = v.constant(v.wide, (1 << v.fraction) - 1)
        with v.rows(start, rows) as at:
            keys = v.keys(at)
            present = builder.icmp_unsigned("!=", keys, nothing)
            word = builder.bitcast(v.magnitudes(keys, scale, half), keys.type)
            exponent = builder.sub(
                builder.lshr(word, v.constant(v.wide, v.fraction)), v.constant(v.wide, bias)
            )
            exponent = builder.select(present, exponent, nothing)
            builder.store(builder.add(builder.load(exponents), exponent), exponents)
            word = builder.or_(builder.and_(word, fraction), builder.bitcast(one, keys.type))
            factor = builder.select(present, builder.bitcast(word, one.type), one)
            builder.store(builder.fmul(builder.load(product), factor), product)
        products = v.fold(v.doubles(builder.load(product)), builder.fmul, to=8)  # each below 2^512
        words = builder.bitcast(products, ir.VectorType(I64, 8))
        carried = builder.sub(
            builder.lshr(words, ir.Constant(words.type, [52] * 8)), ir.Constant(words.type, [1023] * 8)
        )
        words = builder.and_(words, ir.Constant(words.type, [2**52 - 1] * 8))
        words = builder.or_(words, ir.Constant(words.type, [1023 << 52] * 8))
        left = v.fold(builder.bitcast(words, products.type), builder.fmul, 8)
        whole = v.fold(builder.load(exponents), builder.add)
        whole = whole if v.width == 64 else builder.sext(whole, I64)
        whole = builder.add(whole, v.fold(carried, builder.add, 8))
        return context.make_tuple(builder, numbers, [whole, left])

    return numbers(bits, types.int64, types.int64, types.float64, types.boolean), generate


@_word
def at_least64(typing_context: Any, bits: Any, at: Any, key: Any) -> Any:
    """64 flags, the first in the lowest bit: is the key of element at + j at least ``key``?

    All 64 elements must lie within ``bits``.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array, at, key = arguments
        v = _Lanes(context, builder, signature.args[0], array)
        threshold = key if v.width == 64 else builder.trunc(key, I32)
        taken = builder.icmp_unsigned(">=", v.keys(at), v.splat(threshold))
        return builder.bitcast(taken, I64)

    return types.uint64(bits, types.int64, types.uint64), generate
