"""scikit-learn's digits: 1797 grey images of 8×8 pixels, bundled with it, so that nothing is downloaded.

The split into training and test images never changes. Each rank owns a shard of the training images, and its
batches follow from (seed, rank, step) alone: both runs of the demo see the same images in the same order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["TEST_IMAGES", "Digits", "batches", "load", "shard"]

TEST_IMAGES = 497  # the training images are then 1300
_SPLIT_SEED = 2021


@dataclass(frozen=True)
class Digits:
    """Images (n, 8, 8) float32 in 0 … 1, and labels (n,) in 0 … 9."""

    images: NDArray[np.float32]
    labels: NDArray[np.intp]

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, rows: NDArray[np.intp] | slice) -> Digits:
        """These rows, in this order."""
        return Digits(self.images[rows], self.labels[rows])


def load() -> tuple[Digits, Digits]:
    """(training images, test images): disjoint, and always the same."""
    from sklearn.datasets import load_digits

    bundle = load_digits()
    order = np.random.default_rng(_SPLIT_SEED).permutation(len(bundle.target))
    digits = Digits((bundle.images / 16).astype(np.float32), bundle.target.astype(np.intp))
    return digits.take(order[TEST_IMAGES:]), digits.take(order[:TEST_IMAGES])


def shard(digits: Digits, rank: int, ranks: int) -> Digits:
    """One rank's part of the images; the shards of all ranks are disjoint and leave nothing out.

    Args:
        digits: all images.
        rank: whose part; it begins with the image of this number.
        ranks: how many; every ``ranks``-th image is in the part.
    """
    return digits.take(slice(rank, None, ranks))


def batches(digits: Digits, size: int, *, seed: int, rank: int) -> Iterator[Digits]:
    """Batches without end: every image once an epoch, in a fresh order each time; a remainder is left out.

    Args:
        digits: what to draw from.
        size: images in a batch.
        seed, rank: what the order follows from.
    """
    if not 0 < size <= len(digits):
        raise ValueError(f"a batch of {size} images cannot be drawn from {len(digits)}")
    rng = np.random.default_rng((seed, rank))
    while True:
        order = rng.permutation(len(digits))
        for start in range(0, len(order) - size + 1, size):
            yield digits.take(order[start : start + size])
