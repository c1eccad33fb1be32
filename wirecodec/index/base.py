"""Base classes of index codecs: ascending u32 indices below d to a section of bytes, and back.

Sections and their checks are those of formats/spec/index/NAME.md. A codec is called only if 0 < r < d. Empty
and full supports take no bytes (formats/SPEC.md, 2.2). Methods with a body are optional: the body is right
for every codec.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import numpy as np

from wirecodec.arrays import Array, Bytes
from wirecodec.errors import EncodeError, WireError
from wirecodec.limits import UNLIMITED, DecodeLimits
from wirecodec.support import SectionBatch, slice_sections


class IndexChoice(ABC):
    """Choice among index codecs for each chunk, which has a name in schemes.

    Attributes:
        name: the name in schemes.
        lossy: True for a ``LossyIndexCodec``.
    """

    name: ClassVar[str]
    lossy: ClassVar[bool] = False

    @abstractmethod
    def choose(self, indices: Array | None, d: int, stream: int) -> tuple[IndexCodec, Bytes]:
        """Choose a codec, and encode the indices with it.

        Args:
            indices: as in ``IndexCodec.encode``, or None for an empty or full support.
            d: elements of the chunk.
            stream: u64 seed of random draws.

        Returns:
            (the codec, its section, which is empty if ``indices`` is None).
        """

    def encode_batch(self, indices: Array, cuts: Array, sizes: Array, streams: Array) -> SectionBatch | None:
        """Encode the indices of many tensors, none empty and none full, each as ``choose`` does.

        Args:
            indices: (R,) u32, read-only.
            cuts: (n + 1,) i64, the place of each tensor's indices.
            sizes: (n,) i64, elements of each tensor.
            streams: (n,) u64, seeds of random draws.

        Returns:
            The sections, or None if ``choose`` raises an error for a tensor.
        """
        rows = zip(pairwise(cuts.tolist()), sizes.tolist(), streams.tolist(), strict=True)
        try:
            return SectionBatch.join([self.choose(indices[a:b], d, stream) for (a, b), d, stream in rows])
        except EncodeError:
            return None

    def max_bytes(self, r: int, d: int) -> int:
        """Return the most bytes of a section of at most r indices below d. Raises EncodeError if unknown."""
        raise EncodeError(
            f"index codec {self.name!r} has no bound; define max_bytes(r, d) to return its section's most"
            " bytes"
        )

    def max_decoded(self, r: int, d: int) -> int:
        """Return the most indices to which a section of at most r indices below d decodes."""
        return r


class IndexCodec(IndexChoice):
    """Index codec: encodes the positions of a chunk's present elements.

    It is a frozen dataclass whose fields are its parameters. ``register`` admits a codec of your own; its
    ``decode`` must invert its ``encode``, unless it is a ``LossyIndexCodec``.

    Source: formats/SPEC.md, 2.2; docs/guides/codec.md shows how to write one.

    Attributes:
        name: the name in schemes.
        wire_id: the id in the container, from formats/registry.toml; 0x80 to 0xFF for user-defined codecs.
        lossy: True for a ``LossyIndexCodec``.
        has_work: True if ``work`` is not 0 for every section.

    Examples:
        >>> import wirecodec as wc
        >>> isinstance(wc.codecs.Rice(), wc.IndexCodec), wc.codecs.Rice.wire_id
        (True, 3)
    """

    wire_id: ClassVar[int]
    has_work: ClassVar[bool] = False

    @abstractmethod
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

    @classmethod
    @abstractmethod
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

    def choose(self, indices: Array | None, d: int, stream: int) -> tuple[IndexCodec, Bytes]:
        """Return the codec itself and its section; see ``IndexChoice``."""
        return self, _EMPTY if indices is None else self.encode(indices, d, stream)

    @classmethod
    def work(cls, section: Bytes, d: int, r: int) -> int:
        """Make the first checks, and return the number of steps beyond the section's bytes and r.

        The sum over a container is compared with ``DecodeLimits.max_work`` before ``decode`` is called.
        """
        return 0

    @classmethod
    def decode_batch(
        cls, words: Array, starts: Array, lengths: Array, sizes: Array, cuts: Array
    ) -> Array | None:
        """Decode the sections of many tensors, each as ``decode`` does.

        Args:
            words: (m,) u32, the container.
            starts: (n,) i64, the first word of each section.
            lengths: (n,) i64, bytes of each section.
            sizes: (n,) i64, elements of each tensor.
            cuts: (n + 1,) i64, the place of each tensor's indices in the result.

        Returns:
            (R,) u32. If a section fails a check, the indices of the sections before it; or None if there
            are none, or the codec does not know which section it is. ``decode`` then raises the error.
        """
        sections = slice_sections(words, starts, lengths)
        rows = zip(sections, sizes.tolist(), np.diff(cuts).tolist(), strict=True)
        indices: list[Array] = []
        with suppress(WireError):
            for section, d, r in rows:
                indices.append(cls.decode(section, d, r, UNLIMITED))
        return np.concatenate(indices) if indices else None


_EMPTY: Bytes = np.empty(0, np.uint8)


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


class LossyIndexCodec(IndexCodec):
    """Index codec that may decode to other indices than were encoded."""

    lossy: ClassVar[bool] = True

    @abstractmethod
    def approximate(self, indices: Array, d: int, stream: int) -> Approximation:
        """Encode indices, and compute the indices to which the section decodes; see ``encode``."""

    def max_decoded(self, r: int, d: int) -> int:
        """Return the most indices to which a section of at most r indices below d decodes."""
        return d
