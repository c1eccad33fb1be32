"""Times of whole calls on a model, and of the same calls on one flat vector."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import wirecodec as wc
from benchmarks.common.timing import CallTime, measure_in_turns, numba_threads
from benchmarks.model.models import Model, draw_gradient

__all__ = [
    "OTHER_SCHEMES",
    "RATES",
    "STAGES",
    "THREADS",
    "VALUES",
    "DenseTime",
    "SchemeTime",
    "StageTime",
    "format_scheme",
    "measure_dense",
    "measure_schemes",
    "measure_stages",
]

RATES = (0.01, 0.001)
VALUES = ("qsgd(bits=4)", "raw")
THREADS = (1, 2)
OTHER_SCHEMES = (
    "topk(0.01) | rice | raw(bfloat16)",
    "topk(0.01) | rice | error-bounded(0.01)",
    "topk(0.01) | auto-index | error-bounded(0.01)",
    "topk(0.01) | auto-index | raw",
    "topk(0.01) | bitmap | raw",
    "topk(0.01) | delta | raw",
    "all | raw-index | qsgd(bits=8)",
)
"""Schemes whose times have no target; some of their codecs are called per tensor."""
STAGES = ("encode_many", "decode_add", "decode_many", "Compressor step")


@dataclass(frozen=True)
class DenseTime:
    """Times of the dense gradient: no call that writes it can be faster.

    Attributes:
        model: the model.
        copy: ``np.copyto`` of the flat vector.
        add: ``np.add`` of the flat vector to another.
        halves: ``copy`` by two threads, half of the vector each.
    """

    model: Model
    copy: CallTime
    add: CallTime
    halves: CallTime

    @property
    def speedup(self) -> float:
        """Speed-up of two threads that copy, the most that the memory allows."""
        return self.copy.seconds / self.halves.seconds


@dataclass(frozen=True)
class StageTime:
    """Times of one whole call.

    Attributes:
        model: name of the model.
        targeted: True if the targets apply to the model.
        rate: density.
        values: value codec.
        stage: one of STAGES.
        threads: number of threads.
        many: the call on the model's tensors.
        flat: the call on one vector of as many elements.
    """

    model: str
    targeted: bool
    rate: float
    values: str
    stage: str
    threads: int
    many: CallTime
    flat: CallTime

    @property
    def ratio(self) -> float:
        """Processor time of the model, divided by that of the vector."""
        return self.many.processor / self.flat.processor


@dataclass(frozen=True)
class SchemeTime:
    """Times of one whole call with a scheme without targets, on one thread.

    Attributes:
        model: name of the model.
        scheme: the scheme.
        stage: one of STAGES.
        many: the call on the model's tensors.
        flat: the call on one vector of as many elements.
    """

    model: str
    scheme: str
    stage: str
    many: CallTime
    flat: CallTime


def format_scheme(rate: float, values: str) -> str:
    """Return the scheme of one density and value codec."""
    return f"topk({rate:g}) | rice | {values}"


def measure_dense(model: Model, flat: Any, *, budget: float, min_calls: int) -> DenseTime:
    """Measure copying and adding the flat vector on one thread, and copying it on two."""
    target = np.zeros_like(flat)
    half = flat.size // 2
    with ThreadPoolExecutor(1) as other:

        def copy_halves() -> None:
            second = other.submit(np.copyto, target[half:], flat[half:])
            np.copyto(target[:half], flat[:half])
            second.result()

        copy, add = partial(np.copyto, target, flat), partial(np.add, target, flat, out=target)
        calls: list[Callable[[], Any]] = [copy, add, copy_halves]
        return DenseTime(model, *measure_in_turns(calls, budget=budget, min_calls=min_calls))


def measure_stages(
    model: Model, step: Callable[[str], None], *, budget: float, min_calls: int
) -> tuple[DenseTime, list[StageTime]]:
    """Measure every stage of a model, for each density, value codec and number of threads.

    Args:
        model: its shapes.
        step: called with the name of each measurement before it starts.
        budget: approximate seconds per call.
        min_calls: runs of each call even if the budget is exceeded.
    """
    step(f"{model.name}: dense")
    tensors, flat = draw_gradient(model.shapes)
    dense = measure_dense(model, flat, budget=budget, min_calls=min_calls)
    sums, flat_sum = {name: np.zeros_like(x) for name, x in tensors.items()}, np.zeros_like(flat)
    threads = [count for count in THREADS if count <= _count_available_threads()]
    found: list[StageTime] = []
    for rate in RATES:
        for values in VALUES:
            scheme = format_scheme(rate, values)
            step(f"{model.name}: {scheme}")
            on_tensors = _build_calls(tensors, sums, scheme)
            on_flat = _build_calls({"flat": flat}, flat_sum, scheme)
            stages = zip(STAGES, on_tensors, on_flat, strict=True)
            cases = [(stage, count, many, one) for stage, many, one in stages for count in threads]
            calls = [
                partial(_run_on_threads, count, call) for _, count, many, one in cases for call in (many, one)
            ]
            times = measure_in_turns(calls, budget=budget, min_calls=min_calls)
            for (stage, count, _, _), many, one in zip(cases, times[::2], times[1::2], strict=True):
                found.append(StageTime(model.name, model.targeted, rate, values, stage, count, many, one))
    return dense, found


def measure_schemes(
    model: Model, step: Callable[[str], None], *, budget: float, min_calls: int
) -> list[SchemeTime]:
    """Measure every stage of a model with other schemes, on one thread; arguments as ``measure_stages``."""
    tensors, flat = draw_gradient(model.shapes)
    sums, flat_sum = {name: np.zeros_like(x) for name, x in tensors.items()}, np.zeros_like(flat)
    found = []
    for scheme in OTHER_SCHEMES:
        step(f"{model.name}: {scheme}")
        pairs = zip(
            _build_calls(tensors, sums, scheme), _build_calls({"flat": flat}, flat_sum, scheme), strict=True
        )
        with numba_threads(1):
            times = measure_in_turns(
                [call for pair in pairs for call in pair], budget=budget, min_calls=min_calls
            )
        columns = zip(STAGES, times[::2], times[1::2], strict=True)
        found += [SchemeTime(model.name, scheme, stage, many, one) for stage, many, one in columns]
    return found


def _build_calls(tensors: dict[str, Any], sums: Any, scheme: str) -> list[Callable[[], Any]]:
    """Build the calls of all stages. One flat vector is encoded as one tensor.

    Args:
        tensors: {name: tensor}.
        sums: {name: array}, or one array for one tensor; receives the sums.
        scheme: the scheme.
    """
    compressor = wc.Compressor(scheme)
    encode: Callable[[], Any]
    if isinstance(sums, dict):
        encode, decode = partial(wc.encode_many, tensors, scheme), wc.decode_many
    else:
        (tensor,) = tensors.values()
        encode, decode = partial(wc.encode, tensor, scheme), wc.decode  # type: ignore[assignment]
    blob = encode()
    return [
        encode,
        partial(wc.decode_add, blob, sums),
        partial(decode, blob),
        partial(compressor.compress, tensors),
    ]


def _count_available_threads() -> int:
    import numba

    return int(numba.config.NUMBA_NUM_THREADS)


def _run_on_threads(count: int, call: Callable[[], Any]) -> None:
    """Run a call on a number of threads."""
    with numba_threads(count):
        call()
