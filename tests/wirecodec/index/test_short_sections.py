"""Tests that sections read together are those that ``decode`` reads, and that both refuse the same ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wirecodec as wc
from tests import inputs
from wirecodec.arrays import aligned
from wirecodec.index.rle import RLE
from wirecodec.index.structured import Structured
from wirecodec.limits import UNLIMITED


def damage(rng: np.random.Generator, section: bytes) -> bytes:
    """Return a section with a changed bit or byte, one byte more or fewer, or as it is."""
    data, kind = bytearray(section), int(rng.integers(5))
    at = int(rng.integers(len(data)))
    if kind == 1:
        data[at] ^= 1 << int(rng.integers(8))
    elif kind == 2:
        data[at] = int(rng.choice([0, 1, 127, 128, 255]))
    elif kind == 3:
        data.append(int(rng.choice([0, 1, 128])))
    elif kind == 4:
        del data[at]
    return bytes(data)


def read_one(codec: Any, section: bytes, d: int, r: int) -> Any:
    padded = aligned(len(section), np.uint8)
    padded[:] = np.frombuffer(section, np.uint8)
    try:
        return codec.decode(padded, d, r, UNLIMITED).tolist()
    except wc.WireError:
        return None


@pytest.mark.parametrize(("codec", "sound"), [(Structured, 500), (RLE, 800)])
def test_sections_together_are_sections_one_by_one(codec: Any, sound: int) -> None:
    rng = np.random.default_rng(11)
    rows = []
    for _ in range(4000):
        d = int(np.exp(rng.uniform(np.log(2), np.log(2**22))))
        r = int(rng.integers(1, min(d, 300)))
        indices = inputs.support(rng, d, r)
        rows.append((damage(rng, codec().encode(indices, d, 0).tobytes()), d, r))
    expected = [read_one(codec, *row) for row in rows]
    together = []
    for section, d, r in rows:  # one bad section refuses all, so each goes with a sound one
        other = codec().encode(np.array([1, 5], np.uint32), 50, 0).tobytes()
        first = -(-len(section) // 8) * 2
        words = np.frombuffer(section.ljust(4 * first, b"\xff") + other.ljust(8, b"\0"), np.uint32)
        lengths, cuts = np.array([len(section), len(other)]), np.array([0, r, r + 2])
        found = codec.decode_batch(words, np.array([0, first]), lengths, np.array([d, 50]), cuts)
        assert found is None or found[r:].tolist() == [1, 5]
        together.append(None if found is None else found[:r].tolist())
    assert together == expected
    assert sound < sum(found is not None for found in expected) < 3500


def test_an_empty_section_is_refused() -> None:
    words, one = np.zeros(2, np.uint32), np.ones(1, np.int64)
    for codec in (Structured, RLE):
        assert codec.decode_batch(words, one - 1, one - 1, 9 * one, np.array([0, 1])) is None
