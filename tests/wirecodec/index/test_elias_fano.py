"""Tests of ``elias-fano``: sizes against the bound, independent spans, the reference writer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wirecodec as wc
from formats import reference
from tests import inputs, oracles
from wirecodec.limits import UNLIMITED


@pytest.mark.parametrize(("density", "bits"), [(0.1, 5.28), (0.01, 8.59), (0.001, 12.0)])
def test_bits_per_index(density: float, bits: float) -> None:
    rng = np.random.default_rng(8)
    for d in (2_600_000, 2**24):
        r = int(d * density)
        section = wc.codecs.EliasFano().encode(inputs.support(rng, d, r), d, 0)
        assert oracles.entropy_bits(d, r) < 8 * section.size <= bits * r, d


def test_clustering_does_not_change_the_size() -> None:
    """The size of a span depends only on its numbers of indices and elements."""
    d, r = 1_000_000, 4000
    spread = np.arange(0, d, 250, dtype=np.uint32)
    crowded = np.concatenate([np.arange(r - 1), [d - 1]]).astype(np.uint32)
    sizes = [wc.codecs.EliasFano().encode(s, d, 0).size for s in (spread, crowded)]
    assert abs(sizes[0] - sizes[1]) <= 4


def test_thread_count_does_not_change_sections(monkeypatch: pytest.MonkeyPatch) -> None:
    from wirecodec.kernels.cpu import threads

    indices = inputs.support(np.random.default_rng(3), 2**24, 700_000)
    sections = []
    for count in (1, 3):
        monkeypatch.setattr(threads, "thread_count", lambda count=count: count)
        sections.append(wc.codecs.EliasFano().encode(indices, 2**24, 0))
        assert np.array_equal(
            wc.codecs.EliasFano.decode(sections[-1], 2**24, indices.size, UNLIMITED), indices
        )
    assert np.array_equal(*sections)


@settings(max_examples=120)
@given(st.integers(2, 60_000), st.data())
def test_sections_match_the_reference_writer(d: int, data: st.DataObject) -> None:
    r = data.draw(st.one_of(st.integers(1, d - 1), st.integers(1, min(d - 1, 300))))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    if data.draw(st.booleans()):
        indices: Any = np.sort(rng.choice(d, r, replace=False))
    else:
        indices = data.draw(st.integers(0, d - r)) + np.arange(r)
    indices = indices.astype(np.uint32)
    section = wc.codecs.EliasFano().encode(indices, d, 0)
    assert section.tobytes() == reference.EliasFano().write_section(indices.tolist(), d)
    assert np.array_equal(wc.codecs.EliasFano.decode(section, d, r, UNLIMITED), indices)


@settings(max_examples=120)
@given(st.binary(max_size=2000), st.integers(1, 2**24), st.data())
def test_any_bytes_decode_or_raise_a_wire_error(raw: bytes, d: int, data: st.DataObject) -> None:
    r = data.draw(st.one_of(st.integers(1, d), st.integers(1, min(d, 5000))))
    section = np.frombuffer(raw + bytes(-len(raw) % 4), np.uint8).copy()
    try:
        found = wc.codecs.EliasFano.decode(section, d, r, UNLIMITED)
    except wc.WireError:
        return
    assert (np.diff(found.astype(np.int64)) > 0).all()
    assert found[-1] < d
