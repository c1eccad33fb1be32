"""Times of whole calls on a model, and of the same calls on one flat vector."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import wirecodec as wc
from benchmarks.common.timing import CallTime, measure_in_turns, numba_threads
from benchmarks.model.models import Model, draw_gradient

__all__ = [
    "RATES",
    "STAGES",
    "THREADS",
    "VALUES",
    "DenseTime",
    "StageTime",
    "format_scheme",
    "measure_dense",
    "measure_stages",
]

RATES = (0.01, 0.001)
VALUES = ("qsgd(bits=4)", "raw")
THREADS = (1, 2)
STAGES = ("encode_many", "decode_add", "decode_many", "Compressor step")


@dataclass(frozen=True)
class DenseTime:
    """Times of the dense gradient: no call that writes it can be faster.

    Attributes:
        model: the model.
        copy: ``np.copyto`` of the flat vector.
        add: ``np.add`` of the flat vector to another.
    """

    model: Model
    copy: CallTime
    add: CallTime


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


def format_scheme(rate: float, values: str) -> str:
    """Return the scheme of one density and value codec."""
    return f"topk({rate:g}) | rice | {values}"


def measure_dense(model: Model, flat: Any, *, budget: float, min_calls: int) -> DenseTime:
    """Measure copying and adding the flat vector, on one thread."""
    target = np.zeros_like(flat)
    calls = [partial(np.copyto, target, flat), partial(np.add, target, flat, out=target)]
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
