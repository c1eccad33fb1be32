"""Small convolutional network in NumPy: parameters in, loss and gradients out.

    8×8 image ─► conv 3×3, relu ─► conv 3×3, relu ─► mean pool 2×2 ─► dense, relu ─► dense ─► softmax

The loss is the mean cross-entropy. Parameters and gradients are {name: array} with the same names and shapes,
the form that a Compressor takes. Every function is pure. The float type is that of the parameters: float32 to
train, float64 to check gradients. Images are (batch, height, width, channels). A convolution is one matrix
product over the nine shifted copies of its input.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "CHANNELS",
    "CLASSES",
    "HIDDEN",
    "Floats",
    "Params",
    "compute_gradients",
    "compute_logits",
    "evaluate",
    "initialise",
]

Floats: TypeAlias = NDArray[np.floating[Any]]
Params: TypeAlias = dict[str, Floats]

CLASSES = 10
CHANNELS = (16, 32)
HIDDEN = 512
_SIDE = 8  # pixels
_POOL = 2
_SHIFTS = [(dy, dx) for dy in range(3) for dx in range(3)]


def initialise(seed: int) -> Params:
    """Draw float32 parameters, normal with He's variance 2 / fan-in, and zero biases.

    The same seed gives the same bits. Weights are (fan-in, outputs). The fan-in of a convolution is ordered
    (row, column, channel).
    """
    rng = np.random.default_rng(seed)
    flat = (_SIDE // _POOL) ** 2 * CHANNELS[1]
    fans = {
        "conv1": (9, CHANNELS[0]),
        "conv2": (9 * CHANNELS[0], CHANNELS[1]),
        "dense1": (flat, HIDDEN),
        "dense2": (HIDDEN, CLASSES),
    }
    params: Params = {}
    for layer, (fan_in, outputs) in fans.items():
        scale = np.float32(np.sqrt(2 / fan_in))
        params[f"{layer}.weight"] = rng.standard_normal((fan_in, outputs), dtype=np.float32) * scale
        params[f"{layer}.bias"] = np.zeros(outputs, np.float32)
    return params


def compute_logits(params: Params, images: Floats) -> Floats:
    """Compute scores (batch, CLASSES) for images (batch, 8, 8)."""
    return _forward(params, images)[-1]


def compute_gradients(params: Params, images: Floats, labels: NDArray[np.intp]) -> tuple[float, Params]:
    """Compute the mean softmax cross-entropy of a batch and its gradients.

    Args:
        params: from ``initialise``, or in float64.
        images: (batch, 8, 8).
        labels: (batch,), each in 0 … CLASSES-1.

    Returns:
        The loss, and gradients with the names and shapes of the parameters.
    """
    columns1, out1, columns2, out2, pooled, hidden, scores = _forward(params, images)
    loss, d_scores = _cross_entropy(scores, labels)
    grads: Params = {}

    d_hidden = _back_affine(params, grads, "dense2", hidden, d_scores) * (hidden > 0)
    d_pooled = _back_affine(params, grads, "dense1", pooled, d_hidden)
    d_out2 = _spread(d_pooled.reshape(len(images), _SIDE // _POOL, _SIDE // _POOL, -1)) * (out2 > 0)
    d_columns2 = _back_affine(params, grads, "conv2", columns2, d_out2)
    d_out1 = _fold(d_columns2) * (out1 > 0)
    _back_affine(params, grads, "conv1", columns1, d_out1, inputs_too=False)
    return loss, {name: grads[name] for name in params}


def evaluate(params: Params, images: Floats, labels: NDArray[np.intp]) -> tuple[float, float]:
    """Compute the mean cross-entropy and the accuracy.

    Args:
        params, images, labels: as for ``compute_gradients``.
    """
    scores = compute_logits(params, images)
    return _cross_entropy(scores, labels)[0], float(np.mean(scores.argmax(axis=1) == labels))


def _forward(params: Params, images: Floats) -> tuple[Floats, ...]:
    dtype = params["conv1.weight"].dtype
    columns1 = _unfold(images[..., None].astype(dtype, copy=False))
    out1 = np.maximum(_affine(params, "conv1", columns1), 0)
    columns2 = _unfold(out1)
    out2 = np.maximum(_affine(params, "conv2", columns2), 0)
    pooled = _mean_pool(out2).reshape(len(images), -1)
    hidden = np.maximum(_affine(params, "dense1", pooled), 0)
    return columns1, out1, columns2, out2, pooled, hidden, _affine(params, "dense2", hidden)


def _affine(params: Params, layer: str, x: Floats) -> Floats:
    """Compute x · weight + bias along the last axis, as one matrix product.

    Args:
        params: as for ``compute_gradients``.
        layer: name of the layer.
        x: its input.
    """
    weight = params[f"{layer}.weight"]
    flat = x.reshape(-1, len(weight)) @ weight
    flat += params[f"{layer}.bias"]
    return flat.reshape(*x.shape[:-1], -1)


def _back_affine(
    params: Params, grads: Params, layer: str, x: Floats, d_out: Floats, *, inputs_too: bool = True
) -> Floats:
    """Store a layer's gradients and return the gradient of its input.

    Args:
        params: as for ``compute_gradients``.
        grads: receives the layer's gradients.
        layer: name of the layer.
        x: its input.
        d_out: gradient of its output.
        inputs_too: False to skip the gradient of the input; then ``x`` is returned.
    """
    weight = params[f"{layer}.weight"]
    d_flat = d_out.reshape(-1, weight.shape[1])
    grads[f"{layer}.weight"] = x.reshape(-1, len(weight)).T @ d_flat
    grads[f"{layer}.bias"] = d_flat.sum(axis=0)
    return (d_flat @ weight.T).reshape(x.shape) if inputs_too else x


def _unfold(x: Floats) -> Floats:
    """Convert (batch, h, w, c) to (batch, h, w, 9c): each pixel's 3×3 neighbourhood, zero-padded."""
    _, height, width, _ = x.shape
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    return np.concatenate([padded[:, dy : dy + height, dx : dx + width] for dy, dx in _SHIFTS], axis=-1)


def _fold(columns: Floats) -> Floats:
    """Apply the transpose of _unfold: (batch, h, w, 9c) to (batch, h, w, c), by addition."""
    batch, height, width, depth = columns.shape
    channels = depth // len(_SHIFTS)
    padded = np.zeros((batch, height + 2, width + 2, channels), columns.dtype)
    for i, (dy, dx) in enumerate(_SHIFTS):
        padded[:, dy : dy + height, dx : dx + width] += columns[..., i * channels : (i + 1) * channels]
    return padded[:, 1:-1, 1:-1]


def _mean_pool(x: Floats) -> Floats:
    """Convert (batch, h, w, c) to (batch, h/2, w/2, c)."""
    batch, height, width, channels = x.shape
    windows = x.reshape(batch, height // _POOL, _POOL, width // _POOL, _POOL, channels)
    return np.asarray(windows.mean(axis=(2, 4)))


def _spread(d_pooled: Floats) -> Floats:
    """Apply the transpose of _mean_pool."""
    return np.asarray((d_pooled / _POOL**2).repeat(_POOL, axis=1).repeat(_POOL, axis=2))


def _cross_entropy(scores: Floats, labels: NDArray[np.intp]) -> tuple[float, Floats]:
    """Compute the mean cross-entropy and its gradient (batch, CLASSES)."""
    rows = np.arange(len(labels))
    shifted = scores - scores.max(axis=1, keepdims=True)
    normaliser = np.exp(shifted).sum(axis=1, keepdims=True)
    loss = float(np.mean(np.log(normaliser[:, 0]) - shifted[rows, labels]))
    d_scores = np.exp(shifted) / normaliser
    d_scores[rows, labels] -= 1
    return loss, d_scores / len(labels)
