"""A Compressor's step for many tensors: sums and selections, and the residuals that are left."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from wirecodec.arrays import Array, Flat, addresses_of, read_only
from wirecodec.cpu.batch import MIN_TENSORS
from wirecodec.index.base import is_lossy
from wirecodec.settings.feedback import ErrorFeedback
from wirecodec.step import TensorJob
from wirecodec.support import Support

__all__ = ["select_sums", "subtract_sent_batch"]


def select_sums(
    flats: Mapping[str, Flat], jobs: Mapping[str, TensorJob], buffers: Mapping[str, Array]
) -> dict[str, Support]:
    """Add residuals and select, for the tensors that a batch can take; return those only.

    Args:
        flats, jobs: by name.
        buffers: memory for the next residual of each tensor that has a residual. It receives the sum, with +0
            at the selected elements; undefined for the other tensors.
    """
    groups: dict[tuple[int, Any], list[str]] = {}
    for name, buffer in buffers.items():
        flat, job = flats[name], jobs[name]
        dtype, scheme = flat.data.dtype, job.scheme
        if (
            job.feedback == ErrorFeedback()
            and dtype == job.residual.dtype == buffer.dtype
            and scheme.transform is None
            and not is_lossy(scheme.index)
            and hasattr(scheme.select, "select_sum_batch")
        ):
            groups.setdefault((id(scheme.select), dtype), []).append(name)
    supports: dict[str, Support] = {}
    for names in groups.values():
        if len(names) < MIN_TENSORS:
            continue
        selector: Any = jobs[names[0]].scheme.select
        found = selector.select_sum_batch(
            [flats[name].data for name in names],
            [jobs[name].residual for name in names],
            [buffers[name] for name in names],
        )
        for name, selection in zip(names, found, strict=True):
            if selection is not None:
                flat = flats[name]
                supports[name] = Support(selection.indices, selection.values, flat.data.size, flat.shape)
    return supports


def subtract_sent_batch(rests: Sequence[Array], supports: Sequence[Support], sent: Sequence[Array]) -> None:
    """Complete the residuals of finite sums whose selected elements were set to 0, in place.

    The bits are those of ``AccumulatedGradient.remainder`` with beta 1.

    Args:
        rests: the sums, +0 at the indices.
        supports: the selected elements of each.
        sent: (k,) each, the values that receivers decode.
    """
    from wirecodec.kernels.cpu.select import feedback_batch

    selected = np.concatenate([support.values for support in supports])
    received = np.concatenate(sent)
    if np.array_equal(selected, received):
        return
    indices = np.concatenate([support.indices for support in supports if support.indices is not None])
    cuts = np.zeros(len(supports) + 1, np.int64)
    np.cumsum([support.values.size for support in supports], out=cuts[1:])
    feedback_batch.store_differences(
        read_only(selected),
        read_only(received),
        read_only(indices.view(np.dtype(f"u{indices.itemsize}"))),
        cuts,
        addresses_of(rests),
        np.array([rest.size for rest in rests], np.int64),
        np.empty(0, rests[0].dtype),
    )
