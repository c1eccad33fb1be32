"""The vocabulary of the kernels: what a processor can do with a word and NumPy's language cannot say.

Each name is one or a few instructions (LLVM intrinsics through Numba), total on its whole domain unless its
docstring says not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

__all__ = ["bits_of_f32", "f32_of_bits", "popcount", "trailing_zeros"]


def _word(fn: Callable[..., Any]) -> Callable[..., Any]:
    """An instruction that kernels call like a function."""
    made: Callable[..., Any] = intrinsic(fn)
    return made


@_word
def trailing_zeros(typing_context: Any, word: Any) -> Any:
    """Number of zero bits below the lowest one bit of a u64; 64 for 0."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.uint64), generate


@_word
def popcount(typing_context: Any, word: Any) -> Any:
    """Number of one bits of a u64."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.int64(types.uint64), generate


@_word
def f32_of_bits(typing_context: Any, bits: Any) -> Any:
    """The float32 whose bits are this u32."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.FloatType())

    return types.float32(types.uint32), generate


@_word
def bits_of_f32(typing_context: Any, value: Any) -> Any:
    """The bits of a float32 as a u32."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.IntType(32))

    return types.uint32(types.float32), generate
