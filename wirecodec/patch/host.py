"""Operations on the bits of tensors on the host."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from wirecodec.arrays import UNSIGNED, Array, addresses_of, read_only
from wirecodec.kernels.scale import Scale
from wirecodec.kernels.scratch import borrow
from wirecodec.patch import digest
from wirecodec.patch.bits import Bits, Changes, Elements, join_changes
from wirecodec.tensors import as_elements, as_target, is_torch

MAX_JOINED = 2**23
"""Most bytes that a thread keeps for tensors that share an entry."""
_AT_ONCE = 2**16
"""Changes that are found by one call of a kernel."""


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
        with _borrow_joined(parts) as out:
            yield read_only(out if len(parts) == 1 else np.concatenate(parts, out=out))

    @contextmanager
    def join_summed(self, parts: Sequence[Array]) -> Iterator[tuple[Array, Array]]:
        """Lend elements as one array, and their sums, in one reading."""
        with _borrow_joined(parts) as out:
            sums = digest.sum_and_join(parts, out)
            yield read_only(out), sums

    def sum_elements(self, bits: Array) -> int:
        """Add up the mixed words."""
        return digest.sum_elements(bits)

    def sum_arrays(self, parts: Sequence[Array]) -> Array:
        """Add up the mixed words of each."""
        return digest.sum_arrays(parts)

    def add_changes(self, sums: Array, joined: Array, starts: Array, cuts: Array, changes: Elements) -> None:
        """Add changes of the sums."""
        digest.add_changes(sums, joined, starts, cuts, *changes)

    def take_touched(
        self, parts: Sequence[Array], starts: Array, cuts: Array, indices: Array
    ) -> tuple[Array, Array]:
        """Return some elements, and their sums."""
        return digest.take_touched(parts, starts, cuts, indices)

    def find_changes(
        self, olds: Sequence[Array], news: Sequence[Array], *, digests: bool
    ) -> tuple[Changes, Array, Array]:
        """Find the elements that differ, in one reading of the arrays."""
        from wirecodec.kernels.cpu.patch import digest as kernels

        kind, n = olds[0].dtype, len(olds)
        addresses, sizes = (
            np.stack([addresses_of(olds), addresses_of(news)]),
            np.array([x.size for x in olds]),
        )
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

    def scatter(self, bits: Array, indices: Array, values: Array) -> None:
        """Replace some elements."""
        self.exchange([bits], [indices], [values], np.empty_like(values))

    def exchange(
        self, parts: Sequence[Array], indices: Sequence[Array], values: Sequence[Array], olds: Array
    ) -> None:
        """Replace some elements of each array, by one call of a kernel."""
        from wirecodec.kernels.cpu.patch import digest as kernels

        places = [np.require(x, np.uint32, ["C", "A"]) for x in indices]
        news = [np.require(x, olds.dtype, ["C", "A"]) for x in values]
        addresses = np.stack([addresses_of(each) for each in (parts, places, news)])
        counts, sizes = (np.array([x.size for x in each], np.int64) for each in (indices, parts))
        cuts = np.append(0, np.cumsum(counts))
        kernels.exchange(addresses, sizes, cuts, np.empty(0, np.uint32), olds)

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


def of_array(array: Array, shape: tuple[int, ...]) -> Bits:
    """View a flat array as bits."""
    width = array.dtype.itemsize // 2 if array.dtype.kind == "c" else array.dtype.itemsize
    bits = array.view(UNSIGNED[width])
    words = bits[: bits.size & -(8 // width)].view(np.uint64)  # the flag is cheaper to read than the address
    if not (words.size and words.flags.aligned) and bits.__array_interface__["data"][0] % 8:
        bits = bits.copy()
    return Bits(bits, array.dtype, shape, HOST)


def _to_host(tensor: Any) -> Any:
    """Copy a tensor that is on another device to the host."""
    if is_torch(tensor) and tensor.device.type not in ("cpu", "meta"):
        return tensor.detach().cpu()
    if hasattr(tensor, "__cuda_array_interface__") and hasattr(tensor, "get"):
        return tensor.get()
    return tensor
