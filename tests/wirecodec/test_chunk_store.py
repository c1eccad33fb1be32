"""Memory of the decoded chunks of very many small tensors."""

from __future__ import annotations

import tracemalloc

import numpy as np

import wirecodec as wc
from wirecodec.container.reader import read_header
from wirecodec.cpu.decode import decode_chunks
from wirecodec.limits import UNLIMITED


def test_small_chunks_are_no_objects_until_they_are_read() -> None:
    """A chunk of one element takes 20 bytes of columns, and 16 bytes of places; its objects take hundreds."""
    model = {f"{n:04}": np.ones(1, np.float32) for n in range(3000)}
    blob = wc.encode_many(model, "all | rice | raw", names=False)
    header = read_header(blob, UNLIMITED)
    tracemalloc.start()
    try:
        decoded = decode_chunks(blob, header, UNLIMITED)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert taken < 100 * len(model)
    assert decoded[2999][0].values.tolist() == [1]
