"""Times of adding several ranks' containers, and of whole calls on one tensor, small or sparse."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import numpy as np

import wirecodec as wc
from benchmarks.common.timing import CallTime, measure_in_turns, numba_threads
from benchmarks.model.models import Model, draw_gradient
from benchmarks.model.stages import RATES, VALUES, format_scheme
from wirecodec.arrays import Array, read_only
from wirecodec.limits import DEFAULT_LIMITS

__all__ = [
    "DIMENSION",
    "INDICES",
    "SMALL",
    "IndexCall",
    "SmallCall",
    "SumTime",
    "add_containers",
    "measure_index_calls",
    "measure_small_calls",
    "measure_sums",
]

SMALL = 1000
"""Elements of the small tensor."""
INDICES, DIMENSION = 2**18, 100 * 2**18
"""Indices and elements of the sparse tensor."""
INDEX_VALUES = (*VALUES, "error-bounded(0.01)")
"""Value codecs of the sparse tensor."""
CALLS = 100
"""Calls that are timed together."""


@dataclass(frozen=True)
class SumTime:
    """Times of adding the containers of several ranks.

    Attributes:
        model: name of the model.
        containers: their number.
        many: time for containers of the model's tensors.
        flat: time for as many containers of one vector.
        one_flat: time for one container of one vector.
    """

    model: str
    containers: int
    many: CallTime
    flat: CallTime
    one_flat: CallTime

    @property
    def ratio(self) -> float:
        """Processor time of the sum, divided by that of one vector times the number of containers."""
        return self.many.processor / (self.containers * self.one_flat.processor)


@dataclass(frozen=True)
class SmallCall:
    """Time of one call on a small tensor.

    Attributes:
        call: name of the function.
        scheme: the scheme.
        time: of one call.
    """

    call: str
    scheme: str
    time: CallTime


@dataclass(frozen=True)
class IndexCall:
    """Times of a whole call on a sparse tensor, and of its two codecs alone.

    Attributes:
        call: name of the function.
        scheme: the scheme.
        whole: time of the call.
        codecs: time of the index codec and the value codec.
    """

    call: str
    scheme: str
    whole: CallTime
    codecs: CallTime

    @property
    def ratio(self) -> float:
        """Processor time of the call, divided by that of the codecs."""
        return self.whole.processor / self.codecs.processor


def add_containers(blobs: Sequence[Any], out: Any) -> None:
    """Add containers to an array or to named arrays."""
    wc.decode_add(blobs, out)


def measure_sums(
    model: Model, counts: Sequence[int], step: Callable[[str], None], *, budget: float, min_calls: int
) -> list[SumTime]:
    """Measure sums of different ranks' containers at the first density, on one thread.

    A rank's gradient is that of the first rank, rotated.

    Args:
        model: its shapes.
        counts: numbers of containers, ascending; the first is 1.
        step: called with the name of each measurement before it starts.
        budget: approximate seconds per call.
        min_calls: runs of each call even if the budget is exceeded.
    """
    step(f"{model.name}: containers of {counts[-1]} ranks")
    scheme = format_scheme(RATES[0], VALUES[0])
    tensors, flat = draw_gradient(model.shapes)
    many, one = [], []
    for rank in range(counts[-1]):
        turned, start = np.roll(flat, 999_983 * rank), 0
        for tensor in tensors.values():
            tensor[...] = turned[start : start + tensor.size].reshape(tensor.shape)
            start += tensor.size
        many.append(wc.encode_many(tensors, scheme, seed=rank))
        one.append(wc.encode(turned, scheme, seed=rank))
    sums, flat_sum = {name: np.zeros_like(x) for name, x in tensors.items()}, np.zeros_like(flat)
    calls = [
        call
        for count in counts
        for call in (
            partial(add_containers, many[:count], sums),
            partial(add_containers, one[:count], flat_sum),
        )
    ]
    with numba_threads(1):
        times = measure_in_turns(calls, budget=budget, min_calls=min_calls)
    pairs = zip(counts, times[::2], times[1::2], strict=True)
    return [SumTime(model.name, count, ours, theirs, times[1]) for count, ours, theirs in pairs]


def measure_small_calls(step: Callable[[str], None], *, budget: float, min_calls: int) -> list[SmallCall]:
    """Measure ``encode``, ``decode`` and ``decode_add`` of a small tensor, on one thread."""
    step(f"one tensor of {SMALL:,} elements")
    _, x = draw_gradient([(SMALL,)])
    out, names, calls = np.zeros_like(x), [], []
    for values in VALUES:
        scheme = format_scheme(RATES[0], values)
        blob = wc.encode(x, scheme)
        for name, call in (
            ("encode", partial(wc.encode, x, scheme)),
            ("decode", partial(wc.decode, blob)),
            ("decode_add", partial(wc.decode_add, blob, out)),
        ):
            names.append((name, scheme))
            calls.append(partial(_repeat, call))
    with numba_threads(1):
        times = measure_in_turns(calls, budget=budget, min_calls=min_calls)
    return [
        SmallCall(name, scheme, CallTime(time.seconds / CALLS, time.processor / CALLS))
        for (name, scheme), time in zip(names, times, strict=True)
    ]


def measure_index_calls(step: Callable[[str], None], *, budget: float, min_calls: int) -> list[IndexCall]:
    """Measure ``encode`` and ``decode`` of a sparse tensor, and its codecs alone, on one thread."""
    step(f"one tensor of {INDICES:,} indices")
    _, dense = draw_gradient([(DIMENSION,)])
    chosen = wc.decode(wc.encode(dense, f"topk(k={INDICES}) | rice | raw"))
    indices, x = read_only(chosen.indices.astype(np.uint32)), read_only(chosen.values)
    names: list[tuple[str, str]] = []
    calls: list[Callable[[], Any]] = []
    for values in INDEX_VALUES:
        scheme = f"nonzero | rice | {values}"
        index, value = wc.codecs.Rice(), cast("Any", wc.Scheme.parse(scheme).value)
        blob = wc.encode(chosen, scheme)
        sections = read_only(index.encode(indices, DIMENSION, 0)), read_only(value.encode(x, 0))
        names += [("encode", scheme), ("decode", scheme)]
        calls += [
            partial(wc.encode, chosen, scheme),
            partial(_encode_sections, index, value, indices, x),
            partial(wc.decode, blob),
            partial(_decode_sections, index, value, *sections),
        ]
    with numba_threads(1):
        times = measure_in_turns(calls, budget=budget, min_calls=min_calls)
    pairs = zip(names, times[::2], times[1::2], strict=True)
    return [IndexCall(*name, whole, codecs) for name, whole, codecs in pairs]


def _encode_sections(index: Any, value: Any, indices: Array, x: Array) -> None:
    index.encode(indices, DIMENSION, 0)
    value.encode(x, 0)


def _decode_sections(index: Any, value: Any, index_section: Array, value_section: Array) -> None:
    index.decode(index_section, DIMENSION, INDICES, DEFAULT_LIMITS)
    value.decode(value_section, INDICES, np.dtype(np.float32), DEFAULT_LIMITS)


def _repeat(call: Callable[[], Any]) -> None:
    for _ in range(CALLS):
        call()
