"""Decoded containers into arrays: their sums, and their means."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from wirecodec.arrays import Array, Bytes, read_only
from wirecodec.container.reader import ContainerHeader
from wirecodec.container.schema import MAX_OBJECTS
from wirecodec.cpu.decode import decode_chunks, decode_entries
from wirecodec.cpu.fast.add import Parts, SumTargets
from wirecodec.cpu.fast.columns import Targets
from wirecodec.cpu.fast.decode import DecodedBatch, decode_batches
from wirecodec.cpu.fast.stream import clear_all
from wirecodec.cpu.guard import Guard
from wirecodec.cpu.sent import SentTensors
from wirecodec.errors import number_of_container
from wirecodec.limits import DecodeLimits
from wirecodec.select.base import find_nonfinite
from wirecodec.support import DecodedChunk

Container: TypeAlias = "tuple[Bytes, ContainerHeader]"
_Chunks: TypeAlias = "Mapping[int, list[DecodedChunk]]"


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
    together = None if guard.is_active else SumTargets.of(targets)
    dtypes = [target.dtype for target in targets.arrays]

    def check(chunks: _Chunks) -> None:
        guard.check(chunks, dtypes, scale)

    decoded = _decode_all(containers, together, limits, {}, check if guard.is_active else None)
    _add_all(decoded, targets, together, [scale] * len(containers), None)


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
    together = SumTargets.of(targets)
    decoded = _decode_all(containers, together, limits, sent)
    clear_all([target.reshape(-1) for target in targets.arrays])
    return _add_all(decoded, targets, together, scales, divisor)


def _decode_all(
    containers: Sequence[Container],
    together: SumTargets | None,
    limits: DecodeLimits,
    sent: Mapping[int, Any],
    check: Callable[[_Chunks], None] | None = None,
) -> list[Any]:
    """Decode all containers: to Parts that one call can add, or all of them to chunks by key.

    ``check`` gets the chunks of each container before the next one is decoded.
    """
    decoded: list[Any] = []
    for number, (data, header) in enumerate(containers):
        with number_of_container(number if len(containers) > 1 else None):
            parts: Parts | _Chunks | None = None
            if together is not None and isinstance(own := sent.get(number), SentTensors):
                parts = own.parts(together.dtype)
            if parts is None:
                batches = decode_batches(data, header)
                if together is not None:
                    parts = _decode_parts(data, header, limits, batches, together.dtype)
                if parts is None:
                    parts = decode_chunks(data, header, limits, batches=batches)
                    if check is not None:
                        check(parts)
            decoded.append(parts)
    if all(isinstance(one, Parts) for one in decoded):
        return decoded
    return [
        decode_chunks(*containers[number], limits) if isinstance(one, Parts) else one
        for number, one in enumerate(decoded)
    ]


def _decode_parts(
    data: Bytes,
    header: ContainerHeader,
    limits: DecodeLimits,
    batches: Sequence[DecodedBatch],
    dtype: np.dtype[Any],
) -> Parts | None:
    """Decode the entries that no batch has, and describe all; return None if they are too many for objects.

    None also for a container with transforms.
    """
    table, done, parts = header.table, np.zeros(header.table.size, np.bool_), list[Parts]()
    for batch in batches:
        done[batch.entries] = True
    if header.extension.is_transformed or table.size - np.count_nonzero(done) > MAX_OBJECTS:
        return None
    groups = {int(group[0, 0]): group for group in header.extension.groups()}
    for batch in batches:
        keys = table["key"][batch.entries]
        shared = np.isin(keys, list(groups)) if groups else np.zeros(0, np.bool_)
        for slot in np.flatnonzero(shared).tolist():
            chunk = batch.get_chunk(slot, table[batch.entries[slot]])
            parts.append(Parts.of_chunk(int(keys[slot]), chunk, dtype, groups[int(keys[slot])]))
        own = batch.only(~shared) if shared.any() else batch
        rows = table[own.entries]
        parts.append(Parts.of_batch(own, rows["key"], rows["base"], rows["d"], dtype))
    for entry, chunk in decode_entries(data, header, limits, done=done):
        key = int(table["key"][entry])
        parts.append(Parts.of_chunk(key, chunk, dtype, groups.get(key)))
    return Parts.join(parts)


def _add_all(
    decoded: Sequence[Any],
    targets: Targets,
    together: SumTargets | None,
    scales: Sequence[float],
    divisor: float | None,
) -> bool:
    """Add decoded containers, and divide the sums; return whether all quotients are finite."""
    with np.errstate(all="ignore"):  # NaN, Inf and overflow pass as IEEE 754 has them
        if together is not None and all(isinstance(one, Parts) for one in decoded):
            return together.add(decoded, scales, divisor)
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
