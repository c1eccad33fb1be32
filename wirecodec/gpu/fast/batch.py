"""Selection and encoding of many tensors on a GPU: one launch per stage for all of them, and two waits.

    sums ─► candidates ─► top k ─► Rice and QSGD ─► [wait: sizes] ─► container ─► [wait: checksums]

It takes tensors of one scheme, ``topk(…) | rice | qsgd`` or ``raw``, and of one type. Others take the plain
way, and so do all if something rare happens, such as a sum that is not finite.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from wirecodec.arrays import Array
from wirecodec.container import writer
from wirecodec.element_types import DTYPES, dtype_named
from wirecodec.gpu.fast.plan import Plan
from wirecodec.index.rice import Rice
from wirecodec.kernels.cuda import batch as tables
from wirecodec.kernels.cuda.device import Device
from wirecodec.kernels.cuda.stages import SUFFIX
from wirecodec.prng import mix_each
from wirecodec.select.topk import TopK
from wirecodec.settings.scheme import Scheme
from wirecodec.tensors import DeviceFlat
from wirecodec.value.qsgd import QSGD
from wirecodec.value.raw import Raw


def has_batch(scheme: Scheme, flat: DeviceFlat) -> bool:
    """Return whether a tensor can be encoded in a batch."""
    value, size = scheme.value, flat.raw_bits.size
    codes = type(value) is QSGD and value.norm == "max" and value.bucket == 512
    plain = type(value) is Raw
    if type(scheme.select) is not TopK or type(scheme.index) is not Rice or scheme.transform is not None:
        return False
    return (codes or plain) and flat.dtype.name in SUFFIX and 0 < scheme.select.count(size) < size < 2**31


def make_plan(device: Device, sizes: Sequence[int], dtype: np.dtype[Any], scheme: Scheme) -> Plan:
    """Make the plan of tensors that ``has_batch`` accepts."""
    select: Any = scheme.select
    value = scheme.value
    bits = value.bits if isinstance(value, QSGD) else 0
    narrow = None
    if isinstance(value, Raw) and value.dtype is not None and dtype.itemsize == 4:
        narrow = dtype_named(value.dtype)
    return Plan(device, sizes, [select.count(size) for size in sizes], dtype, bits, narrow)


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
            device.empty(count, kind) if plan.has_section else values,
            starts,
            cuts,
        )


class Batch:
    """One step of a plan's tensors.

    Args:
        device: where everything is.
        plan: of the tensors.
        flats: the gradients.
        residuals: (size,) float32 of each, or None for 0.
        arrays: of the step.
        keys: (t,) of the tensors.
        seed: of the codecs.
    """

    def __init__(
        self,
        device: Device,
        plan: Plan,
        flats: Sequence[DeviceFlat],
        residuals: Sequence[Any],
        arrays: Arrays,
        keys: Array,
        seed: int,
    ) -> None:
        self._device, self._plan = device, plan
        self._keys = keys[plan.owners]
        self._found = np.empty((0, 2), np.uint32)
        counts = plan.size.size, plan.owners.size
        uploaded = self._upload(flats, residuals, arrays, seed)
        self._launch = tables.Launcher(
            device, *uploaded, plan.stages, counts, plan.dtype, plan.bits, plan.narrow
        )

    def encode(self, *, feedback: bool) -> Array | None:
        """Select and encode; return the status of all tensors, (t, 9) u32.

        None if a sum is not finite.
        """
        plan, launch = self._plan, self._launch
        stop = tables.STATUS * plan.size.size
        launch.select(warm=feedback and plan.is_warm, feedback=feedback)
        launch.encode()
        report = self._device.get(plan.report)
        if report[tables.RETRY : stop : tables.STATUS].any():
            launch.select_again()
            launch.encode()
            report = self._device.get(plan.report)
        plan.is_warm = True
        status: Array = report[:stop].reshape(-1, tables.STATUS)
        self._found = report[stop:].reshape(-1, 2)
        if status[:, tables.BAD].any() or (status[:, tables.KEPT_FIRST] != 2**32 - 1).any():
            return None
        return status

    def rows(self) -> Array:
        """Return the rows of the container's table, ``TABLE`` without checksums; after ``encode``."""
        plan, found = self._plan, self._found
        r = found[:, 0].astype(np.int64)
        table: Any = np.zeros(r.size, writer.TABLE)
        table["key"], table["base"], table["d"], table["r"] = self._keys, plan.base, plan.d, r
        table["index_len"], table["value_len"] = 4 * found[:, 1].astype(np.int64), plan.value_bytes(r)
        table["dtype"] = DTYPES.index(plan.dtype) + 1
        table["index"], table["value"] = Rice.wire_id, plan.value_id
        return table  # type: ignore[no-any-return]

    def write(self, places: Array, blob: Any, *, feedback: bool) -> None:
        """Write the sections; with error feedback, subtract what is sent.

        Args:
            places: (e, 2) i64, offsets of the index and the value section in the container.
            blob: the container, zeroed.
            feedback: whether there are residuals.
        """
        plan = self._plan
        table: Any = np.zeros(len(places), tables.PLACE)
        table["index"], table["value"] = places.T
        table["value_words"] = plan.value_words(self._found[:, 0].astype(np.int64))
        self._launch.finish(self._device.put(table.view(np.uint8)), blob, feedback=feedback)

    def _upload(
        self, flats: Sequence[DeviceFlat], residuals: Sequence[Any], arrays: Arrays, seed: int
    ) -> tuple[Any, Any]:
        """Complete both tables with the arrays of this step, and copy them to the device."""
        device, plan = self._device, self._plan
        address, width = device.address, plan.dtype.itemsize
        cuts = arrays.cuts[:-1]
        tensors: Any = plan.tensors
        tensors["gradient"] = [address(flat.raw_bits) for flat in flats]
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
            streams[here] = mix_each(seed, self._keys[here].astype(np.uint64), base)
        entries["low"], entries["high"] = streams & np.uint64(2**32 - 1), streams >> np.uint64(32)
        both = device.put(np.concatenate([tensors.view(np.uint8), entries.view(np.uint8)]))
        return both[: tensors.nbytes], both[tensors.nbytes :]
