"""What was selected on the device, and how selectors there come to it: above a threshold, or the top k."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from wirecodec.arrays import Array, DeviceFlat, read_only
from wirecodec.cpu.select import scaled
from wirecodec.gpu.select.warm_topk import LastTop
from wirecodec.kernels.cuda import bits, elements
from wirecodec.kernels.cuda.device import Device
from wirecodec.kernels.cuda.select import Selected, Selector, infinity_of, magnitude_of, rule_of
from wirecodec.kernels.cuda.topk import Search
from wirecodec.sparse import index_dtype
from wirecodec.support import Support

__all__ = [
    "Context",
    "DeviceSupport",
    "Refused",
    "concatenated",
    "has_nonfinite",
    "passed",
    "reaching",
    "staged",
    "top",
    "whole",
]


class Refused(Exception):
    """A kernel met something that cannot be encoded; the CPU's code says what, and raises."""


@dataclass(frozen=True, eq=False)
class DeviceSupport:
    """What was selected of a tensor.

    Attributes:
        indices: (r,) u32, or None for all.
        words: (r,), the values there.
        flat: the tensor.
        scale: the one magnitude of all values where the selector fixed it.
        state: the selector's, for the tensor's next step, or None; on the host.
    """

    indices: Any
    words: Any
    flat: DeviceFlat
    scale: float | None = None
    state: Any = None
    domain: ClassVar[int] = 0

    @property
    def size(self) -> int:
        """The tensor's elements."""
        return int(self.flat.words.size)

    @property
    def shape(self) -> tuple[int, ...]:
        """The tensor's."""
        return self.flat.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The tensor's element type."""
        return self.flat.dtype


@dataclass(frozen=True, eq=False)
class Context:
    """What a selector is told beside the tensor.

    Attributes:
        seed: of the selection.
        gradient: this step's, where the tensor is not the gradient itself; of its type.
        state: what the last selection of this tensor returned.
        last: where the last step's search for the top k ended.
    """

    seed: int = 0
    gradient: DeviceFlat | None = None
    state: Any = None
    last: LastTop | None = None


def has_nonfinite(device: Device, words: Any, dtype: np.dtype[Any]) -> bool:
    """Whether one of the words is NaN or infinite; waits for the device."""
    first = device.get(bits.nonfinite(device, words, infinity_of(dtype)))
    return bool(first[0] != bits.NOWHERE)


def whole(device: Device, flat: DeviceFlat) -> DeviceSupport:
    """Every element; Refused where one has no order."""
    if has_nonfinite(device, flat.words, flat.dtype):
        raise Refused
    return DeviceSupport(None, flat.words, flat)


def passed(device: Device, flat: DeviceFlat, made: Selected) -> DeviceSupport:
    """What passed a rule, of all elements; Refused where one of it has no order."""
    count, bad = made.count(device)
    if bad is not None:
        raise Refused
    if count == flat.words.size:
        return DeviceSupport(None, flat.words, flat)
    return DeviceSupport(made.indices[:count], made.values[:count], flat)


def reaching(device: Device, words: Any, least: int, infinity: int, numbers: Any = None) -> Selected:
    """The (n,) words whose key is ``least`` or more; ``numbers`` (n,) u32 are theirs, else 0, 1, …."""
    rule = device.put(rule_of(least))
    selector = Selector(device, words.size, words.dtype, words.size)
    return selector.select(words, rule, mask=magnitude_of(words), infinity=infinity, numbers=numbers)


def top(device: Device, words: Any, infinity: int, k: int) -> tuple[Selected, int]:
    """The top k of (n,) words, 0 < k <= n, and the least key of them; Refused where one has no order."""
    if k == words.size:  # a search leaves one out: a zero behind, the last one of its ties
        padded = device.empty(k + 1, words.dtype)
        device.clear(padded)
        device.copy(words, padded[:k])
        words = padded
    search = Search(device, words.size, words.dtype, k)
    made = search.cold(words, infinity)
    if made.count(device)[1] is not None:
        raise Refused
    return made, int(device.get(search.rule)[0])


def staged(device: Device, support: DeviceSupport) -> Support:
    """What was selected, on the host; other elements are fetched where a lossy index codec asks for them."""
    flat = support.flat
    values = read_only(device.get(support.words).view(flat.dtype))
    size = support.size
    if support.indices is None:
        return Support(None, values, size, flat.shape)

    def source(where: Array) -> Array:
        numbers = device.put(np.ascontiguousarray(where, np.uint32))
        found: Array = device.get(elements.gathered(device, flat.words, numbers)).view(flat.dtype)
        return scaled(found, support.scale)

    indices = read_only(device.get(support.indices).astype(index_dtype(size)))
    return Support(indices, values, size, flat.shape, source)


def concatenated(device: Device, pieces: Sequence[Any]) -> Any:
    """Arrays of one type as one; the only one itself."""
    if len(pieces) == 1:
        return pieces[0]
    whole = device.empty(sum(each.size for each in pieces), pieces[0].dtype)
    at = 0
    for each in pieces:
        device.copy(each, whole[at : at + each.size])
        at += each.size
    return whole
