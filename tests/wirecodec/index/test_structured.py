"""Tests of ``structured``: sections of the reference writer, the grain, gap streams, hostile sections."""

from __future__ import annotations

import itertools
import math
import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wirecodec as wc
from formats import reference
from formats.reference.writing.index.structured import pack_bits, to_bits
from tests import oracles
from tests.wirecodec.index.grains import grained
from wirecodec.arrays import Array
from wirecodec.index.structured_plan import Header, count_runs
from wirecodec.kernels.cpu.coding import gap_stream
from wirecodec.limits import UNLIMITED

CODES = {"smallest": None, "gaps": 0, "runs": 1, "bitmap": 2}


def header_of(indices: Any, d: int) -> Header:
    return Header.of(wc.codecs.Structured().encode(indices, d, 0), d)


@settings(max_examples=150)
@given(grained(), st.sampled_from(sorted(CODES)))
def test_sections_match_the_reference_writer(support: tuple[int, Any], form: str) -> None:
    d, indices = support
    section = wc.codecs.Structured(form).encode(indices, d, 0)
    assert np.array_equal(wc.codecs.Structured.decode(section, d, indices.size, UNLIMITED), indices)
    header = Header.of(section, d)
    if header.count_listed(indices.size, d) not in (0, header.count_grains(d)):
        assert section.tobytes() == reference.Structured(CODES[form]).write_section(indices.tolist(), d)


@settings(max_examples=120)
@given(grained())
def test_the_greatest_grain_is_found(support: tuple[int, Any]) -> None:
    d, indices = support
    present = np.isin(np.arange(d), indices)
    ends = [i for i in range(1, d) if present[i] != present[i - 1]]
    expected = math.gcd(*(b - a for a, b in itertools.pairwise(ends))) or 1
    runs = count_runs(indices)
    assert runs == 1 + np.count_nonzero(np.diff(indices.astype(int)) != 1)
    header = header_of(indices, d)
    assert header.grain == expected
    assert expected == 1 or all(end % expected == header.phase for end in ends)


@settings(max_examples=100)
@given(st.lists(st.integers(0, 20).map(lambda n: 2**n // 3), min_size=1, max_size=700))
def test_gap_streams_have_the_planned_length(steps: list[int]) -> None:
    numbers = (np.cumsum(np.array(steps, np.int64) + 1) - 1).astype(np.uint32)
    parameters = np.empty(-(-numbers.size // 256), np.uint8)
    bits = gap_stream.plan(numbers, parameters)
    blocks = [steps[i : i + 256] for i in range(0, len(steps), 256)]
    assert parameters.tolist() == [oracles.best_rice_parameter(block) for block in blocks]
    words = np.zeros(-(-bits // 64), np.uint64)
    assert gap_stream.write(numbers, parameters, words, 0) == bits
    data = np.concatenate([words.view(np.uint8), np.zeros(16, np.uint8)])
    out = np.empty_like(numbers)
    assert gap_stream.read(data, 0, bits, int(numbers[-1]) + 1, out) == bits
    assert np.array_equal(out, numbers)
    assert gap_stream.read(data, 0, bits - 1, int(numbers[-1]) + 1, out) == gap_stream.BAD_LENGTH
    assert gap_stream.read(data, 0, bits, int(numbers[-1]), out) == gap_stream.BAD_RANGE


def test_unknown_forms_raise() -> None:
    with pytest.raises(wc.EncodeError, match="form is 'row'; it must be smallest, gaps, runs, bitmap"):
        wc.codecs.Structured("row")


def test_memory_is_bounded_by_bytes_and_r() -> None:
    """Decode one index among 16 million absent ones, listed in 2 MB, without an array of them."""
    d = 2**24
    section = np.frombuffer(
        b"\x04" + pack_bits(("00000" + "1" * 256) * 65535 + "00000" + "1" * 255), np.uint8
    )
    runs = b"\x05" + pack_bits("00000" + "1" + "11000" + to_bits(0, 24))

    def decode(data: Array) -> Array | None:
        try:
            return wc.codecs.Structured.decode(data, d, 1, UNLIMITED)
        except wc.WireError:
            return None

    for data in (section, np.frombuffer(runs, np.uint8)):
        decode(data)  # loads the kernels
        tracemalloc.start()
        found = decode(data)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak <= 65536 + 4 * (data.size + 12)
        assert found is None or found.tolist() == [d - 1]
