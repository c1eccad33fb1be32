"""Skip valid rows and records of an extension block (formats/SPEC.md, sections 2.3 and 3.2).

Only an invalid block can hold more of them than Python can walk in time. ``extension_reader`` makes the
checks; these loops find the first position that it must check.
"""

from __future__ import annotations

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.compiler.jit import kernel


@kernel
def skip_records(words: Array, at: int, count: int, flags_of: Array) -> tuple[int, int]:
    """Skip the valid records of a block.

    Args:
        words: (n,) u32, the block.
        at: the first word of a record.
        count: number of records from there on.
        flags_of: (m,) i64, the flags of each type below m; -1 if the type is unknown.

    Returns the first word of the first record that is not valid, and the number of records left.
    """
    while count > 0 and at + 2 <= words.size:
        kind, flags = np.int64(words[at]) & 0xFFFF, np.int64(words[at]) >> 16
        length = np.int64(words[at + 1])
        stop = at + 2 + 2 * ((length + 7) >> 3)
        if stop > words.size or flags > 1:
            break
        if kind < flags_of.size and flags_of[kind] >= 0 and flags != flags_of[kind]:
            break
        pad = -length & 7
        if pad > 0 and np.int64(words[stop - 1]) >> 8 * max(0, 4 - pad):
            break
        if pad > 4 and np.int64(words[stop - 2]) >> 8 * (8 - pad):
            break
        at = stop
        count -= 1
    return at, count


@kernel
def skip_rows(body: Array, max_ndim: int) -> int:
    """Skip the valid rows of a shapes record.

    Args:
        body: (n,) u8, the record's body.
        max_ndim: maximum number of dimensions of a row.

    Returns the first byte of the first row that is not valid, or of the end.
    """
    at = 0
    while at + 8 <= body.size:
        ndim, width = np.int64(body[at + 4]), np.int64(body[at + 5])
        stop = at + 8 + ndim * width
        if ndim == 1 or ndim > max_ndim or width not in (1, 2, 4, 8) or stop > body.size:
            break
        if body[at + 6] != 0 or body[at + 7] != 0:
            break
        upper = width == 1  # whether some dimension needs the upper half of its bytes
        for i in range(ndim if width > 1 else 0):
            for byte in range(at + 8 + i * width + width // 2, at + 8 + (i + 1) * width):
                upper |= body[byte] != 0
        if not upper:
            break
        at = stop
    return at
