"""A Compressor's step on the host: add residuals, select, encode, and compute the next residuals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from wirecodec.arrays import Array, Bytes, Flat, aligned, read_only
from wirecodec.container.reader import read_header
from wirecodec.container.schema import TensorSpecs
from wirecodec.cpu.batch.step import select_sums, subtract_sent_batch
from wirecodec.cpu.decode import tensors_of
from wirecodec.cpu.encode import encode_supports
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
    selected: dict[str, _SelectedTensor] = {}
    flats: dict[str, Flat] = {}
    jobs: dict[str, TensorJob] = {}
    buffers: dict[str, Array] = {}
    addends: dict[str, Addend] = {}
    for name, job in wanted.jobs.items():
        try:
            flats[name] = flat = dense(tensors[name], job.scheme)
            held = wanted.hold_zeros and is_zero(flat.data)
            jobs[name] = job.hold() if held else job
        except EncodeError as error:
            raise error.of(name) from None
    factor = clip_factor(map(sum_squares, _gradients_to_clip(flats, wanted.clip)), wanted.clip)
    fused: dict[str, _SelectedTensor] = {}
    for name, job in jobs.items():
        try:
            if (found := _select_in_terms(flats[name], job, factor)) is not None:
                fused[name] = found
                continue
            addends[name], flats[name], jobs[name] = accumulate(flats[name], job, factor)
            if jobs[name].feedback is not None and jobs[name].residual is not None:
                buffers[name] = _residual_buffer(jobs[name], addends[name].data)
        except EncodeError as error:
            raise error.of(name) from None
    supports = select_sums(flats, jobs, buffers)
    for name, job in jobs.items():
        if name in fused:
            selected[name] = fused[name]
            continue
        if (support := supports.get(name)) is not None:
            selected[name] = _SelectedTensor(job, support, None, addends[name], None, rest=buffers[name])
            continue
        try:
            selected[name] = _select(flats[name], job, addends[name], buffers.get(name))
        except EncodeError as error:
            raise error.of(name) from None
    blob = encode_supports(
        {name: each.support for name, each in selected.items()},
        {name: each.job.scheme for name, each in selected.items()},
        seed=wanted.seed,
        names=wanted.names,
        fuse=wanted.fuse,
    )
    sent = _decode_own(blob, {name: each.support for name, each in selected.items()})
    residuals: dict[str, Array | None] = dict(_batched_residuals(selected, sent))
    for name, each in selected.items():
        try:
            if name not in residuals:
                residuals[name] = _next_residual(each, sent[name])
        except EncodeError as error:
            raise error.of(name) from None
    return StepResult(
        blob,
        blob,
        sent,
        {name: each for name, each in residuals.items() if each is not None},
        {name: each.selector for name, each in selected.items() if each.selector is not None},
        {
            name: stop_momentum(wanted.jobs[name], each.addend, sent[name])
            for name, each in selected.items()
            if each.addend.momentum is not None
        },
    )


def _gradients_to_clip(flats: Mapping[str, Flat], clip: float | None) -> Iterable[Array]:
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


def _decode_own(blob: Bytes, supports: Mapping[str, Support]) -> dict[str, SparseTensor]:
    """Decode a container as receivers with a schema do."""
    header = read_header(blob, UNLIMITED, sizes_trusted=True)
    schema = {name: (support.shape, support.dtype) for name, support in supports.items()}
    return dict(zip(supports, tensors_of(blob, header, TensorSpecs(header, schema), UNLIMITED), strict=True))


def _batched_residuals(
    selected: Mapping[str, _SelectedTensor], sent: Mapping[str, SparseTensor]
) -> dict[str, Array]:
    """Compute the next residuals of all tensors whose selector cleared the selected elements, by dtype."""
    residuals: dict[str, Array] = {}
    groups: dict[Any, dict[str, Array]] = {}
    for name, each in selected.items():
        if each.rest is not None:
            assert each.support.indices is not None
            groups.setdefault((each.rest.dtype, each.support.indices.dtype), {})[name] = each.rest
    for rests in groups.values():
        supports = [selected[name].support for name in rests]
        subtract_sent_batch(list(rests.values()), supports, [sent[name].values for name in rests])
        residuals |= rests
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
    found = choose(seen, job.scheme, gradient=gradient, state=job.state, seed=job.seed, header=job.header)
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


def _next_residual(selected: _SelectedTensor, sent: SparseTensor) -> Array | None:
    """Return the next residual, or None if none is kept. Raises EncodeError for a NaN or Inf not sent."""
    if selected.total is None:
        return None
    return selected.total.remainder(None if sent.is_full else sent.indices, sent.values)
