"""Memory operations: copies, prefetch, stores that bypass the caches, and arrays at given addresses."""

from __future__ import annotations

import ctypes
from typing import Any

from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.np.arrayobj import populate_array

from wirecodec.arrays import Array
from wirecodec.kernels.compiler.jit import inline_without_refcounts
from wirecodec.kernels.cpu.simd.vector_type import element_pointer, llvm_intrinsic

I8, I32, I64 = ir.IntType(8), ir.IntType(32), ir.IntType(64)
LINE = 64
PREFETCH_ELEMENTS = 512
"""Elements ahead that a sweep prefetches: hardware prefetching stops at page boundaries."""

_GENERIC = "x86-64"
"""Beginning of LLVM's names of processors that are none of a vendor's."""


def _prefetches(name: str) -> bool:
    """Return whether ``prefetch_ahead`` has an effect on a processor, by LLVM's name."""
    return not name.startswith("znver")


_SWITCH = "wirecodec_prefetch_ahead"
"""Symbol of a byte that generic code reads: 0 if ``prefetch_ahead`` has no effect on this processor."""
_switch = ctypes.c_uint8(_prefetches(binding.get_host_cpu_name()))
binding.add_symbol(_SWITCH, ctypes.addressof(_switch))


@llvm_intrinsic
def bit_width(typing_context: Any, array: Any) -> Any:
    """Return the bits per element of an array as a constant; ``itemsize`` is read from memory."""
    return types.intp(array), lambda context, builder, sig, args: I64(array.dtype.bitwidth)


@inline_without_refcounts
def copy_elements(source: Array, first: int, count: int, out: Array, at: int) -> None:
    """Copy ``count`` elements from source[first] to out[at].

    An assignment of slices does the same, but Numba compiles the message of its exception for 1.7 s.
    """
    for i in range(count):
        out[at + i] = source[first + i]


@llvm_intrinsic
def _copy_memory(typing_context: Any, source: Any, first: Any, count: Any, out: Any, at: Any) -> Any:
    """Copy one byte or more; with NUMBA_BOUNDSCHECK, check the first and the last."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        _, first, count, _, at = args
        before = builder.sub(count, count.type(1))
        for place, kind, view in ((first, sig.args[0], args[0]), (at, sig.args[3], args[3])):
            element_pointer(context, builder, kind, view, builder.add(place, before), 1)
        start = element_pointer(context, builder, sig.args[0], args[0], first, 1)
        target = element_pointer(context, builder, sig.args[3], args[3], at, 1)
        cgutils.raw_memcpy(builder, target, start, count, 1)
        return context.get_dummy_value()

    return types.void(source, types.intp, types.intp, out, types.intp), generate


@inline_without_refcounts
def copy_bytes(source: Array, first: int, count: int, out: Array, at: int) -> None:
    """Copy ``count`` bytes from source[first] to out[at]; faster than ``copy_elements`` if they are many."""
    if count > 0:
        _copy_memory(source, first, count, out, at)


@llvm_intrinsic
def prefetch(typing_context: Any, array: Any, i: Any, lanes: Any) -> Any:
    """Prefetch elements i ... i + lanes - 1, which need not exist."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        _ask_for_lines(context, builder, sig, args, lanes.literal_value)
        return context.get_dummy_value()

    return types.void(array, types.intp, lanes), generate


@llvm_intrinsic
def prefetch_ahead(typing_context: Any, array: Any, i: Any, lanes: Any) -> Any:
    """Prefetch elements that a loop over the whole array will reach; AMD's processors need no such help.

    A Xeon stops to prefetch at the end of each page. An EPYC goes on, and the instructions slow it down: a
    sweep for the top 1 % of 26 million floats took 6.7 ms with them, and 4.1 ms without.
    """

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        name = context.codegen().magic_tuple()[1]
        if name.startswith(_GENERIC):
            switch = builder.module.globals.get(_SWITCH) or ir.GlobalVariable(builder.module, I8, _SWITCH)
            wanted = builder.load(switch)
            wanted.set_metadata("invariant.load", builder.module.add_metadata([]))
            with builder.if_then(builder.icmp_unsigned("!=", wanted, I8(0)), likely=False):
                _ask_for_lines(context, builder, sig, args, lanes.literal_value)
        elif _prefetches(name):
            _ask_for_lines(context, builder, sig, args, lanes.literal_value)
        return context.get_dummy_value()

    return types.void(array, types.intp, lanes), generate


def _ask_for_lines(context: Any, builder: Any, sig: Any, args: Any, lanes: int) -> None:
    """Build a prefetch of each cache line of ``lanes`` elements; ``args`` begins with the array and i."""
    array = sig.args[0]
    first = builder.gep(context.make_array(array)(context, builder, args[0]).data, [args[1]])
    first = builder.bitcast(first, I8.as_pointer())
    kind = ir.FunctionType(ir.VoidType(), [first.type, I32, I32, I32])
    ask = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
    for byte in range(0, lanes * array.dtype.bitwidth // 8, LINE):
        builder.call(ask, [builder.gep(first, [I64(byte)]), I32(0), I32(3), I32(1)])


@llvm_intrinsic
def stream_store(typing_context: Any, array: Any, i: Any, vector: Any) -> Any:
    """Store a vector past the caches; element i must be aligned to 64 bytes.

    Call ``store_fence`` before another thread reads it.
    """

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        at = element_pointer(context, builder, sig.args[0], args[0], args[1], vector.lanes)
        store = builder.store(args[2], builder.bitcast(at, vector.form.as_pointer()), align=LINE)
        store.set_metadata("nontemporal", builder.module.add_metadata([I32(1)]))
        return context.get_dummy_value()

    return types.void(array, types.intp, vector), generate


@llvm_intrinsic
def store_fence(typing_context: Any) -> Any:
    """Make earlier stores visible to other threads before later ones."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return types.void(), generate


@llvm_intrinsic
def view_at(typing_context: Any, address: Any, size: Any, like: Any) -> Any:
    """Return ``size`` elements at an address as an array of the type of ``like``, flat and contiguous.

    The caller keeps the memory alive.
    """

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        view = context.make_array(sig.return_type)(context, builder)
        width = I64(like.dtype.bitwidth // 8)
        populate_array(
            view,
            data=builder.inttoptr(args[0], view.data.type),
            shape=[args[1]],
            strides=[width],
            itemsize=width,
            meminfo=None,
        )
        return view._getvalue()

    return like(types.intp, types.intp, like), generate
