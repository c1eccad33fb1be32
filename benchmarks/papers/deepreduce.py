"""DeepReduce's figures without training: policies over false-positive rates, curve fits, naive errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import wirecodec as wc
from benchmarks.common.inputs import TEST_GRADIENTS
from benchmarks.papers import embedding
from benchmarks.papers.parts import Part
from wirecodec.index.bloom import filter_bytes, windows
from wirecodec.index.bloom_p2 import max_positives, select_inserted
from wirecodec.kernels.layout import BLOOM_PAD

__all__ = ["RATES", "Fit", "PolicyPoint", "list_parts", "name_rate"]

Array = Any
RATES = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 0.6)
DENSITY = 0.01
STREAM = 12345
PRINTED = "P2 as printed"
PIECES = "polyfit(pieces=8)"


@dataclass(frozen=True)
class PolicyPoint:
    """One policy at one false-positive rate.

    Attributes:
        policy: its name.
        rate: false-positive rate.
        kept: fraction of the selected elements that arrive.
        volume: bytes of filter and float32 values, relative to 8 bytes per selected element.
        error: of the decoded gradient, relative to the norm of the selected one.
        refused: whether a reader refuses such a section.
    """

    policy: str
    rate: float
    kept: float
    volume: float
    error: float
    refused: bool = False


@dataclass(frozen=True)
class Fit:
    """Values encoded by a curve fit.

    Attributes:
        codec: the value codec.
        error: relative to the norm of the values.
        nbytes: bytes per value, without the map.
    """

    codec: str
    error: float
    nbytes: float


@dataclass(frozen=True, eq=False)
class _Fits:
    """Results without a false-positive rate: curve fits of a network and of a convolution, naive policy."""

    fits: list[Fit]
    convolution: Fit
    naive: tuple[float, float]


def list_parts(steps: int) -> list[Part]:
    """List the measurements on residual + gradient of a ResNet-20, and Table 2.

    Args:
        steps: of the trainings of Table 2.
    """
    rates = [Part(name_rate(rate), measure_policies, (rate,)) for rate in RATES]
    return [*embedding.list_parts(steps), *rates, Part(FITS, measure_fits)]


FITS = "DeepReduce: curve fits"


def name_rate(rate: float) -> str:
    """Return the name of the part with all policies at a rate."""
    return f"DeepReduce: policies at a rate of {rate:g}"


def _load() -> tuple[Array, Array]:
    """Load the vector and the indices of its largest elements."""
    x = np.load(TEST_GRADIENTS / "resnet20_residual.npy").reshape(-1).astype(np.float32)
    return x, np.asarray(wc.selectors.TopK(DENSITY).select(x).indices, np.uint32)


def measure_fits() -> _Fits:
    """Fit the sorted values of a network and of a convolution, and decode with the naive policy."""
    x, indices = _load()
    values = np.sort(x[indices])
    codecs = (PIECES, "polyfit", "polyfit(degree=1)", "polyfit(degree=0)", "dexpfit")
    layer = np.sort(_load_convolution())
    naive = wc.decode(wc.encode(x, f"topk({DENSITY}) | bloom(policy=naive) | raw"))
    target, error = _sparse(x, indices), naive.to_dense() - _sparse(x, indices)
    own = naive.values == x[np.asarray(naive.indices)]
    relative = float(np.linalg.norm(error) / np.linalg.norm(target))
    fits = [_fit(values, codec) for codec in codecs]
    return _Fits(fits, _fit(layer, PIECES), (float(np.mean(own)), relative))


def _load_convolution() -> Array:
    """Load the raw gradient of ResNet-20's largest convolution."""
    from benchmarks.training.models import build_residual_network

    x = np.load(TEST_GRADIENTS / "resnet20_raw.npy").reshape(-1).astype(np.float32)
    sizes = [p.numel() for p in build_residual_network().parameters.values()]
    return max(np.split(x, np.cumsum(sizes)[:-1]), key=lambda part: part.size)


def _sparse(x: Array, indices: Array) -> Array:
    found = np.zeros_like(x)
    found[indices] = x[indices]
    return found


def measure_policies(rate: float) -> list[PolicyPoint]:
    """Apply the policies at one rate; p2 without the bound that a reader applies."""
    from wirecodec.kernels.cpu.index import bloom

    x, indices = _load()
    d, r, k = x.size, indices.size, windows(rate)
    nbytes = filter_bytes(r, rate)
    filter_ = np.zeros(nbytes + BLOOM_PAD, np.uint8)
    bloom.insert(indices, filter_, k)
    total = int(bloom.count(filter_, k, d))
    everything = np.empty(total, np.uint32)
    bloom.fill(filter_, k, d, 0, everything)
    drawn = np.empty(r, np.uint32)
    bloom.sample(filter_, k, d, total, np.uint32(STREAM), np.uint32(0), drawn)
    found = {
        "P0": everything,
        "P1": drawn,
        "P2": select_inserted(filter_, k, d, total, r, STREAM, bounded=False),
        PRINTED: select_as_printed(indices, d, k, 8 * nbytes),
    }
    target = _sparse(x, indices)
    scale = float(np.linalg.norm(target))
    return [
        PolicyPoint(
            policy,
            rate,
            float(np.isin(indices, decoded).mean()),
            (nbytes + 4 * decoded.size) / (8 * r),
            float(np.linalg.norm(_sparse(x, decoded) - target)) / scale,
            policy == "P2" and total > max_positives(r),
        )
        for policy, decoded in found.items()
    ]


def select_as_printed(inserted: Array, d: int, k: int, bits: int) -> Array:
    """Insert elements into a filter, and select by Algorithm 1 of the paper as it is printed.

    The selection stops at the number of elements that were inserted. The printed loop over the sets ends only
    after the last one, and may select more.

    Args:
        inserted: the elements.
        d: number of elements that may be inserted.
        k: hash functions, drawn as a table of all results, as the paper has it.
        bits: of the filter.

    Returns:
        As many elements as were inserted, ascending.
    """
    rng = np.random.default_rng(STREAM)
    table = rng.integers(bits, size=(k, d))
    filter_ = np.zeros(bits, bool)
    filter_[table[:, inserted]] = True
    positives = np.flatnonzero(filter_[table].all(0))
    conflicts: dict[int, set[int]] = {}
    for item in positives.tolist():
        for bit in table[:, item].tolist():
            conflicts.setdefault(bit, set()).add(item)
    sets = sorted(conflicts.values(), key=len)
    selected: set[int] = set()
    while len(selected) < inserted.size:
        for one in sets:
            left = one if len(one) == 1 else one - selected
            if left and len(selected) < inserted.size:
                selected.add(sorted(left)[rng.integers(len(left))])
    return np.array(sorted(selected))


def _fit(values: Array, codec: str) -> Fit:
    blob = wc.encode(values, f"all | raw-index | {codec}")
    decoded = wc.decode(blob).values
    error = np.linalg.norm(decoded.astype(np.float64) - values) / np.linalg.norm(values.astype(np.float64))
    (entry,) = wc.inspect(blob).entries
    return Fit(codec, float(error), entry.value_bytes / values.size)
