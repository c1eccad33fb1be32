"""``Vector``: a Numba type for a few unsigned integers in one SIMD register, with operators.

Inside kernels, a vector is a value like a number. +, -, *, &, |, ^, << and >> work per lane and wrap.
Comparisons are unsigned and return a mask, ``Vector(lanes, 1)``. An integer operand is truncated and copied
to all lanes. A shift by the lane's width or more is undefined. ``vector`` has the other operations; this
module has their building blocks.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import intrinsic, lower_builtin, models, register_model

I32, I64 = ir.IntType(32), ir.IntType(64)


class Vector(types.Type):  # type: ignore[misc]
    """Vector of ``lanes`` unsigned integers of ``bits`` bits each."""

    def __init__(self, lanes: int, bits: int) -> None:
        self.lanes, self.bits = lanes, bits
        self.form = ir.VectorType(ir.IntType(bits), lanes)
        super().__init__(name=f"Vector({lanes}, {bits})")

    @property
    def element(self) -> Any:
        """Type of one lane."""
        return types.Integer.from_bitwidth(self.bits, signed=False)


@register_model(Vector)
class _VectorModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, vector: Vector) -> None:
        super().__init__(manager, vector, vector.form)


def llvm_intrinsic(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Register a code generator as a function for kernels; constant arguments reach it as literals."""
    function: Callable[..., Any] = intrinsic(prefer_literal=True)(fn)
    return function


def call_intrinsic(builder: Any, name: str, result: Any, *arguments: Any) -> Any:
    """Call an LLVM intrinsic on vectors, overloaded by the type of its first argument."""
    form = arguments[0].type
    kind = ir.FunctionType(result, [argument.type for argument in arguments])
    full = f"llvm.{name}.v{form.count}i{form.element.width}"
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, full), arguments)


def shuffle(builder: Any, a: Any, b: Any, order: list[int]) -> Any:
    """Select lanes of ``a``, and of ``b`` for numbers of ``order`` beyond them."""
    return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(I32, len(order)), order))


def broadcast(context: Any, builder: Any, number: Any, kind: Any, vector: Vector) -> Any:
    """Copy an integer of any type, truncated, to all lanes."""
    undefined = ir.Constant(vector.form, ir.Undefined)
    first = builder.insert_element(undefined, context.cast(builder, number, kind, vector.element), I32(0))
    return shuffle(builder, first, undefined, [0] * vector.lanes)


def lane_numbers(vector: Vector) -> Any:
    """Return the constant vector 0, 1, 2, ..."""
    return ir.Constant(vector.form, list(range(vector.lanes)))


def element_pointer(context: Any, builder: Any, kind: Any, array: Any, i: Any, lanes: int) -> Any:
    """Return the address of element i of a contiguous array; with NUMBA_BOUNDSCHECK, check all lanes."""
    view = context.make_array(kind)(context, builder, array)
    if context.enable_boundscheck:
        cgutils.do_boundscheck(context, builder, i, view.nitems)
        cgutils.do_boundscheck(context, builder, builder.add(i, I64(lanes - 1)), view.nitems)
    return builder.gep(view.data, [i])


def lane_count(lanes: Any) -> int:
    """Return the number of lanes of a constant or of a vector."""
    return int(lanes.lanes if isinstance(lanes, Vector) else lanes.literal_value)


def has_feature(context: Any, feature: str) -> bool:
    """Return whether the target processor has a feature; Numba's cache is keyed by the same list."""
    return f"+{feature}" in context.codegen().magic_tuple()[2].split(",")


class _Operator(AbstractTemplate):  # type: ignore[misc]
    """Typing of operators: two vectors of one type, or a vector and an integer."""

    compares = False

    def generic(self, args: Any, kws: Any) -> Any:
        vectors = {kind for kind in args if isinstance(kind, Vector)}
        if len(vectors) != 1 or not all(isinstance(kind, Vector | types.Integer) for kind in args):
            return None
        vector = vectors.pop()
        return signature(Vector(vector.lanes, 1) if self.compares else vector, *map(types.unliteral, args))


def _define(name: str, build: Callable[..., Any], *, compares: bool = False) -> None:
    """Define an operator of Python for vectors; ``build`` takes the builder and two LLVM vectors."""
    op = getattr(operator, name)
    infer_global(op)(type(f"Vector_{name}", (_Operator,), {"compares": compares}))

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        vector = next(kind for kind in sig.args if isinstance(kind, Vector))
        sides = [
            value if kind == vector else broadcast(context, builder, value, kind, vector)
            for value, kind in zip(args, sig.args, strict=True)
        ]
        return build(builder, *sides)

    for kinds in ((Vector, Vector), (Vector, types.Integer), (types.Integer, Vector)):
        lower_builtin(op, *kinds)(generate)


def _method(name: str) -> Callable[..., Any]:
    return lambda builder, a, b: getattr(builder, name)(a, b)


def _comparison(sign: str) -> Callable[..., Any]:
    return lambda builder, a, b: builder.icmp_unsigned(sign, a, b)


for _name in ("add", "sub", "mul", "and_", "or_", "xor"):
    _define(_name, _method(_name))
    _define("i" + _name.rstrip("_"), _method(_name))
for _name, _builder_name in (("lshift", "shl"), ("rshift", "lshr")):
    _define(_name, _method(_builder_name))
    _define("i" + _name, _method(_builder_name))
for _name, _sign in (("lt", "<"), ("le", "<="), ("eq", "=="), ("ne", "!="), ("ge", ">="), ("gt", ">")):
    _define(_name, _comparison(_sign), compares=True)
