"""Addresses, sizes and types of many arrays as columns, by one kernel call; attributes take 2 µs per array.

The kernel reads the arrays' headers, whose layout is a part of NumPy's ABI. It is compared with the public
attributes of some arrays first. If they differ, the attributes are used.
"""

from __future__ import annotations

import contextlib
import pickle
import sys
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from wirecodec.arrays import Array
from wirecodec.cpu.columns import ArrayColumns
from wirecodec.element_types import DTYPES
from wirecodec.errors import EncodeError
from wirecodec.frameworks import as_sparse
from wirecodec.sparse import SparseTensor
from wirecodec.tensors import as_flat


def describe(objects: Sequence[Any]) -> ArrayColumns:
    """Describe objects, most of which are arrays."""
    return _read_headers(objects) if _is_layout_known() else ArrayColumns.of_attributes(objects)


def describe_tensors(tensors: Sequence[Any]) -> tuple[list[Any], list[Any], ArrayColumns]:
    """Convert tensors to arrays that kernels can read.

    Returns:
        The arrays, which the caller keeps alive; the tensors' shapes; and the columns that describe the
        arrays. A tensor that cannot be converted stays as it is, and ``cpu.select.dense`` raises its error.
    """
    columns = describe(tensors)
    if columns.kinds.size == 0 or columns.kinds.min() >= 0:
        return list(tensors), [x.shape for x in tensors], columns
    arrays = list(tensors)
    shapes = [() if kind < 0 else x.shape for x, kind in zip(tensors, columns.kinds, strict=True)]
    for key in np.flatnonzero(columns.kinds < 0).tolist():
        if not isinstance(as_sparse(tensors[key]), SparseTensor):
            with contextlib.suppress(EncodeError):
                flat = as_flat(tensors[key])
                arrays[key], shapes[key] = flat.data, flat.shape
    return arrays, shapes, describe(arrays)


def _read_headers(objects: Sequence[Any]) -> ArrayColumns:
    """Describe objects by the headers of arrays."""
    from wirecodec.kernels.cpu import array_headers

    n = len(objects)
    columns = ArrayColumns(
        np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.bool_)
    )
    array_headers.read(
        np.fromiter(map(id, objects), np.int64, n),
        object.__basicsize__ // 8,
        id(np.ndarray),
        _type_addresses(),
        columns.addresses,
        columns.sizes,
        columns.kinds,
        columns.writeable,
    )
    return columns


@cache
def _type_addresses() -> Array:
    """Return the addresses of the element types."""
    return np.array([id(dtype) for dtype in DTYPES], np.int64)


@cache
def _is_layout_known() -> bool:
    """Compare headers with attributes, for arrays of different forms and objects of other types."""
    if sys.implementation.name != "cpython" or sys.maxsize < 2**32 or sys.byteorder != "little":
        return False
    kinds = [np.arange(24, dtype=np.float32).astype(dtype) for dtype in (*DTYPES, np.dtype(np.int32))]
    forms = [x.reshape(2, 3, 4) for x in kinds] + [x[5:] for x in kinds] + [x[::2] for x in kinds]
    forms += [np.zeros((0, 7), np.float64), np.ones((), np.float32), np.ones((4, 5), np.float32).T]
    forms += [pickle.loads(pickle.dumps(x)) for x in kinds]
    forms[0].flags.writeable = False
    samples = [*forms, object(), [1.0], np.ma.ones(3)]
    headers, attributes = _read_headers(samples), ArrayColumns.of_attributes(samples)
    return all(
        np.array_equal(x, y) for x, y in zip(vars(headers).values(), vars(attributes).values(), strict=True)
    )
