"""``max_encoded_bytes``: an upper bound on a container's length, known before the values are.

Each stage bounds its own part:

- a selector's ``count_range(size)`` gives the minimum and maximum it selects (0 and size without it); one
  that spends a number of bytes has ``max_bytes(size)``, which bounds the container,
- an index codec's ``max_bytes(r, d)`` bounds its section for at most r indices below d,
- a lossy index codec's ``max_decoded(r, d)`` bounds how many indices readers find (d without it),
- a value codec's ``max_bytes(r, dtype)`` bounds its section for at most r values.

The container adds its prefix, table, extension block and padding.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from wirecodec.container import extension_writer as ext
from wirecodec.container.writer import CHUNK, PREFIX_BYTES, TABLE, padded
from wirecodec.element_types import RECORD_NUMBERS, element_dtype_named
from wirecodec.errors import EncodeError
from wirecodec.settings.scheme import Scheme, SchemeLike, as_scheme
from wirecodec.transform.base import coefficient_type
from wirecodec.value.sort_permutation import map_bytes

_GRID_STEPS = 64
"""Counts of a chunk are rounded up by at most 1/64 where several chunks share the selected elements."""
_PRICE_STEPS = 96
"""Steps of the search for the best price; each keeps two thirds of the interval."""


def max_encoded_bytes(shape: Sequence[int] | int, dtype: Any, scheme: SchemeLike = None) -> int:
    """Compute an upper bound on ``encode(x, scheme).nbytes`` for every dense ``x`` of a shape and dtype.

    Use it to allocate a send buffer once. The bound is exact for schemes whose sections have a fixed length,
    such as ``topk(k=…) | raw-index | qsgd``. Under ``all`` a SparseTensor may take more, because its indices
    are stored, too.

    Args:
        shape: the tensor's dimensions; an integer stands for one dimension.
        dtype: the element type, as NumPy, torch or a string names it.
        scheme: a Scheme, its string, or None for lossless.

    Returns:
        The bound in bytes, for one tensor without a name and without a tag.

    Raises:
        EncodeError: the shape, dtype or scheme is not valid, or a registered codec has no ``max_bytes``.

    Examples:
        >>> import numpy as np, wirecodec as wc
        >>> most = wc.max_encoded_bytes((1000,), "float32", "topk(0.01) | raw-index | raw")
        >>> most, wc.encode(np.random.randn(1000).astype("f4"), "topk(0.01) | raw-index | raw").nbytes
        (128, 128)
    """
    parsed, kind = as_scheme(scheme), element_dtype_named(dtype)
    parsed.require_dtype(kind)
    dims = tuple(map(operator.index, shape if isinstance(shape, Iterable) else (shape,)))
    if any(n < 0 for n in dims):
        raise EncodeError(f"shape is {dims}; its dimensions must be 0 or more")
    ext.check_shape(dims)
    size, transform = math.prod(dims), parsed.transform
    count, width, numbers, lengths = size, 1, kind, {}
    if transform is not None:
        count, width, numbers = transform.count(size), transform.width, coefficient_type(kind)
        lengths = {0: size}
    whole, rest = divmod(count, CHUNK // width)
    chunks = [(_Chunk(CHUNK // width, width, numbers, parsed), whole)]
    if rest:
        chunks.append((_Chunk(rest, width, numbers, parsed), 1))
    shapes = {} if len(dims) == 1 else {0: dims}
    types = {0: RECORD_NUMBERS[kind]} if kind in RECORD_NUMBERS else {}
    block = ext.write(ext.Extension(shapes=shapes, lengths=lengths, types=types))
    header_bytes = PREFIX_BYTES + TABLE.itemsize * max(whole + bool(rest), 1) + len(block)
    fewest, most = parsed.select.count_range(count)
    most = min(most, count)
    if fewest == count:
        return header_bytes + sum(n * chunk.full_bytes() for chunk, n in chunks)
    total = header_bytes + _max_total([(chunk, n) for chunk, n in chunks if n], most)
    limit = parsed.select.max_bytes(count)
    return total if limit is None else min(total, max(header_bytes, limit))


@dataclass(frozen=True)
class _Chunk:
    """A chunk of d elements, each ``width`` numbers of a dtype, under a scheme."""

    d: int
    width: int
    dtype: np.dtype[Any]
    scheme: Scheme

    def max_bytes(self, r: int) -> int:
        """Return the maximum bytes of the sections of at most r selected elements, padding included."""
        if r == 0:
            return 0
        index = self.scheme.index
        partial = 0
        if self.d > 1:
            listed = min(r, self.d - 1)
            partial = padded(int(index.max_bytes(listed, self.d)))
            partial += self._value_bytes(int(index.max_decoded(listed, self.d)))
        return max(partial, self.full_bytes()) if r == self.d else partial

    def full_bytes(self) -> int:
        """Return the maximum bytes of a chunk whose elements are all selected; it has no index section."""
        return self._value_bytes(self.d)

    def _value_bytes(self, r: int) -> int:
        value, count = self.scheme.value, r * self.width
        if count == 0:
            return 0
        order = padded(map_bytes(count)) if value.ordered else 0
        return order + padded(int(value.max_bytes(count, self.dtype)))


def _max_total(chunks: Sequence[tuple[_Chunk, int]], most: int) -> int:
    """Return the maximum bytes of all chunks if they share ``most`` elements; each comes with its number.

    The maximum is bounded by its Lagrangian dual. For every price p per element, the total is at most
    p · most + Σ max over r of (bytes(r) - p · r). The dual is convex in p: a ternary search finds the least.
    """
    separate = sum(n * chunk.max_bytes(min(most, chunk.d)) for chunk, n in chunks)
    if sum(n for _, n in chunks) <= 1:
        return separate
    steps = [(n, _steps(chunk, min(most, chunk.d))) for chunk, n in chunks]

    def dual(price: float) -> float:
        return price * most + sum(n * max(size - price * r for r, size in costs) for n, costs in steps)

    low, high = 0.0, 32.0
    for _ in range(_PRICE_STEPS):
        left, right = low + (high - low) / 3, high - (high - low) / 3
        low, high = (low, right) if dual(left) <= dual(right) else (left, high)
    return min(separate, math.floor(dual(high) * (1 + 2.0**-40)) + 1)


def _steps(chunk: _Chunk, most: int) -> list[tuple[int, int]]:
    """Return steps (r, bytes) of a chunk: at most ``bytes`` from r elements up to those of the next step."""
    steps = [(0, 0)]
    start = 1
    while start <= most:
        stop = min(start + start // _GRID_STEPS, most)
        steps.append((start, chunk.max_bytes(stop)))
        start = stop + 1
    return steps
