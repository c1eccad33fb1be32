"""Tests of checksums: the kernel gives what zlib gives, for every length and place."""

from __future__ import annotations

import zlib

import numpy as np
import pytest

from wirecodec.container import checksum


def test_the_kernel_computes_what_zlib_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checksum, "MIN_KERNEL_BYTES", 0)
    data = np.random.default_rng(0).integers(0, 256, 2**16, np.uint8)
    lengths = np.array([*range(0, 520, 8), 1024, 4104, 2**16 - 8])
    starts = 8 * (np.arange(lengths.size) % 2)
    found = checksum.compute_checksums(data, starts, starts + lengths)
    expected = [zlib.crc32(data[a : a + n]) for a, n in zip(starts, lengths, strict=True)]
    assert found.tolist() == expected


def test_many_slices_without_bytes() -> None:
    places = np.zeros(checksum.MIN_KERNEL_SLICES, np.int64)
    assert not checksum.compute_checksums(np.zeros(8, np.uint8), places, places).any()
