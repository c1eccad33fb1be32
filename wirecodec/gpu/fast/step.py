"""A Compressor's step of many tensors on a GPU."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from wirecodec.arrays import BFLOAT16, DeviceFlat, on_gpu
from wirecodec.container import extension_writer as ext
from wirecodec.cpu import fast
from wirecodec.gpu.fast.batch import Arrays, Batch, find_dtype, find_scheme, make_plan
from wirecodec.gpu.fast.plan import Plan
from wirecodec.kernels.cuda.batch import NONZERO
from wirecodec.kernels.cuda.device import Device
from wirecodec.limits import UNLIMITED
from wirecodec.settings.feedback import ErrorFeedback
from wirecodec.settings.scheme import Scheme
from wirecodec.sparse import SparseTensor
from wirecodec.step import StepInput, StepResult, TensorJobs

_PLAIN = ErrorFeedback()
MAX_PLANS = 64
"""Sets of tensors whose plans are kept; a step in parts has one per part."""


def step(device: Device, flats: Mapping[str, DeviceFlat], wanted: StepInput) -> StepResult | None:
    """Take a step of named tensors, in the order of their keys; None if the plain way must take it."""
    jobs = wanted.jobs
    if not fast.is_on() or wanted.clip is not None or wanted.fuse or jobs.groups or jobs.momenta:
        return None
    scheme = find_scheme(jobs.schemes.values())
    plan = None if scheme is None else _find_plan(device, flats, jobs, scheme)
    if plan is None:
        return None
    arrays = Arrays.of(device, plan, feedback=True)
    residuals = [jobs.residuals.get(name) for name in flats]
    batch = Batch(device, plan, flats, residuals, arrays, wanted.seed)
    status = batch.encode(feedback=True)
    if status is None or (wanted.hold_zeros and not status[:, NONZERO].all()):
        return None
    shapes = tuple([flat.shape for flat in flats.values()])
    block = ext.write_model(tuple(flats), shapes, {}, b"", names_stored=wanted.names)
    blob, on_host = batch.write(block, feedback=True)
    assert on_host is not None
    starts = arrays.starts.tolist()
    return StepResult(
        blob,
        on_host,
        SentTensors(device, flats, arrays),
        {name: arrays.totals[starts[t] : starts[t + 1]] for t, name in enumerate(flats)},
        {},
    )


def _find_plan(
    device: Device, flats: Mapping[str, DeviceFlat], jobs: TensorJobs, scheme: Scheme
) -> Plan | None:
    """Return the plan of these tensors; None if one of them has no batch."""
    dtype = find_dtype(flats.values())
    for name, flat in flats.items():
        rule, residual = jobs.rules.get(name), jobs.residuals.get(name)
        if rule != _PLAIN or not (residual is None or _fits(residual, flat.raw_bits.size)):
            return None
    sizes = tuple([flat.raw_bits.size for flat in flats.values()])
    key, plans = (device, tuple(flats), sizes, dtype, scheme), jobs.plans
    if key not in plans:
        plan = None if dtype is None else make_plan(device, sizes, dtype, scheme)
        if plan is None:
            return None
        if len(plans) >= MAX_PLANS:
            plans.clear()
        plans[key] = plan
    found: Plan = plans[key]
    return found


def _fits(residual: Any, size: int) -> bool:
    return residual.dtype == np.float32 and residual.size == size and on_gpu(residual)


class SentTensors(Mapping[str, SparseTensor]):
    """Tensors as receivers decode them; each is made on demand. Those of bfloat16 are on the host."""

    def __init__(self, device: Device, flats: Mapping[str, DeviceFlat], arrays: Arrays) -> None:
        self._device, self._indices, self._values = device, arrays.indices, arrays.sent
        cuts = arrays.cuts.tolist()
        self._places = {
            name: (start, stop, flat.dtype, flat.shape)
            for (name, flat), start, stop in zip(flats.items(), cuts, cuts[1:], strict=False)
        }

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __getitem__(self, name: str) -> SparseTensor:
        start, stop, dtype, shape = self._places[name]
        indices, values = self._indices[start:stop].view(np.int32), self._values[start:stop]
        if dtype == BFLOAT16:  # which CuPy does not have
            indices, values = self._device.get(indices), self._device.get(values)
        return SparseTensor._of(indices, values.view(dtype), shape, UNLIMITED.max_dense)
