"""Page of movements: what the public systems send, against their definitions."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch", reason="the public systems are written with torch")
pytest.importorskip("rich", reason="benchmarks need the extra [bench]")

from benchmarks.budget.movements import DEMO_SENT, PUBLIC, SENT, format_page, measure

RNG = np.random.default_rng(0)
X = RNG.normal(size=(128, 192)).astype(np.float32)
BLOCKS = 2 * 3


def test_coefficients_keep_what_the_largest_of_them_hold() -> None:
    """The transform is orthonormal, so the error is the square of the coefficients left out."""
    from scipy.fft import dctn

    sent, count = PUBLIC["DeMo: int64 place, float32 coefficient"][1](X)
    left = 0.0
    for i in range(2):
        for j in range(3):
            block = X[64 * i : 64 * i + 64, 64 * j : 64 * j + 64]
            sizes = np.sort(np.abs(dctn(block.astype(np.float64), norm="ortho")).ravel())
            left += float(np.square(sizes[:-DEMO_SENT]).sum())
    assert count == BLOCKS * DEMO_SENT
    np.testing.assert_allclose(np.square(X - sent, dtype=np.float64).sum(), left, rtol=1e-5)


def test_signs_have_one_size_per_block() -> None:
    from scipy.fft import dctn

    sent, _ = PUBLIC["Psyche: 16-bit place, sign"][1](X)
    sizes = np.abs(dctn(sent[:64, :64].astype(np.float64), norm="ortho")).ravel()
    assert np.sum(sizes > 1e-3) == DEMO_SENT
    np.testing.assert_allclose(np.sort(sizes)[-DEMO_SENT:], sizes.max(), rtol=1e-4)


def test_rows_count_the_bits_of_messages() -> None:
    rows = {row.system: row for row in measure({"x": X})}
    templar = rows["Templar: 12-bit place, 2-bit value"]
    assert templar.sent == SENT / 4096
    assert templar.bits == 14 * SENT / 4096
    assert 0 < templar.error < 1
    assert "leaves" in format_page({"Movement": list(rows.values())})
