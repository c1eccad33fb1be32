"""Index codec 9, bloom: writing (spec/index/bloom.md, Writing)."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal, localcontext
from typing import ClassVar

from formats.reference.index.bloom import HEADER, NAIVE, P1, P2, apply_policy, element_bits, query_all

POLICIES = ("naive", "p0", "p1", "p2", "leftmost", "middle", "rightmost")


@dataclass(frozen=True)
class Bloom:
    """Index codec 9.

    ``windows`` and ``words`` (of 8 bytes) replace the sizes that follow from ``fpr``.
    """

    id: ClassVar[int] = 9
    policy: str = "p0"
    fpr: float = 1e-3
    windows: int | None = None
    words: int | None = None

    @property
    def scheme(self) -> str:
        """The codec in the syntax of schemes."""
        return f"bloom(policy={self.policy}, fpr={self.fpr!r})"

    def write_section(self, indices: Sequence[int], d: int) -> bytes:
        """Write the section with stream 0."""
        return self.approximate(indices, d, 0)[0]

    def approximate(self, indices: Sequence[int], d: int, stream: int) -> tuple[bytes, list[int] | None]:
        """Write the section; return it with the indices that it decodes to.

        The indices are None under the policy naive, whose values are not gathered at the decoded indices.

        Args:
            indices: the support, 0 < r < d.
            d: number of elements, present or not.
            stream: stream of the chunk (SPEC section 5).
        """
        policy = POLICIES.index(self.policy)
        stream = stream if policy in (P1, P2) else 0
        k = choose_windows(self.fpr) if self.windows is None else self.windows
        words = choose_words(len(indices), self.fpr) if self.words is None else self.words
        filter_ = write_filter(indices, k, words)
        section = struct.pack(HEADER, stream, len(indices), k, policy, 0) + filter_
        if policy == NAIVE:
            return section, None
        return section, apply_policy(query_all(filter_, k, d), filter_, k, policy, len(indices), stream)


def choose_windows(fpr: float) -> int:
    """Return the least k for which 2^-k does not exceed the rate."""
    k = 1
    while 2.0**-k > fpr:
        k += 1
    return k


def choose_words(count: int, fpr: float) -> int:
    """Return the number of 64-bit words of the filter for ``count`` elements."""
    k = choose_windows(fpr)
    with localcontext() as context:
        context.prec = 80
        share = Decimal(fpr) ** (Decimal(1) / k)
        units = (-k / (1 - share).ln() * 2**16).to_integral_value(ROUND_CEILING)
    bits = -(-count * int(units) // 2**16)
    return -(-bits // 64)


def write_filter(indices: Sequence[int], k: int, words: int) -> bytes:
    """Return the filter with these elements inserted."""
    out = bytearray(8 * words)
    for x in indices:
        for bit in element_bits(x, k, 8 * words):
            out[bit // 8] |= 1 << bit % 8
    return bytes(out)
