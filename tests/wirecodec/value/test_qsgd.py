"""Tests of qsgd: buckets that cross blocks and work units, and independence of the thread count."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wirecodec as wc
from formats.reference.floats import BY_NAME
from formats.reference.value.qsgd import decode_qsgd
from formats.reference.writing.value.qsgd import write_qsgd
from wirecodec.limits import UNLIMITED

ROWS = st.one_of(st.integers(1, 70), st.sampled_from([1000, 1024, 1025, 2000, 2**20]))


@settings(max_examples=30)
@given(
    st.one_of(st.integers(1, 40), st.integers(500, 1600), st.sampled_from([16_384, 16_400, 33_000])),
    st.integers(2, 8),
    ROWS,
    st.sampled_from(["max", "l2"]),
    st.integers(0, 2**64 - 1),
)
def test_any_bucket_size_equals_the_reference(r: int, bits: int, rows: int, norm: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = (rng.standard_t(1.5, r) * (rng.random(r) < 0.7)).astype(np.float32)
    x[: r // 3] = 0
    section = wc.codecs.QSGD(bits, 16 * rows, norm).encode(x, seed)
    expected = write_qsgd(
        x.tobytes(), BY_NAME["float32"], bits=bits, bucket=16 * rows, norm=norm == "l2", stream=seed
    )
    assert section.tobytes() == expected
    read = wc.codecs.QSGD.decode(section, r, x.dtype, UNLIMITED)
    assert read.tobytes() == decode_qsgd(expected, r, BY_NAME["float32"])


@pytest.fixture
def both_thread_counts() -> Any:
    before = numba.get_num_threads()
    yield (1, before)
    numba.set_num_threads(before)


@pytest.mark.parametrize("bucket", [512, 48, 16_384, 2**20])
def test_thread_count_does_not_change_bytes(
    bucket: int, both_thread_counts: Any, rng: np.random.Generator
) -> None:
    x = rng.laplace(size=700_001).astype(np.float32)
    found = []
    for count in both_thread_counts:
        numba.set_num_threads(count)
        section = wc.codecs.QSGD(4, bucket).encode(x, 9)
        found.append(
            (section.tobytes(), wc.codecs.QSGD.decode(section, x.size, x.dtype, UNLIMITED).tobytes())
        )
    assert found[0] == found[1]


@pytest.mark.parametrize("r", [600_000, 704, 104])
def test_invalid_codes_raise_at_any_position(r: int, rng: np.random.Generator) -> None:
    x = rng.laplace(size=r).astype(np.float32)
    x[:64] = 0
    section = wc.codecs.QSGD(4, 64).encode(x, 9)
    body = 8 + 4 * -(-r // 64)
    for at in (body, body + 20, (body + section.size) // 2, section.size - 1):
        wrong = section.copy()
        wrong[at] = 0xF7 if at % 2 else 0x7F  # a code of 15 in a bucket of values, or one that is not 7
        with pytest.raises(wc.Invalid) as caught:
            wc.codecs.QSGD.decode(wrong, r, x.dtype, UNLIMITED)
        assert caught.value.code == "qsgd-code"


def test_qsgd_refuses_what_float32_cannot_hold() -> None:
    with pytest.raises(wc.EncodeError, match="element 5: 1e"):
        wc.encode(np.array([1, 0, 0, 0, 0, 1e39]), "nonzero | rice | qsgd")


def test_qsgd_is_unbiased_and_bounded(rng: np.random.Generator) -> None:
    x = rng.laplace(size=1024).astype(np.float32)
    step = np.repeat(np.abs(x).reshape(2, 512).max(1), 512) / 7
    total = np.zeros(1024)
    n = 3000
    for seed in range(n):
        y = wc.decode(wc.encode(x, "all | raw-index | qsgd(bits=4)", seed=seed)).values
        assert (np.abs(y - x) <= step * 1.0001).all()
        total += y
    error = (total / n - x) / (step / 2 / np.sqrt(n))  # a rounding's deviation is at most half a step
    assert np.abs(error).max() < 5.5
    assert abs(error.mean()) < 0.2
