"""Tests of ``zstd``: frames of many writers, windows, truncated sections, decompression bombs."""

from __future__ import annotations

import time
import tracemalloc
from typing import Any

import numpy as np
import pytest
import zstandard

import wirecodec as wc
from formats.reference.value.zstd import STORED
from formats.reference.writing.value.zstd import write_block_header, write_frame_header
from tests.wirecodec.value.sections import decode_section, encode_section, error_of


def test_every_prefix_of_a_section_raises(rng: np.random.Generator) -> None:
    for shuffle in (False, True):
        values = rng.integers(-3, 3, 300).astype(np.float32)
        section = encode_section(wc.codecs.Zstd(shuffle=shuffle), values).tobytes()
        for n in range(1, len(section)):
            kind, code = error_of(wc.codecs.Zstd, section[:n], 300)
            assert kind == "Malformed"
            assert code in ("zstd-frame", "zstd-block")


def test_decompression_bomb_uses_little_memory() -> None:
    """The section holds 64 MiB of zeros; 3 values are expected."""
    section = encode_section(wc.codecs.Zstd(), np.zeros(2**24, np.float32)).tobytes()
    error_of(wc.codecs.Zstd, section, 3)
    tracemalloc.start()
    try:
        assert error_of(wc.codecs.Zstd, section, 3)[1] == "zstd-size"
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak <= 65_536 + 4 * len(section)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("level", range(1, 20))
def test_windows_of_every_level_are_decoded(level: int) -> None:
    """The 9 MiB of values would profit from a larger window."""
    values = np.zeros(9 * 2**18, np.float32)
    section = encode_section(wc.codecs.Zstd(level=level), values)
    assert zstandard.get_frame_parameters(section[1:].tobytes()).window_size <= 2**23
    assert np.array_equal(decode_section(wc.codecs.Zstd, section.tobytes(), values.size), values)


def test_a_frame_of_many_blocks_is_decoded_quickly() -> None:
    blocks = write_block_header(False, STORED, 0) * 20_000 + write_block_header(True, STORED, 12) + bytes(12)
    section = b"\0" + write_frame_header(12) + blocks
    assert not decode_section(wc.codecs.Zstd, section, 3).any()
    best = np.inf
    for _ in range(5):
        start = time.perf_counter()
        decode_section(wc.codecs.Zstd, section, 3)
        best = min(best, time.perf_counter() - start)
    assert best < 0.02


def frame(values: Any, **parameters: Any) -> bytes:
    compressed = zstandard.ZstdCompressor(
        compression_params=zstandard.ZstdCompressionParameters(**parameters)
    )
    return b"\0" + compressed.compress(values.tobytes())


def test_frames_outside_the_format_raise(rng: np.random.Generator) -> None:
    values = rng.normal(size=5000).astype(np.float32)
    assert np.array_equal(decode_section(wc.codecs.Zstd, frame(values), 5000), values)
    assert error_of(wc.codecs.Zstd, frame(values, write_checksum=True), 5000) == ("Malformed", "zstd-header")
    assert error_of(wc.codecs.Zstd, frame(values, write_content_size=False), 5000) == (
        "Malformed",
        "zstd-header",
    )
    assert error_of(wc.codecs.Zstd, frame(values, format=zstandard.FORMAT_ZSTD1_MAGICLESS), 5000) == (
        "Malformed",
        "zstd-frame",
    )
    assert error_of(wc.codecs.Zstd, 2 * frame(values), 5000) == ("Malformed", "zstd-trailing")
    assert error_of(wc.codecs.Zstd, frame(values) + frame(values)[1:], 5000) == ("Malformed", "zstd-trailing")
    dictionary = zstandard.ZstdCompressionDict(values[:1000].tobytes())
    compressed = zstandard.ZstdCompressor(dict_data=dictionary).compress(values.tobytes())
    assert error_of(wc.codecs.Zstd, b"\0" + compressed, 5000)[1] in ("zstd-header", "zstd-content")
    large = np.zeros(3 * 2**20, np.float32)
    assert error_of(wc.codecs.Zstd, frame(large, window_log=24), large.size) == ("Invalid", "zstd-window")


def test_frames_of_many_writers_are_decoded(rng: np.random.Generator) -> None:
    values = np.round(rng.laplace(size=50_000) * 4).astype(np.float32)
    for parameters in (
        {"window_log": 10},
        {"strategy": zstandard.STRATEGY_BTULTRA2, "compression_level": 19},
        {"compression_level": -50},
        {"threads": 2},
        {"enable_ldm": True},
    ):
        assert np.array_equal(
            decode_section(wc.codecs.Zstd, frame(values, **parameters), values.size), values
        )
    streaming = zstandard.ZstdCompressor().compressobj(size=values.nbytes)
    parts = [streaming.compress(values[n : n + 777].tobytes()) for n in range(0, values.size, 777)]
    parts.append(streaming.flush())
    assert np.array_equal(decode_section(wc.codecs.Zstd, b"\0" + b"".join(parts), values.size), values)


def test_high_expansion_needs_a_schema() -> None:
    blob = wc.encode(np.zeros(2**24, np.float32), "all | raw-index | zstd")
    with pytest.raises(wc.LimitExceeded, match="max-expansion"):
        wc.decode(blob)
    assert not wc.decode(blob, schema=((2**24,), np.float32)).values.any()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("zstd(level=0)", "must be 1 to 19"),
        ("zstd(20)", "must be 1 to 19"),
        ("zstd(shuffle=None)", "True or False"),
    ],
)
def test_parameters_out_of_range(text: str, message: str) -> None:
    with pytest.raises(wc.EncodeError, match=message):
        wc.Scheme.parse(f"all | rice | {text}")


@pytest.mark.parametrize("value", ["zstd(shuffle=False)", "zstd(level=19)"])
def test_scheme_string_round_trip(value: str) -> None:
    assert str(wc.Scheme.parse(f"topk(0.1) | rice | {value}")) == f"topk(0.1) | rice | {value}"
