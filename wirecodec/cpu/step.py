"""A Compressor's step on the host: add residuals, select, encode, and compute the next residuals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from wirecodec.arrays import DTYPES, Array, Bytes, Flat, addresses_of, as_flat
from wirecodec.container.reader import read_header
from wirecodec.container.schema import TensorSpec
from wirecodec.cpu.batch.decode import decode_batches
from wirecodec.cpu.batch.selection import ModelSelection
from wirecodec.cpu.batch.step import (
    SumBatch,
    find_received,
    select_sums,
    subtract_sent,
    subtract_sent_batch,
)
from wirecodec.cpu.columns import ArrayColumns, describe
from wirecodec.cpu.decode import DecodedTensors, decode_chunks
from wirecodec.cpu.encode import describe_tensors, encode_selection, find_others
from wirecodec.cpu.momentum import (
    Addend,
    clip_factor,
    stop_momentum,
    sum_squares,
)
from wirecodec.cpu.select import dense
from wirecodec.cpu.tensor_step import (
    SelectedTensor,
    accumulate,
    residual_buffer,
    select_alone,
    select_as_one,
    select_in_terms,
)
from wirecodec.errors import EncodeError
from wirecodec.limits import UNLIMITED
from wirecodec.select.base import is_zero
from wirecodec.settings.feedback import ErrorFeedback
from wirecodec.sparse import SparseTensor
from wirecodec.step import StepInput, StepResult, TensorJob

__all__ = ["step"]

_PLAIN = ErrorFeedback()


def step(tensors: Mapping[str, Any], wanted: StepInput) -> StepResult:
    """Run a step of named tensors on the host. Raises EncodeError, which names the tensor."""
    names, jobs = list(wanted.jobs), wanted.jobs
    arrays, shapes, columns = describe_tensors([tensors[name] for name in names])
    plain = _find_plain(arrays, wanted)
    batches = _select_plain(columns, plain, wanted)
    selected, more = _select_others(arrays, shapes, plain, batches, wanted)
    schemes, dtypes = list(jobs.schemes.values()), [DTYPES[kind] for kind in columns.kinds.tolist()]
    for key, each in selected.items():
        schemes[key], shapes[key], dtypes[key] = each.job.scheme, each.support.shape, each.support.dtype
    supports = {key: each.support for key, each in selected.items()}
    model = ModelSelection(names, schemes, shapes, [batch.selected for batch in batches], supports)
    blob = encode_selection(model, seed=wanted.seed, names=wanted.names, fuse=wanted.fuse)
    sent, received = _decode_own(blob, names, shapes, dtypes)
    return StepResult(
        blob,
        blob,
        sent,
        _next_residuals(names, [*batches, *more], selected, sent, received),
        {names[key]: each.selector for key, each in selected.items() if each.selector is not None},
        {
            names[key]: stop_momentum(jobs[names[key]], each.addend, sent[names[key]])
            for key, each in selected.items()
            if each.addend.momentum is not None
        },
    )


def _find_plain(arrays: Sequence[Any], wanted: StepInput) -> Array:
    """Tell for each tensor whether its gradient and its residual are added as they are, (n,) bool."""
    rules = wanted.jobs.rules
    alike = {number: rule == _PLAIN for number, rule in {id(rule): rule for rule in rules.values()}.items()}
    plain = [alike[id(rules[name])] and name not in wanted.jobs.groups for name in wanted.jobs]
    if wanted.clip is not None:
        return np.zeros(len(plain), np.bool_)
    if wanted.hold_zeros:
        plain = [
            each and isinstance(x, np.ndarray) and not is_zero(as_flat(x).data)
            for each, x in zip(plain, arrays, strict=True)
        ]
    return np.array(plain, np.bool_)


def _select_plain(columns: ArrayColumns, plain: Array, wanted: StepInput) -> list[SumBatch]:
    """Add residuals and select, for the tensors that a batch can take without other arithmetic."""
    jobs = wanted.jobs
    pairs = list(zip(plain.tolist(), jobs, strict=True))
    residuals = [jobs.residuals.get(name) if each else None for each, name in pairs]
    spares = [jobs.spares.get(name) for name in jobs]
    return select_sums(columns, residuals, spares, list(jobs.schemes.values()))


def _select_others(
    arrays: Sequence[Any],
    shapes: Sequence[Any],
    plain: Array,
    batches: Sequence[SumBatch],
    wanted: StepInput,
) -> tuple[dict[int, SelectedTensor], list[SumBatch]]:
    """Select from the tensors of no batch; those with other arithmetic may make further batches.

    Args:
        arrays, shapes: of the gradients, from ``describe_tensors``.
        plain: whether a tensor was offered to the first batches.
        batches: the first batches.
        wanted: the step.

    Returns the selected elements by key, and the further batches. Raises EncodeError, which names the tensor.
    """
    names = list(wanted.jobs)
    flats: dict[int, Flat] = {}
    jobs: dict[int, TensorJob] = {}
    for key in find_others(len(names), [batch.selected for batch in batches]):
        try:
            flats[key] = flat = dense(arrays[key], wanted.jobs.schemes[names[key]])
            if isinstance(arrays[key], np.ndarray):
                flats[key] = flat = Flat(flat.data, shapes[key])
            held = wanted.hold_zeros and is_zero(flat.data)
            job = wanted.jobs[names[key]]
            jobs[key] = job.hold() if held else job
        except EncodeError as error:
            raise error.of(names[key]) from None
    members: dict[Any, list[int]] = {}
    factor = clip_factor(map(sum_squares, _gradients_to_clip(flats, wanted.clip)), wanted.clip)
    selected: dict[int, SelectedTensor] = {}
    addends: dict[int, Addend] = {}
    buffers: dict[int, Array] = {}
    for key, job in jobs.items():
        if names[key] in wanted.jobs.groups and job.scheme is wanted.jobs.schemes[names[key]]:  # not held
            members.setdefault((wanted.jobs.groups[names[key]], flats[key].data.dtype), []).append(key)
            continue
        try:
            if (found := select_in_terms(flats[key], job, factor)) is not None:
                selected[key] = found
                continue
            addends[key], flats[key], jobs[key] = accumulate(flats[key], job, factor)
            if jobs[key].feedback is not None and jobs[key].residual is not None:
                buffers[key] = residual_buffer(jobs[key], addends[key].data)
        except EncodeError as error:
            raise error.of(names[key]) from None
    further = [key for key in buffers if not plain[key] and jobs[key].feedback == _PLAIN]
    more = select_sums(
        describe([flats[key].data for key in further]),
        [jobs[key].residual for key in further],
        [buffers[key] for key in further],
        [jobs[key].scheme for key in further],
    )
    more = [batch.renumber(np.array(further, np.int64)) for batch in more]
    for batch in more:
        supports = batch.selected.supports({key: flats[key].shape for key in further})
        for key, support in supports.items():
            selected[key] = SelectedTensor(jobs[key], support, None, addends[key], None)
    for keys in members.values():
        given = [(names[key], flats[key], jobs[key]) for key in keys]
        selected |= dict(zip(keys, select_as_one(given, factor), strict=True))
    for key, job in jobs.items():
        if key not in selected:
            try:
                selected[key] = select_alone(flats[key], job, addends[key], buffers.get(key))
            except EncodeError as error:
                raise error.of(names[key]) from None
    return dict(sorted(selected.items())), more


def _gradients_to_clip(flats: Mapping[int, Flat], clip: float | None) -> Iterable[Array]:
    """Return the gradients whose norm is limited; none without a limit."""
    return () if clip is None else (flat.data for flat in flats.values())


def _decode_own(
    blob: Bytes, names: Sequence[str], shapes: Sequence[tuple[int, ...]], dtypes: Sequence[np.dtype[Any]]
) -> tuple[DecodedTensors, Array]:
    """Decode a container as receivers with a schema do.

    Returns the tensors by name, and the addresses of the values that were decoded in batches, by key; 0 for
    the others.
    """
    header = read_header(blob, UNLIMITED, sizes_trusted=True)
    batches = decode_batches(blob, header)
    specs = map(TensorSpec, names, shapes, dtypes)
    parts = decode_chunks(blob, header, UNLIMITED, batches=batches)
    received = np.zeros(len(names), np.int64)
    if not header.extension.is_fused:
        received = find_received(header.table, batches, len(names))
    return DecodedTensors(dict(zip(names, specs, strict=True)), parts, UNLIMITED), received


def _next_residuals(
    names: Sequence[str],
    batches: Sequence[SumBatch],
    selected: Mapping[int, SelectedTensor],
    sent: Mapping[str, SparseTensor],
    received: Array,
) -> dict[str, Array]:
    """Return the next residuals by name. Raises EncodeError, which names the tensor."""
    residuals: dict[str, Array] = {}
    for batch in batches:
        keys = batch.selected.keys
        others = keys[received[keys] == 0].tolist()
        values = [np.ascontiguousarray(sent[names[key]].values) for key in others]
        received[others] = addresses_of(values)
        subtract_sent_batch(batch, received[keys])
        residuals |= {names[key]: rest for key, rest in batch.rests.items()}
    for key, each in selected.items():
        name = names[key]
        try:
            if each.rest is not None:
                subtract_sent(each.rest, each.support, sent[name].values)
                residuals[name] = each.rest
            elif each.total is not None:
                found = sent[name]
                residuals[name] = each.total.remainder(None if found.is_full else found.indices, found.values)
        except EncodeError as error:
            raise error.of(name) from None
    return residuals
