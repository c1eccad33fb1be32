"""A Compressor's step of many tensors on a GPU: one launch per stage for all of them, and two waits.

    sums ─► candidates ─► top k ─► Rice and QSGD ─► [wait: sizes] ─► container ─► next residuals
                                                                  └► [wait: container]

It takes steps whose tensors all have one scheme, ``topk(…) | rice | qsgd`` or ``raw``, and plain error
feedback. Others take the plain way, and so does a step in which something rare happens: a sum that is not
finite, or a tensor to hold.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from wirecodec.arrays import BFLOAT16, DTYPES, Array, DeviceFlat, as_bytes, on_gpu
from wirecodec.container import extension_writer as ext
from wirecodec.container import writer
from wirecodec.cpu import fast
from wirecodec.gpu.fast.plan import Plan
from wirecodec.index.rice import Rice
from wirecodec.kernels.cuda import batch as tables
from wirecodec.kernels.cuda.device import Device
from wirecodec.limits import UNLIMITED
from wirecodec.prng import mix_each
from wirecodec.select.topk import TopK
from wirecodec.settings.feedback import ErrorFeedback
from wirecodec.settings.scheme import Scheme
from wirecodec.sparse import SparseTensor
from wirecodec.step import StepInput, StepResult, TensorJobs
from wirecodec.value.qsgd import QSGD
from wirecodec.value.raw import Raw

_PLAIN = ErrorFeedback()
MAX_PLANS = 64
"""Sets of tensors whose plans are kept; a step in parts has one per part."""


def step(device: Device, flats: Mapping[str, DeviceFlat], wanted: StepInput) -> StepResult | None:
    """Take a step of named tensors, in the order of their keys; None if the plain way must take it."""
    scheme = _find_scheme(flats, wanted) if fast.is_on() else None
    if scheme is None:
        return None
    plan = _find_plan(device, flats, wanted.jobs, scheme)
    if plan is None:
        return None
    return _Step(device, plan, flats, wanted).take()


def _find_scheme(flats: Mapping[str, DeviceFlat], wanted: StepInput) -> Scheme | None:
    """Return the scheme of all tensors; None if they have several, or one that has no batch."""
    jobs = wanted.jobs
    if wanted.clip is not None or wanted.fuse or jobs.groups or jobs.momenta or not flats:
        return None
    first: Scheme = next(iter(jobs.schemes.values()))
    if any(scheme is not first and scheme != first for scheme in jobs.schemes.values()):
        return None
    value = first.value
    codes = type(value) is QSGD and value.norm == "max" and value.bucket == 512
    plain = type(value) is Raw and value.dtype is None
    if type(first.select) is not TopK or type(first.index) is not Rice or first.transform is not None:
        return None
    return first if codes or plain else None


def _find_plan(
    device: Device, flats: Mapping[str, DeviceFlat], jobs: TensorJobs, scheme: Scheme
) -> Plan | None:
    """Return the plan of these tensors; None if one of them has no batch."""
    listed = list(flats.values())
    dtype = listed[0].dtype
    if dtype.name not in tables.SUFFIX or any(flat.dtype != dtype for flat in listed):
        return None
    for name, flat in flats.items():
        rule, residual = jobs.rules.get(name), jobs.residuals.get(name)
        if rule != _PLAIN or not (residual is None or _fits(residual, flat.raw_bits.size)):
            return None
    sizes = tuple([flat.raw_bits.size for flat in listed])
    key = device, tuple(flats), sizes, dtype, scheme
    plans = jobs.plans
    if key not in plans:
        select: Any = scheme.select
        counts = [select.count(size) for size in sizes]
        if not all(0 < k < size < 2**31 for k, size in zip(counts, sizes, strict=True)):
            return None
        if len(plans) >= MAX_PLANS:
            plans.clear()
        bits = scheme.value.bits if isinstance(scheme.value, QSGD) else 0
        plans[key] = Plan(device, sizes, counts, dtype, bits)
    found: Plan = plans[key]
    return found


def _fits(residual: Any, size: int) -> bool:
    return residual.dtype == np.float32 and residual.size == size and on_gpu(residual)


@dataclass(frozen=True, eq=False)
class _Step:
    """One step of a plan's tensors."""

    device: Device
    plan: Plan
    flats: Mapping[str, DeviceFlat]
    wanted: StepInput

    def take(self) -> StepResult | None:
        """Take the step; None if the plain way must take it."""
        device, plan = self.device, self.plan
        starts = np.cumsum([0, *plan.size])
        cuts = np.cumsum([0, *plan.k])
        totals = device.empty(int(starts[-1]), np.float32)
        indices = device.empty(int(cuts[-1]), np.uint32)
        values = device.empty(int(cuts[-1]), f"u{plan.dtype.itemsize}")
        sent = device.empty(int(cuts[-1]), values.dtype) if plan.bits else values
        tensors, entries = self._upload(starts, cuts, totals, indices, values, sent)
        launch = tables.Launcher(
            device, tensors, entries, plan.stages, (plan.size.size, plan.owners.size), plan.dtype, plan.bits
        )
        launch.select(plan.zeroed, cold=not plan.is_warm)
        launch.encode()
        report = device.get(plan.report)
        if plan.is_warm and report[tables.RETRY : self._status.stop : tables.STATUS].any():
            launch.select(plan.zeroed, cold=True)
            launch.encode()
            report = device.get(plan.report)
        plan.is_warm = True
        status = report[self._status].reshape(-1, tables.STATUS)
        if status[:, tables.BAD].any() or (status[:, tables.KEPT_FIRST] != 2**32 - 1).any():
            return None
        if self.wanted.hold_zeros and not status[:, tables.NONZERO].all():
            return None
        blob, on_host = self._write(launch, report[self._status.stop :].reshape(-1, 2))
        names = list(self.flats)
        return StepResult(
            blob,
            on_host,
            SentTensors(device, self.flats, indices, sent, cuts.tolist()),
            {name: totals[starts[t] : starts[t + 1]] for t, name in enumerate(names)},
            {},
        )

    @property
    def _status(self) -> slice:
        return slice(0, tables.STATUS * self.plan.size.size)

    def _upload(
        self, starts: Array, cuts: Array, totals: Any, indices: Any, values: Any, sent: Any
    ) -> tuple[Any, Any]:
        """Complete both tables with the arrays of this step, and copy them to the device."""
        device, plan, jobs = self.device, self.plan, self.wanted.jobs
        address, width = device.address, plan.dtype.itemsize
        tensors: Any = plan.tensors
        tensors["gradient"] = [address(flat.raw_bits) for flat in self.flats.values()]
        residuals = [jobs.residuals.get(name) for name in self.flats]
        tensors["residual"] = [0 if x is None else address(x) for x in residuals]
        tensors["total"] = address(totals) + 4 * starts[:-1]
        tensors["kept_indices"] = address(indices) + 4 * cuts[:-1]
        tensors["kept_values"] = address(values) + width * cuts[:-1]
        entries: Any = plan.entries
        entries["total"] = tensors["total"][plan.owners]
        entries["indices"] = tensors["kept_indices"][plan.owners]
        entries["values"] = tensors["kept_values"][plan.owners]
        entries["sent"] = address(sent) + width * cuts[:-1][plan.owners]
        streams = np.empty(plan.owners.size, np.uint64)
        for base in np.unique(plan.base).tolist():
            here = plan.base == base
            streams[here] = mix_each(self.wanted.seed, plan.owners[here].astype(np.uint64), base)
        entries["low"], entries["high"] = streams & np.uint64(2**32 - 1), streams >> np.uint64(32)
        both = device.put(np.concatenate([tensors.view(np.uint8), entries.view(np.uint8)]))
        return both[: tensors.nbytes], both[tensors.nbytes :]

    def _write(self, launch: tables.Launcher, found: Array) -> tuple[Any, Array]:
        """Write the container on the device, and subtract what is sent; return it, and a copy on the host.

        Args:
            launch: of the kernels.
            found: (e, 2) u32, values and words of the index section of each entry.
        """
        device, plan = self.device, self.plan
        names = tuple(self.flats)
        shapes = tuple([flat.shape for flat in self.flats.values()])
        block = ext.write_model(names, shapes, {}, b"", names_stored=self.wanted.names)
        r = found[:, 0].astype(np.int64)
        index_bytes, value_bytes = 4 * found[:, 1].astype(np.int64), plan.value_bytes(r)
        payload = writer.PREFIX_BYTES + writer.TABLE.itemsize * r.size + len(block)
        ends = payload + np.cumsum(_pad(index_bytes) + _pad(value_bytes))
        places: Any = np.zeros(r.size, tables.PLACE)
        places["stop"] = ends
        places["value"] = ends - _pad(value_bytes)
        places["index"] = places["value"] - _pad(index_bytes).astype(np.uint64)
        places["value_words"] = plan.value_words(r)
        total = int(ends[-1])
        whole = device.empty(total + -total % 8 + 4 * r.size, np.uint8)  # the checksums follow the container
        device.clear(whole)
        blob, crcs = whole[:total], whole[total + -total % 8 :].view(np.uint32)
        launch.finish(device.put(places.view(np.uint8)), blob, crcs)
        copy = device.get(whole)
        table: Any = np.zeros(r.size, writer.TABLE)
        table["key"], table["base"], table["d"], table["r"] = plan.owners, plan.base, plan.d, r
        table["crc"] = copy[total + -total % 8 :].view(np.uint32)
        table["index_len"], table["value_len"] = index_bytes, value_bytes
        table["dtype"] = DTYPES.index(plan.dtype) + 1
        table["index"], table["value"] = Rice.wire_id, QSGD.wire_id if plan.bits else Raw.wire_id
        header = np.frombuffer(writer.write_header(table, block, total), np.uint8)
        on_host = copy[:total]
        on_host[:payload] = header
        device.copy(device.put(header), blob[:payload])
        return blob, as_bytes(on_host)


class SentTensors(Mapping[str, SparseTensor]):
    """Tensors as receivers decode them; each is made on demand. Those of bfloat16 are on the host."""

    def __init__(
        self, device: Device, flats: Mapping[str, DeviceFlat], indices: Any, values: Any, cuts: Sequence[int]
    ) -> None:
        self._device, self._indices, self._values = device, indices, values
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


def _pad(lengths: Array) -> Array:
    """Return lengths of sections with their padding."""
    padded: Array = (lengths + 7) & -8
    return padded
