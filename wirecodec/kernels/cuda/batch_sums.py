"""Launch ``batch_sums.cu``: decode many entries, add them to arrays, divide and check many arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.cuda.device import Device
from wirecodec.kernels.cuda.select import infinity_of
from wirecodec.kernels.cuda.stages import SUFFIX, Stage, upload
from wirecodec.kernels.layout import PACK_BLOCK, RICE_BLOCK, RICE_SPAN

_CODED = np.dtype(
    [
        *((name, np.uint64) for name in ("words", "section", "indices", "values")),
        *((name, np.uint64) for name in ("parameters", "spans", "bad", "out")),
        *((name, np.uint32) for name in ("index_words", "d", "r", "n")),
    ]
)
_WORDS = np.dtype([("words", np.uint64), ("size", np.uint64)])
_SUM = np.dtype([("total", np.uint64), ("out", np.uint64), ("size", np.uint64)])
_CHECKED, _MAX_BLOCKS = 8192, 1024
"""Elements that a block reads, and the number of blocks per array above which each reads more."""


@dataclass(frozen=True, eq=False)
class Coded:
    """Entries of a container in a device's memory.

    Attributes:
        table: a row per entry, on the device.
        count: number of entries.
        stage: blocks of 512 values.
        kept: memory that the table refers to.
    """

    table: Any
    count: int
    stage: Stage
    kept: tuple[Any, ...]

    def add(self, device: Device, scale: float) -> None:
        """Compute out += scale * values, float32, for all entries."""
        bits, stage = np.array([scale], np.float32).view(np.uint32)[0], self.stage
        given = self.table, stage.starts, np.uint32(self.count), bits
        device.launch("batch_sums", "coded_add", stage.blocks, *given)


def decode(
    device: Device,
    container: Any,
    places: Array,
    sizes: Array,
    bits: Array,
    dtype: np.dtype[Any],
    targets: Array,
    bad: Any,
) -> Coded:
    """Decode entries of ``rice`` and of ``qsgd`` with buckets of 512, or ``raw``. The host does not wait.

    Args:
        device: where everything is.
        container: its bytes, u8 on the device.
        places: (3, n) i64, offsets of the index and the value section, and bytes of the index section, which
            is long enough for its directory.
        sizes: (2, n) i64, elements of each chunk, and those that are present, above 0.
        bits: (n,) of QSGD's codes; 0 for raw values.
        dtype: float32, float16 or bfloat16.
        targets: (n,) u64, addresses of the chunks' float32 targets.
        bad: (n,) u32, zeroed; not 0 where a check has failed.
    """
    d, r = sizes
    count = r.size
    partial = r < d
    blocks, spans = -(-r // RICE_BLOCK), -(-r // RICE_SPAN)
    cuts, block_cuts, span_cuts = (np.cumsum([0, *x]) for x in (r, blocks, spans + 1))
    indices, values = device.empty(int(cuts[-1]), np.uint32), device.empty(int(cuts[-1]), np.float32)
    parameters = device.empty(int(block_cuts[-1]), np.uint8)
    starts = device.empty(int(span_cuts[-1]), np.uint32)
    rows: Any = np.zeros(count, _CODED)
    start = device.address(container)
    rows["words"], rows["section"] = start + places[0], start + places[1]
    rows["indices"] = np.where(partial, device.address(indices) + 4 * cuts[:-1], 0)
    rows["values"] = device.address(values) + 4 * cuts[:-1]
    rows["parameters"] = device.address(parameters) + block_cuts[:-1]
    rows["spans"] = device.address(starts) + 4 * span_cuts[:-1]
    rows["bad"] = device.address(bad) + 4 * np.arange(count)
    rows["out"], rows["index_words"] = targets, places[2] // 4
    rows["d"], rows["r"], rows["n"] = d, r, bits
    table = device.put(rows.view(np.uint8))
    of_spans, of_values = upload(device, spans), upload(device, -(-r // PACK_BLOCK))
    n = np.uint32(count)
    if partial.any():
        device.launch("batch_sums", "coded_open", count, table)
        device.launch("batch_sums", "coded_read", of_spans.blocks, table, of_spans.starts, n)
    name = f"coded_values_{SUFFIX[dtype.name]}"
    device.launch("batch_sums", name, of_values.blocks, table, of_values.starts, n)
    return Coded(table, count, of_values, (container, indices, values, parameters, starts))


def find_nonfinite(device: Device, arrays: Sequence[Any], dtype: np.dtype[Any]) -> Array:
    """Return (n,) bool, which arrays of raw bits of one element type hold a NaN or Inf; waits once."""
    return _find(device, f"batch_finite_u{8 * dtype.itemsize}", arrays, infinity_of(dtype))


def find_nonzero(device: Device, arrays: Sequence[Any]) -> Array:
    """Return (n,) bool, which arrays of raw bits of one width hold an element that is not +0 or -0."""
    width = 8 * arrays[0].dtype.itemsize
    return _find(device, f"batch_nonzero_u{width}", arrays, 2 ** (width - 1) - 1)


def _find(device: Device, kernel: str, arrays: Sequence[Any], mask: int) -> Array:
    """Return (n,) bool, what a kernel has found in each array; waits once."""
    rows: Any = np.zeros(len(arrays), _WORDS)
    rows["words"] = [device.address(each) if each.size else 0 for each in arrays]
    rows["size"] = sizes = np.array([each.size for each in arrays], np.int64)
    stage = upload(device, np.minimum(-(-sizes // _CHECKED), _MAX_BLOCKS))
    flags = device.empty(len(arrays), np.uint32)
    device.clear(flags)
    table, count = device.put(rows.view(np.uint8)), np.uint32(len(arrays))
    device.launch("batch_sums", kernel, stage.blocks, table, stage.starts, count, np.uint64(mask), flags)
    found: Array = device.get(flags) != 0
    return found


def copy_all(device: Device, arrays: Sequence[Any], targets: Sequence[int]) -> None:
    """Copy arrays of one element width to targets, which are addresses on the device, in one launch."""
    _launch(device, f"batch_copy_u{8 * arrays[0].dtype.itemsize}", arrays, targets)


def _launch(device: Device, kernel: str, arrays: Sequence[Any], out: Any, *more: Any) -> None:
    """Launch a kernel that reads arrays, and writes as many elements from each address ``out`` on."""
    rows: Any = np.zeros(len(arrays), _SUM)
    rows["total"] = [device.address(each) if each.size else 0 for each in arrays]
    rows["out"] = out
    rows["size"] = sizes = np.array([each.size for each in arrays], np.int64)
    stage = upload(device, np.minimum(-(-sizes // _CHECKED), _MAX_BLOCKS))
    table, count = device.put(rows.view(np.uint8)), np.uint32(len(arrays))
    device.launch("batch_sums", kernel, stage.blocks, table, stage.starts, count, *more)


def means(device: Device, totals: Sequence[Any], divisor: float, dtype: np.dtype[Any]) -> list[Any]:
    """Divide (size,) float32 sums, and round the quotients once.

    Args:
        device: where the sums are.
        totals: overwritten if ``dtype`` is float32.
        divisor: above 0.
        dtype: float32, float16 or bfloat16.

    Returns raw bits of each.
    """
    bits, name = np.array([divisor], np.float32).view(np.uint32)[0], f"batch_means_{SUFFIX[dtype.name]}"
    if dtype.itemsize == 4:
        made = [total.view(np.uint32) for total in totals]
        _launch(device, name, totals, [device.address(each) if each.size else 0 for each in made], bits)
        return made
    sizes = np.array([each.size for each in totals], np.int64)
    cuts = np.cumsum([0, *(sizes + 63 & -64)])
    whole = device.empty(int(cuts[-1]), np.uint16)
    _launch(device, name, totals, device.address(whole) + 2 * cuts[:-1], bits)
    return [whole[start : start + n] for start, n in zip(cuts.tolist(), sizes.tolist(), strict=False)]
