"""Sparse tensors of other frameworks as SparseTensors: torch, scipy.sparse and jax.experimental.sparse.BCOO.

No framework is imported: an object of one can only exist if the program has imported it. Stored zeros remain
stored. Values at equal coordinates are added, in the order in which they are stored. Frameworks do not check
all indices, and their own conversions rely on them. So indices are checked first (``_check_positions``).
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from wirecodec.arrays import Array
from wirecodec.errors import EncodeError
from wirecodec.sparse import SparseTensor
from wirecodec.tensors import as_elements, read_array


def local_shard(tensor: Any) -> Any:
    """Return this rank's part of a DTensor of torch, which shares its memory; any other object as it is.

    Raises EncodeError for a DTensor with a Partial placement, whose sum over its mesh is still to be made.
    """
    if type(tensor) is np.ndarray or not hasattr(tensor, "to_local"):
        return tensor
    if any(placement.is_partial() for placement in tensor.placements):
        raise EncodeError(
            f"the DTensor has placements {tensor.placements}, so its values are not added up yet; call"
            " redistribute() with Replicate() or Shard() in place of Partial() first"
        )
    return tensor.to_local()


def local_shards(tensors: Any) -> Any:
    """Return an array, or {name: array}, with this rank's part in place of each DTensor."""
    if isinstance(tensors, Mapping):
        if not [name for name, tensor in tensors.items() if hasattr(tensor, "to_local")]:
            return tensors
        return {name: local_shard(tensor) for name, tensor in tensors.items()}
    return local_shard(tensors)


def as_sparse(tensor: Any) -> Any:
    """Convert a sparse tensor of a framework to a SparseTensor; return any other object as it is.

    Raises EncodeError for a sparse tensor on a GPU, in a layout that is not supported, or with an index
    outside of a dimension.
    """
    if type(tensor) is np.ndarray or isinstance(tensor, SparseTensor):
        return tensor
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(tensor, torch.Tensor):
        return tensor if tensor.layout is torch.strided else _from_torch(tensor, torch)
    scipy = sys.modules.get("scipy.sparse")
    if scipy is not None and scipy.issparse(tensor):
        return _from_scipy(tensor)
    jax = sys.modules.get("jax.experimental.sparse")
    if jax is not None and isinstance(tensor, jax.JAXSparse):
        return _from_jax(tensor, jax)
    return tensor


def _from_torch(tensor: Any, torch: Any) -> SparseTensor:
    if tensor.device.type != "cpu":
        raise EncodeError(
            f"sparse torch tensor is on {tensor.device}; copy it to the host first: tensor.cpu()"
        )
    tensor, shape = tensor.detach(), tuple(tensor.shape)
    if tensor.layout is not torch.sparse_coo:
        try:
            by_rows = tensor.layout in (torch.sparse_csr, torch.sparse_bsr)
            pointers = tensor.crow_indices() if by_rows else tensor.ccol_indices()
            indices = tensor.col_indices() if by_rows else tensor.row_indices()
            values, batches = tensor.values(), indices.ndim - 1
            is_block = tensor.layout in (torch.sparse_bsr, torch.sparse_bsc)
            block = tuple(values.shape[batches + 1 : batches + 3]) if is_block else (1, 1)
            _check_compressed(pointers.numpy(), indices.numpy(), shape, block, batches, by_rows=by_rows)
            tensor = tensor.to_sparse_coo()
        except (AttributeError, NotImplementedError, RuntimeError):
            raise EncodeError(
                f"torch tensor has layout {tensor.layout}; pass tensor.to_dense() or tensor.to_sparse_coo()"
            ) from None
    _check_positions(tensor._indices().numpy(), shape)  # coalesce() merges by their row-major numbers
    try:
        coo = tensor.coalesce()
    except NotImplementedError:  # of a type that torch does not add, such as float8
        raise EncodeError(
            f"torch cannot add the values of a sparse tensor of {tensor.dtype}; pass tensor.to_dense()"
        ) from None
    values = coo.values()
    flat = as_elements(values).data.reshape(tuple(values.shape))
    return _from_coordinates(coo.indices().numpy(), flat, shape)


def _from_scipy(tensor: Any) -> SparseTensor:
    if tensor.format in ("csr", "csc", "bsr"):
        block, by_rows = getattr(tensor, "blocksize", (1, 1)), tensor.format != "csc"
        _check_compressed(tensor.indptr, tensor.indices, tensor.shape, block, by_rows=by_rows)
    try:
        coo = tensor.tocoo()
    except (ValueError, IndexError) as error:  # scipy has checked the other formats
        raise EncodeError(f"the {tensor.format} matrix of scipy is not valid: {error}") from None
    coordinates = coo.coords if hasattr(coo, "coords") else (coo.row, coo.col)
    return _from_coordinates(coordinates, coo.data, coo.shape)


def _from_jax(tensor: Any, jax: Any) -> SparseTensor:
    if not isinstance(tensor, jax.BCOO) or tensor.n_batch:
        raise EncodeError(
            f"{type(tensor).__name__} is not a BCOO without batch dimensions; pass BCOO.fromdense(x), or"
            " bcoo_update_layout(x, n_batch=0), or BCSR.to_bcoo()"
        )
    indices, values = read_array(tensor.indices), read_array(tensor.data)
    present = np.ones(len(indices), bool)
    for positions, extent in zip(indices.T, tensor.shape, strict=False):
        present &= positions < extent  # JAX pads with indices beyond the shape
    return _from_coordinates(indices[present].T, values[present], tensor.shape)


def _check_compressed(
    pointers: Array,
    indices: Array,
    shape: tuple[int, ...],
    block: tuple[int, ...],
    batches: int = 0,
    *,
    by_rows: bool,
) -> None:
    """Raise EncodeError for the pointers or indices of compressed rows or columns, which conversions rely on.

    Args:
        pointers: (…, n + 1) the places of the n rows or columns in ``indices``.
        indices: (…, nnz) columns or rows, in blocks.
        shape: of the tensor.
        block: elements of a block along both dimensions.
        batches: number of leading dimensions of the tensor that all arrays have.
        by_rows: whether rows are compressed, not columns.
    """
    extents = [extent // width for extent, width in zip(shape[batches:], block, strict=False)]
    outer, inner = (0, 1) if by_rows and len(extents) > 1 else (1, 0)
    lines = extents[outer] if len(extents) > 1 else 1  # scipy has compressed vectors
    count = indices.shape[-1]
    if pointers.shape[-1] != lines + 1:
        raise EncodeError(
            f"dimension {batches + outer} has {pointers.shape[-1]} pointers; {lines} rows or columns have"
            f" {lines + 1}"
        )
    if (pointers[..., 0] != 0).any() or (pointers[..., -1] != count).any():
        raise EncodeError(
            f"the pointers of dimension {batches + outer} are from {pointers.min()} to {pointers.max()};"
            f" they must be from 0 to the number of stored elements, {count}"
        )
    if (pointers[..., 1:] < pointers[..., :-1]).any():
        raise EncodeError(f"the pointers of dimension {batches + outer} must not descend")
    _check_dimension(indices.reshape(-1), batches + inner, extents[inner], block != (1, 1))


def _check_positions(coordinates: Any, shape: tuple[int, ...]) -> None:
    """Raise EncodeError for the first coordinate outside of its dimension; arguments as _from_coordinates."""
    if math.prod(shape) > np.iinfo(np.int64).max:
        raise EncodeError(f"shape {tuple(shape)} has more elements than an int64 can number")
    for dimension, (positions, extent) in enumerate(zip(coordinates, shape, strict=False)):
        _check_dimension(np.asarray(positions), dimension, extent)


def _check_dimension(positions: Array, dimension: int, extent: int, is_block: bool = False) -> None:
    """Raise EncodeError unless all (n,) positions of elements, or of blocks, are within an extent."""
    if positions.size == 0 or 0 <= int(positions.min()) <= int(positions.max()) < extent:
        return
    at = int(np.argmax((positions < 0) | (positions >= extent)))
    what, unit = ("block", " blocks") if is_block else ("element", "")
    raise EncodeError(
        f"stored {what} {at} has index {positions[at]} in dimension {dimension}, whose extent is"
        f" {extent}{unit}; remove it, or make the tensor larger"
    )


def _from_coordinates(coordinates: Any, values: Array, shape: tuple[int, ...]) -> SparseTensor:
    """Build a SparseTensor.

    Args:
        coordinates: one (n,) integer array per leading dimension.
        values: (n, …) in an element type; its other dimensions are the tensor's trailing ones.
        shape: of the tensor.

    Raises EncodeError for a coordinate outside of its dimension.
    """
    _check_positions(coordinates, shape)
    leading = shape[: len(coordinates)]
    count, inner = len(values), math.prod(shape[len(coordinates) :])
    keys = np.zeros(count, np.int64)
    for positions, extent in zip(coordinates, leading, strict=True):
        keys = keys * extent + np.asarray(positions, np.int64)
    rows = np.ascontiguousarray(values).reshape(count, inner)
    if count > 1 and not (keys[1:] > keys[:-1]).all():
        keys, row_of = np.unique(keys, return_inverse=True)
        added = np.zeros((keys.size, inner), rows.dtype)
        np.add.at(added, row_of.reshape(-1), rows)
        rows = added
    indices = keys if inner == 1 else (keys[:, None] * inner + np.arange(inner)).reshape(-1)
    return SparseTensor(indices, rows.reshape(-1), shape)
