"""Index codec 9, bloom: decoding (spec/index/bloom.md).

Groups of 64 elements are queried at once, as the page defines. Policy p2 follows the page's steps with
dictionaries.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from formats.reference.errors import Invalid, Malformed, Unsupported
from formats.reference.prng import MASK64, draw32, finish

HEADER = "<QIBBH"
HEADER_BYTES = 16
MAX_WINDOWS = 32
NAIVE, P0, P1, P2, LEFTMOST, MIDDLE, RIGHTMOST = range(7)
STEP = 0x9E3779B97F4A7C15


def read_header(section: bytes, r: int) -> tuple[int, int, int, int]:
    """Read the header: stream, count, k and policy.

    Args:
        section: bytes of the index section.
        r: number of decoded indices.

    Raises:
        WireError: Malformed, Unsupported or Invalid.
    """
    if len(section) < HEADER_BYTES + 8 or len(section) % 8:
        raise Malformed("bloom-length", f"{len(section)} bytes")
    stream, count, k, policy, reserved = struct.unpack_from(HEADER, section)
    if reserved != 0:
        raise Malformed("bloom-header", f"the reserved word is {reserved}")
    if not 1 <= k <= MAX_WINDOWS:
        raise Malformed("bloom-windows", f"k is {k}; it must be 1 to {MAX_WINDOWS}")
    if policy > RIGHTMOST:
        raise Unsupported("bloom-policy", f"policy {policy} is unknown")
    if stream != 0 and policy not in (P1, P2):
        raise Malformed("bloom-header", f"stream is not 0 under policy {policy}")
    if count == 0 or count > r or (policy != P0 and count != r):
        raise Invalid("bloom-count", f"count is {count} and r is {r}")
    return stream, count, k, policy


def count_bloom_work(section: bytes, r: int, d: int) -> int:
    """Return the number of steps that the section takes, after the checks of the header."""
    _, _, k, policy = read_header(section, r)
    steps = (d + 7) // 8 * k
    if policy == P1:
        steps += d
    if policy == P2:
        steps += 5 * k * min(d, (5 * r + 128) // 2)
    return steps


def decode_bloom(section: bytes, r: int, d: int) -> list[int]:
    """Decode the indices that the policy selects.

    Args:
        section: bytes of the index section.
        r: number of indices, 0 < r < d.
        d: number of elements, present or not.

    Returns:
        r strictly ascending indices below d.

    Raises:
        WireError: Malformed, Unsupported or Invalid.
    """
    stream, count, k, policy = read_header(section, r)
    positives = query_all(section[HEADER_BYTES:], k, d)
    if len(positives) < r or (policy == P0 and len(positives) != r):
        raise Invalid("bloom-positives", f"{len(positives)} positives; r is {r}")
    return apply_policy(positives, section[HEADER_BYTES:], k, policy, count, stream)


def group_windows(group: int, k: int, length: int) -> list[tuple[int, int]]:
    """Return (byte offset, rotation) of each of a group's k windows into a filter of ``length`` bytes."""
    result = []
    for i in range((k + 1) // 2):
        word = finish((16 * group + i + 1) * STEP & MASK64)
        for half in (word & 0xFFFFFFFF, word >> 32):
            result.append(((half >> 6) * length >> 26, half & 63))
    return result[:k]


def element_bits(x: int, k: int, length: int) -> list[int]:
    """Return the bits of element x in the filter, one per window."""
    return [
        (8 * at + (x - rotation) % 64) % (8 * length) for at, rotation in group_windows(x // 64, k, length)
    ]


def query_all(filter_: bytes, k: int, d: int) -> list[int]:
    """Return the positives: the elements below d all of whose bits are set."""
    around = filter_ + filter_[:7]
    result = []
    for group in range((d + 63) // 64):
        members = MASK64
        for at, rotation in group_windows(group, k, len(filter_)):
            word = int.from_bytes(around[at : at + 8], "little")
            members &= (word << rotation | word >> (64 - rotation)) & MASK64
            if members == 0:
                break
        while members:
            lowest = (members & -members).bit_length() - 1
            result.append(64 * group + lowest)
            members &= members - 1
    while result and result[-1] >= d:
        result.pop()
    return result


def apply_policy(
    positives: list[int], filter_: bytes, k: int, policy: int, count: int, stream: int
) -> list[int]:
    """Select indices from the positives.

    Args:
        positives: the positives, at least ``count``.
        filter_: the filter.
        k: windows per element.
        policy: number of the policy.
        count: number of elements that were inserted.
        stream: stream of the draws.

    Raises:
        WireError: Invalid, under policy p2.
    """
    if policy == P0:
        return positives
    if policy == P1:
        return sample_items(positives, count, stream, 0)
    if policy == P2:
        return resolve_conflicts(positives, len(filter_), k, count, stream)
    first = {MIDDLE: (len(positives) - count) // 2, RIGHTMOST: len(positives) - count}.get(policy, 0)
    return positives[first : first + count]


def sample_items(items: Sequence[int], need: int, stream: int, first: int) -> list[int]:
    """Select ``need`` of the items by selection sampling; item i uses draw ``first`` + i."""
    selection: list[int] = []
    for i, item in enumerate(items):
        if draw32(stream, first + i) * (len(items) - i) >> 32 < need - len(selection):
            selection.append(item)
    return selection


def resolve_conflicts(positives: list[int], length: int, k: int, count: int, stream: int) -> list[int]:
    """Select indices by policy p2.

    Args:
        positives: the positives.
        length: length of the filter in bytes.
        k: windows per element.
        count: number of elements that were inserted.
        stream: stream of the draws.

    Raises:
        WireError: Invalid.
    """
    if 2 * len(positives) > 5 * count + 128:
        raise Invalid("bloom-conflicts", f"{len(positives)} positives for {count} elements")
    lists: dict[int, list[int]] = {}
    for x in positives:
        for bit in element_bits(x, k, length):
            lists.setdefault(bit, []).append(x)
    selection = {items[0] for items in lists.values() if len(items) == 1}
    if len(selection) > count:
        raise Invalid("bloom-certain", f"{len(selection)} elements are certain; count is {count}")
    n_draws = 0
    if len(selection) < count:
        doubtful = {bit: items for bit, items in lists.items() if selection.isdisjoint(items)}
        pairs = sum(len(items) for items in doubtful.values())
        if pairs > 5 * count + 4096:
            raise Invalid("bloom-conflicts", f"{pairs} conflicts for {count} elements")
        for bit in sorted(doubtful, key=lambda bit: (len(doubtful[bit]), bit)):
            if len(selection) < count and selection.isdisjoint(doubtful[bit]):
                items = doubtful[bit]
                selection.add(items[draw32(stream, n_draws) * len(items) >> 32])
                n_draws += 1
    others = [x for x in positives if x not in selection]
    return sorted(selection | set(sample_items(others, count - len(selection), stream, n_draws)))
