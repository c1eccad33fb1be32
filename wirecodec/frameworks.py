"""Sparse tensors of other frameworks as SparseTensors: torch, scipy.sparse and jax.experimental.sparse.BCOO.

No framework is imported: an object of one can only exist if the program has imported it. Stored zeros remain
stored. Values at equal coordinates are added, in the order in which they are stored.
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
from wirecodec.tensors import as_elements


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
        if not any(hasattr(tensor, "to_local") for tensor in tensors.values()):
            return tensors
        return {name: local_shard(tensor) for name, tensor in tensors.items()}
    return local_shard(tensors)


def as_sparse(tensor: Any) -> Any:
    """Convert a sparse tensor of a framework to a SparseTensor; return any other object as it is.

    Raises EncodeError for a sparse tensor on a GPU or in a layout that is not supported.
    """
    if type(tensor) is np.ndarray or isinstance(tensor, SparseTensor):
        return tensor
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(tensor, torch.Tensor):
        return tensor if tensor.layout is torch.strided else _from_torch(tensor, torch)
    scipy = sys.modules.get("scipy.sparse")
    if scipy is not None and scipy.issparse(tensor):
        coo = tensor.tocoo()
        coordinates = coo.coords if hasattr(coo, "coords") else (coo.row, coo.col)
        return _from_coordinates(coordinates, coo.data, coo.shape)
    jax = sys.modules.get("jax.experimental.sparse")
    if jax is not None and isinstance(tensor, jax.JAXSparse):
        return _from_jax(tensor, jax)
    return tensor


def _from_torch(tensor: Any, torch: Any) -> SparseTensor:
    if tensor.device.type != "cpu":
        raise EncodeError(
            f"sparse torch tensor is on {tensor.device}; copy it to the host first: tensor.cpu()"
        )
    if tensor.layout is not torch.sparse_coo:
        try:
            tensor = tensor.to_sparse_coo()
        except (AttributeError, NotImplementedError, RuntimeError):
            raise EncodeError(
                f"torch tensor has layout {tensor.layout}; pass tensor.to_dense() or tensor.to_sparse_coo()"
            ) from None
    coo = tensor.detach().coalesce()
    values = coo.values()
    flat = as_elements(values).data.reshape(tuple(values.shape))
    return _from_coordinates(coo.indices().numpy(), flat, tuple(tensor.shape))


def _from_jax(tensor: Any, jax: Any) -> SparseTensor:
    if not isinstance(tensor, jax.BCOO) or tensor.n_batch:
        raise EncodeError(
            f"{type(tensor).__name__} is not a BCOO without batch dimensions; pass BCOO.fromdense(x), or"
            " bcoo_update_layout(x, n_batch=0)"
        )
    indices = np.asarray(tensor.indices)
    bounds = np.array(tensor.shape[: indices.shape[1]], indices.dtype)
    present = (indices < bounds).all(axis=1)  # coordinates beyond the shape are padding
    return _from_coordinates(indices[present].T, np.asarray(tensor.data)[present], tensor.shape)


def _from_coordinates(coordinates: Any, values: Array, shape: tuple[int, ...]) -> SparseTensor:
    """Build a SparseTensor.

    Args:
        coordinates: one (n,) integer array per leading dimension.
        values: (n, …) in an element type; its other dimensions are the tensor's trailing ones.
        shape: of the tensor.
    """
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
