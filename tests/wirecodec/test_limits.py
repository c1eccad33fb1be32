"""Tests of the limits of a reader."""

from __future__ import annotations

import numpy as np
import pytest

import wirecodec as wc
from tests.wirecodec.container.small import X


def test_members_of_fused_entries_are_bounded_as_entries_are() -> None:
    tensors = {f"{n:02}": X for n in range(12)}
    blob = wc.encode_many(tensors, fuse=100)
    assert len(wc.inspect(blob).entries) == 1
    assert len(wc.decode_many(blob, limits=wc.DecodeLimits(max_entries=12))) == 12
    for read in (wc.decode_many, wc.decode, lambda b, limits: wc.decode_add(b, {}, limits=limits)):
        with pytest.raises(wc.LimitExceeded, match="max-entries"):
            read(blob, limits=wc.DecodeLimits(max_entries=11))


@pytest.mark.parametrize(
    ("limit", "code"),
    [
        ({"max_bytes": 100}, "max-bytes"),
        ({"max_entries": 1}, "max-entries"),
        ({"max_elements": 5}, "max-elements"),
        ({"max_dense": 15}, "max-dense"),
        ({"max_expansion": 0}, "max-expansion"),
    ],
)
def test_limits(limit: dict[str, int], code: str) -> None:
    blob = wc.encode_many({"a": X, "b": X})
    with pytest.raises(wc.LimitExceeded) as caught:
        wc.decode_many(blob, limits=wc.DecodeLimits(**limit))
    assert caught.value.code == code
    schema = {"a": ((8,), "float32"), "b": ((8,), "float32")}
    if code == "max-expansion":
        assert len(wc.decode_many(blob, limits=wc.DecodeLimits(**limit), schema=schema)) == 2


def test_limits_are_counts() -> None:
    for wrong in (-1, 1.5, True, None):
        with pytest.raises(ValueError, match="max_work"):
            wc.DecodeLimits(max_work=wrong)


def test_to_dense_keeps_the_limit_it_was_decoded_under() -> None:
    sparse = wc.SparseTensor([3], np.ones(1, np.float32), (2**30,))
    blob = wc.encode(sparse, "all | rice | raw")
    with pytest.raises(wc.LimitExceeded):
        wc.decode(blob, limits=wc.DecodeLimits(max_dense=2**20))
    lowered = wc.decode(blob, limits=wc.DecodeLimits(max_dense=2**30))
    assert lowered.nnz == 1
    tensor = wc.SparseTensor([3], np.ones(1, np.float32), (2**33,))
    with pytest.raises(wc.LimitExceeded):
        tensor.to_dense()
