"""``bloom``: a Bloom filter of the indices, and a policy that reads it (formats/spec/index/bloom.md).

After DeepReduce (Xu et al. 2021, section 4). A filter holds every inserted index and some others. The encoder
therefore computes the indices that a reader will decode, and the pipeline gathers the values there.
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
from wirecodec.index.base import Approximation, LossyIndexCodec
from wirecodec.index.bloom_p2 import P2_PASSES, max_positives, select_inserted
from wirecodec.kernels.layout import BLOOM_PAD
from wirecodec.limits import DecodeLimits
from wirecodec.validation import as_real, set_fields

_HEADER = struct.Struct("<QIBBH")
HEADER_BYTES = _HEADER.size
_WORD_BYTES = 8
_MAX_WINDOWS = 32
NAIVE, P0, P1, P2, LEFTMOST, MIDDLE, RIGHTMOST = range(7)
POLICIES = ("naive", "p0", "p1", "p2", "leftmost", "middle", "rightmost")
_RANDOM_POLICIES = (P1, P2)


@dataclass(frozen=True)
class Bloom(LossyIndexCodec):
    """Bloom filter index codec: lossy, a filter of the indices and the policy that reads it.

    A section takes 16 bytes and about 1.44 log2(1/fpr) bits per index: 14.4 at 0.001. With k = ⌈log2 1/fpr⌉
    windows per element that is -k / ln(1 - fpr^(1/k)) bits per index, rounded up to whole 8-byte words.

    The filter holds n >= r elements, the positives, of which r were inserted. The policies:

    - ``p0``: send a value for each of the n positives. Nothing is lost, and NaN and Inf are allowed.
    - ``p1``: keep r of the n positives, drawn at random.
    - ``p2``: keep r, preferring those that must have been inserted (DeepReduce, Algorithm 1). Refused if n
      is above 2.5 r, which bounds a reader's memory by r: for a density δ, use an fpr below 1.5 δ/(1 - δ),
      0.015 at 1 %. A higher rate sends more bytes per index that is kept
      (benchmarks/results/codecs.md).
    - ``leftmost``, ``middle``, ``rightmost``: keep r consecutive positives.
    - ``naive``: assign the r values to the first r positives, even if others were inserted.

    Source: formats/spec/index/bloom.md; DeepReduce (Xu et al. 2021), section 4; Bloom (1970).

    Args:
        policy: one of the names above.
        fpr: rate of false positives per element that was not inserted, 2^-32 <= fpr < 1.

    Raises:
        EncodeError: a parameter is out of range, or ``p2`` has too many false positives to choose from.
        Malformed: in decoding, the header is inconsistent.
        Invalid: in decoding, the filter does not hold the stated number of elements.
        Unsupported: in decoding, the policy is unknown.

    Examples:
        >>> import numpy as np, wirecodec as wc
        >>> indices = np.arange(0, 100_000, 100, dtype=np.uint32)
        >>> wc.codecs.Bloom("p0", fpr=0.001).encode(indices, 100_000, 0).size
        1816
    """

    name: ClassVar[str] = "bloom"
    wire_id: ClassVar[int] = 9
    has_work: ClassVar[bool] = True
    policy: str = "p0"
    fpr: float = 1e-3

    def __post_init__(self) -> None:
        set_fields(self, fpr=as_real(self.fpr, "bloom: fpr"))
        if self.policy not in POLICIES:
            raise EncodeError(f"bloom: policy is {self.policy!r}; it must be one of {', '.join(POLICIES)}")
        if not 2.0**-_MAX_WINDOWS <= self.fpr < 1:
            raise EncodeError(f"bloom: fpr is {self.fpr!r}; it must be 2^-32 or more and below 1")

    def encode(self, indices: Array, d: int, stream: int) -> Bytes:
        """Encode indices as a section; see ``IndexCodec.encode``."""
        return self.approximate(indices, d, stream).section

    def approximate(self, indices: Array, d: int, stream: int) -> Approximation:
        """Encode indices, and read the filter as a reader will; see ``LossyIndexCodec.approximate``.

        Raises:
            EncodeError: under p2, there are too many false positives to choose from.
        """
        from wirecodec.kernels.cpu.index import bloom

        policy, k = POLICIES.index(self.policy), windows(self.fpr)
        header = Header(stream if policy in _RANDOM_POLICIES else 0, indices.size, k, policy)
        filter_ = np.zeros(filter_bytes(indices.size, self.fpr) + BLOOM_PAD, np.uint8)
        bloom.insert(indices, filter_, k)
        section = np.concatenate([np.frombuffer(header.to_bytes(), np.uint8), filter_[:-BLOOM_PAD]])
        if policy == NAIVE:
            return Approximation(section, None)
        try:
            positives = _read_filter(filter_, header, d, None if policy == P0 else indices.size)
        except Invalid as error:
            raise EncodeError(
                f"bloom: {error.message}: too many for p2; use an fpr below {self.fpr!r}"
            ) from None
        return Approximation(section, positives, complete=policy == P0)

    def max_bytes(self, r: int, d: int) -> int:
        """Return the maximum number of bytes of a section of at most r indices below d."""
        return HEADER_BYTES + filter_bytes(r, self.fpr)

    def max_decoded(self, r: int, d: int) -> int:
        """Return the most indices that a section of r of d elements decodes to; p0 keeps every positive."""
        return d if self.policy == "p0" else r

    @classmethod
    def work(cls, section: Bytes, d: int, r: int) -> int:
        """Check the header, and count the steps of decoding: windows, draws of p1, passes of p2."""
        header = Header.of(section, r)
        steps = -(-d // 8) * header.k
        if header.policy == P1:
            steps += d
        elif header.policy == P2:
            steps += P2_PASSES * header.k * min(d, max_positives(r))
        return steps

    @classmethod
    def decode(cls, section: Bytes, d: int, r: int, limits: DecodeLimits) -> Array:
        """Decode a section by querying the filter for every element; see ``IndexCodec.decode``."""
        header = Header.of(section, r)
        filter_ = np.concatenate([section[_HEADER.size :], section[_HEADER.size : _HEADER.size + BLOOM_PAD]])
        return _read_filter(filter_, header, d, r)


class Header(NamedTuple):
    """Header of a section, checked.

    Attributes:
        stream: u64 seed of p1 and p2, otherwise 0.
        inserted: number of inserted indices.
        k: windows per element.
        policy: position in ``POLICIES``.
    """

    stream: int
    inserted: int
    k: int
    policy: int

    def to_bytes(self) -> bytes:
        """Return the header as bytes."""
        return _HEADER.pack(*self, 0)

    @classmethod
    def of(cls, section: Bytes, r: int) -> Header:
        """Read and check the header and the length of a section for ``r`` elements.

        Raises:
            WireError: a check fails.
        """
        if section.size < _HEADER.size + _WORD_BYTES or section.size % _WORD_BYTES:
            raise Malformed("bloom-length", f"{section.size} bytes; it must be a multiple of 8 from 24 on")
        stream, count, k, policy, reserved = _HEADER.unpack(section[: _HEADER.size].tobytes())
        if reserved:
            raise Malformed("bloom-header", f"the reserved word is {reserved:#x}; it must be 0")
        if not 0 < k <= _MAX_WINDOWS:
            raise Malformed("bloom-windows", f"{k} windows per element; there must be 1 to {_MAX_WINDOWS}")
        if policy >= len(POLICIES):
            raise Unsupported("bloom-policy", f"the policy is {policy}; the last is {len(POLICIES) - 1}")
        if stream and policy not in _RANDOM_POLICIES:
            raise Malformed("bloom-header", f"the stream is {stream}; it must be 0 under {POLICIES[policy]}")
        if not 0 < count <= r or (policy != P0 and count != r):
            raise Invalid("bloom-count", f"{count} inserted and {r} present under {POLICIES[policy]}")
        return cls(stream, count, k, policy)


def _read_filter(filter_: Bytes, header: Header, d: int, r: int | None) -> Array:
    """Return the (r,) u32 elements that the policy reads from a padded filter.

    Args:
        filter_: (length + BLOOM_PAD,) u8.
        header: the section's header.
        d: elements of the chunk.
        r: number of elements to read, or None for all positives.

    Raises:
        Invalid: the filter does not hold the stated number of elements.
    """
    from wirecodec.kernels.cpu.index import bloom

    k = header.k
    total = -1
    if r is None or header.policy in (P1, P2, MIDDLE, RIGHTMOST):
        total = bloom.count(filter_, k, d)
        r = total if r is None else r
        _check_positives(total, r, header.policy)
    if header.policy == P2:
        return select_inserted(filter_, k, d, total, r, header.stream)
    indices = np.empty(r, np.uint32)
    if header.policy == P1:
        low, high = np.uint32(header.stream & 0xFFFFFFFF), np.uint32(header.stream >> 32)
        bloom.sample(filter_, k, d, total, low, high, indices)
        return indices
    skip = {MIDDLE: (total - r) // 2, RIGHTMOST: total - r}.get(header.policy, 0)
    _check_positives(bloom.fill(filter_, k, d, skip, indices), r, header.policy)
    return indices


def _check_positives(total: int, r: int, policy: int) -> None:
    if total < r or (policy == P0 and total != r):
        raise Invalid("bloom-positives", f"the filter holds {total} elements; the table has {r}")


def windows(fpr: float) -> int:
    """Return k = ⌈log2 1/fpr⌉, the windows per element, for 0 < fpr < 1."""
    return 1 - frexp(fpr)[1]


def filter_bytes(count: int, fpr: float) -> int:
    """Return the length in bytes of the filter for ``count`` elements, a multiple of 8."""
    return -(-count * _scaled_bits(fpr) // (1 << 22)) * _WORD_BYTES


@lru_cache(maxsize=64)
def _scaled_bits(fpr: float) -> int:
    """Return the bits per element in units of 2^-16, rounded up.

    It is computed in decimal, so that every machine gets the same result.
    """
    exact = Context(prec=60)
    k = windows(fpr)
    filled = exact.exp(exact.divide(exact.ln(Decimal(fpr)), Decimal(k)))
    bits = exact.divide(Decimal(-k), exact.ln(exact.subtract(Decimal(1), filled)))
    return int(exact.multiply(bits, Decimal(1 << 16)).to_integral_value(ROUND_CEILING))
