"""Decoded containers into arrays: their sums, and their means."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from wirecodec.arrays import Array, Bytes, read_only
from wirecodec.container.reader import ContainerHeader
from wirecodec.cpu import forms
from wirecodec.cpu.columns import ArrayColumns, Targets
from wirecodec.cpu.decode import decode_chunks, decode_entries
from wirecodec.cpu.forms import MIN_TENSORS, Sums, describe, is_on
from wirecodec.cpu.guard import Guard
from wirecodec.element_types import DTYPES
from wirecodec.errors import number_of_container
from wirecodec.limits import DecodeLimits
from wirecodec.select.base import find_nonfinite
from wirecodec.support import DecodedChunk

Container: TypeAlias = "tuple[Bytes, ContainerHeader]"
_Chunks: TypeAlias = "Mapping[int, list[DecodedChunk]]"
_FLOAT32, _FLOAT64 = (DTYPES.index(np.dtype(dtype)) for dtype in (np.float32, np.float64))


def can_add(target: Any) -> bool:
    """Tell whether values can be added to an array: float32 or float64, contiguous, writable."""
    if type(target) not in (np.ndarray, np.memmap) or target.dtype not in (np.float32, np.float64):
        return False
    return bool(target.flags.c_contiguous and target.flags.writeable)


def describe_targets(targets: Sequence[Any], sizes: Array) -> ArrayColumns | None:
    """Describe many arrays that values can be added to, with these numbers of elements.

    Returns None for few arrays, and if an array needs the check of ``can_add``.
    """
    if len(targets) < MIN_TENSORS or not is_on():
        return None
    columns = describe(targets)
    added = (columns.kinds == _FLOAT32) | (columns.kinds == _FLOAT64)
    return columns if (added & columns.writeable & (columns.sizes == sizes)).all() else None


def add(
    containers: Sequence[Container], targets: Targets, scale: float, limits: DecodeLimits, guard: Guard
) -> None:
    """Add scale * values of containers, in their order, into arrays, one per key.

    All containers are decoded and checked first. A WireError has the number of its container.
    """
    data, header = containers[0]
    plain = not (header.extension.is_fused or header.extension.is_transformed or guard.is_active)
    if plain and header.table.size == 1 and len(containers) == 1:
        parts = [part for _, part in decode_entries(data, header, limits)]
        with np.errstate(all="ignore"):
            add_chunks(targets.arrays[0].reshape(-1), parts, scale)
        return
    sums = None if guard.is_active else forms.current().sums(targets)
    dtypes = [target.dtype for target in targets.arrays]

    def check(chunks: _Chunks) -> None:
        guard.check(chunks, dtypes, scale)

    decoded, sums = _decode_all(containers, sums, limits, {}, check if guard.is_active else None)
    _add_all(decoded, targets, sums, [scale] * len(containers), None)


def average(
    containers: Sequence[Container],
    targets: Targets,
    divisor: float,
    limits: DecodeLimits,
    sent: Mapping[int, Any],
    scales: Sequence[float],
) -> bool:
    """Replace arrays by sums of scale * values of containers, from +0 in their order, divided by a number.

    Args:
        containers: decoded and checked before an array changes, as in ``add``.
        targets: float32 or float64 arrays, one per key.
        divisor: above 0.
        limits: for each container.
        sent: tensors of containers that this process has encoded, by number; they are not decoded again.
        scales: the factor of each container.

    Returns:
        Whether all results are finite.
    """
    decoded, sums = _decode_all(containers, forms.current().sums(targets), limits, sent)
    flat = [target.reshape(-1) for target in targets.arrays]
    if not forms.current().clear_all(flat):
        for x in flat:
            x.fill(0)
    return _add_all(decoded, targets, sums, scales, divisor)


def _decode_all(
    containers: Sequence[Container],
    sums: Sums | None,
    limits: DecodeLimits,
    sent: Mapping[int, Any],
    check: Callable[[_Chunks], None] | None = None,
) -> tuple[list[Any], Sums | None]:
    """Decode all containers: to parts of the sums, which are returned, too, or all of them to chunks by key.

    ``check`` gets the chunks of each container before the next one is decoded.
    """
    decoded: list[tuple[Any, _Chunks | None]] = []
    for number, (data, header) in enumerate(containers):
        with number_of_container(number if len(containers) > 1 else None):
            parts, chunks = None, None
            if sums is not None and number in sent:
                parts = sums.of_sent(sent[number])
            if parts is None:
                batches = forms.current().decode_batches(data, header)
                if sums is not None:
                    parts = sums.decode(data, header, limits, batches)
                if parts is None:
                    chunks = decode_chunks(data, header, limits, batches=batches)
                    if check is not None:
                        check(chunks)
            decoded.append((parts, chunks))
    if sums is not None and all(chunks is None for _, chunks in decoded):
        return [parts for parts, _ in decoded], sums
    return [
        decode_chunks(*container, limits) if chunks is None else chunks
        for container, (_, chunks) in zip(containers, decoded, strict=True)
    ], None


def _add_all(
    decoded: Sequence[Any],
    targets: Targets,
    sums: Sums | None,
    scales: Sequence[float],
    divisor: float | None,
) -> bool:
    """Add decoded containers, and divide the sums; return whether all quotients are finite."""
    with np.errstate(all="ignore"):  # NaN, Inf and overflow pass as IEEE 754 has them
        if sums is not None:
            return sums.add(decoded, scales, divisor)
        for chunks, scale in zip(decoded, scales, strict=True):
            for key, target in enumerate(targets.arrays):
                add_chunks(target.reshape(-1), chunks[key], scale)
        if divisor is None:
            return True
        for target in targets.arrays:
            np.divide(target, target.dtype.type(divisor), out=target)
        return all(find_nonfinite(target.reshape(-1)) < 0 for target in targets.arrays)


def add_chunks(target: Array, parts: list[DecodedChunk], scale: float) -> None:
    """Add scale * values to a flat array; each value, product and sum is rounded to the array's type.

    Raises ValueError if the array does not have the elements that the parts' indices were checked against.
    """
    from wirecodec.kernels.cpu import support

    factor = target.dtype.type(scale)
    if target.size != sum(part.d for part in parts):
        raise ValueError(f"out has {target.size} elements; the tensor has {sum(part.d for part in parts)}")
    for part in parts:
        values = part.values.astype(target.dtype, copy=False)
        chunk = target[part.base : part.base + part.d]
        if part.indices is None:
            chunk += values if factor == 1 else factor * values
        else:
            support.add_at(chunk, read_only(part.indices), read_only(values), factor)
