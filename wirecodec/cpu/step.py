"""A Compressor's step: add residuals, select, encode, and compute the next residuals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from wirecodec.arrays import Array, addresses_of
from wirecodec.cpu import forms
from wirecodec.cpu.encode import encode_selection
from wirecodec.cpu.group import Member, SelectedTensor, accumulate, select_alone, select_as_one
from wirecodec.cpu.momentum import clip_factor, stop_momentum, sum_squares
from wirecodec.cpu.select import dense
from wirecodec.cpu.selected import ModelSelection, Selected, find_others
from wirecodec.cpu.sent import SentTensors
from wirecodec.errors import EncodeError
from wirecodec.jobs import StepInput, StepResult, TensorJobs
from wirecodec.select.base import is_zero
from wirecodec.sparse import SparseTensor
from wirecodec.tensors import Flat


def step(tensors: Mapping[str, Any], wanted: StepInput) -> StepResult:
    """Run a step of named tensors on the host. Raises EncodeError, which names the tensor."""
    jobs, names = wanted.jobs, wanted.jobs.names
    given, flats, factor = [tensors[name] for name in names], dict[int, Flat](), 1.0
    if wanted.clip is not None:
        flats = _flatten(given, range(len(given)), wanted)
        gradients = [flat.data for flat in flats.values()]
        factor = clip_factor(map(sum_squares, gradients), wanted.clip, lambda: gradients)
    shapes: list[Any] = [()] * len(given)
    batches: list[Selected] = []
    fast = forms.current()
    if (terms := fast.describe_terms(given, wanted, factor)) is not None:
        shapes = terms.shapes
        for group in fast.list_groups(terms) if jobs.groups else ():
            if (selected := fast.select_group(terms, group)) is not None:
                batches.append(selected)
        batches += fast.select_tensors(terms)
        if jobs.header and not wanted.fuse:  # a selector has a budget
            batches += fast.select_budgets(terms)
    alone: dict[int, SelectedTensor] = {}
    if others := find_others(len(names), batches):
        flats |= _flatten(given, [key for key in others if key not in flats], wanted)
        alone = _select({key: flats[key] for key in others}, factor, wanted)
    schemes = list(jobs.schemes.values())
    for key, one in alone.items():
        schemes[key], shapes[key] = one.scheme, one.support.shape
    supports = {key: one.support for key, one in alone.items()}
    model = ModelSelection(names, schemes, shapes, batches, supports)
    encoded = encode_selection(model, seed=wanted.seed, names=wanted.names, fuse=wanted.fuse)
    sent = SentTensors(model, encoded)
    return StepResult(encoded.blob, encoded.blob, sent, *_complete(batches, alone, sent, jobs))


def _flatten(tensors: Sequence[Any], keys: Iterable[int], wanted: StepInput) -> dict[int, Flat]:
    """Convert gradients to flat arrays. Raises EncodeError, which names the tensor."""
    names, flats = wanted.jobs.names, {}
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
    names, groups = wanted.jobs.names, wanted.jobs.groups
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


def _complete(
    batches: Sequence[Selected], alone: Mapping[int, SelectedTensor], sent: SentTensors, jobs: TensorJobs
) -> tuple[dict[str, Array], dict[str, Array], dict[str, Array]]:
    """Return the next residuals, the selectors' states, and the momenta, by name."""
    residuals, selectors, momenta = dict[str, Array](), dict[str, Array](), dict[str, Array]()
    names = jobs.names
    for batch in batches:
        received, listed = sent.addresses[batch.keys], [names[key] for key in batch.keys.tolist()]
        chunked = np.flatnonzero(received == 0).tolist()  # their values are in several arrays
        values = [np.ascontiguousarray(sent[listed[at]].values) for at in chunked]
        received[chunked] = addresses_of(values)
        forms.current().complete(batch, received)
        residuals |= zip(listed, batch.sums, strict=True)
        if batch.momenta:
            momenta |= zip(listed, batch.momenta, strict=True)
        if batch.state is not None:
            selectors[listed[0]] = batch.state
    for key, one in alone.items():
        name = names[key]
        if one.selector is not None:
            selectors[name] = one.selector
        if one.total is not None:
            residuals[name] = _remainder(name, one, sent[name])
        if one.addend.momentum is not None:
            momenta[name] = stop_momentum(jobs[name], one.addend, sent[name])
    return residuals, selectors, momenta


def _remainder(name: str, one: SelectedTensor, sent: SparseTensor) -> Array:
    """Compute a tensor's next residual. Raises EncodeError, which names the tensor."""
    assert one.total is not None
    try:
        return one.total.remainder(None if sent.is_full else sent.indices, sent.values)
    except EncodeError as error:
        raise error.of(name) from None
