"""Alternatives in torch: top-k with values and indices per tensor, and PowerSGD's arithmetic.

Torch's own PowerSGD hook needs a process group, so this module has its arithmetic alone: one power iteration
per tensor, with a QR decomposition. Tensors that it would not make smaller stay dense, as in the hook.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import wirecodec as wc
from benchmarks.common.timing import CallTime, measure_in_turns, numba_threads
from benchmarks.model.models import Model, draw_gradient
from benchmarks.model.stages import RATES, VALUES, format_scheme

try:
    import torch
except ImportError:  # the table has the library alone
    torch = None

__all__ = [
    "RANK",
    "SMALLER",
    "PeerTime",
    "PowerSGD",
    "add_topk",
    "compress_topk",
    "describe_torch",
    "measure_peers",
]

RANK = 4
"""Columns of PowerSGD's factors."""
SMALLER = 2
"""Factor by which PowerSGD must make a tensor smaller; the default of torch's hook."""


@dataclass(frozen=True)
class PeerTime:
    """Times of one method on a model.

    Attributes:
        model: name of the model.
        method: name of the method.
        peer: True for other methods than the library's.
        nbytes: bytes that a rank sends.
        compress: time until they can be sent.
        add: time to add one rank's bytes to a dense sum.
    """

    model: str
    method: str
    peer: bool
    nbytes: int
    compress: CallTime
    add: CallTime


def describe_torch() -> str:
    """Return torch's name and version, or an empty string without torch."""
    return f"torch {torch.__version__}" if torch else ""


def compress_topk(tensors: Mapping[str, Any], rate: float) -> dict[str, tuple[Any, Any]]:
    """Return the largest values of each torch tensor and their int64 indices, as GRACE does.

    Args:
        tensors: {name: flat torch tensor}.
        rate: fraction of the elements; at least one is kept.
    """
    found = {}
    for name, x in tensors.items():
        indices = torch.topk(x.abs(), max(1, int(rate * x.numel())), sorted=False).indices
        found[name] = (torch.gather(x, 0, indices), indices)
    return found


def add_topk(found: Mapping[str, tuple[Any, Any]], sums: Mapping[str, Any]) -> None:
    """Add values at their indices to flat torch tensors."""
    for name, (values, indices) in found.items():
        sums[name].scatter_add_(0, indices, values)


class PowerSGD:
    """PowerSGD's arithmetic for one rank: factors P and Q of each matrix M, with M ≈ P Qᵀ.

    The method of Vogels et al. (2019) with a warm start: each step continues from the last Q.

    Args:
        tensors: {name: torch tensor}; a tensor's first dimension is the rows of its matrix.
    """

    def __init__(self, tensors: Mapping[str, Any]) -> None:
        generator = torch.Generator().manual_seed(0)
        self._q = {}
        for name, x in tensors.items():
            rows = x.shape[0]
            columns = x.numel() // rows
            if x.ndim > 1 and SMALLER * RANK * (rows + columns) < x.numel():
                self._q[name] = torch.randn(columns, RANK, generator=generator)

    def compress(self, tensors: Mapping[str, Any]) -> dict[str, tuple[Any, ...]]:
        """Return the factors of each matrix, and copies of the tensors that stay dense."""
        found: dict[str, tuple[Any, ...]] = {}
        for name, x in tensors.items():
            if name not in self._q:
                found[name] = (x.clone(),)
                continue
            matrix = x.reshape(x.shape[0], -1)
            p = torch.linalg.qr(matrix @ self._q[name]).Q
            self._q[name] = matrix.T @ p
            found[name] = (p, self._q[name])
        return found

    def add(self, found: Mapping[str, tuple[Any, ...]], sums: Mapping[str, Any]) -> None:
        """Add the products of the factors, and the dense tensors, to torch tensors."""
        for name, parts in found.items():
            out = sums[name]
            if len(parts) == 1:
                out.add_(parts[0])
            else:
                out.view(out.shape[0], -1).addmm_(parts[0], parts[1].T)


def measure_peers(
    model: Model, step: Callable[[str], None], *, budget: float, min_calls: int
) -> list[PeerTime]:
    """Measure the library, top-k in torch and PowerSGD in turns, on one thread; empty without torch.

    Args:
        model: its shapes.
        step: called with the name of each measurement before it starts.
        budget: approximate seconds per call.
        min_calls: runs of each call even if the budget is exceeded.
    """
    if torch is None:
        return []
    step(f"{model.name}: torch")
    tensors, _ = draw_gradient(model.shapes)
    shaped = {name: torch.from_numpy(x) for name, x in tensors.items()}
    flats = {name: x.reshape(-1) for name, x in shaped.items()}
    sums = {name: torch.zeros_like(x) for name, x in shaped.items()}
    flat_sums = {name: x.view(-1) for name, x in sums.items()}
    arrays = {name: x.numpy() for name, x in sums.items()}
    methods: list[tuple[str, bool, int]] = []
    calls: list[Callable[[], Any]] = []
    for rate in RATES:
        scheme = format_scheme(rate, VALUES[0])
        blob, found = wc.encode_many(tensors, scheme), compress_topk(flats, rate)
        methods += [
            (scheme, False, blob.nbytes),
            (f"torch.topk({rate:g}), gather", True, _count_bytes(found)),
        ]
        calls += [partial(wc.encode_many, tensors, scheme), partial(wc.decode_add, blob, arrays)]
        calls += [partial(compress_topk, flats, rate), partial(add_topk, found, flat_sums)]
    if any(len(shape) > 1 for shape in model.shapes):
        power = PowerSGD(shaped)
        factors = power.compress(shaped)
        methods.append((f"PowerSGD's arithmetic, rank {RANK}", True, _count_bytes(factors)))
        calls += [partial(power.compress, shaped), partial(power.add, factors, sums)]
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with numba_threads(1):
            times = measure_in_turns(calls, budget=budget, min_calls=min_calls)
    finally:
        torch.set_num_threads(threads)
    pairs = zip(methods, times[::2], times[1::2], strict=True)
    return [PeerTime(model.name, *method, compress, add) for method, compress, add in pairs]


def _count_bytes(found: Mapping[str, tuple[Any, ...]]) -> int:
    return sum(part.numel() * part.element_size() for parts in found.values() for part in parts)
