"""zstd: frames of many writers, windows of every level, sections cut short, and bombs."""

from __future__ import annotations

import time
import tracemalloc
from typing import Any

import numpy as np
import pytest
import zstandard

import wirecodec as wc
from formats.reference.zstd import STORED, block_header, frame_header
from tests.wirecodec.value.sections import decoded, refusal, section_of


def test_every_prefix_of_a_section_is_refused(rng: np.random.Generator) -> None:
    for shuffle in (False, True):
        values = rng.integers(-3, 3, 300).astype(np.float32)
        section = section_of(wc.Zstd(shuffle=shuffle), values).tobytes()
        for n in range(1, len(section)):
            assert refusal(wc.Zstd, section[:n], 300) in {
                ("Malformed", "zstd-frame"),
                ("Malformed", "zstd-block"),
            }


def test_a_bomb_costs_what_was_asked_for() -> None:
    """64 MiB of zeros where 3 values are wanted."""
    section = section_of(wc.Zstd(), np.zeros(2**24, np.float32)).tobytes()
    refusal(wc.Zstd, section, 3)
    tracemalloc.start()
    try:
        assert refusal(wc.Zstd, section, 3)[1] == "zstd-size"
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak <= 65_536 + 4 * len(section)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("level", range(1, 20))
def test_windows_of_every_level_are_read(level: int) -> None:
    """9 MiB, so that a greater window would be of use."""
    values = np.zeros(9 * 2**18, np.float32)
    section = section_of(wc.Zstd(level=level), values)
    assert zstandard.get_frame_parameters(section[1:].tobytes()).window_size <= 2**23
    assert np.array_equal(decoded(wc.Zstd, section.tobytes(), values.size), values)


def test_a_frame_of_many_blocks_is_read_in_little_time() -> None:
    blocks = block_header(False, STORED, 0) * 20_000 + block_header(True, STORED, 12) + bytes(12)
    section = b"\0" + frame_header(12) + blocks
    assert not decoded(wc.Zstd, section, 3).any()
    best = np.inf
    for _ in range(5):
        start = time.perf_counter()
        decoded(wc.Zstd, section, 3)
        best = min(best, time.perf_counter() - start)
    assert best < 0.02


def frame(values: Any, **parameters: Any) -> bytes:
    made = zstandard.ZstdCompressor(compression_params=zstandard.ZstdCompressionParameters(**parameters))
    return b"\0" + made.compress(values.tobytes())


def test_frames_of_other_kinds_are_refused(rng: np.random.Generator) -> None:
    values = rng.normal(size=5000).astype(np.float32)
    assert np.array_equal(decoded(wc.Zstd, frame(values), 5000), values)
    assert refusal(wc.Zstd, frame(values, write_checksum=True), 5000) == ("Malformed", "zstd-header")
    assert refusal(wc.Zstd, frame(values, write_content_size=False), 5000) == ("Malformed", "zstd-header")
    assert refusal(wc.Zstd, frame(values, format=zstandard.FORMAT_ZSTD1_MAGICLESS), 5000) == (
        "Malformed",
        "zstd-frame",
    )
    assert refusal(wc.Zstd, 2 * frame(values), 5000) == ("Malformed", "zstd-trailing")
    assert refusal(wc.Zstd, frame(values) + frame(values)[1:], 5000) == ("Malformed", "zstd-trailing")
    dictionary = zstandard.ZstdCompressionDict(values[:1000].tobytes())
    made = zstandard.ZstdCompressor(dict_data=dictionary).compress(values.tobytes())
    assert refusal(wc.Zstd, b"\0" + made, 5000)[1] in ("zstd-header", "zstd-content")
    large = np.zeros(3 * 2**20, np.float32)
    assert refusal(wc.Zstd, frame(large, window_log=24), large.size) == ("Invalid", "zstd-window")


def test_frames_of_many_writers_are_read(rng: np.random.Generator) -> None:
    values = np.round(rng.laplace(size=50_000) * 4).astype(np.float32)
    for parameters in (
        {"window_log": 10},
        {"strategy": zstandard.STRATEGY_BTULTRA2, "compression_level": 19},
        {"compression_level": -50},
        {"threads": 2},
        {"enable_ldm": True},
    ):
        assert np.array_equal(decoded(wc.Zstd, frame(values, **parameters), values.size), values)
    streaming = zstandard.ZstdCompressor().compressobj(size=values.nbytes)
    parts = [streaming.compress(values[n : n + 777].tobytes()) for n in range(0, values.size, 777)]
    parts.append(streaming.flush())
    assert np.array_equal(decoded(wc.Zstd, b"\0" + b"".join(parts), values.size), values)


def test_what_is_all_but_constant_needs_a_schema() -> None:
    blob = wc.encode(np.zeros(2**24, np.float32), "all | raw-index | zstd")
    with pytest.raises(wc.LimitExceeded, match="max-expansion"):
        wc.decode(blob)
    assert not wc.decode(blob, schema=((2**24,), np.float32)).values.any()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("zstd(level=0)", "from 1 to 19"),
        ("zstd(20)", "from 1 to 19"),
        ("zstd(shuffle=None)", "True or False"),
    ],
)
def test_wrong_parameters_are_named(text: str, message: str) -> None:
    with pytest.raises(wc.EncodeError, match=message):
        wc.Scheme.parse(f"all | rice | {text}")


@pytest.mark.parametrize("value", ["zstd(shuffle=False)", "zstd(level=19)"])
def test_schemes_name_them(value: str) -> None:
    assert str(wc.Scheme.parse(f"topk(0.1) | rice | {value}")) == f"topk(0.1) | rice | {value}"
