"""bitmap: bit i of the section is set if and only if element i is present."""

from __future__ import annotations

import numpy as np
import pytest

import wirecodec as wc
from tests import inputs
from wirecodec.limits import UNLIMITED


@pytest.mark.parametrize("case", SUPPORTS := inputs.supports(np.random.default_rng(1)))
def test_sections_are_the_packed_mask(case: str) -> None:
    d, indices = SUPPORTS[case]
    present = np.zeros(d, bool)
    present[indices] = True
    section = wc.codecs.Bitmap().encode(indices, d, 0)
    assert section.tobytes() == np.packbits(present, bitorder="little").tobytes()
    assert np.array_equal(wc.codecs.Bitmap.decode(section, d, indices.size, UNLIMITED), indices)


@pytest.mark.parametrize("d", [1, 7, 8, 63, 64, 65, 511, 512, 513])
def test_bits_beyond_the_last_element_must_be_zero(d: int) -> None:
    section = wc.codecs.Bitmap().encode(np.arange(d, dtype=np.uint32), d, 0)
    for bit in range(d, 8 * section.size):
        wrong = section.copy()
        wrong[bit // 8] |= 1 << bit % 8
        with pytest.raises(wc.WireError):
            wc.codecs.Bitmap.decode(wrong, d, d, UNLIMITED)
