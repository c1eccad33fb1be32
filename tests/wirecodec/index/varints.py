"""Definitions of ``rle`` and ``delta``: LEB128 numbers of runs and of gaps."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

import wirecodec as wc
from wirecodec.index import delta, rle
from wirecodec.limits import UNLIMITED

__all__ = [
    "EDGES",
    "NUMBERS",
    "ONE",
    "check_random_sections",
    "encode_and_check",
    "from_gaps",
    "gaps_of",
    "leb128",
    "runs_of",
]


def leb128(values: list[int]) -> bytes:
    out = bytearray()
    for value in values:
        groups = [value >> shift & 127 for shift in range(0, max(1, value.bit_length()), 7)]
        out += bytes([*(group + 128 for group in groups[:-1]), groups[-1]])
    return bytes(out)


def gaps_of(indices: Any) -> list[int]:
    return (np.diff(indices.astype(np.int64), prepend=-1) - 1).tolist()


def runs_of(indices: Any) -> list[int]:
    """Return the numbers that rle stores: run lengths, absent first, each but the first minus 1."""
    present = np.zeros(int(indices[-1]) + 1, bool)
    present[indices] = True
    boundaries = np.diff(present.astype(int)).nonzero()[0] + 1
    lengths = np.diff([0, *boundaries, present.size]).tolist()
    if present[0]:
        lengths = [1, *lengths]  # No absent element before the first run.
        lengths[0] = 0
    return [lengths[0], *(n - 1 for n in lengths[1:])]


def from_gaps(gaps: list[int]) -> Any:
    return (np.cumsum(np.array(gaps, np.int64) + 1) - 1).astype(np.uint32)


def encode_and_check(codec: Any, indices: Any) -> bytes:
    """Encode, check decoding and the measured size, and return the section."""
    d = int(indices[-1]) + 2
    section = codec.encode(indices, d, 0)
    assert np.array_equal(codec.decode(section, d, indices.size, UNLIMITED), indices)
    assert {"rle": rle, "delta": delta}[codec.name].measure_section(indices) == section.size
    return bytes(section)


EDGES = [0, 1, 126, 127, 128, 129, 16_382, 16_383, 16_384, 16_385, 2**21 - 1, 2**21, 2**21 + 1]


ONE = st.integers(0, 127)


NUMBERS = st.one_of(
    st.lists(ONE, min_size=1, max_size=200),
    st.lists(st.one_of(ONE, ONE, ONE, st.sampled_from(EDGES)), min_size=1, max_size=200),
    st.lists(st.sampled_from(EDGES[:10]), min_size=1, max_size=200),
    st.lists(st.integers(0, 14).map(lambda n: 2**n), min_size=1, max_size=200),
)


def check_random_sections(codec: Any, rng: np.random.Generator) -> set[str]:
    """Decode 3000 random sections, check that the legal ones are canonical, and return the outcomes."""
    outcomes = set()
    for _ in range(3000):
        size = int(rng.integers(0, 90))
        section = rng.integers(0, 256, size).astype(np.uint8)
        section[rng.random(size) < rng.choice([0.0, 0.5, 0.9, 1.0])] %= 4
        r = int(rng.integers(1, 90))
        try:
            indices = codec.decode(section, 100, r, UNLIMITED)
        except wc.WireError as error:
            outcomes.add(error.code)
        else:
            outcomes.add("ok")
            assert bytes(codec().encode(indices, 100, 0)) == bytes(section)
    return outcomes
