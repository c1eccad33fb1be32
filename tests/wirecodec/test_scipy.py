"""SciPy is an extra: what needs it says so, and nothing else does."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import wirecodec as wc
from wirecodec.select.papers.sidco.fits import Moments, fit_gamma

GRADIENT = np.random.default_rng(0).laplace(size=1000).astype(np.float32)


@pytest.fixture
def without_scipy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide SciPy, as in an environment that does not have it."""
    for name in ("scipy", "scipy.fft", "scipy.special"):
        monkeypatch.setitem(sys.modules, name, None)


@pytest.mark.parametrize("transform", ["dct", "rfft"])
def test_transforms_without_scipy_are_not_supported(transform: str, request: pytest.FixtureRequest) -> None:
    scheme = f"{transform} | topk(0.1) | rice | raw"
    blob = wc.encode(GRADIENT, scheme)
    request.getfixturevalue("without_scipy")
    with pytest.raises(wc.EncodeError, match=rf'{transform} needs SciPy: pip install "wirecodec\[scipy\]"'):
        wc.encode(GRADIENT, scheme)
    with pytest.raises(wc.Unsupported, match=r"domain: .* needs SciPy"):
        wc.decode(blob).to_dense()
    assert wc.inspect(blob).entries[0].nnz == 100


@pytest.mark.usefixtures("without_scipy")
def test_all_other_presets_take_part_without_scipy() -> None:
    rows = wc.compare(GRADIENT, wc.PRESETS, seconds=0)
    assert {row.name for row in rows if "SciPy" in row.refusal} == {"fft"}
    with pytest.raises(wc.EncodeError, match="sidco needs SciPy"):
        fit_gamma(Moments(3, 1.0, 1.0, -0.5))
