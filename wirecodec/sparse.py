"""SparseTensor: the present elements of a tensor, with their indices and the tensor's shape.

Decoding returns it, and encoding accepts it. Its arrays are on the container's device. A tensor with all its
elements makes its indices on first use.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any, TypeVar, overload

import numpy as np

from wirecodec.arrays import Array, bits_of, index_dtype, overlaps_itself, read_only
from wirecodec.element_types import DTYPES, holds, name_of
from wirecodec.errors import EncodeError, LimitExceeded, SchemaMismatch
from wirecodec.limits import DEFAULT_LIMITS
from wirecodec.tensors import as_elements, as_target, on_gpu

_Out = TypeVar("_Out")
_HOST = (np.ndarray, np.memmap)

ZERO, UNCHANGED = "zero", "unchanged"
"""Meanings of absent elements."""


def nonzero(data: Array) -> Array | None:
    """Find the elements of flat ``data`` whose bits are not all 0 (so -0.0 is found).

    Returns ascending indices, or None if all elements are found.
    """
    from wirecodec.kernels.cpu.index import bitmap

    if data.dtype.itemsize == 16:
        halves = data.view(np.uint64)
        words, ends = bitmap.find_nonzero(halves[::2] | halves[1::2])
    else:
        words, ends = bitmap.find_nonzero(bits_of(data))
    if data.size == 0 or ends[-1] == data.size:
        return None
    return bitmap.find_positions(words, ends, index_dtype(data.size))


def ascending_indices(indices: Any, size: int) -> Array:
    """Check indices, and return them in the type for ``size``.

    Raises EncodeError unless they are 1-d integers, ascending and unique, from 0 to below ``size``.
    """
    where = np.asarray(indices)
    if where.ndim != 1 or (where.dtype.kind not in "iu" and where.size):
        raise EncodeError(f"indices are {where.ndim}-d {where.dtype}; they must be 1-d integers")
    first, last = (int(where[0]), int(where[-1])) if where.size else (0, 0)
    if first > last:
        raise EncodeError(f"indices are not ascending: the first is {first}, and the last {last}")
    if where.size and (first < 0 or last >= size):
        raise EncodeError(f"indices are from {first} to {last}; the tensor has {size} elements")
    where = np.ascontiguousarray(where, dtype=where.dtype.newbyteorder("="))
    if where.size:
        from wirecodec.kernels.cpu import support

        if (at := support.find_disorder(where)) >= 0:
            raise EncodeError(f"indices are not ascending and unique: {where[at - 1]}, then {where[at]}")
    return where.astype(index_dtype(size), copy=False)


class SparseTensor:
    """Sparse tensor: the present elements, their indices and the shape; absent elements are +0.

    In a patch, absent elements are unchanged instead: ``to_dense(out=…)`` replaces the present elements of an
    array. A patch has no dense form of its own, and cannot be added.

    Args:
        indices: (nnz,) integers, the row-major element numbers, ascending and unique; copied.
        values: (nnz,) array of any element type that ``encode`` takes; not copied.
        shape: the dimensions; an integer stands for one dimension.
        absent: "zero", or "unchanged" for a patch.

    Raises:
        EncodeError: an argument is not valid.

    Examples:
        >>> import numpy as np, wirecodec as wc
        >>> wc.SparseTensor([1, 3], np.array([5, 7], "f4"), (2, 2)).to_dense()
        array([[0., 5.],
               [0., 7.]], dtype=float32)
        >>> patch = wc.SparseTensor([1, 3], np.array([5, 7], "f4"), 4, absent="unchanged")
        >>> patch.to_dense(out=np.ones(4, "f4"))
        array([1., 5., 1., 7.], dtype=float32)
    """

    __slots__ = ("_absent", "_indices", "_max_dense", "_shape", "_values")

    def __init__(
        self, indices: Any, values: Any, shape: tuple[int, ...] | int, *, absent: str = ZERO
    ) -> None:
        dims = tuple(map(operator.index, shape if isinstance(shape, tuple | list) else (shape,)))
        if any(n < 0 for n in dims):
            raise EncodeError(f"shape {dims} has a negative dimension")
        size = math.prod(dims)
        where, kept = ascending_indices(indices, size).copy(), as_elements(values).data
        if where.size != kept.size:
            raise EncodeError(f"{where.size} indices but {kept.size} values")
        self._fill(where, kept, dims, DEFAULT_LIMITS.max_dense)
        self._absent = as_meaning(absent)

    def _fill(self, indices: Array | None, values: Array, shape: tuple[int, ...], max_dense: int) -> None:
        # The arguments were checked: kernels rely on them.
        self._indices = indices if indices is None or on_gpu(indices) else read_only(indices)
        self._values = values
        self._shape = shape
        self._max_dense = max_dense
        self._absent = ZERO

    @classmethod
    def _of(
        cls,
        indices: Array | None,
        values: Array,
        shape: tuple[int, ...],
        max_dense: int = DEFAULT_LIMITS.max_dense,
    ) -> SparseTensor:
        """Build a tensor from checked parts; ``indices`` None means that all elements are present."""
        self = cls.__new__(cls)
        self._fill(indices, values, shape, max_dense)
        return self

    def _with_absent(self, absent: str) -> SparseTensor:
        """Return the same elements with another meaning of the absent ones."""
        other = SparseTensor._of(self._indices, self._values, self._shape, self._max_dense)
        other._absent = absent
        return other

    @classmethod
    def from_dense(cls, x: Any) -> SparseTensor:
        """Take the elements of an array whose bits are not all 0, so -0.0 is one of them."""
        flat = as_elements(x)
        where = nonzero(flat.data)
        return cls._of(where, flat.data if where is None else flat.data[where], flat.shape)

    @property
    def indices(self) -> Array:
        """(nnz,) ascending element numbers, int32 if size <= 2^31, else int64; read-only."""
        if self._indices is None:
            every = self._module.arange(self.size, dtype=index_dtype(self.size))
            self._indices = every if on_gpu(every) else read_only(every)
        return self._indices

    @property
    def _module(self) -> Any:
        """NumPy, or CuPy if the arrays are on a GPU."""
        if not on_gpu(self._values):
            return np
        import cupy

        return cupy

    @property
    def values(self) -> Array:
        """(nnz,) present elements."""
        return self._values

    @property
    def shape(self) -> tuple[int, ...]:
        """The dimensions."""
        return self._shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The element type."""
        return self._values.dtype

    @property
    def absent(self) -> str:
        """Meaning of absent elements: "zero", or "unchanged" for a patch."""
        return self._absent

    @property
    def size(self) -> int:
        """Number of elements, present or not."""
        return math.prod(self._shape)

    @property
    def nnz(self) -> int:
        """Number of present elements, which may include zeros."""
        return int(self._values.size)

    @property
    def is_full(self) -> bool:
        """True if every element is present."""
        return self.nnz == self.size

    @overload
    def to_dense(self, out: None = None) -> Array: ...

    @overload
    def to_dense(self, out: _Out) -> _Out: ...

    def to_dense(self, out: Any = None) -> Any:
        """Expand to a dense array.

        Args:
            out: writable array of the tensor's shape, on its device: a NumPy array, a dense torch tensor on
                the CPU, or a CuPy array. All its elements are set; those that a patch does not have are
                unchanged. Values are rounded to its dtype, any float. Integers, bool and complex need a
                dtype that holds all their values. None for a new array of the tensor's dtype.

        Returns:
            ``out``, or the new array on the tensor's device.

        Raises:
            LimitExceeded: a new array would exceed the ``max_dense`` under which the tensor was decoded.
            SchemaMismatch: the tensor is a patch, and ``out`` is None.
            ValueError: ``out`` is not such an array; it is then unchanged.
        """
        if out is None:
            refuse_patch(self, "to_dense(out=…) applies it to an array")
            if self.size > self._max_dense:
                raise LimitExceeded("max-dense", f"{self.size} elements; the limit is {self._max_dense}")
            dense: Array = self._module.zeros(self._shape, self.dtype)
        else:
            dense = self._view_target(out)
        values = _apart(self._values, dense)
        with np.errstate(all="ignore"):  # rounding to a narrower type follows IEEE 754
            if self.is_full:
                dense[...] = values.reshape(self._shape)
                return dense if out is None else out
            indices = _apart(self.indices, dense)
            if out is not None and self._absent == ZERO:
                dense[...] = self._module.zeros((), self.dtype)  # zero bits, which may be no zero
            if dense.flags.c_contiguous:
                dense.reshape(-1)[indices] = values
            else:
                dense.flat[indices] = values
        return dense if out is None else out

    def _view_target(self, out: Any) -> Array:
        """Return an array of the memory of ``out``; raise ValueError if ``to_dense`` does not take it."""
        target = as_target(out)
        self._require_array(target)
        if target.shape != self._shape:
            raise ValueError(f"out has shape {target.shape}; the tensor has {self._shape}")
        if not holds(target.dtype, self.dtype):
            raise ValueError(
                f"out is {target.dtype}, which does not hold all values of {name_of(self.dtype)}"
            )
        if type(target) in _HOST and not target.flags.writeable:
            raise ValueError("out is read-only; pass a copy")
        if type(target) in _HOST and overlaps_itself(target):
            raise ValueError(f"elements of out share memory: its strides are {target.strides}; pass a copy")
        return target  # type: ignore[no-any-return]

    def _require_array(self, target: Any) -> None:
        """Raise ValueError unless a target is a plain array on the tensor's device."""
        if type(target) not in ((self._module.ndarray,) if on_gpu(self._values) else _HOST):
            raise ValueError(
                f"out is {type(target).__name__}; it must be a plain array or a dense torch tensor on the"
                " tensor's device"
            )

    def add_to(self, out: Any, *, scale: float = 1.0) -> None:
        """Add scale * values to a dense array, as ``decode_add`` does, with the same bits.

        Args:
            out: array of the tensor's size, float32 or float64, writable and C-contiguous: a NumPy array, a
                torch tensor on the CPU, or a CuPy array if the tensor is on a GPU.
            scale: the factor.

        Raises:
            ValueError: ``out`` is not such an array; it is then unchanged.
            SchemaMismatch: the tensor is a patch.

        Examples:
            >>> import numpy as np, wirecodec as wc
            >>> total = np.ones(4, np.float32)
            >>> wc.SparseTensor([1, 3], np.array([5, 7], "f4"), 4).add_to(total, scale=0.5)
            >>> total
            array([1. , 3.5, 1. , 4.5], dtype=float32)
        """
        refuse_patch(self, "it is not added")
        if self.dtype not in DTYPES:
            raise ValueError(f"the tensor is {name_of(self.dtype)}; only floats of 16 to 64 bits are added")
        target = as_target(out)
        self._require_array(target)
        if target.dtype not in (np.float32, np.float64):
            raise ValueError(f"out is {target.dtype}; sums are float32 or float64")
        if not (target.flags.c_contiguous and getattr(target.flags, "writeable", True)):
            raise ValueError("out is not writable and C-contiguous")
        if target.size != self.size:
            raise ValueError(f"out has {target.size} elements; the tensor has {self.size}")
        flat, factor = target.reshape(-1), target.dtype.type(scale)
        with np.errstate(all="ignore"):  # NaN, Inf and overflow follow IEEE 754
            values = _apart(self._values.astype(target.dtype, copy=False), target)
            if self.is_full:
                flat += factor * values
            elif on_gpu(self._values):
                flat[self.indices] += factor * values
            else:
                from wirecodec.kernels.cpu import support

                where = self.indices.view(f"u{self.indices.itemsize}")
                support.add_at(flat, read_only(where), read_only(values), factor)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """Return the dense tensor as a new array, for ``numpy.asarray``."""
        if copy is False:
            raise ValueError("copy is False; a SparseTensor has no dense array to share")
        if on_gpu(self._values):
            raise TypeError("the SparseTensor is on a GPU; to_dense().get() copies it to a NumPy array")
        return self.to_dense() if dtype is None else self.to_dense().astype(dtype, copy=False)

    def __reduce__(self) -> tuple[Any, ...]:
        if self._absent != ZERO:
            return _restore_patch, (self._indices, self._values, self._shape, self._max_dense)
        return SparseTensor._of, (self._indices, self._values, self._shape, self._max_dense)

    def __repr__(self) -> str:
        absent = "" if self._absent == ZERO else f", absent={self._absent!r}"
        return f"SparseTensor(shape={self._shape}, nnz={self.nnz}, dtype={name_of(self.dtype)}{absent})"


def _apart(x: Any, target: Any) -> Any:
    """Return a copy of an array on the host if it shares memory with one that is written; else itself."""
    return x.copy() if type(x) in _HOST and np.may_share_memory(x, target) else x


def _restore_patch(*parts: Any) -> SparseTensor:
    """Return a patch from its pickled parts."""
    return SparseTensor._of(*parts)._with_absent(UNCHANGED)


def as_meaning(absent: Any) -> str:
    """Return a meaning of absent elements; raise EncodeError if it is not one."""
    if absent not in (ZERO, UNCHANGED):
        raise EncodeError(f"absent is {absent!r}; it must be {ZERO!r} or {UNCHANGED!r}")
    meaning: str = absent
    return meaning


def refuse_patch(tensor: SparseTensor, advice: str, name: str | None = None) -> None:
    """Raise SchemaMismatch if the absent elements of a tensor are unchanged."""
    if tensor.absent != ZERO:
        raise patch_error(advice, name)


def patch_error(advice: str, name: str | None = None) -> SchemaMismatch:
    """Return the error for a patch where a tensor with zeros is expected."""
    what = "the tensor" if name is None else f"tensor {name!r}"
    return SchemaMismatch("patch", f"{what} is a patch, whose absent elements are unchanged; {advice}")


def sum_sparse(
    tensors: Sequence[SparseTensor], dtype: np.dtype[Any], factors: Sequence[float]
) -> tuple[Array | None, Array]:
    """Sum factor * tensor on the host, in their order from +0.

    An element is in the result if a tensor stores it, even if the sum is 0.

    Args:
        tensors: one or more, of one shape.
        dtype: type of the products and sums, float32 or float64.
        factors: one per tensor.

    Returns:
        (the union, ascending, in the type of the tensors' indices, or None for all elements; the sums).
    """
    from wirecodec.kernels.cpu import support, union

    for tensor in tensors:
        refuse_patch(tensor, "it is not added")
    size = tensors[0].size
    with np.errstate(all="ignore"):  # NaN, Inf and overflow follow IEEE 754
        values = [
            tensor.values.astype(dtype, copy=False) * dtype.type(factor)
            if factor != 1
            else tensor.values.astype(dtype, copy=False)
            for tensor, factor in zip(tensors, factors, strict=True)
        ]
        if any(tensor.is_full for tensor in tensors):
            total = np.zeros(size, dtype)
            for tensor, addend in zip(tensors, values, strict=True):
                if tensor.is_full:
                    total += addend
                else:
                    where = read_only(tensor.indices.view(f"u{tensor.indices.itemsize}"))
                    support.add_at(total, where, read_only(addend), dtype.type(1))
            return None, total
    indices = np.concatenate([tensor.indices for tensor in tensors])
    ends = np.cumsum([0, *(addend.size for addend in values)])
    room = min(int(ends[-1]), size)
    united, sums = np.empty(room, indices.dtype), np.empty(room, dtype)
    count = union.sum_union(read_only(indices), read_only(np.concatenate(values)), ends, size, united, sums)
    if count == size:
        return None, sums
    return united[:count].copy(), sums[:count].copy()
