"""A Compressor's step: add residuals, select, encode, and compute the next residuals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from wirecodec.arrays import Array, Bytes, Flat, addresses_of
from wirecodec.container.reader import read_header
from wirecodec.cpu import fast
from wirecodec.cpu.decode import DecodedTensors, decode_whole
from wirecodec.cpu.encode import ModelSelection, encode_selection, find_others
from wirecodec.cpu.fast.columns import describe_tensors
from wirecodec.cpu.fast.decode import decode_batches, find_received
from wirecodec.cpu.fast.residual import complete
from wirecodec.cpu.fast.selected import Selected
from wirecodec.cpu.fast.step import select_sums
from wirecodec.cpu.fuse import Run
from wirecodec.cpu.group import Member, SelectedTensor, accumulate, select_alone, select_as_one
from wirecodec.cpu.momentum import clip_factor, stop_momentum, sum_squares
from wirecodec.cpu.select import dense
from wirecodec.errors import EncodeError
from wirecodec.limits import UNLIMITED
from wirecodec.select.base import is_zero
from wirecodec.sparse import SparseTensor
from wirecodec.step import StepInput, StepResult


def step(tensors: Mapping[str, Any], wanted: StepInput) -> StepResult:
    """Run a step of named tensors on the host. Raises EncodeError, which names the tensor."""
    names, jobs = list(wanted.jobs), wanted.jobs
    given, flats, factor = [tensors[name] for name in names], dict[int, Flat](), 1.0
    if wanted.clip is not None:
        flats = _flatten(given, range(len(given)), wanted)
        gradients = [flat.data for flat in flats.values()]
        factor = clip_factor(map(sum_squares, gradients), wanted.clip, lambda: gradients)
    shapes: list[Any] = [()] * len(given)
    batches: list[Selected] = []
    if fast.is_on():
        arrays, shapes, columns = describe_tensors(given)
        batches = select_sums(arrays, columns, wanted, factor)
    others = find_others(len(names), batches)
    flats |= _flatten(given, [key for key in others if key not in flats], wanted)
    alone = _select({key: flats[key] for key in others}, factor, wanted)
    schemes = list(jobs.schemes.values())
    for key, one in alone.items():
        schemes[key], shapes[key] = one.job.scheme, one.support.shape
    supports = {key: one.support for key, one in alone.items()}
    model = ModelSelection(names, schemes, shapes, batches, supports)
    blob, runs = encode_selection(model, seed=wanted.seed, names=wanted.names, fuse=wanted.fuse)
    sent, received = _decode_own(blob, model, runs)
    residuals = {names[key]: rest for key, rest in _complete(batches, sent, names, received).items()}
    momenta: dict[str, Array] = {}
    for batch in batches:
        momenta |= zip((names[key] for key in batch.keys.tolist()), batch.momenta, strict=False)
    selectors = {names[int(batch.keys[0])]: batch.state for batch in batches if batch.state is not None}
    for key, one in alone.items():
        name = names[key]
        if one.selector is not None:
            selectors[name] = one.selector
        if one.total is not None:
            residuals[name] = _remainder(name, one, sent[name])
        if one.addend.momentum is not None:
            momenta[name] = stop_momentum(jobs[name], one.addend, sent[name])
    return StepResult(blob, blob, sent, residuals, selectors, momenta)


def _flatten(tensors: Sequence[Any], keys: Iterable[int], wanted: StepInput) -> dict[int, Flat]:
    """Convert gradients to flat arrays. Raises EncodeError, which names the tensor."""
    names, flats = list(wanted.jobs), {}
    for key in keys:
        try:
            flats[key] = dense(tensors[key], wanted.jobs.schemes[names[key]])
        except EncodeError as error:
            raise error.of(names[key]) from None
    return flats


def _select(flats: Mapping[int, Flat], factor: float, wanted: StepInput) -> dict[int, SelectedTensor]:
    """Add the terms of tensors, and select from each, or from each group as from one vector.

    Args:
        flats: gradients by key, ascending.
        factor: of clipping.
        wanted: the step.

    Raises EncodeError, which names the tensor.
    """
    names, groups = list(wanted.jobs), wanted.jobs.groups
    parts: dict[Any, list[tuple[int, Member]]] = {}
    for key, flat in flats.items():
        name, job = names[key], wanted.jobs[names[key]]
        part: tuple[Any, Any] = (None, key)
        if wanted.hold_zeros and is_zero(flat.data):
            job = job.hold()
        elif name in groups:
            part = (groups[name], flat.data.dtype)
        parts.setdefault(part, []).append((key, accumulate(name, flat, job, factor)))
    selected: dict[int, SelectedTensor] = {}
    for (group, _), listed in sorted(parts.items(), key=lambda item: item[0][0] is None):  # groups first
        keys, members = [key for key, _ in listed], [member for _, member in listed]
        tensors = [select_alone(members[0])] if group is None else select_as_one(members)
        selected |= zip(keys, tensors, strict=True)
    return dict(sorted(selected.items()))


def _decode_own(blob: Bytes, model: ModelSelection, runs: Sequence[Run]) -> tuple[DecodedTensors, Array]:
    """Decode a container of this step as receivers with a schema do; shared entries are split on demand.

    Returns the tensors, and the addresses of the decoded values of those in batches, (n,) i64 by key; 0 if
    they are not known.
    """
    n, header = len(model.names), read_header(blob, UNLIMITED, sizes_trusted=True)
    decoded = decode_batches(blob, header)
    chunks = decode_whole(blob, header, decoded)
    dtypes = [np.dtype(np.float32)] * n
    counts = np.zeros(n, np.int64)
    for batch in model.batches:
        counts[batch.keys] = np.diff(batch.cuts)
        for key in batch.keys.tolist():
            dtypes[key] = batch.values.dtype
    for key, support in model.supports.items():
        dtypes[key], counts[key] = support.dtype, support.values.size
    received = find_received(header.table, decoded, n)
    for run in runs if model.batches else ():
        values = chunks.whole(run[0]).values
        ends = np.cumsum(counts[list(run)])
        received[list(run)] = addresses_of([values]) + (ends - counts[list(run)]) * values.itemsize
    sent = DecodedTensors(model.names, model.shapes, dtypes, chunks, UNLIMITED)
    return sent, received


def _complete(
    batches: Sequence[Selected], sent: Mapping[str, SparseTensor], names: Sequence[str], received: Array
) -> dict[int, Array]:
    """Complete the residuals of batches, and return them by key."""
    residuals: dict[int, Array] = {}
    for batch in batches:
        keys = batch.keys
        others = keys[received[keys] == 0].tolist()
        values = [np.ascontiguousarray(sent[names[key]].values) for key in others]
        received[others] = addresses_of(values)
        complete(batch, received[keys])
        residuals |= zip(keys.tolist(), batch.rests, strict=True)
    return residuals


def _remainder(name: str, one: SelectedTensor, sent: SparseTensor) -> Array:
    """Compute a tensor's next residual. Raises EncodeError, which names the tensor."""
    assert one.total is not None
    try:
        return one.total.remainder(None if sent.is_full else sent.indices, sent.values)
    except EncodeError as error:
        raise error.of(name) from None
