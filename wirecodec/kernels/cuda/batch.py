"""Launch ``batch.cu``: a step of many tensors, in one launch per stage.

The kernels read tables of tensors, of entries of the container, and of their places there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.cuda.device import THREADS, Device, blocks_for
from wirecodec.kernels.cuda.stages import SUFFIX, Stage, upload
from wirecodec.kernels.cuda.topk import DIGIT_BITS, MARGIN_BIT


def _table(addresses: str, numbers: str) -> np.dtype[Any]:
    pairs = [(name, np.uint64) for name in addresses.split()] + [
        (name, np.uint32) for name in numbers.split()
    ]
    return np.dtype(pairs)


TENSOR = _table(
    "gradient residual total search counts reach tiles indices values kept_indices kept_values status",
    "size k capacity rank",
)
ENTRY = _table(
    "indices values parameters quotients spans words section total sent report status",
    "base d k size low high first r",
)
PLACE = _table("index value value_words", "")
STATUS = 9
"""u32 words of a tensor's status."""
KEPT_FIRST, BAD, NONZERO, RETRY = 5, 6, 7, 8
"""Words of the status: the first of the top k that is not finite; whether a sum is not finite, whether a
gradient is not 0, and whether the candidates did not hold the top k."""


_PIECE = 64
"""Bytes of a checksum per thread."""


def write_checksums(device: Device, edges: Array, blob: Any, crcs: Any) -> None:
    """Compute the checksums of (2, n) i64 starts and ends in a container, into (n,) u32, zeroed."""
    blocks = np.maximum(-(-(edges[1] - edges[0]) // (_PIECE * THREADS)), 1)
    stage, count = upload(device, blocks), np.uint32(edges.shape[1])
    rows = device.put(np.ascontiguousarray(edges.T).view(np.uint8).reshape(-1))
    device.launch("batch", "batch_checksums", stage.blocks, rows, stage.starts, count, blob, crcs)


@dataclass(frozen=True, eq=False)
class Launcher:
    """Launches of one step; none of them waits.

    Attributes:
        device: where everything is.
        tensors, entries: tables on the device, as bytes.
        stages: blocks by name.
        counts: numbers of tensors and of entries.
        dtype: of the gradients.
        bits: of QSGD's codes; 0 for raw values.
        narrow: type of 16 bits in which raw values of float32 are stored, or None.
    """

    device: Device
    tensors: Any
    entries: Any
    stages: Mapping[str, Stage]
    counts: tuple[int, int]
    dtype: np.dtype[Any]
    bits: int
    narrow: np.dtype[Any] | None = None

    def select(self, *, warm: bool, feedback: bool) -> None:
        """Find the top k of all sums: near the last thresholds if ``warm``, or near those of samples.

        Without ``feedback``, the gradients are the sums. Where the guess fails, the status says so, and
        nothing is selected.
        """
        device, count, key_bits = self.device, np.uint32(self.counts[0]), np.uint32(self._width)
        blocks = blocks_for(self.counts[0], THREADS)
        if warm:
            margin = np.uint64(1 << MARGIN_BIT[self._width + 1])
            device.launch("batch", "batch_begin", blocks, self.tensors, count, margin)
        else:
            device.launch("batch", f"batch_guess_{self._suffix}", self.counts[0], self.tensors, key_bits)
        self._on_tensors("sum" if feedback else "flag", "flags")
        self._on_tensors("compact", "tiles")
        device.launch("batch", "batch_check", blocks, self.tensors, count, key_bits)
        self._keep()

    def select_again(self) -> None:
        """Find the top k by counting all keys; after ``select``, which has written the sums."""
        device, count, blocks = self.device, np.uint32(self.counts[0]), blocks_for(self.counts[0], THREADS)
        device.launch("batch", "batch_restart", blocks, self.tensors, count, np.uint32(self._width))
        for _ in range(blocks_for(self._width, DIGIT_BITS)):
            self._on_tensors("count_all", "count_all")
        self._on_tensors("flag", "flags")
        self._on_tensors("compact", "tiles")
        device.launch("batch", "batch_go_on", blocks, self.tensors, count)
        self._keep()

    def _keep(self) -> None:
        """Find the k-th key among the candidates, and keep the top k."""
        for _ in range(blocks_for(self._width, DIGIT_BITS)):
            self._on_tensors("count", "count")
        self._on_tensors("flag_kept", "kept_flags")
        self._on_tensors("compact_kept", "kept_tiles")

    def encode(self) -> None:
        """Write the sections of all entries, and report their lengths."""
        device, count = self.device, self.counts[1]
        device.launch("batch", "batch_entries", blocks_for(count, THREADS), self.entries, np.uint32(count))
        self._on_entries("batch_rice_plan", "plan")
        device.launch("batch", "batch_rice_layout", count, self.entries)
        self._on_entries("batch_rice_directory", "directory")
        self._on_entries("batch_rice_write", "spans")
        if self.bits:
            self._on_entries(f"batch_quantise_{self._suffix}", "codes", np.uint32(self.bits))
        elif self.narrow is not None:
            self._on_entries(f"batch_narrow_{SUFFIX[self.narrow.name]}", "codes")

    def finish(self, places: Any, blob: Any, *, feedback: bool) -> None:
        """Copy the sections to the container; with feedback, subtract what is sent.

        Args:
            places: ``PLACE`` of all entries, as bytes.
            blob: the container, zeroed.
            feedback: whether there are residuals.
        """
        self._on_entries(f"batch_copy_{self._suffix}", "copy", places, blob)
        if feedback and self.bits:
            self._on_entries(f"batch_subtract_{self._suffix}", "codes", np.uint32(self.bits))
        elif feedback:
            self._on_entries(f"batch_subtract_raw_{self._suffix}", "codes")

    @property
    def _width(self) -> int:
        """Bits of a key."""
        return 8 * self.dtype.itemsize - 1

    @property
    def _suffix(self) -> str:
        return SUFFIX[self.dtype.name]

    def _on_tensors(self, kernel: str, stage: str) -> None:
        made = self.stages[stage]
        given = self.tensors, made.starts, np.uint32(self.counts[0])
        self.device.launch("batch", f"batch_{kernel}_{self._suffix}", made.blocks, *given)

    def _on_entries(self, kernel: str, stage: str, *more: Any) -> None:
        made = self.stages[stage]
        given = self.entries, made.starts, np.uint32(self.counts[1])
        self.device.launch("batch", kernel, made.blocks, *given, *more)
