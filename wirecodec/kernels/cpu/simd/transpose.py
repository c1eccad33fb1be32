"""Transposition of tiles of 16 × 16 elements between runs and columns."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types

from wirecodec.kernels.cpu.simd.vector_type import element_pointer, llvm_intrinsic, shuffle

I64 = ir.IntType(64)
TILE_SIZE = 16
"""Rows and columns per tile."""


def _transpose(builder: Any, rows: list[Any]) -> list[Any]:
    """Transpose rows to columns: each of four rounds rotates the bits of an element's index by one."""
    half = TILE_SIZE // 2
    low, high = ([at // 2 + start + at % 2 * TILE_SIZE for at in range(TILE_SIZE)] for start in (0, half))
    for _ in range(4):
        pairs = list(zip(rows[:half], rows[half:], strict=True))
        rows = [shuffle(builder, a, b, order) for a, b in pairs for order in (low, high)]
    return rows


def _run_pointer(context: Any, builder: Any, kinds: Any, made: Any, n: int) -> Any:
    """Return the address of element ``i`` of the run ``first + n``; ``made`` is (array, places, first, i)."""
    array, places, first, i = made
    number = builder.add(first, I64(n))
    start = builder.load(element_pointer(context, builder, kinds[1], places, number, 1))
    at = element_pointer(context, builder, kinds[0], array, builder.add(start, i), TILE_SIZE)
    return builder.bitcast(at, ir.VectorType(at.type.pointee, TILE_SIZE).as_pointer())


def _row_pointer(context: Any, builder: Any, kind: Any, made: Any, n: int) -> Any:
    """Return the address of row n; ``made`` is (array, position of the first row, distance between rows)."""
    array, at, apart = made
    row = element_pointer(
        context, builder, kind, array, builder.add(at, builder.mul(apart, I64(n))), TILE_SIZE
    )
    return builder.bitcast(row, ir.VectorType(row.type.pointee, TILE_SIZE).as_pointer())


@llvm_intrinsic
def transpose_from_runs(
    typing_context: Any, array: Any, places: Any, first: Any, i: Any, out: Any, at: Any, apart: Any
) -> Any:
    """Store elements i ... i + 15 of the runs ``first`` ... ``first`` + 15 as columns.

    The runs begin at ``places``. Row n is written from element ``at + n · apart`` of ``out`` on.
    """

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        size = array.dtype.bitwidth // 8
        runs = [_run_pointer(context, builder, sig.args[:2], args[:4], n) for n in range(TILE_SIZE)]
        rows = _transpose(builder, [builder.load(run, align=size) for run in runs])
        for n, row in enumerate(rows):
            builder.store(row, _row_pointer(context, builder, sig.args[4], args[4:], n), align=size)
        return context.get_dummy_value()

    kinds = (array, places, types.intp, types.intp, out, types.intp, types.intp)
    return types.void(*kinds), generate


@llvm_intrinsic
def transpose_to_runs(
    typing_context: Any, array: Any, at: Any, apart: Any, out: Any, places: Any, first: Any, i: Any
) -> Any:
    """Invert ``transpose_from_runs``, from ``array`` to the runs of ``out``."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        size = array.dtype.bitwidth // 8
        columns = [_row_pointer(context, builder, sig.args[0], args[:3], n) for n in range(TILE_SIZE)]
        rows = _transpose(builder, [builder.load(column, align=size) for column in columns])
        for n, row in enumerate(rows):
            builder.store(row, _run_pointer(context, builder, sig.args[3:5], args[3:], n), align=size)
        return context.get_dummy_value()

    kinds = (array, types.intp, types.intp, out, places, types.intp, types.intp)
    return types.void(*kinds), generate
