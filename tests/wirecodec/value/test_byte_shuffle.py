"""Tests of byte shuffling in deflate and zstd: lossless, as specified, and smaller."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

import wirecodec as wc
from tests.wirecodec.value.sections import decode_section, encode_section
from wirecodec.element_types import DTYPES

CODERS = [wc.codecs.Deflate, wc.codecs.Zstd]


@pytest.mark.parametrize("cls", CODERS)
@settings(max_examples=100)
@given(st.binary(min_size=1, max_size=80), st.integers(1, 50), st.booleans(), st.integers(1, 9))
def test_every_bit_comes_back(cls: Any, seed: bytes, r: int, shuffle: bool, level: int) -> None:
    for dtype in DTYPES:
        values = np.resize(np.frombuffer(seed, np.uint8), r * dtype.itemsize).view(dtype)
        codec = cls(level=level, shuffle=shuffle)
        back = decode_section(cls, encode_section(codec, values).tobytes(), r, dtype)
        assert back.dtype == dtype
        assert back.tobytes() == values.tobytes()


@pytest.mark.parametrize("cls", CODERS)
def test_content_is_shuffled_as_specified(cls: Any, rng: np.random.Generator, dtype: np.dtype[Any]) -> None:
    values = rng.normal(size=1000).astype(dtype)
    raw = values.tobytes()
    planes = b"".join(raw[j :: dtype.itemsize] for j in range(dtype.itemsize))
    for shuffle, content in ((False, raw), (True, planes)):
        section = encode_section(cls(shuffle=shuffle), values).tobytes()
        assert section[0] == shuffle
        found = (
            zlib.decompress(section[1:], -15)
            if cls is wc.codecs.Deflate
            else zstandard.ZstdDecompressor().decompress(section[1:])
        )
        assert found == content


@pytest.mark.parametrize("cls", CODERS)
def test_shuffling_makes_gradients_smaller(cls: Any, gradient: Any) -> None:
    tensor = wc.encode(gradient, wc.Scheme(wc.selectors.TopK(0.1), wc.codecs.Rice(), cls()))
    plain = wc.encode(gradient, wc.Scheme(wc.selectors.TopK(0.1), wc.codecs.Rice(), cls(shuffle=False)))
    raw = wc.encode(gradient, wc.Scheme(wc.selectors.TopK(0.1), wc.codecs.Rice(), wc.codecs.Raw()))
    assert tensor.size < 0.97 * plain.size < raw.size
    assert np.array_equal(wc.decode(tensor).values, wc.decode(raw).values)
