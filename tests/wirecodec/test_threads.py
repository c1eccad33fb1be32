"""Encoding and decoding in several threads at once, as in a server."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import pytest

import wirecodec as wc

SCHEMES = [
    "budget(0.25) | rice | error-bounded",
    "topk(0.01) | auto-index | qsgd",
    "nonzero | structured | zstd",
]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_threads_give_the_bytes_and_the_tensors_of_one(scheme: str) -> None:
    rng = np.random.default_rng(0)
    gradients = [
        {"a": rng.laplace(size=20_000 + 7 * n).astype(np.float32), "b": np.ones(9000)} for n in range(8)
    ]
    blobs = [wc.encode_many(gradient, scheme).tobytes() for gradient in gradients]
    dense = [{name: x.to_dense() for name, x in wc.decode_many(blob).items()} for blob in blobs]
    barrier = Barrier(8, timeout=60)

    def work(number: int) -> None:
        barrier.wait()
        for _ in range(5):
            assert wc.encode_many(gradients[number], scheme).tobytes() == blobs[number]
            arrived = wc.decode_many(blobs[number])
            sums = {name: np.zeros(x.shape, x.dtype) for name, x in gradients[number].items()}
            wc.decode_add(blobs[number], sums)
            for name, expected in dense[number].items():
                np.testing.assert_array_equal(arrived[name].to_dense(), expected)
                np.testing.assert_array_equal(sums[name], expected)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
