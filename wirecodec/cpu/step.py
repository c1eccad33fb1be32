"""A Compressor's step on the host: add residuals, select, encode, and compute the next residuals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from wirecodec.arrays import DTYPES, Array, Bytes, Flat, addresses_of, aligned, as_flat, read_only
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
from wirecodec.cpu.group import Member, select_group, sum_dtype
from wirecodec.cpu.momentum import (
    Addend,
    add_momentum,
    clip_factor,
    decay_residual,
    make_terms,
    stop_momentum,
    sum_squares,
)
from wirecodec.cpu.residual import AccumulatedGradient
from wirecodec.cpu.select import choose, dense
from wirecodec.errors import EncodeError
from wirecodec.limits import UNLIMITED
from wirecodec.select.base import is_zero
from wirecodec.settings.feedback import ErrorFeedback
from wirecodec.sparse import SparseTensor
from wirecodec.step import StepInput, StepResult, TensorJob
from wirecodec.support import Support

__all__ = ["Addend", "accumulate", "step"]

_PLAIN = ErrorFeedback()
MIN_FUSED_SIZE = 2**16
"""Elements below which momentum stays in the cache, and tensors are rather selected together."""


@dataclass(frozen=True, eq=False)
class _SelectedTensor:
    """Selected elements of one tensor, and the sum they are from.

    Attributes:
        job: the tensor's settings and state.
        support: the elements to send.
        selector: the selector's next state, or None.
        addend: what this step adds to the residual.
        total: addend + residual; None if no residual is kept.
        rest: the sum with +0 at the selected elements, if the selector cleared them.
    """

    job: TensorJob
    support: Support
    selector: Array | None
    addend: Addend
    total: AccumulatedGradient | None
    rest: Array | None = None


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
) -> tuple[dict[int, _SelectedTensor], list[SumBatch]]:
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
            flats[key] = flat = dense(arrays[key])
            if shapes[key] is not None:
                flats[key] = flat = Flat(flat.data, shapes[key])
            held = wanted.hold_zeros and is_zero(flat.data)
            job = wanted.jobs[names[key]]
            jobs[key] = job.hold() if held else job
        except EncodeError as error:
            raise error.of(names[key]) from None
    members: dict[Any, list[int]] = {}
    factor = clip_factor(map(sum_squares, _gradients_to_clip(flats, wanted.clip)), wanted.clip)
    selected: dict[int, _SelectedTensor] = {}
    addends: dict[int, Addend] = {}
    buffers: dict[int, Array] = {}
    for key, job in jobs.items():
        if names[key] in wanted.jobs.groups and job.scheme is wanted.jobs.schemes[names[key]]:  # not held
            members.setdefault((wanted.jobs.groups[names[key]], flats[key].data.dtype), []).append(key)
            continue
        try:
            if (found := _select_in_terms(flats[key], job, factor)) is not None:
                selected[key] = found
                continue
            addends[key], flats[key], jobs[key] = accumulate(flats[key], job, factor)
            if jobs[key].feedback is not None and jobs[key].residual is not None:
                buffers[key] = _residual_buffer(jobs[key], addends[key].data)
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
            selected[key] = _SelectedTensor(jobs[key], support, None, addends[key], None)
    for keys in members.values():
        given = [(names[key], flats[key], jobs[key]) for key in keys]
        selected |= dict(zip(keys, _select_group(given, factor), strict=True))
    for key, job in jobs.items():
        if key not in selected:
            try:
                selected[key] = _select(flats[key], job, addends[key], buffers.get(key))
            except EncodeError as error:
                raise error.of(names[key]) from None
    return dict(sorted(selected.items())), more


def _gradients_to_clip(flats: Mapping[int, Flat], clip: float | None) -> Iterable[Array]:
    """Return the gradients whose norm is limited; none without a limit."""
    return () if clip is None else (flat.data for flat in flats.values())


def accumulate(flat: Flat, job: TensorJob, factor: float) -> tuple[Addend, Flat, TensorJob]:
    """Apply clipping, momentum and decay.

    Args:
        flat: the gradient.
        job: its settings and state.
        factor: of clipping.

    Returns what the step adds to the residual; the same in the gradient's type, if that can hold it; and the
    job that is left: its feedback is the residual's rule, and its residual has decayed.
    """
    rule = job.feedback
    if factor == 1 and (rule is None or rule == _PLAIN):
        return Addend(flat.data), flat, job
    addend = add_momentum(job, flat.data, factor)
    data = addend.data
    exact = data.dtype == flat.data.dtype
    left = replace(job, feedback=job.residual_rule(exact=exact), residual=decay_residual(job))
    if not exact:
        total = AccumulatedGradient.of(_PLAIN, data, None, sent_dtype=flat.data.dtype)
        data = total.sendable()
    return addend, Flat(read_only(data), flat.shape), left


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
    selected: Mapping[int, _SelectedTensor],
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


def _select(flat: Flat, job: TensorJob, addend: Addend, buffer: Array | None) -> _SelectedTensor:
    """Add a tensor's residual, select, and gather the values."""
    rule, residual, gradient = job.feedback, job.residual, flat.data
    total, seen = None, flat
    if rule is not None:
        selected = _select_in_sum(flat, job, addend, buffer)
        if selected is not None:
            return selected
        assert isinstance(rule, ErrorFeedback)
        total = AccumulatedGradient.of(rule, addend.data, residual, buffer, gradient.dtype)
        if residual is not None:
            seen = Flat(read_only(total.sendable()), flat.shape)
    found = choose(seen, job.scheme, gradient=gradient, state=job.state, seed=job.seed)
    return _SelectedTensor(job, *found, addend, total)


def _select_in_sum(
    flat: Flat, job: TensorJob, addend: Addend, buffer: Array | None
) -> _SelectedTensor | None:
    """Add and select in one pass if the selector can; the remaining sum goes to ``buffer``."""
    scheme, residual, gradient = job.scheme, job.residual, flat.data
    select_sum = getattr(scheme.select, "select_sum", None)
    if select_sum is None or residual is None or buffer is None or job.feedback != _PLAIN:
        return None
    if scheme.transform is not None or getattr(scheme.index, "lossy", False):
        return None
    if not gradient.dtype == residual.dtype == buffer.dtype:
        return None
    selection = select_sum(gradient, residual, buffer)
    if selection is None:
        return None
    support = Support(selection.indices, selection.values, gradient.size, flat.shape)
    return _SelectedTensor(job, support, None, addend, None, rest=buffer)


def _select_in_terms(flat: Flat, job: TensorJob, factor: float) -> _SelectedTensor | None:
    """Apply clipping, momentum and decay, add and select in one pass, if the selector can and it pays."""
    scheme, residual, gradient = job.scheme, job.residual, flat.data
    select_terms: Any = getattr(scheme.select, "select_terms", None)
    if select_terms is None or residual is None or gradient.size < MIN_FUSED_SIZE:
        return None
    if scheme.transform is not None or getattr(scheme.index, "lossy", False):
        return None
    rule = job.residual_rule(exact=True)
    terms = None if rule != _PLAIN else make_terms(job, gradient, factor)
    if terms is None:
        return None
    buffer = _residual_buffer(replace(job, feedback=rule), gradient)
    selection = select_terms(terms, buffer)
    if selection is None:
        return None
    support = Support(selection.indices, selection.values, gradient.size, flat.shape)
    addend = Addend(gradient, terms.after if terms.after.size else None, finite=True)
    return _SelectedTensor(job, support, None, addend, None, rest=buffer)


def _select_group(given: Sequence[tuple[str, Flat, TensorJob]], factor: float) -> list[_SelectedTensor]:
    """Select from tensors, given as (name, gradient, job), as from one. Raises EncodeError, naming one."""
    if (found := _select_group_in_terms(given, factor)) is not None:
        return found
    kinds: dict[Any, list[Member]] = {}
    done: dict[str, _SelectedTensor] = {}
    for name, flat, job in given:
        try:
            addend, seen, left = accumulate(flat, job, factor)
        except EncodeError as error:
            raise error.of(name) from None
        member = Member(name, seen, addend, left)
        kinds.setdefault(sum_dtype(member), []).append(member)
    for members in kinds.values():
        for member, each in zip(members, select_group(members), strict=True):
            addend = member.addend
            done[member.name] = _SelectedTensor(member.job, each.support, each.selector, addend, each.total)
    return [done[name] for name, _, _ in given]


def _select_group_in_terms(
    given: Sequence[tuple[str, Flat, TensorJob]], factor: float
) -> list[_SelectedTensor] | None:
    """Select as ``_select_group`` while the terms of all sums are added, if the selector can and it pays."""
    scheme = given[0][2].scheme
    select: Any = getattr(scheme.select, "select_group", None)
    if select is None or getattr(scheme.index, "lossy", False):
        return None
    group, rests = [], []
    for name, flat, job in given:
        rule = job.residual_rule(exact=True)
        terms = None
        if job.residual is not None and rule == _PLAIN:
            terms = make_terms(job, flat.data, factor, plain=True)
        if terms is None:
            return None
        try:
            rests.append(_residual_buffer(replace(job, feedback=rule), flat.data))
        except EncodeError as error:
            raise error.of(name) from None
        group.append(terms)
    selections = select(group, rests)
    if selections is None:
        return None
    done = []
    for (_, flat, job), terms, rest, selection in zip(given, group, rests, selections, strict=True):
        indices = selection.indices
        support = Support(indices, selection.values, flat.data.size, flat.shape)
        addend = Addend(flat.data, terms.after if terms.after.size else None, finite=True)
        done.append(_SelectedTensor(job, support, None, addend, None, rest=rest))
    return done


def _residual_buffer(job: TensorJob, gradient: Array) -> Array:
    """Return memory for a tensor's next residual: the spare array if it fits, else a new one."""
    spare, residual, size = job.spare, job.residual, gradient.size
    assert isinstance(job.feedback, ErrorFeedback)
    if residual.size != size:
        raise EncodeError(f"the gradient has {size} elements; its residual has {residual.size}")
    dtype = job.feedback.sum_dtype(gradient.dtype, residual.dtype)
    if spare is None or spare.dtype != dtype or spare.size != size or spare.ctypes.data % 64:
        return aligned(size, dtype)
    return spare
