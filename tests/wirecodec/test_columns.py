"""Tests of the columns that describe many arrays: headers and attributes agree, and give the same bytes."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import wirecodec as wc
from wirecodec.cpu.columns import ArrayColumns
from wirecodec.cpu.fast import headers


def test_headers_are_read_as_attributes_are() -> None:
    assert headers._is_layout_known()
    x = np.arange(60, dtype=np.float32)
    swapped = x.astype(">f4")
    subclass = x.view(np.recarray)
    objects = [
        x,
        x.reshape(3, 4, 5)[:, ::2],
        x[7:],
        swapped,
        subclass,
        x.astype(ml_dtypes.bfloat16),
        None,
        "x",
    ]
    read, attributes = headers._read_headers(objects), ArrayColumns.of_attributes(objects)
    for name, column in vars(read).items():
        assert np.array_equal(column, getattr(attributes, name)), name
    assert read.kinds.tolist() == [0, -1, 0, -1, -1, 2, -1, -1]


def test_bytes_are_the_same_without_headers(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    model: dict[str, Any] = {f"{i}": rng.normal(size=size).astype("f4") for i, size in enumerate((3000,) * 4)}
    model["strided"], model["list"] = rng.normal(size=(80, 80)).astype("f4").T[::2], memoryview(model["0"])

    def run() -> list[Any]:
        compressor = wc.Compressor("topk(0.02) | rice | qsgd")
        blobs = [compressor.compress(model).tobytes() for _ in range(3)]
        out = {name: np.zeros(np.asarray(x).size, np.float32) for name, x in model.items()}
        wc.decode_add(blobs, out)
        return [*blobs, *(x.tobytes() for x in out.values())]

    with_headers = run()
    monkeypatch.setattr(headers, "_is_layout_known", lambda: False)
    assert with_headers == run()
