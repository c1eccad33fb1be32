"""Operations on 64-bit words that NumPy's language cannot express.

Each is one or a few instructions (LLVM intrinsics through Numba), defined on its whole domain unless its
docstring states otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

I8, I64 = ir.IntType(8), ir.IntType(64)


def _llvm_intrinsic(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Register a code generator as a function for kernels."""
    function: Callable[..., Any] = intrinsic(fn)
    return function


@_llvm_intrinsic
def trailing_zeros(typing_context: Any, word: Any) -> Any:
    """Count the zero bits below the lowest one bit of a u64; 64 for 0."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.uint64), generate


@_llvm_intrinsic
def leading_zeros(typing_context: Any, word: Any) -> Any:
    """Count the zero bits above the highest one bit of a u64; 64 for 0."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctlz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.uint64), generate


@_llvm_intrinsic
def popcount(typing_context: Any, word: Any) -> Any:
    """Count the one bits of a u64."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.int64(types.uint64), generate


@_llvm_intrinsic
def rotate_left(typing_context: Any, word: Any, count: Any) -> Any:
    """Rotate a u64 toward its high end by ``count`` (u64) modulo 64."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        funnel = builder.module.declare_intrinsic("llvm.fshl", (I64,), ir.FunctionType(I64, [I64] * 3))
        return builder.call(funnel, [arguments[0], arguments[0], arguments[1]])

    return types.uint64(types.uint64, types.uint64), generate


@_llvm_intrinsic
def multiply_high(typing_context: Any, a: Any, b: Any) -> Any:
    """Return the upper 64 bits of the 128-bit product of two u64."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        wide = ir.IntType(128)
        product = builder.mul(builder.zext(arguments[0], wide), builder.zext(arguments[1], wide))
        return builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), I64)

    return types.uint64(types.uint64, types.uint64), generate


def _address(context: Any, builder: Any, array_type: Any, array: Any, byte: Any) -> Any:
    """Return the address of 8 bytes of an array; with NUMBA_BOUNDSCHECK, check that they exist."""
    view = context.make_array(array_type)(context, builder, array)
    if context.enable_boundscheck:
        size = builder.mul(view.nitems, view.itemsize)
        cgutils.do_boundscheck(context, builder, byte, size)
        cgutils.do_boundscheck(context, builder, builder.add(byte, I64(7)), size)
    return builder.gep(builder.bitcast(view.data, I8.as_pointer()), [byte])


@_llvm_intrinsic
def load64(typing_context: Any, array: Any, byte: Any) -> Any:
    """Load the little-endian u64 at any byte offset of a contiguous array; all 8 bytes must be within it."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        at = _address(context, builder, signature.args[0], *arguments)
        return builder.load(builder.bitcast(at, I64.as_pointer()), align=1)

    return types.uint64(array, types.int64), generate


@_llvm_intrinsic
def store64(typing_context: Any, array: Any, byte: Any, word: Any) -> Any:
    """Store a little-endian u64 at any byte offset of a contiguous array; all 8 bytes must be within it."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        at = _address(context, builder, signature.args[0], *arguments[:2])
        builder.store(arguments[2], builder.bitcast(at, I64.as_pointer()), align=1)
        return context.get_dummy_value()

    return types.void(array, types.int64, types.uint64), generate


@_llvm_intrinsic
def f32_from_bits(typing_context: Any, bits: Any) -> Any:
    """Return the float32 with the bits of a u32."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.FloatType())

    return types.float32(types.uint32), generate


@_llvm_intrinsic
def f32_to_bits(typing_context: Any, value: Any) -> Any:
    """Return the bits of a float32 as a u32."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.IntType(32))

    return types.uint32(types.float32), generate


@_llvm_intrinsic
def float_from_bits(typing_context: Any, bits: Any) -> Any:
    """Return the float32 or float64 with the bits of a u32 or u64."""
    single = bits.bitwidth == 32

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.FloatType() if single else ir.DoubleType())

    return (types.float32 if single else types.float64)(bits), generate


@_llvm_intrinsic
def low_bits_mask(typing_context: Any, count: Any) -> Any:
    """Return a u64 with its ``count`` low bits set; all of them for 64 or more, none for 0 or less."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        n = arguments[0]
        ones = builder.sub(
            builder.shl(ir.Constant(I64, 1), builder.and_(n, ir.Constant(I64, 63))), ir.Constant(I64, 1)
        )
        is_full = builder.icmp_signed(">=", n, ir.Constant(I64, 64))
        is_empty = builder.icmp_signed("<=", n, ir.Constant(I64, 0))
        partial = builder.select(is_empty, ir.Constant(I64, 0), ones)
        return builder.select(is_full, ir.Constant(I64, 2**64 - 1), partial)

    return types.uint64(types.int64), generate
