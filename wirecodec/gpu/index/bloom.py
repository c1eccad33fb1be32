"""``bloom`` on the device, policies p0 and p1. The host reads and writes the other policies."""

from __future__ import annotations

from typing import Any

import numpy as np

from wirecodec.arrays import Bytes
from wirecodec.gpu.index.base import ApproximateIndices, LossyIndexCodec
from wirecodec.index.bloom import HEADER_BYTES, P0, P1, POLICIES, Bloom, Header, filter_bytes, windows
from wirecodec.kernels.cuda import bloom
from wirecodec.kernels.cuda.device import Device


def _supports(codec: Bloom) -> bool:
    """Return whether the device implements the policy."""
    return POLICIES.index(codec.policy) in (P0, P1)


def _is_complete(codec: Bloom) -> bool:
    """Return whether the policy keeps every inserted element."""
    return POLICIES.index(codec.policy) == P0


def _approximate(device: Device, codec: Bloom, indices: Any, d: int, stream: int) -> ApproximateIndices:
    section, header = _write(device, codec, indices, stream)
    r = None if header.policy == P0 else indices.size
    return ApproximateIndices(section, _read(device, section[HEADER_BYTES:].view(np.uint64), header, d, r))


def _decode(device: Device, section: Bytes, d: int, r: int) -> Any:
    """Read (r,) u32 from a section on the host; None if the host must read it.

    Raises Malformed, Invalid or Unsupported if the header is wrong.
    """
    header = Header.of(section, r)
    if header.policy not in (P0, P1):
        return None
    words = device.put(np.ascontiguousarray(section[HEADER_BYTES:])).view(np.uint64)
    indices = _read(device, words, header, d, r)
    return indices if indices is not None and indices.size == r else None


def _write(device: Device, codec: Bloom, indices: Any, stream: int) -> tuple[Any, Header]:
    """Write the section of (r,) u32 indices; return it with its header."""
    policy, k = POLICIES.index(codec.policy), windows(codec.fpr)
    header = Header(stream if policy == P1 else 0, indices.size, k, policy)
    words = bloom.insert(device, indices, k, filter_bytes(indices.size, codec.fpr))
    section = device.empty(HEADER_BYTES + words.nbytes, np.uint8)
    device.write(np.frombuffer(header.to_bytes(), np.uint8), section[:HEADER_BYTES])
    device.copy(words, section[HEADER_BYTES:])
    return section, header


def _read(device: Device, words: Any, header: Header, d: int, r: int | None) -> Any:
    """Read the elements that the policy takes from a filter.

    Args:
        device: where the filter is.
        words: the filter, u64.
        header: the section's header.
        d: size of the universe.
        r: number of elements to read; None for all that the filter holds.

    Returns u32, ascending; None if the filter holds fewer than r elements.
    """
    bitmap, count = bloom.query(device, words, header.k, d)
    total = int(device.get(count)[0])
    if r is not None and total < r:
        return None
    positives = bloom.list_elements(device, bitmap, d, total)
    return (
        positives if header.policy == P0 or r is None else bloom.sample(device, positives, r, header.stream)
    )


BLOOM = LossyIndexCodec(
    codec=Bloom,
    approximate=_approximate,
    decode=_decode,
    supports=_supports,
    count_work=Bloom.work,
    is_complete=_is_complete,
)
