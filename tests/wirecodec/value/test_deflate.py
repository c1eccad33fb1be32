"""deflate: sections cut short, bombs, and parameters."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import wirecodec as wc
from tests.wirecodec.value.sections import refusal, section_of


def test_every_prefix_of_a_section_is_refused(rng: np.random.Generator) -> None:
    for shuffle in (False, True):
        values = rng.integers(-3, 3, 300).astype(np.float32)
        section = section_of(wc.Deflate(shuffle=shuffle), values).tobytes()
        for n in range(1, len(section)):
            assert refusal(wc.Deflate, section[:n], 300) in {("Malformed", "deflate-stream")}


def test_a_bomb_costs_what_was_asked_for() -> None:
    """64 MiB of zeros where 3 values are wanted."""
    section = section_of(wc.Deflate(), np.zeros(2**24, np.float32)).tobytes()
    refusal(wc.Deflate, section, 3)
    tracemalloc.start()
    try:
        assert refusal(wc.Deflate, section, 3)[1] == "deflate-stream"
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak <= 65_536 + 4 * len(section)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("deflate(level=0)", "from 1 to 9"),
        ("deflate(10)", "from 1 to 9"),
        ("deflate(shuffle=1)", "True or False"),
        ("deflate(level=2.5)", "an integer"),
    ],
)
def test_wrong_parameters_are_named(text: str, message: str) -> None:
    with pytest.raises(wc.EncodeError, match=message):
        wc.Scheme.parse(f"all | rice | {text}")


@pytest.mark.parametrize("value", ["deflate", "deflate(level=9)"])
def test_schemes_name_them(value: str) -> None:
    assert str(wc.Scheme.parse(f"topk(0.1) | rice | {value}")) == f"topk(0.1) | rice | {value}"
