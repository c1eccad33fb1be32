"""Protocols of index codecs: ascending u32 indices below d to a section of bytes, and back.

Sections and their checks are those of formats/spec/index/NAME.md. A codec is called only if 0 < r < d. Empty
and full supports take no bytes (formats/SPEC.md, 2.2).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeGuard, runtime_checkable

from wirecodec.arrays import Array, Bytes
from wirecodec.limits import DecodeLimits


@runtime_checkable
class IndexCodec(Protocol):
    """Index codec: encodes the positions of a chunk's present elements.

    It is a frozen dataclass whose fields are its parameters. ``register`` admits a codec of your own; its
    ``decode`` must invert its ``encode``, unless it is a ``LossyIndexCodec``.

    A codec whose decoding can take many more steps than its section has bytes also has a classmethod
    ``work(section, d, r) -> int``. It makes the first checks and returns the number of steps. The sum over a
    container is compared with ``DecodeLimits.max_work`` before ``decode`` is called.

    A codec may have batched forms of its methods, which a model with many tensors calls once. They give the
    same sections and indices. ``encode_batch(indices, cuts)`` gets (R,) u32 indices of all tensors and their
    places, (n + 1,) i64, and returns a ``SectionBatch``. The classmethod
    ``decode_batch(words, starts, lengths, sizes, cuts)`` gets the container, (m,) u32, and for each section
    its first word, its bytes, the elements and the place of its indices. It returns (R,) u32, or None if a
    section fails a check: ``decode`` then raises the error.

    Source: formats/SPEC.md, 2.2; docs/guides/codec.md shows how to write one.

    Attributes:
        name: the name in schemes.
        wire_id: the id in the container, from formats/registry.toml; 0x80 to 0xFF for user-defined codecs.

    Examples:
        >>> import wirecodec as wc
        >>> isinstance(wc.Rice(), wc.IndexCodec), wc.Rice.wire_id
        (True, 3)
    """

    name: ClassVar[str]
    wire_id: ClassVar[int]

    def encode(self, indices: Array, d: int, stream: int) -> Bytes:
        """Encode indices as a section.

        Args:
            indices: (r,) u32, read-only, strictly ascending, below ``d``; 0 < r < d.
            d: elements of the chunk.
            stream: u64 seed of random draws; deterministic codecs ignore it.

        Returns:
            (n,) u8, the section.

        Raises:
            EncodeError: the codec cannot represent these indices.
        """
        ...

    @classmethod
    def decode(cls, section: Bytes, d: int, r: int, limits: DecodeLimits) -> Array:
        """Decode a section, and check all of it.

        Args:
            section: (n,) u8, read-only, at an address that is a multiple of 8; may be hostile.
            d: elements of the chunk.
            r: number of present elements, 0 < r < d.
            limits: ``max_work`` bounds the steps beyond the section's bytes and r.

        Returns:
            (r,) u32, strictly ascending, below ``d``.

        Raises:
            WireError: a check of the codec's page fails.
        """
        ...


@dataclass(frozen=True, eq=False)
class Approximation:
    """Section of a lossy index codec, and the indices to which it decodes.

    Attributes:
        section: (n,) u8, as from ``encode``; not written if every element is found.
        found: (n,) u32, the indices that readers decode, at which the values are gathered from the tensor.
            None if there are as many as were encoded and the values remain those of the encoded indices.
        complete: whether ``found`` contains every encoded index. If not, NaN and Inf are rejected, because
            the encoder could lose one.
    """

    section: Bytes
    found: Array | None
    complete: bool = False


@runtime_checkable
class LossyIndexCodec(IndexCodec, Protocol):
    """Index codec that may decode to other indices than were encoded; its attribute ``lossy`` is True."""

    lossy: ClassVar[bool]

    def approximate(self, indices: Array, d: int, stream: int) -> Approximation:
        """Encode indices, and compute the indices to which the section decodes; see ``encode``."""
        ...


def is_lossy(codec: Any) -> TypeGuard[LossyIndexCodec]:
    """Return whether an index codec may decode to other indices than were encoded.

    A codec without the attribute ``lossy`` is exact.
    """
    return bool(getattr(codec, "lossy", False))


@runtime_checkable
class IndexChoice(Protocol):
    """Choice among index codecs for each chunk, which has a name in schemes.

    It may have a batched form, ``choose_batch(indices, cuts, sizes, streams)``. It gets what ``encode_batch``
    of ``IndexCodec`` gets, with (n,) i64 elements and (n,) u64 seeds of the tensors, and returns a
    ``SectionBatch`` of the codecs that ``choose`` would choose. If it returns None, ``choose`` is called per
    tensor.
    """

    name: ClassVar[str]

    def choose(self, indices: Array | None, d: int, stream: int) -> tuple[IndexCodec, Bytes]:
        """Choose a codec, and encode the indices with it.

        Args:
            indices: as in ``IndexCodec.encode``, or None for an empty or full support.
            d: elements of the chunk.
            stream: u64 seed of random draws.

        Returns:
            (the codec, its section, which is empty if ``indices`` is None).
        """
        ...
