"""Selection and encoding of many tensors on a GPU: one launch per stage for all of them, and two waits.

    sums ─► candidates ─► top k ─► Rice and QSGD ─► [wait: sizes] ─► container ─► [wait: checksums]

It takes tensors of one scheme, ``topk(…) | rice | qsgd`` or ``raw``. All others take the plain way, and so do
tensors in which something rare happens, such as a sum that is not finite.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from wirecodec.arrays import DTYPES, Array, Bytes, DeviceFlat, as_bytes
from wirecodec.container import writer
from wirecodec.gpu.fast.plan import Plan
from wirecodec.index.rice import Rice
from wirecodec.kernels.cuda import batch as tables
from wirecodec.kernels.cuda.device import Device
from wirecodec.prng import mix_each
from wirecodec.select.topk import TopK
from wirecodec.settings.scheme import Scheme
from wirecodec.value.qsgd import QSGD
from wirecodec.value.raw import Raw


def find_scheme(schemes: Iterable[Scheme]) -> Scheme | None:
    """Return the scheme of all tensors; None if they have several, or one that has no batch."""
    listed = iter(schemes)
    first = next(listed, None)
    if first is None or any(scheme is not first and scheme != first for scheme in listed):
        return None
    value = first.value
    codes = type(value) is QSGD and value.norm == "max" and value.bucket == 512
    plain = type(value) is Raw and value.dtype is None
    if type(first.select) is not TopK or type(first.index) is not Rice or first.transform is not None:
        return None
    return first if codes or plain else None


def find_dtype(flats: Iterable[DeviceFlat]) -> np.dtype[Any] | None:
    """Return the type of all tensors; None if they have several, or one that has no batch."""
    found = {flat.dtype for flat in flats}
    dtype = found.pop()
    return dtype if not found and dtype.name in tables.SUFFIX else None


def make_plan(device: Device, sizes: Sequence[int], dtype: np.dtype[Any], scheme: Scheme) -> Plan | None:
    """Make the plan of tensors; None if one has too few elements, or too many."""
    select: Any = scheme.select
    counts = [select.count(size) for size in sizes]
    if not all(0 < k < size < 2**31 for k, size in zip(counts, sizes, strict=True)):
        return None
    return Plan(device, sizes, counts, dtype, scheme.value.bits if isinstance(scheme.value, QSGD) else 0)


@dataclass(frozen=True, eq=False)
class Arrays:
    """Arrays of one step, for all tensors end to end.

    Attributes:
        totals: float32, gradient + residual; None if there is no error feedback.
        indices: (Σ k,) u32, the top k of each tensor.
        values: raw bits there.
        sent: the same as receivers decode them.
        starts, cuts: (t + 1,) i64, where each tensor begins in ``totals`` and in the others.
    """

    totals: Any
    indices: Any
    values: Any
    sent: Any
    starts: Array
    cuts: Array

    @classmethod
    def of(cls, device: Device, plan: Plan, *, feedback: bool) -> Arrays:
        """Allocate the arrays of a step."""
        starts, cuts = np.cumsum([0, *plan.size]), np.cumsum([0, *plan.k])
        count, kind = int(cuts[-1]), f"u{plan.dtype.itemsize}"
        values = device.empty(count, kind)
        return cls(
            device.empty(int(starts[-1]), np.float32) if feedback else None,
            device.empty(count, np.uint32),
            values,
            device.empty(count, kind) if feedback and plan.bits else values,
            starts,
            cuts,
        )


class Batch:
    """One step of a plan's tensors.

    Args:
        device: where everything is.
        plan: of the tensors.
        flats: the gradients, by name in the order of their keys.
        residuals: (size,) float32 of each, or None for 0.
        arrays: of the step.
        seed: of the codecs.
    """

    def __init__(
        self,
        device: Device,
        plan: Plan,
        flats: Mapping[str, DeviceFlat],
        residuals: Sequence[Any],
        arrays: Arrays,
        seed: int,
    ) -> None:
        self._device, self._plan = device, plan
        self._found = np.empty((0, 2), np.uint32)
        counts = plan.size.size, plan.owners.size
        uploaded = self._upload(flats, residuals, arrays, seed)
        self._launch = tables.Launcher(device, *uploaded, plan.stages, counts, plan.dtype, plan.bits)

    def encode(self, *, feedback: bool) -> Array | None:
        """Select and encode; return the status of all tensors, (t, 9) u32.

        None if a sum is not finite.
        """
        plan, launch = self._plan, self._launch
        stop = tables.STATUS * plan.size.size
        launch.select(plan.zeroed, cold=not (feedback and plan.is_warm), feedback=feedback)
        launch.encode()
        report = self._device.get(plan.report)
        if report[tables.RETRY : stop : tables.STATUS].any():
            launch.select(plan.zeroed, cold=True, feedback=feedback)
            launch.encode()
            report = self._device.get(plan.report)
        plan.is_warm = True
        status: Array = report[:stop].reshape(-1, tables.STATUS)
        self._found = report[stop:].reshape(-1, 2)
        if status[:, tables.BAD].any() or (status[:, tables.KEPT_FIRST] != 2**32 - 1).any():
            return None
        return status

    def write(self, block: bytes, *, feedback: bool) -> tuple[Any, Bytes | None]:
        """Write the container on the device; with error feedback, subtract what is sent.

        ``block`` is the extension block. Returns the container, and with error feedback a copy on the host.
        """
        device, plan, found = self._device, self._plan, self._found
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
        whole = device.empty(total + 4 * r.size, np.uint8)  # the checksums follow the container
        device.clear(whole)
        blob, crcs = whole[:total], whole[total:].view(np.uint32)
        self._launch.finish(device.put(places.view(np.uint8)), blob, crcs, feedback=feedback)
        copy = device.get(whole if feedback else crcs).view(np.uint8)
        table: Any = np.zeros(r.size, writer.TABLE)
        table["key"], table["base"], table["d"], table["r"] = plan.owners, plan.base, plan.d, r
        table["crc"] = copy[copy.size - 4 * r.size :].view(np.uint32)
        table["index_len"], table["value_len"] = index_bytes, value_bytes
        table["dtype"] = DTYPES.index(plan.dtype) + 1
        table["index"], table["value"] = Rice.wire_id, QSGD.wire_id if plan.bits else Raw.wire_id
        header = np.frombuffer(writer.write_header(table, block, total), np.uint8)
        device.copy(device.put(header), blob[:payload])
        if not feedback:
            return blob, None
        copy[:payload] = header
        return blob, as_bytes(copy[:total])

    def _upload(
        self, flats: Mapping[str, DeviceFlat], residuals: Sequence[Any], arrays: Arrays, seed: int
    ) -> tuple[Any, Any]:
        """Complete both tables with the arrays of this step, and copy them to the device."""
        device, plan = self._device, self._plan
        address, width = device.address, plan.dtype.itemsize
        cuts = arrays.cuts[:-1]
        tensors: Any = plan.tensors
        tensors["gradient"] = [address(flat.raw_bits) for flat in flats.values()]
        tensors["residual"] = [0 if x is None else address(x) for x in residuals]
        tensors["total"] = 0 if arrays.totals is None else address(arrays.totals) + 4 * arrays.starts[:-1]
        tensors["kept_indices"] = address(arrays.indices) + 4 * cuts
        tensors["kept_values"] = address(arrays.values) + width * cuts
        entries: Any = plan.entries
        entries["total"] = tensors["total"][plan.owners]
        entries["indices"] = tensors["kept_indices"][plan.owners]
        entries["values"] = tensors["kept_values"][plan.owners]
        entries["sent"] = address(arrays.sent) + width * cuts[plan.owners]
        streams = np.empty(plan.owners.size, np.uint64)
        for base in np.unique(plan.base).tolist():
            here = plan.base == base
            streams[here] = mix_each(seed, plan.owners[here].astype(np.uint64), base)
        entries["low"], entries["high"] = streams & np.uint64(2**32 - 1), streams >> np.uint64(32)
        both = device.put(np.concatenate([tensors.view(np.uint8), entries.view(np.uint8)]))
        return both[: tensors.nbytes], both[tensors.nbytes :]


def _pad(lengths: Array) -> Array:
    """Return lengths of sections with their padding."""
    padded: Array = (lengths + 7) & -8
    return padded
