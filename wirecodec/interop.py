"""Interface for transports: the functions beyond the public API that a transport of gradients needs.

`collectives` imports wirecodec's public names and this module; only the command in `collectives.advise` uses
helpers of `wirecodec.cli`, too. Another transport can do the same. Names that take arrays on a GPU import
CuPy when they are called.

    bytes and flat views    as_bytes, as_flat, as_sparse, as_target, as_targets, as_writable, describe_arrays,
                            dtype_named, BFLOAT16, DTYPES; local_shard, local_shards of DTensors
    arguments               as_integer, as_ratio, as_scheme, SchemeLike; index_codecs, value_codecs
    elements                is_zero, find_zeros, find_nonfinite, gpu_are_finite; of many arrays at once
                            find_nonfinite_array, have_huge
    settings                find_match, key_text, parse_stage, schedule_string, schedule_text,
                            restore_schedule, explain_unknown_recipe
    states                  State, copy_of; StateHolder, OpenStep, Stateful, Memory
    saved states            read_state, write_state, check_keys, unmasked
    types                   TensorLike, of what encoders take
    limits                  CHUNK, the largest number of elements per chunk
    compilation             cached_kernels_only, CompilationNeeded
    interrupts              run_uninterrupted: a function that no signal handler interrupts; Latch, an event
    decoding                decode_to, decode_many_to: onto the host, or onto the current GPU; decode_sum;
                            check_values, which decodes and returns the codecs
    sparse sums             sum_sparse, make_sparse, find_members, index_dtype
    containers              count_stored, the number of stored elements; encode_known, what receivers decode
    sizes of supports       estimate_index_bytes, estimate_union
    error feedback          accumulate, accumulate_on_gpu, HostGradient, top_of_group
    steps                   StepInParts, which exchanges one step in parts
    arithmetic              flushes_denormals
    memory                  aligned, aligned_like: arrays whose sums bypass the caches
    patches of weights      read_tensors, prepare_all, split_patches, check_patch_fits, commit_patch;
                            prepare_replacement, PreparedPatch; digest_state, count_state;
                            Difference, compare_states, write_patch, check_base; View, Chooser,
                            prepare_slices, fits_slices of slices of tensors; commit_in_copies
    shared memory           Layout of an array; describe_overlap, which names two arrays that share bytes
    sums on a GPU           gpu_context, gpu_zeros, gpu_means, gpu_copy, gpu_count_nonzero, copy_to_host
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

import numpy as np

from wirecodec.arrays import Array, Bytes, aligned, aligned_like, index_dtype, read_only
from wirecodec.compressor.holder import OpenStep, Stateful, StateHolder
from wirecodec.compressor.memory import Memory
from wirecodec.compressor.parts import StepInParts
from wirecodec.compressor.saved_state import check_keys, read_state, unmasked, write_state
from wirecodec.compressor.state import State, copy_of
from wirecodec.container.inspect import count_stored
from wirecodec.container.writer import CHUNK
from wirecodec.cpu.forms import describe as describe_arrays
from wirecodec.cpu.residual import AccumulatedGradient as HostGradient
from wirecodec.cpu.select import dense, find_array
from wirecodec.decode_into import check_values, decode_sum
from wirecodec.element_types import BFLOAT16, DTYPES, dtype_named
from wirecodec.errors import EncodeError
from wirecodec.frameworks import as_sparse, local_shard, local_shards
from wirecodec.kernels.compiler.cached_only import CompilationNeeded, cached_kernels_only
from wirecodec.kernels.denormals import flushes_denormals
from wirecodec.kernels.uninterrupted import Latch, run_uninterrupted
from wirecodec.patch.apply import check_fits as check_patch_fits
from wirecodec.patch.apply import commit as commit_patch
from wirecodec.patch.apply import commit_in_copies, digest_state, prepare_all
from wirecodec.patch.apply import split as split_patches
from wirecodec.patch.compare import Difference
from wirecodec.patch.compare import compare as compare_states
from wirecodec.patch.diff import check_base
from wirecodec.patch.diff import write as write_patch
from wirecodec.patch.overlap import Layout, describe_overlap
from wirecodec.patch.prepared import PreparedPatch, prepare_replacement
from wirecodec.patch.slices import Chooser, View, prepare_slices
from wirecodec.patch.slices import fits as fits_slices
from wirecodec.patch.states import count_state
from wirecodec.patch.states import read_state as read_tensors
from wirecodec.pipeline import decode_many_to, decode_to
from wirecodec.registry import index_codecs, value_codecs
from wirecodec.select import base as elements
from wirecodec.select.base import Selector
from wirecodec.settings.feedback import ErrorFeedback
from wirecodec.settings.recipes import explain_unknown_recipe
from wirecodec.settings.rules import find_match, key_text
from wirecodec.settings.schedule import schedule_string
from wirecodec.settings.scheduling import restore_schedule, schedule_text
from wirecodec.settings.scheme import Scheme, SchemeLike, as_scheme, parse_stage
from wirecodec.sparse import SparseTensor, sum_sparse
from wirecodec.support import estimate_index_bytes, estimate_union
from wirecodec.tensors import TensorLike, as_bytes, as_flat, as_target, as_targets, as_writable, on_gpu
from wirecodec.validation import as_integer, as_ratio

__all__ = [
    "BFLOAT16",
    "CHUNK",
    "DTYPES",
    "AccumulatedGradient",
    "Chooser",
    "CompilationNeeded",
    "Difference",
    "HostGradient",
    "Latch",
    "Layout",
    "Memory",
    "OpenStep",
    "PreparedPatch",
    "SchemeLike",
    "SelectedValues",
    "State",
    "StateHolder",
    "Stateful",
    "StepInParts",
    "TensorLike",
    "View",
    "accumulate",
    "accumulate_on_gpu",
    "aligned",
    "aligned_like",
    "as_bytes",
    "as_flat",
    "as_integer",
    "as_ratio",
    "as_scheme",
    "as_sparse",
    "as_target",
    "as_targets",
    "as_writable",
    "cached_kernels_only",
    "check_base",
    "check_keys",
    "check_patch_fits",
    "check_values",
    "commit_in_copies",
    "commit_patch",
    "compare_states",
    "copy_of",
    "copy_to_host",
    "count_state",
    "count_stored",
    "decode_many_to",
    "decode_sum",
    "decode_to",
    "describe_arrays",
    "describe_overlap",
    "digest_state",
    "dtype_named",
    "encode_known",
    "estimate_index_bytes",
    "estimate_union",
    "explain_unknown_recipe",
    "find_match",
    "find_members",
    "find_nonfinite",
    "find_nonfinite_array",
    "find_zeros",
    "fits_slices",
    "flushes_denormals",
    "gpu_are_finite",
    "gpu_context",
    "gpu_copy",
    "gpu_count_nonzero",
    "gpu_means",
    "gpu_zeros",
    "have_huge",
    "index_codecs",
    "index_dtype",
    "is_zero",
    "key_text",
    "local_shard",
    "local_shards",
    "make_sparse",
    "parse_stage",
    "prepare_all",
    "prepare_replacement",
    "prepare_slices",
    "read_only",
    "read_state",
    "read_tensors",
    "restore_schedule",
    "run_uninterrupted",
    "schedule_string",
    "schedule_text",
    "split_patches",
    "sum_sparse",
    "take_outer_steps",
    "top_of_group",
    "unmasked",
    "value_codecs",
    "write_patch",
    "write_state",
]


class SelectedValues(Protocol):
    """Elements of an accumulated gradient that a rank sends."""

    @property
    def values(self) -> Array:
        """(k,) on the host, in the gradient's type."""
        ...

    def remainder(self) -> Any:
        """Return the next residual (size,), on the gradient's device. Uses up the sum, not ``values``."""
        ...

    def scatter(self, means: Array, out: Array | None = None) -> Any:
        """Return (size,) zeros with the (k,) means at the selected elements, on the gradient's device.

        On a GPU these are raw bits: unsigned integers of the element's width. On the host they may be written
        to ``out``, (size,) of the gradient's type.
        """
        ...


class AccumulatedGradient(Protocol):
    """Gradient + residual of one tensor, on the host or on a GPU."""

    @property
    def x(self) -> Any:
        """The sum, (size,) float32 or float64."""
        ...

    def top(self, selector: Selector) -> Array | None:
        """Return the selector's indices, (k,) ascending, on the host; None for all."""
        ...

    def select(self, indices: Array | None) -> SelectedValues:
        """Select the elements at (k,) indices of the host, or all."""
        ...


def accumulate(
    rule: ErrorFeedback,
    gradient: Any,
    residual: Array | None,
    user: str,
    name: str,
    out: Array | None = None,
    selector: Selector | None = None,
) -> HostGradient:
    """Add a residual to a gradient on the host.

    Args:
        rule: computes the next residual.
        gradient: array of a carried float type, of any shape.
        residual: (size,) float32 or float64, or None.
        user: the algorithm that needs finite elements, for the message.
        name: the tensor's name, for the message.
        out: memory for the sum, from ``aligned``, in the type of the residual; None for new memory.
        selector: the selector that follows on this rank, or None. The result then allows one ``top`` of it,
            and one ``select`` of the same elements.

    Raises:
        EncodeError: if an element is not finite, or the residual has another size.
    """
    try:
        return HostGradient.finite_of(rule, dense(gradient).data, residual, user, out, selector)
    except EncodeError as error:
        raise error.of(name) from None


def take_outer_steps(
    rows: Array, dtype: np.dtype[Any], factors: tuple[float, float], nesterov: bool, done: Array
) -> None:
    """Take a step of SGD with momentum of many tensors of one type on the host, as ``kernels.cpu.outer``.

    Args:
        rows: (n, 5) i64, addresses, sizes and whether there is a momentum; the caller has checked them.
        dtype: float32 or float64.
        factors: momentum and rate.
        nesterov: whether to apply the momentum once more.
        done: (1,) i64, tensors that have taken the step; updated, so that another call continues.
    """
    from wirecodec.kernels.cpu import outer

    given = read_only(np.array(factors, dtype))
    outer.take_outer_steps(read_only(rows), np.empty(0, dtype), given, nesterov, done)


def top_of_group(totals: Sequence[AccumulatedGradient], selector: Selector) -> list[Array | None]:
    """Select from several sums of one type as from one vector.

    Args:
        totals: each on the host or on a GPU, in the order of their keys.
        selector: as for ``AccumulatedGradient.top``.

    Returns each sum's indices, (k,) ascending, on the host; None for all of its elements.
    """
    sizes = np.array([total.x.size for total in totals], np.int64)
    if all(on_gpu(total.x) for total in totals):
        from wirecodec.gpu.residual import top_of_group as top_on_gpu

        indices = top_on_gpu(totals, selector)
    else:
        sums = [copy_to_host(total.x) if on_gpu(total.x) else total.x for total in totals]
        indices = selector.select(read_only(np.concatenate(sums))).indices
    if indices is None:
        return [None] * len(totals)
    starts = np.cumsum(sizes) - sizes
    cuts = np.searchsorted(indices, np.append(starts, sizes.sum()).astype(indices.dtype))
    rows = zip(cuts, cuts[1:], starts, strict=False)
    return [indices[a:b] - indices.dtype.type(start) for a, b, start in rows]


def accumulate_on_gpu(
    rule: ErrorFeedback, gradient: Any, residual: Any, searches: dict[str, Any], name: str
) -> AccumulatedGradient | None:
    """Add a residual to a gradient on a GPU, or return None if the host has to compute this step.

    Args:
        rule: computes the next residual.
        gradient: array on a GPU.
        residual: (size,) on the host or on a GPU, or None.
        searches: the end of each tensor's last search for its top k; updated.
        name: the tensor's key in ``searches``.
    """
    from wirecodec.gpu import residual as gpu
    from wirecodec.gpu.select.warm_topk import LastTop

    return gpu.accumulate(rule, gradient, residual, searches.setdefault(name, LastTop()))


def make_sparse(indices: Any, values: Any, shape: tuple[int, ...]) -> SparseTensor:
    """Build a SparseTensor from parts that are valid, without checks and copies.

    Args:
        indices: (nnz,) ascending, unique, int32 or int64 as ``SparseTensor.indices``; None for all elements.
        values: (nnz,) on the device of the indices.
        shape: of the tensor; any number of elements may be made dense.
    """
    return SparseTensor._of(indices, values, shape, max(1, math.prod(shape)))


def encode_known(
    tensors: Mapping[str, Any], schemes: Mapping[str, Scheme], *, seed: int
) -> tuple[Bytes, Mapping[str, SparseTensor]]:
    """Encode tensors on the host without names, as ``encode_many``, and tell what receivers decode.

    Args:
        tensors: {name: array or SparseTensor}, in the order of their names' UTF-8 bytes.
        schemes: {name: scheme}, in the same order.
        seed: of codecs that draw random numbers.

    Returns the container, and {name: tensor as receivers decode it}.
    """
    from wirecodec.cpu.encode import encode_selection, select_many
    from wirecodec.cpu.sent import SentTensors

    model = select_many(tensors, schemes, seed=seed, names=False)
    encoded = encode_selection(model, seed=seed, names=False)
    return encoded.blob, SentTensors(model, encoded)


def find_members(members: Array, indices: Array) -> Array:
    """Return (k,) bool, which of (k,) ascending indices are among other ascending indices."""
    from wirecodec.kernels.cpu import union

    found = np.empty(indices.size, np.uint8)
    union.find_members(read_only(members), read_only(indices), found)
    return found.view(bool)


def is_zero(tensor: Any) -> bool:
    """Return whether all elements of an array, on the host or on a GPU, are +0 or -0."""
    if not on_gpu(tensor):
        return elements.is_zero(dense(tensor).data)
    from wirecodec.gpu import entry

    return entry.is_zero(tensor)


def find_zeros(tensors: Mapping[str, Any]) -> set[str]:
    """Return the names of the tensors whose elements are all +0 or -0; those on one GPU wait once."""
    listed = list(tensors.values())
    if len(listed) > 1 and all(map(on_gpu, listed)) and len({str(x.device) for x in listed}) == 1:
        from wirecodec.gpu import entry

        return {name for name, zero in zip(tensors, entry.are_zero(listed), strict=True) if zero}
    return {name for name, tensor in tensors.items() if is_zero(tensor)}


def find_nonfinite(tensor: Any) -> int:
    """Return the position of the first NaN or Inf of an array, on the host or on a GPU, or -1."""
    if not on_gpu(tensor):
        return elements.find_nonfinite(dense(tensor).data)
    from wirecodec.gpu import entry

    return entry.find_nonfinite(tensor)


def find_nonfinite_array(arrays: Sequence[Any]) -> int:
    """Return the number of the first array on the host that has NaN or Inf, or -1."""
    return find_array(arrays, elements.INFINITY_BITS)


def have_huge(arrays: Sequence[Any]) -> bool:
    """Return whether an array on the host has NaN, Inf, or a magnitude from 2^113 or 2^1009 on.

    The first bound is that of float32, the second one that of float64, which arrays must have.
    """
    return find_array(arrays, elements.HUGE_BITS) >= 0


def gpu_are_finite(bits: Sequence[Any], dtype: np.dtype[Any]) -> Array:
    """Return (n,) bool, which arrays of raw bits on a GPU, of one element type, have no NaN and no Inf."""
    from wirecodec.gpu import entry

    return entry.are_finite(bits, dtype)


def copy_to_host(array: Any) -> Array:
    """Return a copy of an array on a GPU."""
    from wirecodec.gpu import entry

    return entry.copy_to_host(array)


def gpu_context(number: int, *, follows_torch: bool) -> AbstractContextManager[Any]:
    """Return a context in which a GPU is CuPy's current one.

    CuPy's current stream is torch's there if it ``follows_torch``, and the program has set none in CuPy.
    """
    from wirecodec.kernels.cuda.device import device_numbered

    return device_numbered(number, follows_torch=follows_torch)


def gpu_zeros(sizes: Sequence[int], dtype: np.dtype[Any]) -> list[Any]:
    """Return (size,) zeros for each size, float32 or float64, on the current GPU."""
    from wirecodec.gpu import entry

    return entry.zeros(sizes, dtype)


def gpu_means(totals: Sequence[Any], divisor: float, dtype: np.dtype[Any]) -> list[Any]:
    """Return totals / divisor, rounded to a type, as raw bits on the GPU. May overwrite the totals."""
    from wirecodec.gpu import entry

    return entry.means(totals, divisor, dtype)


def gpu_copy(results: Sequence[Any], targets: Sequence[Any]) -> None:
    """Copy raw bits to contiguous arrays of the same sizes and widths on the current GPU."""
    from wirecodec.gpu import entry

    entry.copy_all(results, targets)


def gpu_count_nonzero(bits: Any) -> int:
    """Count the elements of (n,) raw bits on a GPU that are neither +0 nor -0."""
    from wirecodec.gpu import entry

    return entry.count_nonzero(bits)
