"""Tests of the errors' attributes."""

from __future__ import annotations

import pickle
from collections.abc import Callable

import numpy as np
import pytest

import wirecodec as wc

X = np.ones(8, np.float32)
MISTAKES: dict[str, Callable[[], object]] = {
    "encode_many takes one flat mapping": lambda: wc.encode({"w": X}),
    "'rice' is an index codec, and the order is": lambda: wc.encode(X, "rice | topk(0.5) | raw"),
    "did you mean 'raw-index'\\? 'raw' is a value codec": lambda: wc.encode(X, "topk(0.5) | raw | rice"),
    "read_bytes\\(\\) of a file": lambda: wc.inspect("gradient.wc"),
}


@pytest.mark.parametrize("message", MISTAKES)
def test_messages_name_the_remedy(message: str) -> None:
    with pytest.raises((wc.EncodeError, wc.WireError), match=message):
        MISTAKES[message]()


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
