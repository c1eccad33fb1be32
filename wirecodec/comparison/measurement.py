"""Measurement of schemes on this machine.

A time is the median of repeated calls on the same gradient. Every call is made once before, so that kernels
are compiled; caches may be warm. A selector with a state, such as SIDCo's, selects from the gradient
``SETTLING`` times before, because its first steps are unlike all others. All calls alternate over several
rounds, so that other load on the machine does not fall on one of them alone. Nothing is trained meanwhile,
and one rank uses all of Numba's threads.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from wirecodec.arrays import Array
from wirecodec.comparison.table import ERROR
from wirecodec.container.inspect import inspect
from wirecodec.cpu.costs import share_header
from wirecodec.cpu.encode import encode_selection, select_many
from wirecodec.cpu.select import choose, dense
from wirecodec.cpu.selected import ModelSelection
from wirecodec.decode_into import decode_add
from wirecodec.errors import EncodeError
from wirecodec.limits import UNLIMITED
from wirecodec.pipeline import decode_many
from wirecodec.settings.scheme import Scheme
from wirecodec.sparse import SparseTensor
from wirecodec.tensors import Flat, as_elements
from wirecodec.validation import sort_names

Call: TypeAlias = Callable[[], object]
ProgressCallback: TypeAlias = Callable[[float], object]
"""A function that is called with the completed fraction of the work."""

ROUNDS = 7
SETTLING = 50
"""Steps after which a selector's state is that of a training."""


def ignore_progress(fraction: float) -> None:
    """Do nothing with a completed fraction."""


@dataclass(frozen=True, eq=False)
class EncodedGradient:
    """Gradient, encoded by one scheme.

    Attributes:
        scheme: its string.
        elements: of the gradient.
        dense_bytes: bytes of the gradient.
        nbytes: of the container.
        index_bytes: the part of them that contains indices.
        stored: elements of the encoding.
        written: numbers of the container: those elements, or parts of coefficients of a transform.
        error: ‖x - y‖ / ‖x‖ of the gradient x and the decoded gradient y; 0 if x is 0, nan if not finite.
        decoded: the tensors that the container holds.
        calls: the functions to time: select, encode, decode and add.
        selected: elements that the selector chose, or coefficients of a transform. Some index codecs store
            more.
    """

    scheme: str
    elements: int
    dense_bytes: int
    nbytes: int
    index_bytes: int
    stored: int
    written: int
    error: float
    decoded: Mapping[str, SparseTensor]
    calls: tuple[Call, Call, Call]
    selected: int = 0

    @classmethod
    def of(cls, tensors: Mapping[str, Array], scheme: Scheme, sums: Mapping[str, Array]) -> EncodedGradient:
        """Encode and decode the tensors once, in one container.

        Args:
            tensors: {name: array}.
            scheme: for all tensors.
            sums: vectors that decoded values are added to, from ``allocate_sums``; schemes may share them.

        Raises:
            EncodeError: the scheme cannot encode a tensor; the message names tensor and element.
        """
        named, tensors = len(tensors) > 1, {name: tensors[name] for name in sort_names(tensors)}
        schemes = dict.fromkeys(tensors, scheme)
        choose_all = _settle(tensors, schemes, scheme, named) or (
            lambda: select_many(tensors, schemes, seed=0)
        )
        selected = choose_all()
        blob = encode_selection(selected, seed=0, names=named).blob
        schema = {name: (x.shape, x.dtype) for name, x in tensors.items()}
        entries = inspect(blob).entries
        decoded = decode_many(blob, limits=UNLIMITED, schema=schema)
        return cls(
            str(scheme),
            sum(tensor.size for tensor in decoded.values()),
            sum(x.nbytes for x in tensors.values()),
            blob.nbytes,
            sum(entry.index_bytes for entry in entries),
            sum(tensor.nnz for tensor in decoded.values()),
            sum(entry.nnz for entry in entries),
            _compute_error(tensors, {name: tensor.to_dense() for name, tensor in decoded.items()}),
            decoded,
            (
                choose_all,
                lambda: encode_selection(selected, seed=0, names=named),
                lambda: decode_add(blob, sums, limits=UNLIMITED, schema=schema),
            ),
            sum(selected.counts_of(range(len(tensors)))),
        )

    @property
    def bits(self) -> float:
        """Return the bits of the encoding per element of the gradient."""
        return 8 * self.nbytes / max(self.elements, 1)

    @property
    def ratio(self) -> float:
        """Return the bytes of the gradient per byte of the encoding."""
        return self.dense_bytes / self.nbytes

    def to_json(self, tensors: int, **sizes: int) -> dict[str, Any]:
        """Return the sizes and the error in types that JSON has; further sizes follow the bytes."""
        return {
            "scheme": self.scheme,
            "tensors": tensors,
            "elements": self.elements,
            "dense_bytes": self.dense_bytes,
            "bytes": self.nbytes,
            **sizes,
            "stored": self.stored,
            "error": self.error,
            "relative_error": self.error,
        }

    def format_sizes(self, note: str = "") -> str:
        """Format the sizes and the error as the last lines of a page; ``note`` follows the ratio."""
        bits = 8 * self.nbytes / self.stored if self.stored else 0.0
        return (
            f"{self.nbytes:,} bytes, ratio {self.ratio:.1f}{note}; {self.stored:,} elements stored, "
            f"{bits:.2f} bits each; error {self.error:.3g}\n{ERROR}"
        )


def _settle(
    tensors: Mapping[str, Array], schemes: Mapping[str, Scheme], scheme: Scheme, named: bool
) -> Callable[[], ModelSelection] | None:
    """Return a function that selects as after many steps; None if the selector keeps no state."""
    header = share_header(tensors, schemes, b"", names=named)
    flats, states = dict[str, Flat](), dict[str, Any]()
    for name, x in tensors.items():
        try:
            flats[name] = dense(x, scheme, as_elements)
            for _ in range(SETTLING):
                _, states[name] = choose(flats[name], scheme, state=states.get(name), header=header)
                if states[name] is None:  # also of a tensor of zeros, whose selector may keep a state
                    break
        except EncodeError as error:
            raise error.of(name) from None
    if all(state is None for state in states.values()):
        return None
    shapes = [flat.shape for flat in flats.values()]

    def choose_all() -> ModelSelection:
        supports = [choose(x, scheme, state=states[name], header=header)[0] for name, x in flats.items()]
        return ModelSelection([*tensors], [*schemes.values()], shapes, [], dict(enumerate(supports)))

    return choose_all


def measure_medians(
    calls: Sequence[Call], *, budget: float, progress: ProgressCallback = ignore_progress
) -> list[float]:
    """Measure the median seconds of each call.

    Args:
        calls: functions; each is called once untimed, and then at least once per round, in turns.
        budget: seconds per call, over all rounds.
        progress: called with the completed fraction.
    """
    import statistics  # with its imports it takes 6 ms, which `import wirecodec` need not take

    times: list[list[float]] = [[] for _ in calls]
    for call in calls:
        call()
    for turn in range(ROUNDS):
        for number, (call, seconds) in enumerate(zip(calls, times, strict=True)):
            progress((turn + number / len(calls)) / ROUNDS)
            stop = time.perf_counter() + budget / ROUNDS
            while True:
                begin = time.perf_counter()
                call()
                end = time.perf_counter()
                seconds.append(end - begin)
                if end >= stop:
                    break
    return [statistics.median(seconds) for seconds in times]


def allocate_sums(tensors: Mapping[str, Array]) -> dict[str, Array]:
    """Allocate a vector of zeros per tensor: float64 for float64, float32 for all other types."""
    return {
        name: np.zeros(x.size, np.float64 if x.dtype == np.float64 else np.float32)
        for name, x in tensors.items()
    }


def _compute_error(tensors: Mapping[str, Array], decoded: Mapping[str, Array]) -> float:
    """Compute the relative error, in units of the largest magnitude so that no square overflows."""
    lost = kept = 0.0
    with np.errstate(all="ignore"):
        unit = max((float(np.max(np.abs(x), initial=0)) for x in tensors.values()), default=0.0)
        if not unit:
            return 0.0
        for name, x in tensors.items():
            exact = x.astype(np.float64) / unit
            lost += float(np.sum(np.square(decoded[name].astype(np.float64) / unit - exact)))
            kept += float(np.sum(np.square(exact)))
    return math.sqrt(lost / kept)
