"""``bloom`` on the device, policies p0 and p1: a section, and what readers of it find.

Other policies are for the host.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wirecodec.arrays import Bytes
from wirecodec.index.bloom import HEADER_BYTES, P0, P1, POLICIES, Bloom, Header, filter_bytes, windows
from wirecodec.kernels.cuda import bloom
from wirecodec.kernels.cuda.device import Device

__all__ = ["approximate", "approximate_async", "has_kernels", "indices_of"]


def has_kernels(codec: Bloom) -> bool:
    """Whether the policy is read on the device."""
    return POLICIES.index(codec.policy) in (P0, P1)


def approximate(device: Device, codec: Bloom, indices: Any, d: int, stream: int) -> tuple[Any, Any]:
    """Return the section (u8) of (r,) u32 ``indices``, 0 < r < d, and the u32 indices that readers find."""
    section, head = _written(device, codec, indices, stream)
    total = None if head.policy == P0 else indices.size
    return section, _read(device, section[HEADER_BYTES:].view(np.uint64), head, d, total)


def approximate_async(
    device: Device, codec: Bloom, indices: Any, d: int, stream: Any, room: int
) -> tuple[Any, Any, Any]:
    """Return the section, the indices that readers find, and the (1,) u32 number of positives.

    It does not wait for the device. ``stream`` is (1,) u64 on the device. If the filter holds more than
    ``room`` >= r elements, the indices are not those that readers find.
    """
    section, head = _written(device, codec, indices, 0)
    bitmap, held = bloom.query(device, section[HEADER_BYTES:].view(np.uint64), head.k, d)
    found = bloom.held(device, bitmap, d, room)
    if head.policy == P1:
        device.copy(stream.view(np.uint8), section[:8])
        found = bloom.sampled(device, found, indices.size, stream, held)
    return section, found, held


def _written(device: Device, codec: Bloom, indices: Any, stream: int) -> tuple[Any, Header]:
    """The section of (r,) u32 ``indices``, and its header."""
    policy, k = POLICIES.index(codec.policy), windows(codec.fpr)
    head = Header(stream if policy == P1 else 0, indices.size, k, policy)
    words = bloom.inserted(device, indices, k, filter_bytes(indices.size, codec.fpr))
    section = device.empty(HEADER_BYTES + words.nbytes, np.uint8)
    device.copy(device.put(np.frombuffer(head.to_bytes(), np.uint8)), section[:HEADER_BYTES])
    device.copy(words, section[HEADER_BYTES:])
    return section, head


def indices_of(device: Device, section: Bytes, d: int, r: int) -> Any:
    """(r,) u32 of a section on the host; None where the host is to read it, or to refuse it.

    Malformed, Invalid or Unsupported where the header is wrong.
    """
    head = Header.of(section, r)
    if head.policy not in (P0, P1):
        return None
    words = device.put(np.ascontiguousarray(section[HEADER_BYTES:])).view(np.uint64)
    found = _read(device, words, head, d, r)
    return found if found is not None and found.size == r else None


def _read(device: Device, words: Any, head: Header, d: int, r: int | None) -> Any:
    """What the policy reads, r elements of it; all under p0. None where the filter holds fewer than r."""
    bitmap, found = bloom.query(device, words, head.k, d)
    total = int(device.get(found)[0])
    if r is not None and total < r:
        return None
    positives = bloom.held(device, bitmap, d, total)
    return positives if head.policy == P0 or r is None else bloom.sampled(device, positives, r, head.stream)
