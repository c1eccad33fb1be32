"""Tests of the errors' attributes."""

from __future__ import annotations

import pickle

import wirecodec as wc


def test_errors_survive_pickling() -> None:
    error = wc.Malformed("magic", "wrong", offset=3, entry=4)
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.code, again.offset, again.entry) == (
        wc.Malformed,
        "magic: wrong (entry 4, byte 3)",
        "magic",
        3,
        4,
    )
    refused = pickle.loads(pickle.dumps(wc.EncodeError("no", tensor="w", position=2)))
    assert str(refused) == "tensor 'w', element 2: no"
