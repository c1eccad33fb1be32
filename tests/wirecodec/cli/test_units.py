"""Bandwidths and times, from text and back."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wirecodec.cli.units import format_bandwidth, format_seconds, parse_bandwidth, parse_seconds


@pytest.mark.parametrize(
    ("text", "bytes_a_second"),
    [
        ("100Mbit", 12.5e6),
        ("10Gbit", 1.25e9),
        ("10 Gbit/s", 1.25e9),
        ("10gbit", 1.25e9),
        ("10Gbps", 1.25e9),
        ("10Gb/s", 1.25e9),
        ("10GB/s", 1e10),
        ("12.5GBps", 1.25e10),
        ("1.5e3Mbit", 187.5e6),
        (".5kbytes/s", 500),
        ("64b", 8),
        ("1GiB/s", 2**30),
        ("8Kibit", 1024),
    ],
)
def test_bandwidths(text: str, bytes_a_second: float) -> None:
    assert parse_bandwidth(text) == pytest.approx(bytes_a_second, rel=1e-15)


@pytest.mark.parametrize(
    "text",
    ["", "fast", "10", "Gbit", "10G", "10gb", "10mB", "1imB", "-1Gbit", "nanGbit", "1,5Gbit"],
)
def test_bandwidths_that_are_none(text: str) -> None:
    with pytest.raises(ValueError, match=r"cannot read bandwidth .* \(b is a bit, B a byte\)"):
        parse_bandwidth(text)


@pytest.mark.parametrize("text", ["0Gbit", "1e400Gbit", "1e308TB/s"])
def test_bandwidths_without_sense(text: str) -> None:
    with pytest.raises(ValueError, match="must be above 0 and finite"):
        parse_bandwidth(text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0),
        ("50us", 50e-6),
        ("50 µs", 50e-6),
        ("50μs", 50e-6),
        ("1.5ms", 1.5e-3),
        ("800ns", 8e-7),
        ("2s", 2),
    ],
)
def test_times(text: str, seconds: float) -> None:
    assert parse_seconds(text) == pytest.approx(seconds, rel=1e-15)


@pytest.mark.parametrize("text", ["", "5", "us", "-1us", "5 minutes", "nans"])
def test_times_that_are_none(text: str) -> None:
    with pytest.raises(ValueError, match="cannot read time"):
        parse_seconds(text)
    with pytest.raises(ValueError, match="must be finite"):
        parse_seconds("1e400s")


def test_how_they_are_written() -> None:
    bandwidths = [0.01, 1.25e5, 124_999_999, 1.25e9, 4.7e9, 1.25e11, 1e15]
    assert [format_bandwidth(b) for b in bandwidths] == [
        *("0.08 bit/s", "1 Mbit/s", "1 Gbit/s", "10 Gbit/s", "37.6 Gbit/s", "1 Tbit/s", "8,000 Tbit/s"),
    ]
    times = [0, 1e-7, 4.56e-5, 0.99994e-3, 0.9996e-3, 1.25e-2, 0.9999, 123.4, 12345]
    assert [format_seconds(t) for t in times] == [
        *("0 µs", "0.1 µs", "45.6 µs", "1 ms", "1 ms", "12.5 ms", "1 s", "123 s", "12,300 s"),
    ]


@given(st.floats(1, 1e14))
def test_a_written_bandwidth_is_read_back(bandwidth: float) -> None:
    assert parse_bandwidth(format_bandwidth(bandwidth).replace(",", "")) == pytest.approx(
        bandwidth, rel=5.1e-3
    )


@given(st.floats(1e-6, 1e6))
def test_a_written_time_is_read_back(seconds: float) -> None:
    assert math.isclose(parse_seconds(format_seconds(seconds).replace(",", "")), seconds, rel_tol=5.1e-3)
