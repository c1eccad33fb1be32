"""Tests of containers one after another in a buffer or a file."""

from __future__ import annotations

import io
import struct

import numpy as np
import pytest

import wirecodec as wc
from tests.wirecodec.container.small import X


def test_streams() -> None:
    blobs = [wc.encode(X * i, tag=bytes([i + 1])) for i in range(4)]
    whole = b"".join(b.tobytes() for b in blobs)
    assert wc.blob_size(whole[:24]) == blobs[0].size
    for source in (whole, np.frombuffer(whole, np.uint8), io.BytesIO(whole)):
        assert [bytes(b) for b in wc.iter_blobs(source)] == [bytes(b) for b in blobs]
    for cut in (1, 30):
        for source in (whole[:-cut], io.BytesIO(whole[:-cut]), whole + bytes(cut % 24)):
            with pytest.raises(wc.WireError):
                list(wc.iter_blobs(source))
    with pytest.raises(wc.LimitExceeded):
        list(wc.iter_blobs(io.BytesIO(whole), limits=wc.DecodeLimits(max_bytes=64)))
    huge = bytearray(whole)
    huge[16:24] = struct.pack("<Q", 2**63)
    with pytest.raises(wc.LimitExceeded):
        next(wc.iter_blobs(io.BytesIO(huge)))
    assert list(wc.iter_blobs(b"")) == list(wc.iter_blobs(io.BytesIO())) == []
