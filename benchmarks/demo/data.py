"""scikit-learn's digits: 1797 grey images of 8×8 pixels, which need no download.

The split into training and test images is fixed. Each rank has a shard of the training images. Its batches
depend only on (seed, rank, step), so that both runs of the demo use the same images in the same order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["TEST_IMAGES", "Digits", "generate_batches", "load", "shard"]

TEST_IMAGES = 497  # 1300 training images remain
_SPLIT_SEED = 2021


@dataclass(frozen=True)
class Digits:
    """Images and labels.

    Attributes:
        images: (n, 8, 8) float32 in [0, 1].
        labels: (n,) in 0 … 9.
    """

    images: NDArray[np.float32]
    labels: NDArray[np.intp]

    def __len__(self) -> int:
        return len(self.labels)

    def select(self, rows: NDArray[np.intp] | slice) -> Digits:
        """Select rows in the given order."""
        return Digits(self.images[rows], self.labels[rows])


def load() -> tuple[Digits, Digits]:
    """Load (training images, test images), which are disjoint and always the same."""
    from sklearn.datasets import load_digits

    bundle = load_digits()
    order = np.random.default_rng(_SPLIT_SEED).permutation(len(bundle.target))
    digits = Digits((bundle.images / 16).astype(np.float32), bundle.target.astype(np.intp))
    return digits.select(order[TEST_IMAGES:]), digits.select(order[:TEST_IMAGES])


def shard(digits: Digits, rank: int, ranks: int) -> Digits:
    """Select one rank's images; the shards of all ranks are disjoint and complete.

    Args:
        digits: all images.
        rank: the rank; its shard starts at the image of this number.
        ranks: number of ranks; the shard has every ``ranks``-th image.
    """
    return digits.select(slice(rank, None, ranks))


def generate_batches(digits: Digits, size: int, *, seed: int, rank: int) -> Iterator[Digits]:
    """Yield batches without end: every image once per epoch, in a new random order.

    A remainder smaller than a batch is dropped.

    Args:
        digits: the images to draw from.
        size: images per batch.
        seed, rank: seed of the order.
    """
    if not 0 < size <= len(digits):
        raise ValueError(f"size is {size}; it must be 1 to {len(digits)}, the number of images")
    rng = np.random.default_rng((seed, rank))
    while True:
        order = rng.permutation(len(digits))
        for start in range(0, len(order) - size + 1, size):
            yield digits.select(order[start : start + size])
