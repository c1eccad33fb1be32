"""The walk over the blocks of a Zstandard frame (formats/spec/value/zstd.md): a hostile one has many."""

from __future__ import annotations

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.cpu.jit import kernel

__all__ = ["end_of_blocks"]

HEAD = 3
REPEATED, RESERVED = 1, 3


@kernel
def end_of_blocks(frame: Array, at: int, longest: int) -> int:
    """Where the frame's last block ends, or -1 where the blocks are wrong.

    Args:
        frame: its bytes.
        at: where its first block begins.
        longest: the greatest size that a block may state.
    """
    while at + HEAD <= frame.size:
        head = np.int64(frame[at]) | np.int64(frame[at + 1]) << 8 | np.int64(frame[at + 2]) << 16
        kind = (head >> 1) & 3
        size = head >> 3
        at += HEAD + (1 if kind == REPEATED else size)
        if kind == RESERVED or size > longest or at > frame.size:
            return -1
        if head & 1:
            return at
    return -1
