"""The FFT paper's figures: status vector, representable numbers, cost model, and the error of means."""

from __future__ import annotations

from typing import Any

import numpy as np

import wirecodec as wc
from benchmarks.common.inputs import TEST_GRADIENTS
from benchmarks.papers.networks import NETWORKS, build_demo
from benchmarks.papers.parts import Part

__all__ = ["FORMATS", "STATUS", "list_ieee_numbers", "list_parts"]

Array = Any
THETAS = (0.5, 0.7, 0.85, 0.9, 0.95, 0.97, 0.99, 0.999)
FORMATS = {
    "uniform": ("qsgd(bits=8)", 1.0),
    "range ±0.5": ("offset-float(bits=8, min=-0.5, max=0.5)", 0.5),
    "range ±5": ("offset-float(bits=8, min=-5.0, max=5.0)", 5.0),
}
"""(codec, largest magnitude) of the distributions of Figures 7 and 9."""
IEEE, EXPONENT, MANTISSA = "IEEE 754", 4, 3
"""Figure 7's other format: name, and bits of exponent and mantissa beside one of sign."""
RANKS = 4


def list_parts(steps: int) -> list[Part]:
    """List all measurements; ``steps``: of the training that measures α."""
    return [
        Part(STATUS, measure_status),
        Part(NUMBERS, measure_numbers),
        Part(SATURATION, measure_saturation),
        Part(ALPHAS, measure_alphas, (steps,)),
        Part(LAYERS, measure_layers),
    ]


STATUS, NUMBERS = "FFT: status vector", "FFT: representable numbers"
SATURATION, ALPHAS = "FFT: range of the floats", "FFT: error of the mean over ranks"

LAYERS = "FFT: Figure 5 per layer"


def _load() -> Array:
    return np.load(TEST_GRADIENTS / "resnet20_raw.npy").reshape(-1).astype(np.float32)


def measure_status() -> list[tuple[float, float, float, float]]:
    """Measure the status vector at every θ."""
    x = _load()
    return [_measure_status(x, theta) for theta in THETAS]


def measure_numbers() -> dict[str, Array]:
    """List the numbers of every format."""
    found = {name: _list_numbers(codec, largest) for name, (codec, largest) in FORMATS.items()}
    return found | {IEEE: list_ieee_numbers(EXPONENT, MANTISSA)}


def list_ieee_numbers(exponent: int, mantissa: int) -> Array:
    """List the finite numbers of a binary format of IEEE 754, ascending.

    Args:
        exponent, mantissa: bits of each; the largest exponent is that of Inf and NaN.
    """
    bias, steps = 2 ** (exponent - 1) - 1, 2**mantissa
    exponents = np.arange(1, 2**exponent - 1)[:, None] - bias
    normal = (2.0**exponents * (1 + np.arange(steps) / steps)).ravel()
    positive = np.concatenate([2.0 ** (1 - bias) * np.arange(steps) / steps, normal])
    return np.unique(np.concatenate([-positive, positive]))


def measure_saturation() -> list[tuple[float, float, float]]:
    """Measure the errors of ranges at three scales."""
    x = _load()
    x /= np.abs(x).max()
    return [_measure_saturation(x * np.float32(scale), scale) for scale in (0.01, 1.0, 100.0)]


def measure_layers() -> tuple[float, float]:
    """Compress each tensor of ResNet-20's gradient by itself, with and without a transform."""
    from benchmarks.training.models import build_residual_network

    x, squares = _load(), [0.0, 0.0]
    sizes = [p.numel() for p in build_residual_network().parameters.values()]
    for part in np.split(x, np.cumsum(sizes)[:-1]):
        for place, transform in enumerate(("rfft | ", "")):
            y = wc.decode(wc.encode(part, f"{transform}topk(0.15) | bitmap | raw")).to_dense()
            squares[place] += float(np.sum((y - part).astype(np.float64) ** 2))
    scale = float(np.linalg.norm(x.astype(np.float64)))
    return np.sqrt(squares[0]) / scale, np.sqrt(squares[1]) / scale


def _measure_status(x: Array, theta: float) -> tuple[float, float, float, float]:
    def encode(index: str) -> Any:
        return wc.encode(x, f"rfft | topk({round(1 - theta, 6)}) | {index} | offset-float(bits=10)")

    blob = encode("bitmap")
    (entry,) = wc.inspect(blob).entries
    share = entry.index_bytes / (entry.index_bytes + entry.value_bytes)
    return theta, share, x.nbytes / blob.nbytes, x.nbytes / encode("rice").nbytes


def _list_numbers(codec: str, largest: float) -> Array:
    """Decode a fine grid; each number that the codec can represent is in the result."""
    grid = np.concatenate([np.linspace(-largest, largest, 400_001), np.geomspace(1e-6, 1, 100_000) * largest])
    grid = np.concatenate([grid, -grid[400_001:]]).astype(np.float32)
    bucket = 512
    pad = np.full(-grid.size % (bucket - 1), largest, np.float32)
    rows = np.concatenate([grid, pad]).reshape(-1, bucket - 1)
    rows = np.concatenate([rows, np.full((len(rows), 1), largest, np.float32)], axis=1)  # one scale for all
    return np.unique(wc.decode(wc.encode(rows.ravel(), f"all | raw-index | {codec}")).values)


def _measure_saturation(x: Array, scale: float) -> tuple[float, float, float]:
    def error(value: str) -> float:
        y = wc.decode(wc.encode(x, f"rfft | topk(0.15) | bitmap | {value}")).to_dense()
        return float(np.linalg.norm(y - x) / np.linalg.norm(x))

    return scale, error("offset-float(bits=10, min=-1.0, max=1.0)"), error("offset-float(bits=10)")


def measure_alphas(steps: int) -> Array:
    """Train on several ranks with the preset, without feedback; return ‖v - v̂‖ / ‖v‖ of each step."""
    networks = [build_demo(rank=rank, ranks=RANKS) for rank in range(RANKS)]
    rate = np.float32(NETWORKS["demo"].rate)
    parameters, scheme, alphas = networks[0].start, wc.preset("fft"), []
    for step in range(steps):
        exact = [network.compute(parameters, step)[1] for network in networks]
        decoded = [wc.decode(wc.encode(gradient, scheme)).to_dense() for gradient in exact]
        v, sent = np.mean(exact, axis=0), np.mean(decoded, axis=0)
        alphas.append(float(np.linalg.norm(v - sent) / np.linalg.norm(v)))
        parameters = parameters - rate * sent
    return np.array(alphas)
