"""Inputs that several benchmarks share: densities, the chunk size, files of saved gradients."""

from __future__ import annotations

from pathlib import Path

__all__ = ["CHUNK", "DENSITIES", "TEST_GRADIENTS", "list_gradient_files"]

DENSITIES = (0.1, 0.01, 0.001)
"""Fractions of the elements that are kept."""

CHUNK = 2**24
"""Elements that the library encodes at a time."""

TEST_GRADIENTS = Path(__file__).parents[2] / "tests" / "data"


def list_gradient_files(*folders: Path) -> list[Path]:
    """List the gradients (*.npy) of some folders, in the order of the folders."""
    return [path for folder in folders for path in sorted(folder.glob("*.npy"))]
