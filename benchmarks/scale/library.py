"""Arrays of torch if it is installed, as training programs have them, or else of NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

try:
    import torch
except ImportError:  # NumPy computes the same
    torch = None

__all__ = ["copy", "describe_library", "has_torch", "limit_threads", "multiply", "orthogonalise", "share"]

Array = Any


def describe_library() -> str:
    """Return the name and version of the library that computes."""
    return f"torch {torch.__version__}" if torch else f"NumPy {np.__version__}"


def has_torch() -> bool:
    """Return whether torch is installed."""
    return torch is not None


def limit_threads() -> None:
    """Compute on one thread."""
    if torch:
        torch.set_num_threads(1)


def share(x: Array) -> Array:
    """Return a tensor of torch with the memory of an array, or the array without torch."""
    return torch.from_numpy(x) if torch else x


def copy(out: Array, x: Array) -> None:
    """Copy an array to one of another type, as a hook does."""
    share(out)[...] = share(x)


def multiply(left: Array, right: Array, out: Array) -> None:
    """Write the product of two matrices."""
    (torch or np).matmul(left, right, out=out)


def orthogonalise(p: Array) -> Array:
    """Return an orthogonal basis of the columns."""
    return torch.linalg.qr(p).Q if torch else np.linalg.qr(p).Q
