"""Packed codes compared with the reference's bit streams, at every width."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from formats.reference.bits import pack_lanes, pack_stream
from wirecodec.value.bit_packing import has_stray_bits, pack, packed_size, unpack

SIZES = (0, 1, 2, 31, 33, 511, 512, 513, 1024, 1500)
WIDTHS = [(np.uint8, n) for n in range(1, 9)]
WIDTHS += [(np.uint16, n) for n in range(1, 17)]
WIDTHS += [(np.uint32, n) for n in range(1, 25)]


@pytest.mark.sampled
@pytest.mark.parametrize(("kind", "bits"), WIDTHS)
def test_the_layout_is_the_specification(kind: Any, bits: int, rng: np.random.Generator) -> None:
    for count in SIZES:
        codes = rng.integers(0, 2**bits, count).astype(kind)
        whole = count - count % 512
        blocks = [pack_lanes(codes[i : i + 512].tolist(), 16, bits) for i in range(0, whole, 512)]
        wanted = b"".join(blocks) + pack_stream(codes[whole:].tolist(), bits, 4)
        part = pack(codes, bits)
        assert part.tobytes() == wanted
        assert len(wanted) == packed_size(count, bits)
        assert np.array_equal(unpack(part, count, bits, kind), codes)


@pytest.mark.parametrize("bits", [1, 3, 8, 11, 24])
def test_stray_bits_are_those_after_the_last_code(bits: int) -> None:
    for count in SIZES:
        part = pack(np.full(count, 2**bits - 1, np.uint32), bits)
        assert not has_stray_bits(part, count, bits)
        stream = count % 512 * bits
        for bit in range(stream, -(-stream // 32) * 32):
            wrong = part.copy()
            tail = wrong[len(wrong) - 4 * -(-stream // 32) :]
            tail[bit // 8] |= 1 << bit % 8
            assert has_stray_bits(wrong, count, bits), bit
            assert np.array_equal(unpack(wrong, count, bits, np.uint32), unpack(part, count, bits, np.uint32))


def test_parts_of_a_section_need_no_alignment(rng: np.random.Generator) -> None:
    codes = rng.integers(0, 2**5, 1100).astype(np.uint8)
    section = np.concatenate([np.zeros(3, np.uint8), pack(codes, 5)])
    assert np.array_equal(unpack(section[3:], codes.size, 5, np.uint8), codes)
