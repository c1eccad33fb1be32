"""raw: the stored types, and values too large for them."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import wirecodec as wc
from tests.wirecodec.value.sections import encode_section


@pytest.mark.parametrize("stored", ["float16", "bfloat16"])
def test_narrowing_refuses_what_would_become_infinite(stored: str) -> None:
    largest = {"float16": 65504.0, "bfloat16": 3.3895313892515355e38}[stored]
    for dtype in (np.float32, np.float64):
        x = np.array([1, np.inf, -largest, largest], dtype)
        blob = wc.encode(x, f"all | raw-index | raw({stored})")
        assert np.array_equal(wc.decode(blob).values, x)
        x = np.array([1, 2, 0, largest * 1.003], dtype)
        with pytest.raises(wc.EncodeError, match=f"element 3: .* too large for {stored}") as caught:
            wc.encode(x, f"nonzero | rice | raw({stored})")
        assert caught.value.position == 3


def test_sections_are_the_values_in_the_stored_type(dtype: np.dtype[Any]) -> None:
    """``raw(T)`` narrows float32 and float64 alone, and rounds to nearest even."""
    values = np.array([1.5, -0.0, 1e-3, 65504.0, -3.1415926], dtype)
    assert encode_section(wc.codecs.Raw(), values).tobytes() == values.tobytes()
    for name, stored in (("float16", np.dtype(np.float16)), ("bfloat16", np.dtype(ml_dtypes.bfloat16))):
        blob = wc.encode(values, f"all | raw-index | raw({name})")
        expected = values.astype(stored).astype(dtype) if dtype.itemsize > 2 else values
        assert wc.decode(blob).values.tobytes() == expected.tobytes()
