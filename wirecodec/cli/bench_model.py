"""Measurement of a whole model: each call on its tensors, and on one vector of all elements.

A model of many tensors should cost what its bytes cost, so each call is compared with the same call on one
vector per element type. Copying and adding the gradient are limits that no call can pass.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from wirecodec.arrays import Array
from wirecodec.cli.formatting import format_table
from wirecodec.cli.units import format_seconds
from wirecodec.comparison.measurement import (
    EncodedGradient,
    ProgressCallback,
    allocate_sums,
    ignore_progress,
    measure_medians,
)
from wirecodec.compressor import Compressor
from wirecodec.decode_into import decode_add
from wirecodec.limits import UNLIMITED
from wirecodec.pipeline import encode_many
from wirecodec.settings.scheme import Scheme

STAGES = ("encode_many", "decode_add", "Compressor step")
THREADS = (1, 2)
MIN_SECONDS = 1e-9  # the resolution of the clock; avoids a division by 0


@dataclass(frozen=True)
class StageTime:
    """Median times of one call.

    Attributes:
        stage: one of STAGES.
        threads: number of threads.
        model: seconds on the model's tensors.
        flat: seconds on one vector per element type.
    """

    stage: str
    threads: int
    model: float
    flat: float


@dataclass(frozen=True)
class ModelMeasurement:
    """Measurements of a model with one scheme.

    Attributes:
        tensors: number of tensors.
        encoding: the model's encoding.
        flat_bytes: bytes of the encoding of the vectors.
        copy: seconds of ``np.copyto`` of the vectors.
        add: seconds of ``np.add`` of the vectors.
        stages: the calls.
    """

    tensors: int
    encoding: EncodedGradient
    flat_bytes: int
    copy: float
    add: float
    stages: tuple[StageTime, ...]

    def to_json(self) -> dict[str, Any]:
        """Return all measurements in types that JSON has; times are in seconds."""
        return self.encoding.to_json(self.tensors, flat_bytes=self.flat_bytes) | {
            "copy": self.copy,
            "add": self.add,
            "stages": [asdict(stage) for stage in self.stages],
        }


def measure_model(
    tensors: Mapping[str, Array],
    scheme: Scheme,
    *,
    budget: float = 0.15,
    progress: ProgressCallback = ignore_progress,
) -> ModelMeasurement:
    """Measure encoding, adding and error feedback of a model, on one thread and on two if there are two.

    Args:
        tensors: {name: array}.
        scheme: for all tensors.
        budget: seconds per timed call, approximately.
        progress: called with the completed fraction.

    Raises:
        EncodeError: the scheme cannot encode a tensor; the message names tensor and element.
    """
    vectors = _concatenate(tensors)
    sums, flat_sums = allocate_sums(tensors), allocate_sums(vectors)
    encoding = EncodedGradient.of(tensors, scheme, sums)
    on_tensors, _ = _build_calls(tensors, sums, scheme)
    on_vectors, flat_bytes = _build_calls(vectors, flat_sums, scheme)
    cases = [
        (stage, threads, pair)
        for stage, *pair in zip(STAGES, on_tensors, on_vectors, strict=True)
        for threads in THREADS[: _count_threads()]
    ]
    targets = {name: np.zeros_like(x) for name, x in vectors.items()}

    def copy() -> None:
        for name, x in vectors.items():
            np.copyto(targets[name], x)

    def add() -> None:
        with np.errstate(over="ignore", invalid="ignore"):  # repeated sums may overflow
            for name, x in vectors.items():
                np.add(targets[name], x, out=targets[name])

    calls = [copy, add, *(_on_threads(threads, call) for _, threads, pair in cases for call in pair)]
    medians = measure_medians(calls, budget=budget, progress=progress)
    times = zip(medians[2::2], medians[3::2], strict=True)
    stages = [
        StageTime(stage, threads, *both) for (stage, threads, _), both in zip(cases, times, strict=True)
    ]
    return ModelMeasurement(len(tensors), encoding, flat_bytes, medians[0], medians[1], tuple(stages))


def format_model(measurement: ModelMeasurement, name: str) -> str:
    """Format the measurements of a model.

    Args:
        measurement: the measurements.
        name: of the file.
    """
    encoding, copy = measurement.encoding, max(measurement.copy, MIN_SECONDS)

    def dense_row(stage: str, seconds: float) -> list[str]:
        return [stage, "1", "", format_seconds(seconds), "", f"{seconds / copy:.3g}"]

    rows = [
        [
            stage.stage,
            str(stage.threads),
            format_seconds(stage.model),
            format_seconds(stage.flat),
            f"{stage.model / max(stage.flat, MIN_SECONDS):.2f}",
            f"{stage.model / copy:.3g}",
        ]
        for stage in measurement.stages
    ]
    rows += [dense_row("np.copyto", measurement.copy), dense_row("np.add", measurement.add)]
    return "\n".join(
        [
            f"{name}: {measurement.tensors:,} tensors, {encoding.elements:,} elements, "
            f"{encoding.dense_bytes:,} bytes; {encoding.scheme}",
            *format_table(
                ["call", "threads", "model", "one vector", "model / vector", "over np.copyto"], rows
            ),
            encoding.format_sizes(f" ({measurement.flat_bytes:,} bytes as one vector)"),
        ]
    )


def _concatenate(tensors: Mapping[str, Array]) -> dict[str, Array]:
    """Concatenate all elements of each type; types are named by the order of their first tensor."""
    kinds = list(dict.fromkeys(x.dtype for x in tensors.values()))
    return {
        str(number): np.concatenate([x.reshape(-1) for x in tensors.values() if x.dtype == kind])
        for number, kind in enumerate(kinds)
    }


def _build_calls(
    tensors: Mapping[str, Array], sums: Mapping[str, Array], scheme: Scheme
) -> tuple[list[Callable[[], object]], int]:
    """Build the calls of all stages, and return the bytes of the encoding."""
    blob = encode_many(tensors, scheme)
    compressor = Compressor(scheme)
    calls: list[Callable[[], object]] = [
        lambda: encode_many(tensors, scheme),
        lambda: decode_add(blob, sums, limits=UNLIMITED),
        lambda: compressor.compress(tensors),
    ]
    return calls, blob.nbytes


def _on_threads(threads: int, call: Callable[[], object]) -> Callable[[], object]:
    """Return a call that runs with a number of Numba's threads."""
    import numba

    def run() -> object:
        before = numba.get_num_threads()
        numba.set_num_threads(threads)
        try:
            return call()
        finally:
            numba.set_num_threads(before)

    return run


def _count_threads() -> int:
    """Return the number of threads that Numba may use."""
    import numba

    return int(numba.config.NUMBA_NUM_THREADS)
