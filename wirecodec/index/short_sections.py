"""Short sections of many tensors: one call of a kernel, and ``decode`` for those that it leaves out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from wirecodec.arrays import Array, read_only
from wirecodec.errors import WireError
from wirecodec.limits import UNLIMITED

MIN_BATCH_INDICES = 2**15
"""Indices of a batch that justify another thread."""


def decode_short(
    codec: Any,
    read: Callable[..., object],
    words: Array,
    starts: Array,
    lengths: Array,
    sizes: Array,
    cuts: Array,
) -> Array | None:
    """Decode the sections of many tensors, as ``decode_batch`` of ``IndexCodec`` does.

    Args:
        codec: its ``decode`` reads the sections that the kernel does not.
        read: a kernel of ``kernels.cpu.index.short_sections``.
        words, starts, lengths, sizes, cuts: as for ``decode_batch``.
    """
    from wirecodec.kernels.cpu.index import short_sections
    from wirecodec.kernels.cpu.threads import least_units, run_parallel

    n, total = starts.size, int(cuts[-1])
    indices, states = np.empty(total, np.uint32), np.empty(n, np.uint8)
    run_parallel(
        lambda turns: read(words, starts, lengths, sizes, cuts, indices, states, turns),
        n,
        least_units(MIN_BATCH_INDICES, n, total),
    )
    bad = np.flatnonzero(states == short_sections.BAD)
    sound = int(bad[0]) if bad.size else n
    data = read_only(words).view(np.uint8)
    for i in np.flatnonzero(states[:sound] == short_sections.OTHER).tolist():
        start, first, last = 4 * int(starts[i]), int(cuts[i]), int(cuts[i + 1])
        section = data[start : start + int(lengths[i])]
        try:
            indices[first:last] = codec.decode(section, int(sizes[i]), last - first, UNLIMITED)
        except WireError:
            sound = i
            break
    return indices[: cuts[sound]] if sound else None
