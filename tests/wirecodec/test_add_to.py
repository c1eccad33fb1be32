"""SparseTensor.add_to adds to the caller's array, with the bits of decode_add."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wirecodec as wc


@pytest.mark.parametrize("kind", ["f4", "f8"])
@pytest.mark.parametrize("values", ["f4", "f2", "f8"])
def test_add_to_has_the_bits_of_decode_add(kind: str, values: str) -> None:
    x = np.array([[0, 3.3, 0], [-5e30, 0, 1.1]]).astype("f4").clip(-6e4, 6e4).astype(values)
    for scheme in (None, "all | raw-index | raw"):
        blob = wc.encode(x, scheme)
        want, found = (np.full((2, 3), 0.1, kind) for _ in range(2))
        wc.decode_add(blob, want, scale=1 / 3)
        wc.decode(blob).add_to(found, scale=1 / 3)
        assert found.tobytes() == want.tobytes()


@pytest.mark.parametrize("out", [np.zeros(5, "f4"), np.zeros(6, "i4"), np.zeros(12, "f4")[::2], [0.0] * 6])
def test_add_to_refuses_other_arrays(out: Any) -> None:
    with pytest.raises(ValueError, match="out "):
        wc.SparseTensor([1], np.ones(1, "f4"), 6).add_to(out)
