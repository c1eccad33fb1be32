"""Block headers of a Zstandard frame (formats/spec/value/zstd.md). Compiled: a hostile frame has many."""

from __future__ import annotations

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.compiler.jit import kernel

HEADER_BYTES = 3
REPEATED, RESERVED = 1, 3


@kernel
def find_end_of_blocks(frame: Array, at: int, max_block_bytes: int) -> int:
    """Return the byte after the frame's last block, or -1 if a block header is invalid.

    Args:
        frame: (n,) u8, the frame.
        at: first byte of the first block.
        max_block_bytes: greatest block size that is allowed, in bytes.
    """
    while at + HEADER_BYTES <= frame.size:
        header = np.int64(frame[at]) | np.int64(frame[at + 1]) << 8 | np.int64(frame[at + 2]) << 16
        kind = (header >> 1) & 3
        size = header >> 3
        at += HEADER_BYTES + (1 if kind == REPEATED else size)
        if kind == RESERVED or size > max_block_bytes or at > frame.size:
            return -1
        if header & 1:
            return at
    return -1
