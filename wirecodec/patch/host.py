"""Operations on the bits of tensors on the host."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from wirecodec.arrays import UNSIGNED, Array, read_only
from wirecodec.kernels.scale import Scale
from wirecodec.kernels.scratch import borrow
from wirecodec.patch import digest
from wirecodec.patch.bits import Bits, Changes, Elements, join_changes
from wirecodec.tensors import as_elements, as_target, is_torch

MAX_JOINED = 2**23
"""Most bytes that a thread keeps for tensors that share an entry."""
_AT_ONCE = 2**16
"""Changes that are found by one call of a kernel."""


@dataclass(frozen=True, eq=False)
class HostForms:
    """Operations of the host; ``wirecodec.patch.bits.Forms`` describes them."""

    def settle(self) -> None:
        """Do nothing: the caller's work is done."""

    def read(self, tensor: Any) -> Bits:
        """Read a tensor of any device; its memory is shared if it is on the host and contiguous."""
        x = as_target(tensor)
        is_array = type(x) is np.ndarray
        flat = as_elements(x if is_array else _to_host(x))
        is_own = is_array and x.flags.carray and x.dtype == flat.data.dtype and x.dtype.kind != "c"
        if is_own and x.dtype.kind == "b":  # bytes above 1 were converted
            is_own = np.shares_memory(x, flat.data)
        return of_array(flat.data, flat.shape, is_own=is_own)

    def view(self, tensor: Any, bits: Bits) -> Bits | None:
        """Return the bits of a tensor whose memory they are."""
        return bits if bits.is_own else None

    def copy_to_host(self, bits: Array) -> Array:
        """Return the elements."""
        return bits

    @contextmanager
    def join(self, parts: Sequence[Array]) -> Iterator[Array]:
        """Lend elements as one array."""
        with _borrow_joined(parts) as out:
            yield read_only(out if len(parts) == 1 else np.concatenate(parts, out=out))

    @contextmanager
    def join_summed(self, parts: Sequence[Bits]) -> Iterator[tuple[Array, Array]]:
        """Lend elements as one array, and their sums, in one reading."""
        with _borrow_joined([part.bits for part in parts]) as out:
            sums = digest.sum_and_join(parts, out)
            yield read_only(out), sums

    def sum_elements(self, bits: Array) -> int:
        """Add up the mixed words."""
        return digest.sum_elements(bits)

    def sum_arrays(self, parts: Sequence[Bits]) -> Array:
        """Add up the mixed words of each."""
        return digest.sum_arrays(parts)

    def add_changes(self, sums: Array, joined: Array, starts: Array, cuts: Array, changes: Elements) -> None:
        """Add changes of the sums."""
        digest.add_changes(sums, joined, starts, cuts, *changes)

    def take_touched(
        self, parts: Sequence[Bits], starts: Array, cuts: Array, indices: Array
    ) -> tuple[Array, Array]:
        """Return some elements, and their sums."""
        return digest.take_touched(parts, starts, cuts, indices)

    def find_changes(
        self, olds: Sequence[Bits], news: Sequence[Bits], *, digests: bool
    ) -> tuple[Changes, Array, Array]:
        """Find the elements that differ, in one reading of the tensors."""
        from wirecodec.kernels.cpu.patch import digest as kernels

        kind, n = olds[0].bits.dtype, len(olds)
        addresses = np.stack([digest.addresses_of_bits(olds), digest.addresses_of_bits(news)])
        sizes = np.array([x.bits.size for x in olds])
        place, counts, sums = np.zeros(2, np.int64), np.zeros(n, np.int64), np.zeros((2, n), np.uint64)
        parts, nothing = [], np.empty(0, np.uint8)
        with borrow("changes", (3, _AT_ONCE), np.uint64) as memory:
            found = memory[0].view(np.uint32)[:_AT_ONCE]
            before, after = (row.view(kind)[:_AT_ONCE] for row in memory[1:])
            while place[0] < n:
                r = kernels.find_changes(
                    addresses, sizes, int(digests), place, nothing, found, before, after, counts, sums
                )
                parts.append([x[:r].copy() for x in (found, before, after)])
        return join_changes(parts), np.append(0, np.cumsum(counts)), sums

    def take(self, bits: Array, indices: Array) -> Array:
        """Return some elements."""
        return digest.take(bits, indices)

    def exchange(
        self, parts: Sequence[Bits], indices: Sequence[Array], values: Sequence[Array], olds: Array
    ) -> None:
        """Replace some elements of each tensor, by one call of a kernel."""
        from wirecodec.kernels.cpu.patch import digest as kernels

        places, news = _join_as(indices, np.dtype(np.uint32)), _join_as(values, olds.dtype)
        sizes = np.array([x.bits.size for x in parts], np.int64)
        cuts = np.cumsum([0, *(x.size for x in indices)])
        kernels.exchange(digest.addresses_of_bits(parts), sizes, cuts, places, news, olds)

    def overwrite(self, bits: Bits, values: Array) -> None:
        """Replace all elements of a tensor whose memory can be written; nothing is allocated.

        Args:
            bits: of the tensor.
            values: (size,) unsigned, contiguous, of its width.
        """
        assert bits.address is not None
        assert bits.is_own
        assert bits.bits.nbytes == values.nbytes
        ctypes.memmove(bits.address, values.__array_interface__["data"][0], values.nbytes)

    def count_rows(self, bits: Array, shift: int, step: int, rows: int) -> Array:
        """Count the rows of elements."""
        from wirecodec.kernels.cpu.patch import positions as kernels

        counts = np.zeros(rows, np.int64)
        kernels.count_classes(read_only(bits), shift, step, counts)
        return counts

    def measure_gaps(self, bits: Array, scale: Scale, indices: Array) -> tuple[Array, Array]:
        """Measure the weights between changes."""
        from wirecodec.kernels.cpu.patch import positions as kernels

        gaps, own = np.empty((2, indices.size), np.uint64)
        kernels.measure_gaps(bits, scale.shift, scale.first, scale.table, scale.starts, indices, gaps, own)
        return gaps, own

    def read_positions(
        self, bits: Array, scale: Scale, cuts: Array, tables: tuple[Array, Array], words: Array
    ) -> Elements | None:
        """Decode positions, and read the elements there."""
        from wirecodec.kernels.cpu.patch import positions as kernels

        r = int(cuts[-1])
        found = np.empty(r, np.uint32), np.empty(r, bits.dtype)
        weights = scale.shift, scale.first, scale.table, scale.starts
        return None if kernels.read_positions(bits, *weights, cuts, *tables, words, *found) else found


HOST = HostForms()


@contextmanager
def _borrow_joined(parts: Sequence[Array]) -> Iterator[Array]:
    """Lend memory for the elements of some arrays of one type; a single array is lent itself."""
    size = sum(part.size for part in parts)
    if len(parts) == 1:
        yield parts[0]
    elif size * parts[0].itemsize > MAX_JOINED:
        yield np.empty(size, parts[0].dtype)
    else:
        with borrow("elements of a patch's tensors", (size,), parts[0].dtype) as out:
            yield out


def _join_as(arrays: Sequence[Array], dtype: np.dtype[Any]) -> Array:
    """Return the elements of arrays as a read-only one of a type; a single one is copied if it must be."""
    if len(arrays) == 1:
        return read_only(np.require(arrays[0], dtype, ["C", "A"]))
    return read_only(np.concatenate(arrays, dtype=dtype, casting="unsafe"))


def of_array(array: Array, shape: tuple[int, ...], *, is_own: bool = False) -> Bits:
    """View a flat array as bits; ``is_own`` if it is a tensor's memory that can be written."""
    dtype = array.dtype
    bits = array.view(UNSIGNED[dtype.itemsize // 2 if dtype.kind == "c" else dtype.itemsize])
    address = bits.__array_interface__["data"][0]
    if address % 8:
        bits, is_own = bits.copy(), False
        address = bits.__array_interface__["data"][0]
    return Bits(bits, dtype, shape, HOST, address, is_own)


def _to_host(tensor: Any) -> Any:
    """Copy a tensor that is on another device to the host."""
    if is_torch(tensor) and tensor.device.type not in ("cpu", "meta"):
        return tensor.detach().cpu()
    if hasattr(tensor, "__cuda_array_interface__") and hasattr(tensor, "get"):
        return tensor.get()
    return tensor
