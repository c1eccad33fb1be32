"""Tests that sections read together decode as the reference has it, and that both refuse the same ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wirecodec as wc
from formats import reference
from formats.reference.index.codecs import decode_index
from formats.reference.limits import Work
from tests import inputs
from wirecodec.arrays import aligned
from wirecodec.index.huffman import Huffman
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
    padded.flags.writeable = False
    try:
        return codec.decode(padded, d, r, UNLIMITED).tolist()
    except wc.WireError:
        return None


def read_with_reference(codec: Any, section: bytes, d: int, r: int) -> Any:
    try:
        return list(decode_index(codec.wire_id, section, r, d, Work(0)))
    except reference.WireError:
        return None


@pytest.mark.parametrize(
    ("codec", "rows", "sound"),
    [(Structured(), 2000, 250), (RLE(), 2000, 400), (Huffman(), 1000, 200), (Huffman("keys"), 250, 50)],
    ids=["structured", "rle", "huffman", "huffman-keys"],
)
def test_sections_together_are_sections_one_by_one(codec: Any, rows: int, sound: int) -> None:
    rng = np.random.default_rng(11)
    expected = []
    for _ in range(rows):
        d = int(np.exp(rng.uniform(np.log(2), np.log(2**22))))
        r = int(rng.integers(1, min(d, 300)))
        section = damage(rng, codec.encode(inputs.support(rng, d, r), d, 0).tobytes())
        expected.append(read_with_reference(codec, section, d, r))
        assert read_one(codec, section, d, r) == expected[-1]
        other = codec.encode(np.array([1, 5], np.uint32), 50, 0).tobytes()  # one bad section refuses both
        first = -(-len(section) // 8) * 2
        words = np.frombuffer(section.ljust(4 * first, b"\xff") + other.ljust(8, b"\0"), np.uint32)
        lengths, cuts = np.array([len(section), len(other)]), np.array([0, r, r + 2])
        found = codec.decode_batch(words, np.array([0, first]), lengths, np.array([d, 50]), cuts)
        assert found is None or found[r:].tolist() == [1, 5]
        assert (None if found is None else found[:r].tolist()) == expected[-1]
    assert sound < sum(found is not None for found in expected) < 7 * rows // 8


def test_an_empty_section_is_refused() -> None:
    words, one = np.zeros(2, np.uint32), np.ones(1, np.int64)
    for codec in (Structured, RLE, Huffman):
        assert codec.decode_batch(words, one - 1, one - 1, 9 * one, np.array([0, 1])) is None
