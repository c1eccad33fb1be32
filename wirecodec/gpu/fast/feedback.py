"""A Compressor's step of many tensors on a GPU: a batch per scheme and type, and the others one by one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from wirecodec.container import extension_writer as ext
from wirecodec.container.reader import Row
from wirecodec.container.writer import Entry, row_of
from wirecodec.cpu import forms
from wirecodec.element_types import BFLOAT16
from wirecodec.errors import EncodeError
from wirecodec.gpu import decode as decoding
from wirecodec.gpu import step as plain
from wirecodec.gpu.arrays import are_zero
from wirecodec.gpu.chunk import decode_chunk, encode_chunks
from wirecodec.gpu.fast.batch import Arrays, Batch, has_batch, make_plan
from wirecodec.gpu.fast.container import assemble, find_sections
from wirecodec.gpu.fast.plan import Plan
from wirecodec.jobs import StepInput, StepResult, TensorJobs
from wirecodec.kernels.cuda.batch import NONZERO
from wirecodec.kernels.cuda.device import Device
from wirecodec.limits import UNLIMITED
from wirecodec.settings.feedback import ErrorFeedback
from wirecodec.sparse import SparseTensor
from wirecodec.tensors import DeviceFlat, on_gpu

_PLAIN = ErrorFeedback()


def step(device: Device, flats: Mapping[str, DeviceFlat], wanted: StepInput) -> StepResult | None:
    """Take a step of named tensors, in the order of their keys; None if the plain way must take it.

    EncodeError names the tensor.
    """
    kinds, alone = _divide(wanted, flats)
    if not kinds:
        return None
    keys = {name: key for key, name in enumerate(flats)}
    groups = [_Group.of(device, flats, wanted, names, keys) for names in kinds]
    for group in groups:
        status = group.batch.encode(feedback=True)
        if status is None or (wanted.hold_zeros and not status[:, NONZERO].all()):
            return None
    others = _select_others(device, flats, wanted, alone)
    shapes = tuple([flat.shape for flat in flats.values()])
    block = ext.write_model(tuple(flats), shapes, {}, b"", names_stored=wanted.names)
    coded = {name: _encode(device, one, wanted, name, keys[name]) for name, one in others.items()}
    entries = [entry for own in coded.values() for entry in own]
    blob, on_host = assemble(device, [group.batch for group in groups], entries, block, feedback=True)
    assert on_host is not None
    sent: dict[str, Any] = {}
    residuals: dict[str, Any] = {}
    for group in groups:
        sent |= group.sent(device)
        residuals |= group.residuals()
    sections = iter(find_sections(on_host, entries))
    for name, other in others.items():
        parts = [
            decode_chunk(device, Row(*row_of(entry)), next(sections), UNLIMITED) for entry in coded[name]
        ]
        residuals |= _next_residual(device, other, parts, name)
        sent[name] = device, *decoding.concatenate_parts(device, parts, flats[name].raw_bits.size)
    selectors = {name: other.selector for name, other in others.items() if other.selector is not None}
    places = {name: sent[name] for name in flats}
    return StepResult(blob, on_host, SentTensors(flats, places), residuals, selectors)


def _divide(wanted: StepInput, flats: Mapping[str, DeviceFlat]) -> tuple[list[list[str]], list[str]]:
    """Return the names of the tensors of each batch, and those of the others; no batch for the plain way."""
    jobs, kinds, alone = wanted.jobs, dict[Any, list[str]](), list[str]()
    if not forms.is_on() or wanted.clip is not None or wanted.fuse or jobs.groups or jobs.momenta:
        return [], alone
    for name, flat in flats.items():
        if _takes(jobs, name, flat):
            kinds.setdefault((jobs.schemes[name], flat.dtype), []).append(name)
        else:
            alone.append(name)
    if any(jobs.schemes[name].transform is not None for name in alone):
        return [], alone  # coefficients are decoded with their whole container
    return list(kinds.values()), alone


def _select_others(
    device: Device, flats: Mapping[str, DeviceFlat], wanted: StepInput, names: Sequence[str]
) -> dict[str, plain.SelectedTensor]:
    """Select from the tensors of no batch, or nothing of those to hold. EncodeError names the tensor."""
    held = [False] * len(names)
    if names and wanted.hold_zeros:
        held = are_zero(device, [flats[name].raw_bits for name in names])
    return {
        name: _select(device, flats[name], wanted, name, holds=holds)
        for name, holds in zip(names, held, strict=True)
    }


def _next_residual(
    device: Device, selected: plain.SelectedTensor, parts: list[Any], name: str
) -> dict[str, Any]:
    """Return {name: next residual} of a tensor of no batch, if it keeps one. EncodeError names the tensor."""
    try:
        residual = plain.next_residual(device, selected, parts)
    except EncodeError as error:
        raise error.of(name) from None
    return {} if residual is None else {name: residual}


def _takes(jobs: TensorJobs, name: str, flat: DeviceFlat) -> bool:
    """Return whether a tensor can be in a batch: plain error feedback, and a residual on the device."""
    residual = jobs.residuals.get(name)
    fits = residual is None or (
        residual.dtype == np.float32 and residual.size == flat.raw_bits.size and on_gpu(residual)
    )
    return fits and jobs.rules.get(name) == _PLAIN and has_batch(jobs.schemes[name], flat)


@dataclass(frozen=True, eq=False)
class _Group:
    """Tensors of one scheme and type."""

    names: list[str]
    arrays: Arrays
    batch: Batch

    @classmethod
    def of(
        cls,
        device: Device,
        flats: Mapping[str, DeviceFlat],
        wanted: StepInput,
        names: list[str],
        keys: Mapping[str, int],
    ) -> _Group:
        """Make the batch of some tensors."""
        listed = [flats[name] for name in names]
        plan = _find_plan(device, names, listed, wanted.jobs)
        arrays = Arrays.of(device, plan, feedback=True)
        residuals = [wanted.jobs.residuals.get(name) for name in names]
        numbers = np.array([keys[name] for name in names])
        return cls(names, arrays, Batch(device, plan, listed, residuals, arrays, numbers, wanted.seed))

    def sent(self, device: Device) -> dict[str, Any]:
        """Return the arrays and the place of each tensor, for ``SentTensors``."""
        cuts, arrays = self.arrays.cuts.tolist(), self.arrays
        return {
            name: (device, arrays.indices, arrays.sent, start, stop)
            for name, start, stop in zip(self.names, cuts, cuts[1:], strict=False)
        }

    def residuals(self) -> dict[str, Any]:
        """Return the next residuals, after ``assemble``."""
        starts = self.arrays.starts.tolist()
        return {
            name: self.arrays.totals[start:stop]
            for name, start, stop in zip(self.names, starts, starts[1:], strict=False)
        }


def _select(
    device: Device, flat: DeviceFlat, wanted: StepInput, name: str, *, holds: bool
) -> plain.SelectedTensor:
    """Select from a tensor beside batches, or nothing of one to hold. EncodeError names the tensor."""
    job = wanted.jobs[name].hold() if holds else wanted.jobs[name]
    if job.residual is not None and not on_gpu(job.residual):
        job = replace(job, residual=device.put(job.residual))
    try:
        return plain.select_tensor(device, flat, job)
    except EncodeError as error:
        raise error.of(name) from None


def _encode(
    device: Device, selected: plain.SelectedTensor, wanted: StepInput, name: str, key: int
) -> list[Entry]:
    """Encode a tensor beside batches. EncodeError names the tensor."""
    try:
        return encode_chunks(device, key, selected.support, selected.job.scheme, wanted.seed)
    except EncodeError as error:
        raise error.of(name) from None


def _find_plan(device: Device, names: list[str], flats: list[DeviceFlat], jobs: TensorJobs) -> Plan:
    """Return the plan of tensors of one scheme and type; it is kept for the next step."""
    sizes = tuple([flat.raw_bits.size for flat in flats])
    scheme, dtype = jobs.schemes[names[0]], flats[0].dtype
    key, plans = (device, tuple(names), sizes, dtype, scheme), jobs.plans
    if key not in plans:
        given = set(names)
        for old in [old for old in plans if not given.isdisjoint(old[1])]:  # DDP may divide its buckets again
            del plans[old]
        plans[key] = make_plan(device, sizes, dtype, scheme)
    found: Plan = plans[key]
    return found


class SentTensors(Mapping[str, SparseTensor]):
    """Tensors as receivers decode them; each is made on demand. Those of bfloat16 are on the host.

    Args:
        flats: the gradients by name.
        places: by name, the device, indices, raw bits, and perhaps where the tensor begins and ends there.
    """

    def __init__(self, flats: Mapping[str, DeviceFlat], places: Mapping[str, Any]) -> None:
        self._kinds = {name: (flat.dtype, flat.shape) for name, flat in flats.items()}
        self._places = places

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __getitem__(self, name: str) -> SparseTensor:
        (dtype, shape), (device, indices, raw, *place) = self._kinds[name], self._places[name]
        if place:
            indices, raw = (x[slice(*place)] for x in (indices.view(np.int32), raw))
        if dtype == BFLOAT16:  # which CuPy does not have
            indices, raw = None if indices is None else device.get(indices), device.get(raw)
        return SparseTensor._of(indices, raw.view(dtype), shape, UNLIMITED.max_dense)
