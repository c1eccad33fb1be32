"""Tests of ``binned``: bits per element, sizes against the reference writer, hostile records."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wirecodec as wc
from formats import reference
from tests import inputs
from wirecodec.limits import UNLIMITED


@pytest.mark.parametrize(("size", "bits"), [(32, 7), (50, 7), (63, 7), (64, 8), (500, 10), (16_383, 15)])
def test_bits_with_one_element_per_bin(size: int, bits: int) -> None:
    """Check the bits per element; with the value's sign they are the 8 and 16 bits of the AdaComp paper."""
    rng = np.random.default_rng(1)
    n = 800
    indices = (size * np.arange(n) + rng.integers(0, size, n)).astype(np.uint32)
    section = wc.codecs.Binned(size).encode(indices, size * n, 0)
    assert section.size == 2 + bits * n // 8


@settings(max_examples=120)
@given(st.integers(2, 5000), st.sampled_from([1, 2, 3, 7, 8, 50, 63, 64, 500, 16_383]), st.data())
def test_sections_match_the_reference_writer(d: int, size: int, data: st.DataObject) -> None:
    r = data.draw(st.one_of(st.integers(1, d - 1), st.integers(1, min(d - 1, 20))))
    indices = inputs.support(np.random.default_rng(data.draw(st.integers(0, 2**32))), d, r)
    section = wc.codecs.Binned(size).encode(indices, d, 0)
    bins = indices // size
    records = r + int(bins[-1]) + 1 - np.unique(bins).size
    assert section.size == 2 + -(-records * (size.bit_length() + 1) // 8)
    assert section.tobytes() == reference.Binned(size).write_section(indices.tolist(), d)
    assert np.array_equal(wc.codecs.Binned.decode(section, d, r, UNLIMITED), indices)


@settings(max_examples=120)
@given(st.binary(min_size=1, max_size=300), st.integers(1, 40), st.integers(0, 20))
def test_any_bytes_decode_or_raise_a_wire_error(raw: bytes, r: int, size: int) -> None:
    section = np.frombuffer(bytes([size, 0]) + raw, np.uint8)
    try:
        found = wc.codecs.Binned.decode(section, 1000, r, UNLIMITED)
    except wc.WireError:
        return
    assert wc.codecs.Binned(size).encode(found, 1000, 0).tobytes() == section.tobytes()


def test_many_empty_bins_cost_no_more_than_their_bytes() -> None:
    """Decode a million bytes of records of empty bins, without any element."""
    section = np.full(2 + 1_000_000, 0xFF, np.uint8)
    section[:2] = np.array([16_383], "<u2").view(np.uint8)
    with pytest.raises(wc.WireError) as caught:
        wc.codecs.Binned.decode(section, 2**24, 5, UNLIMITED)
    assert caught.value.code == "binned-length"


@pytest.mark.parametrize("size", [0, -1, 16_384, 2.5, True])
def test_invalid_bin_sizes_raise(size: int) -> None:
    with pytest.raises(wc.EncodeError, match="bin"):
        wc.codecs.Binned(size)
