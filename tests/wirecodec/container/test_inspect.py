"""Tests of ``inspect``, which reads a header alone."""

from __future__ import annotations

import numpy as np
import pytest

import wirecodec as wc
from tests.wirecodec.container.small import X


def test_inspect_needs_the_head_alone() -> None:
    tensors = {"b": X.reshape(2, 4), "a": np.zeros((), np.float64), "c": np.empty(0, np.float16)}
    blob = wc.encode_many(tensors, "nonzero | rice | raw", tag=b"step 7")
    info = wc.inspect(blob)
    head = info.nbytes - 8 - 16  # the one index section, the one value section
    assert wc.inspect(blob[:head]) == info
    with pytest.raises(wc.Truncated):
        wc.inspect(blob[: head - 1])
    assert (info.version, info.nbytes, info.tag) == ("1.0", blob.size, b"step 7")
    assert [(e.name, e.shape, e.size, e.nnz, e.dtype) for e in info.entries] == [
        ("a", (), 1, 0, "float64"),
        ("b", (2, 4), 8, 3, "float32"),
        ("c", (0,), 0, 0, "float16"),
    ]
    assert (info.entries[1].index, info.entries[1].value) == ("rice", "raw")
    assert (info.entries[1].index_bytes, info.entries[1].value_bytes) == (8, 12)


def test_the_message_of_a_cut_prefix_tells_whether_it_is_that_of_a_container() -> None:
    blob = wc.encode(X)
    for data, is_foreign in ((blob[:0], False), (blob[:3], False), (blob[:23], False), (b"\xf7WX", True)):
        with pytest.raises(wc.Truncated) as caught:
            wc.inspect(data)
        assert ("no wirecodec container" in str(caught.value)) == is_foreign


def test_inspect_of_fused_and_unnamed() -> None:
    blob = wc.encode_many({"a": X, "b": X[:3]}, "nonzero | rice | raw", fuse=100, names=False)
    (entry,) = wc.inspect(blob).entries
    assert (entry.name, entry.members, entry.size, entry.nnz) == ("0, 1", (("0", 8), ("1", 3)), 11, 4)
