"""raw-index: little-endian indices of two bytes, or of four if d is greater than 65,536."""

from __future__ import annotations

import numpy as np
import pytest

import wirecodec as wc
from tests import inputs
from wirecodec.limits import UNLIMITED


@pytest.mark.parametrize("case", SUPPORTS := inputs.supports(np.random.default_rng(1)))
def test_sections_are_the_indices(case: str) -> None:
    d, indices = SUPPORTS[case]
    section = wc.codecs.RawIndex().encode(indices, d, 0)
    assert section.tobytes() == indices.astype("<u2" if d <= 65_536 else "<u4").tobytes()
    assert np.array_equal(wc.codecs.RawIndex.decode(section, d, indices.size, UNLIMITED), indices)


@pytest.mark.parametrize("d", [65_536, 65_537])
@pytest.mark.parametrize(
    ("indices", "code"),
    [([3, 3], "index-order"), ([4, 3], "index-order"), ([3, 65_535], None), ([3], "raw-index-length")],
)
def test_disorder_and_wrong_lengths_are_refused(d: int, indices: list[int], code: str | None) -> None:
    section = np.array(indices, "<u2" if d == 65_536 else "<u4").view(np.uint8)
    if code is None:
        assert wc.codecs.RawIndex.decode(section, d, 2, UNLIMITED).tolist() == indices
        with pytest.raises(wc.WireError, match="index-range"):
            wc.codecs.RawIndex.decode(np.array([3, 65_537], "<u4").view(np.uint8), 65_537, 2, UNLIMITED)
        return
    with pytest.raises(wc.WireError) as caught:
        wc.codecs.RawIndex.decode(section, d, 2, UNLIMITED)
    assert caught.value.code == code
