"""Sizes and speeds of formats on pairs of states."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.patches.bound import compute_bound
from benchmarks.patches.cases import Case, bits
from benchmarks.patches.peers import OURS, Format
from wirecodec.arrays import Array

__all__ = ["Cell", "Pair", "TensorSize", "describe_case", "measure_case", "measure_tensor"]

LEAST_BYTES = 64_000_000
"""Bytes of the states whose times are measured: copies of the model, joined tensor by tensor."""
ROUNDS = 5


@dataclass(frozen=True)
class Pair:
    """Properties of a case.

    Attributes:
        case: its name.
        elements, bytes: of a whole state.
        changed: elements.
        bound: bits per changed element, given the old exponents; NaN if unknown.
    """

    case: str
    elements: int
    bytes: int
    changed: int
    bound: float


@dataclass(frozen=True)
class Cell:
    """One format on one case.

    Attributes:
        case, format: names.
        patch: bytes.
        encode, apply: GB of a whole state per second, on one thread; NaN if not measured.
        encode_all, apply_all: the same on all threads.
    """

    case: str
    format: str
    patch: int
    encode: float
    apply: float
    encode_all: float
    apply_all: float


@dataclass(frozen=True)
class TensorSize:
    """Bits per changed element of one tensor.

    Attributes:
        format: its name.
        bits: per changed element.
    """

    format: str
    bits: float


def describe_case(case: Case) -> Pair:
    """Return the properties of a case."""
    return Pair(case.name, case.elements, case.bytes, case.count_changed(), compute_bound(case))


def count_bytes(patch: Any) -> int:
    """Return the bytes of a patch, or of all its frames."""
    return sum(map(len, patch)) if isinstance(patch, list) else len(patch)


def measure_case(
    case: Case, formats: Sequence[Format], threads: int, step: Callable[[str], None], *, is_timed: bool = True
) -> list[Cell]:
    """Measure formats on a case. Each patch is applied, and the result is compared with the new state.

    Args:
        case: states.
        formats: to compare.
        threads: all that may be used.
        step: called with the name of each measurement before it starts.
        is_timed: False for sizes alone.

    Raises:
        AssertionError: a patch did not make the new state.
    """
    sizes = {}
    for form in formats:
        step(f"{case.name}: {form.name}")
        patch = form.encode(case.old, case.new, 1)
        state = {name: x.copy() for name, x in case.old.items()}
        form.apply(patch, state, 1)
        wrong = [name for name, x in state.items() if (bits(x) != bits(case.new[name])).any()]
        assert not wrong, (form.name, wrong)
        sizes[form.name] = count_bytes(patch)
    speeds = _time_formats(case, formats, threads, step) if is_timed else {}
    nothing = (float("nan"),) * 4
    return [Cell(case.name, f.name, sizes[f.name], *speeds.get(f.name, nothing)) for f in formats]


def _time_formats(
    case: Case, formats: Sequence[Format], threads: int, step: Callable[[str], None]
) -> dict[str, tuple[float, float, float, float]]:
    """Return GB/s of encode and apply, on one thread and on all; formats take turns, and the best counts."""
    copies = -(-LEAST_BYTES // case.bytes)
    old, new = (_repeat(state, copies) for state in (case.old, case.new))
    best: dict[tuple[str, int], list[float]] = {}
    state = {name: x.copy() for name, x in old.items()}
    for turn in range(ROUNDS):
        step(f"{case.name}: speeds, round {turn + 1} of {ROUNDS}")
        for form in formats:
            for count in (1, threads):
                start = time.perf_counter()
                patch = form.encode(old, new, count)
                encoded = time.perf_counter() - start
                for name, x in state.items():
                    x[...] = old[name]
                start = time.perf_counter()
                form.apply(patch, state, count)
                applied = time.perf_counter() - start
                before = best.setdefault((form.name, count), [encoded, applied])
                best[form.name, count] = [min(before[0], encoded), min(before[1], applied)]
    size = case.bytes * copies / 1e9

    def speeds_of(name: str, count: int) -> list[float]:
        return [size / seconds for seconds in best[name, count]]

    found = {}
    for form in formats:
        encode, apply = speeds_of(form.name, 1)
        encode_all, apply_all = speeds_of(form.name, threads)
        found[form.name] = (encode, apply, encode_all, apply_all)
    return found


def _repeat(state: dict[str, Array], copies: int) -> dict[str, Array]:
    """Return tensors that are each repeated, in memory of their own."""
    return {name: np.concatenate([x] * copies) for name, x in state.items()}


def measure_tensor(
    case: Case, name: str, peers: dict[str, Callable[[bytes, bytes], bytes]]
) -> list[TensorSize]:
    """Measure compressors of arbitrary files on one tensor, beside this library's patches.

    Args:
        case: states.
        name: of the tensor.
        peers: {name: function of old and new bytes that returns a patch}.
    """
    old, new = case.old[name], case.new[name]
    changed = int((bits(old) != bits(new)).sum())
    found = [(form.name, count_bytes(form.encode({name: old}, {name: new}, 1))) for form in OURS]
    found += [(peer, len(make(old.tobytes(), new.tobytes()))) for peer, make in peers.items()]
    return [TensorSize(peer, 8 * size / changed) for peer, size in found]
