"""Check the table of a container without transforms and maps (formats/SPEC.md, section 7, rows 13 to 24).

``container.table`` makes the same checks with messages. It makes them only for a table that this kernel does
not find sound.
"""

from __future__ import annotations

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.compiler.jit import kernel

ROW_WORDS = 10
U64 = np.uint64


@kernel
def measure_sound_table(
    words: Array, payload_bytes: int, chunk: int, dtypes: int, index_known: Array, value_known: Array
) -> tuple[int, int, int]:
    """Check a table, and measure it.

    Args:
        words: (10 n,) u32, the rows.
        payload_bytes: length of all sections.
        chunk: elements of a chunk that another one follows.
        dtypes: number of element types.
        index_known: (256,) bool, the ids of the index codecs.
        value_known: (256,) bool, the ids of the value codecs that need no map.

    Returns (number of keys, stored elements, elements); (-1, 0, 0) if a check fails, or if a row has a
    transform or a map.
    """
    n = words.size // ROW_WORDS
    keys = stored = elements = nbytes = np.int64(0)
    wrong = False
    for i in range(n):
        row = words[i * ROW_WORDS : (i + 1) * ROW_WORDS]
        d, r, index_bytes, value_bytes = (
            np.int64(row[4]),
            np.int64(row[5]),
            np.int64(row[6]),
            np.int64(row[7]),
        )
        base = U64(row[2]) | U64(row[3]) << U64(32)
        dtype, index, value, maps = row[9] & 0xFF, row[9] >> 8 & 0xFF, row[9] >> 16 & 0xFF, row[9] >> 24
        is_first = i == 0 or words[(i - 1) * ROW_WORDS] != row[0]
        is_last = i == n - 1 or words[(i + 1) * ROW_WORDS] != row[0]
        if is_first:
            wrong |= base != U64(0) or (i > 0 and words[(i - 1) * ROW_WORDS] > row[0])
            keys += 1
        else:
            before = words[(i - 1) * ROW_WORDS : i * ROW_WORDS]
            start = U64(before[2]) | U64(before[3]) << U64(32)
            wrong |= base != start + U64(before[4]) or base <= start or (before[9] & 0xFF) != dtype
        wrong |= dtype < 1 or dtype > dtypes or not index_known[index] or not value_known[value]
        wrong |= maps != 0 or row[8] != 0
        wrong |= r > d or d > chunk or (not is_last and d != chunk)
        wrong |= d == 0 and not (is_first and is_last)
        wrong |= (index_bytes == 0) != (r in (0, d))
        wrong |= (value_bytes == 0) != (r == 0)
        stored += r
        elements += d
        nbytes += ((index_bytes + 7) & -8) + ((value_bytes + 7) & -8)
    if wrong or nbytes != payload_bytes:
        return -1, 0, 0
    return keys, stored, elements
