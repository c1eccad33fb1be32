"""Descriptions of tensors, limits of their containers, and failures of a rank that cannot contribute."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple, TypeAlias

import numpy as np

import wirecodec as wc
from collectives.agreement.agree import Failure
from collectives.agreement.header import Operand, Status
from collectives.channel import ByteArray
from collectives.errors import CollectiveError
from wirecodec.interop import CHUNK, DTYPES, SchemeLike, as_flat, dtype_named

Tensors: TypeAlias = Any  # an array, a SparseTensor, or {name: array or SparseTensor}
SchemeArgument: TypeAlias = "SchemeLike | Mapping[str, SchemeLike] | wc.Compressor"
TensorSpec: TypeAlias = tuple[tuple[int, ...], "np.dtype[Any]"]  # shape and element type

ONLY = "0"  # name of a tensor that was passed without one: the number of its key in the wire format


def error_of_container(rank: int, error: wc.WireError) -> CollectiveError:
    """Return the error for a rank's container that cannot be decoded.

    All ranks have the same bytes and expect the same tensors, so all of them raise it.
    """
    text = f"rank {rank}: its container cannot be decoded: {type(error).__name__} {error}"
    return CollectiveError(text, ranks=[rank], reason="decode")


def get_limits(specs: Mapping[str, TensorSpec], blobs: Sequence[ByteArray]) -> wc.DecodeLimits:
    """Return the limits for decoding containers of tensors with these shapes.

    They allow one entry per chunk, and that every element is stored. A transform has at most twice as many
    coefficients as elements. A transform of all tensors as one vector has entries beside its members.
    """
    sizes = measure(specs)
    return wc.DecodeLimits(
        max_bytes=max(map(len, blobs)),
        max_entries=sizes.entries,
        max_elements=sizes.coefficients,
        max_dense=sizes.coefficients,
    )


class Sizes(NamedTuple):
    """Sizes of tensors, and of their containers.

    Attributes:
        elements: {name: elements of the tensor}.
        nbytes: of all values.
        entries: most entries of a container.
        coefficients: most elements of a container.
        dtypes: the element types.
        are_wide: whether sums have the types of the tensors.
    """

    elements: Mapping[str, int]
    nbytes: int
    entries: int
    coefficients: int
    dtypes: frozenset[np.dtype[Any]]
    are_wide: bool


def measure(specs: Mapping[str, TensorSpec]) -> Sizes:
    """Return the sizes of tensors with these shapes and types."""
    return _measure(tuple(specs.items()))


@lru_cache(maxsize=64)
def _measure(specs: tuple[tuple[str, TensorSpec], ...]) -> Sizes:
    """Measure tensors, which are the same in every step of a training."""
    elements = {name: prod(shape) for name, (shape, _) in specs}
    most = [2 * size for size in elements.values()]
    nbytes = sum([elements[name] * dtype.itemsize for name, (_, dtype) in specs])
    entries = sum([max(1, -(-size // CHUNK)) for size in most]) + sum(most) // CHUNK
    dtypes = frozenset([dtype for _, (_, dtype) in specs])
    are_wide = min([dtype.itemsize for dtype in dtypes], default=4) >= 4
    return Sizes(elements, nbytes, entries, sum(most), dtypes, are_wide)


def describe(specs: Mapping[str, TensorSpec], *, bare: bool, scheme: str) -> Operand:
    """Describe tensors and a scheme, on which ranks must agree.

    Args:
        specs: {name: (shape, dtype)}.
        bare: whether the caller passed one tensor without a name.
        scheme: normalized, so that equal schemes have equal texts.
    """
    return _describe(tuple(specs.items()), bare).with_scheme(scheme)


@lru_cache(maxsize=64)
def _describe(specs: tuple[tuple[str, TensorSpec], ...], bare: bool) -> Operand:
    """Describe tensors, which are the same in every step of a training."""
    return Operand.of({name: (shape, dtype.name) for name, (shape, dtype) in specs}, bare=bare, scheme="")


def get_spec(tensor: Any) -> TensorSpec:
    """Return the shape and the element type of an array; raise EncodeError if it is not one."""
    shape, dtype = getattr(tensor, "shape", None), getattr(tensor, "dtype", None)
    if shape is None or dtype is None:
        flat = as_flat(tensor)
        return flat.shape, flat.data.dtype
    return tuple(int(n) for n in shape), dtype_named(dtype)


def get_specs(tensors: Mapping[str, Any]) -> dict[str, TensorSpec]:
    """Return the shapes and the element types of named arrays; raise EncodeError if one is not an array."""
    return {
        name: (x.shape, x.dtype) if type(x) is np.ndarray and x.dtype in DTYPES else get_spec(x)
        for name, x in tensors.items()
    }


def failure_of_encoding(error: Exception) -> Failure:
    """Return the Failure for an exception that this rank raised while it described or encoded tensors."""
    if isinstance(error, wc.EncodeError):
        return Failure(Status.ENCODE if error.position is None else Status.VALUE, error, error.position)
    if isinstance(error, TypeError | AttributeError):
        return Failure(Status.ARGUMENT, error)
    return Failure(Status.ENCODE, error)  # of any type, so that the others never wait for this rank


def failure_of_decoding(error: Exception, rank: int) -> Failure:
    """Return the Failure for an exception that this rank, ``rank``, raised while it decoded its own bytes."""
    if isinstance(error, wc.WireError):
        return Failure(Status.DECODE, error, rank)
    return failure_of_encoding(error)
