"""Operations on the bits of tensors on the host."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from wirecodec.arrays import UNSIGNED, Array
from wirecodec.kernels.scale import Scale
from wirecodec.kernels.scratch import borrow
from wirecodec.patch import digest
from wirecodec.patch.bits import Bits
from wirecodec.tensors import as_elements, as_target, is_torch

MAX_JOINED = 2**23
"""Most bytes that a thread keeps for tensors that share an entry."""


@dataclass(frozen=True)
class HostForms:
    """Operations of the host; ``wirecodec.patch.bits.Forms`` describes them."""

    def settle(self) -> None:
        """Do nothing: the caller's work is done."""

    def read(self, tensor: Any) -> Bits:
        """Read a tensor of any device; its memory is shared if it is on the host and contiguous."""
        flat = as_elements(tensor if type(tensor) is np.ndarray else _to_host(tensor))
        return of_array(flat.data, flat.shape)

    def view(self, tensor: Any, dtype: np.dtype[Any]) -> Array | None:
        """View a contiguous tensor on the host."""
        x = as_target(tensor)
        if type(x) is not np.ndarray or not (x.flags.c_contiguous and x.flags.writeable and x.flags.aligned):
            return None
        if x.dtype != dtype or x.dtype.kind == "c":
            return None
        bits: Array = x.reshape(-1).view(UNSIGNED[x.dtype.itemsize])
        return bits

    def copy_to_host(self, bits: Array) -> Array:
        """Return the elements."""
        return bits

    @contextmanager
    def join(self, parts: Sequence[Array]) -> Iterator[Array]:
        """Lend elements as one array."""
        if len(parts) == 1:
            yield parts[0]
        elif (nbytes := sum(part.nbytes for part in parts)) > MAX_JOINED:
            yield np.concatenate(parts)
        else:
            size, dtype = nbytes // parts[0].itemsize, parts[0].dtype
            with borrow("elements of a patch's tensors", (size,), dtype) as out:
                yield np.concatenate(parts, out=out)

    def sum_elements(self, bits: Array) -> int:
        """Add up the mixed words."""
        return digest.sum_elements(bits)

    def sum_change(self, bits: Array, indices: Array, values: Array) -> int:
        """Return by how much the sum changes."""
        return digest.sum_change(bits, indices, values)

    def find_changes(self, old: Array, new: Array, *, digests: bool) -> tuple[Array, tuple[int, int]]:
        """Find the elements that differ, in one reading of both arrays."""
        from wirecodec.kernels.cpu.patch import digest as kernels

        (a, last_a), (b, last_b) = (digest.split_words(x.view(np.uint8)) for x in (old, new))
        if not digests:
            a, b, last_a, last_b = (x[:0] for x in (a, b, last_a, last_b))
        parts, state, at = [], np.zeros(3, np.uint64), 0
        with borrow("positions of changes", (2**16,), np.uint32) as found:
            while at < old.size:
                state[0] = 0
                at = int(kernels.find_changes(old, new, a, b, at, found, state))
                parts.append(found[: int(state[0])].copy())
        before = digest.add_last(int(state[1]), a, last_a)
        after = digest.add_last(int(state[1]) + int(state[2]) & digest.MASK, b, last_b)
        indices = parts[0] if len(parts) == 1 else np.concatenate([np.empty(0, np.uint32), *parts])
        return indices, (before, after)

    def take(self, bits: Array, indices: Array) -> Array:
        """Return some elements."""
        return digest.take(bits, indices)

    def scatter(self, bits: Array, indices: Array, values: Array) -> None:
        """Replace some elements."""
        from wirecodec.kernels.cpu.patch import digest as kernels

        kernels.scatter(bits, indices, values)

    def count_rows(self, bits: Array, shift: int, step: int, rows: int) -> Array:
        """Count the rows of elements."""
        from wirecodec.kernels.cpu.patch import positions as kernels

        counts = np.zeros(rows, np.int64)
        kernels.count_classes(bits, shift, step, counts)
        return counts

    def measure_gaps(self, bits: Array, scale: Scale, indices: Array) -> tuple[Array, Array]:
        """Measure the weights between changes."""
        from wirecodec.kernels.cpu.patch import positions as kernels

        gaps, own = np.empty((2, indices.size), np.uint64)
        kernels.measure_gaps(bits, scale.shift, scale.first, scale.table, scale.starts, indices, gaps, own)
        return gaps, own

    def read_positions(
        self, bits: Array, scale: Scale, cuts: Array, tables: tuple[Array, Array], words: Array
    ) -> Array | None:
        """Decode positions."""
        from wirecodec.kernels.cpu.patch import positions as kernels

        indices = np.empty(int(cuts[-1]), np.uint32)
        weights = scale.shift, scale.first, scale.table, scale.starts
        return None if kernels.read_positions(bits, *weights, cuts, *tables, words, indices) else indices


HOST = HostForms()


def of_array(array: Array, shape: tuple[int, ...]) -> Bits:
    """View a flat array as bits."""
    width = array.dtype.itemsize // 2 if array.dtype.kind == "c" else array.dtype.itemsize
    bits = array.view(UNSIGNED[width])
    if bits.__array_interface__["data"][0] % 8:
        bits = bits.copy()
    return Bits(bits, array.dtype, shape, HOST)


def _to_host(tensor: Any) -> Any:
    """Copy a tensor that is on another device to the host."""
    if is_torch(tensor) and tensor.device.type not in ("cpu", "meta"):
        return tensor.detach().cpu()
    if hasattr(tensor, "__cuda_array_interface__") and hasattr(tensor, "get"):
        return tensor.get()
    return tensor
