"""``bloom``: a Bloom filter of the indices, and a policy that reads it (formats/spec/index/bloom.md).

DeepReduce, section 4. What is read is not what was inserted: a filter holds every index that was inserted
and some others. So the encoder finds what a reader will find, and the pipeline gathers the values there.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal
from functools import lru_cache
from math import frexp
from typing import ClassVar, NamedTuple

import numpy as np

from wirecodec.arrays import Array, Bytes
from wirecodec.errors import EncodeError, Invalid, Malformed, Unsupported
from wirecodec.index.base import Approximation
from wirecodec.index.bloom_p2 import P2_PASSES, chosen, most_items
from wirecodec.kernels.layout import BLOOM_PAD
from wirecodec.limits import DecodeLimits
from wirecodec.validation import as_real, settle

__all__ = ["HEAD_BYTES", "P0", "P1", "POLICIES", "Bloom", "Head", "filter_bytes", "windows"]

_HEAD = struct.Struct("<QIBBH")
HEAD_BYTES = _HEAD.size
_WORD = 8
_MAX_WINDOWS = 32
NAIVE, P0, P1, P2, LEFTMOST, MIDDLE, RIGHTMOST = range(7)
POLICIES = ("naive", "p0", "p1", "p2", "leftmost", "middle", "rightmost")
_DRAWING = (P1, P2)


@dataclass(frozen=True)
class Bloom:
    """A filter with false positives at the rate ``fpr``, and the ``policy`` that reads it.

    ``p0`` sends a value for every positive, so that nothing selected is lost. The others keep as many as
    were selected: ``p1`` draws them, ``p2`` prefers those that must have been inserted, ``leftmost``,
    ``middle`` and ``rightmost`` take a stretch. ``naive`` lays the selected values onto the first
    positives, wherever those are. Only ``p0`` carries NaN and Inf.
    """

    name: ClassVar[str] = "bloom"
    wire_id: ClassVar[int] = 9
    lossy: ClassVar[bool] = True
    policy: str = "p0"
    fpr: float = 1e-3

    def __post_init__(self) -> None:
        settle(self, fpr=as_real(self.fpr, "bloom: fpr"))
        if self.policy not in POLICIES:
            raise EncodeError(f"bloom: policy is {self.policy!r}; known: {', '.join(POLICIES)}")
        if not 2.0**-_MAX_WINDOWS <= self.fpr < 1:
            raise EncodeError(f"bloom: fpr is {self.fpr!r}; it must be at least 2^-32 and below 1")

    def encode(self, indices: Array, d: int, stream: int) -> Bytes:
        """The section of ``approximate``."""
        return self.approximate(indices, d, stream).section

    def approximate(self, indices: Array, d: int, stream: int) -> Approximation:
        """Insert the indices, then read the filter as a reader will.

        EncodeError under p2 where the false positives are too many to tell from what was inserted.
        """
        from wirecodec.kernels.cpu.index import bloom

        policy, k = POLICIES.index(self.policy), windows(self.fpr)
        head = Head(stream if policy in _DRAWING else 0, indices.size, k, policy)
        filter_ = np.zeros(filter_bytes(indices.size, self.fpr) + BLOOM_PAD, np.uint8)
        bloom.insert(indices, filter_, k)
        section = np.concatenate([np.frombuffer(head.to_bytes(), np.uint8), filter_[:-BLOOM_PAD]])
        if policy == NAIVE:
            return Approximation(section, None)
        try:
            found = _read(filter_, head, d, None if policy == P0 else indices.size)
        except Invalid as error:
            raise EncodeError(
                f"bloom: {error.message}: too many for p2 to tell; take an fpr below {self.fpr!r}"
            ) from None
        return Approximation(section, found, complete=policy == P0)

    def max_bytes(self, r: int, d: int) -> int:
        """Return the most bytes of a section of at most r indices below d."""
        return HEAD_BYTES + filter_bytes(r, self.fpr)

    def max_decoded(self, r: int, d: int) -> int:
        """Return the most indices that a section of r of d elements decodes to; p0 keeps every positive."""
        return d if self.policy == "p0" else r

    @classmethod
    def work(cls, section: Bytes, d: int, r: int) -> int:
        """Check the header and count the steps: windows of the filter, p1's draws, p2's passes."""
        head = Head.of(section, r)
        steps = -(-d // 8) * head.k
        if head.policy == P1:
            steps += d
        elif head.policy == P2:
            steps += P2_PASSES * head.k * min(d, most_items(r))
        return steps

    @classmethod
    def decode(cls, section: Bytes, d: int, r: int, limits: DecodeLimits) -> Array:
        """Ask the filter for every element, once or twice, and pick."""
        head = Head.of(section, r)
        filter_ = np.concatenate([section[_HEAD.size :], section[_HEAD.size : _HEAD.size + BLOOM_PAD]])
        return _read(filter_, head, d, r)


class Head(NamedTuple):
    """The header of a section, checked."""

    stream: int
    inserted: int
    k: int
    policy: int

    def to_bytes(self) -> bytes:
        """As they stand on the wire."""
        return _HEAD.pack(*self, 0)

    @classmethod
    def of(cls, section: Bytes, r: int) -> Head:
        """The header of a section for ``r`` elements, and its length; Malformed, Invalid or Unsupported."""
        if section.size < _HEAD.size + _WORD or section.size % _WORD:
            raise Malformed("bloom-length", f"{section.size} bytes are no header and filter")
        stream, count, k, policy, reserved = _HEAD.unpack(section[: _HEAD.size].tobytes())
        if reserved:
            raise Malformed("bloom-header", f"the reserved word is {reserved:#x}")
        if not 0 < k <= _MAX_WINDOWS:
            raise Malformed("bloom-windows", f"{k} windows an element; 1 to {_MAX_WINDOWS} are possible")
        if policy >= len(POLICIES):
            raise Unsupported("bloom-policy", f"policy {policy}")
        if stream and policy not in _DRAWING:
            raise Malformed("bloom-header", f"a stream for {POLICIES[policy]}, which draws nothing")
        if not 0 < count <= r or (policy != P0 and count != r):
            raise Invalid("bloom-count", f"{count} inserted, {r} to be read under {POLICIES[policy]}")
        return cls(stream, count, k, policy)


def _read(filter_: Bytes, head: Head, d: int, r: int | None) -> Array:
    """The elements that the policy reads from a padded filter, (r,) u32; None stands for all positives.

    Raises Invalid.
    """
    from wirecodec.kernels.cpu.index import bloom

    k = head.k
    total = -1
    if r is None or head.policy in (P1, P2, MIDDLE, RIGHTMOST):
        total = bloom.count(filter_, k, d)
        r = total if r is None else r
        _check_positives(total, r, head.policy)
    if head.policy == P2:
        return chosen(filter_, k, d, total, r, head.stream)
    indices = np.empty(r, np.uint32)
    if head.policy == P1:
        low, high = np.uint32(head.stream & 0xFFFFFFFF), np.uint32(head.stream >> 32)
        bloom.sample(filter_, k, d, total, low, high, indices)
        return indices
    skip = {MIDDLE: (total - r) // 2, RIGHTMOST: total - r}.get(head.policy, 0)
    _check_positives(bloom.fill(filter_, k, d, skip, indices), r, head.policy)
    return indices


def _check_positives(total: int, r: int, policy: int) -> None:
    if total < r or (policy == P0 and total != r):
        raise Invalid("bloom-positives", f"the filter holds {total} elements; {r} are to be read")


def windows(fpr: float) -> int:
    """⌈log2 1/fpr⌉ for 0 < fpr < 1."""
    return 1 - frexp(fpr)[1]


def filter_bytes(count: int, fpr: float) -> int:
    """Bytes of the filter for ``count`` elements: a multiple of 8."""
    return -(-count * _fixed_bits(fpr) // (1 << 22)) * _WORD


@lru_cache(maxsize=64)
def _fixed_bits(fpr: float) -> int:
    """Bits an element, in units of 2^-16, rounded up; in decimal, so that it is the same everywhere."""
    exact = Context(prec=60)
    k = windows(fpr)
    filled = exact.exp(exact.divide(exact.ln(Decimal(fpr)), Decimal(k)))
    bits = exact.divide(Decimal(-k), exact.ln(exact.subtract(Decimal(1), filled)))
    return int(exact.multiply(bits, Decimal(1 << 16)).to_integral_value(ROUND_CEILING))
