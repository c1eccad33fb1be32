"""Tests of ``deflate``: truncated sections, decompression bombs, parameters."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import wirecodec as wc
from tests.wirecodec.value.sections import encode_section, error_of


def test_every_prefix_of_a_section_raises(rng: np.random.Generator) -> None:
    for shuffle in (False, True):
        values = rng.integers(-3, 3, 300).astype(np.float32)
        section = encode_section(wc.codecs.Deflate(shuffle=shuffle), values).tobytes()
        for n in range(1, len(section)):
            assert error_of(wc.codecs.Deflate, section[:n], 300) == ("Malformed", "deflate-stream")


def test_decompression_bomb_uses_little_memory() -> None:
    """The section holds 64 MiB of zeros; 3 values are expected."""
    section = encode_section(wc.codecs.Deflate(), np.zeros(2**24, np.float32)).tobytes()
    error_of(wc.codecs.Deflate, section, 3)
    tracemalloc.start()
    try:
        assert error_of(wc.codecs.Deflate, section, 3)[1] == "deflate-stream"
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak <= 65_536 + 4 * len(section)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("deflate(level=0)", "must be 1 to 9"),
        ("deflate(10)", "must be 1 to 9"),
        ("deflate(shuffle=1)", "True or False"),
        ("deflate(level=2.5)", "an integer"),
    ],
)
def test_parameters_out_of_range(text: str, message: str) -> None:
    with pytest.raises(wc.EncodeError, match=message):
        wc.Scheme.parse(f"all | rice | {text}")


@pytest.mark.parametrize("value", ["deflate", "deflate(level=9)"])
def test_scheme_string_round_trip(value: str) -> None:
    assert str(wc.Scheme.parse(f"topk(0.1) | rice | {value}")) == f"topk(0.1) | rice | {value}"
