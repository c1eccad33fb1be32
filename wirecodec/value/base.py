"""Protocols of value codecs: values of a chunk, in the order of its indices, to bytes and back.

formats/spec/value/NAME.md defines each codec's section and its checks. Codecs are called with r > 0 only.
"""

from __future__ import annotations

from typing import Any, ClassVar, Protocol, TypeGuard, runtime_checkable

import numpy as np

from wirecodec.arrays import Array, Bytes
from wirecodec.limits import DecodeLimits


@runtime_checkable
class ValueCodec(Protocol):
    """Protocol of value codecs: a frozen dataclass whose fields are the codec's parameters.

    A codec may have batched forms of its methods, which a model with many tensors calls once. They give the
    same sections and values. ``encode_batch(values, cuts, streams)`` gets (R,) values of all tensors, their
    places, (n + 1,) i64, and (n,) u64 streams. It returns a ``SectionBatch``, or None if it cannot encode
    them. The classmethod ``decode_batch(words, starts, lengths, cuts, dtype)`` gets the container, (m,) u32,
    and for each section its first word, its bytes and the place of its values. It returns an array with the
    values and the (n,) places in it, or None if a section fails a check: ``decode`` then raises the error.

    Attributes:
        name: name in scheme strings.
        wire_id: id in formats/registry.toml; user-defined codecs use 0x80 to 0xFF.
        carries_nonfinite: True if NaN and Inf are preserved. If False, the pipeline raises EncodeError at the
            first such element and does not call ``encode``.

    Examples:
        >>> import wirecodec as wc
        >>> isinstance(wc.QSGD(bits=4), wc.ValueCodec)
        True
    """

    name: ClassVar[str]
    wire_id: ClassVar[int]
    carries_nonfinite: ClassVar[bool]

    def encode(self, values: Array, stream: int) -> Bytes:
        """Encode values as a section.

        Args:
            values: (r,) read-only array of one of the four element types, r > 0.
            stream: u64 seed of the random draws.

        Returns:
            The section, a uint8 array or bytes.

        Raises:
            EncodeError: if a value cannot be encoded. ``position`` is the index into ``values``; the pipeline
                replaces it by the element's index.
        """
        ...

    @classmethod
    def decode(cls, section: Bytes, r: int, dtype: np.dtype[Any], limits: DecodeLimits) -> Array:
        """Decode a section.

        Args:
            section: read-only uint8 array, aligned to 8 bytes.
            r: number of values, above 0.
            dtype: element type of the result.
            limits: ``max_work`` bounds the steps beyond section bytes and r.

        Returns:
            (r,) array of type ``dtype``.

        Raises:
            WireError: if the section violates a check of the codec's spec page.
        """
        ...


@runtime_checkable
class OrderedValueCodec(ValueCodec, Protocol):
    """Protocol of value codecs that need ascending values; ``ordered`` is True.

    The pipeline sorts the values and stores a map to their original order with the section. -0 precedes +0,
    and the sort is stable.
    """

    ordered: ClassVar[bool]


def is_ordered(codec: Any) -> TypeGuard[OrderedValueCodec]:
    """Check if a value codec needs sorted values; the default is no."""
    return bool(getattr(codec, "ordered", False))


@runtime_checkable
class ValueChoice(Protocol):
    """Protocol of names without a wire id, which choose a codec for each chunk."""

    name: ClassVar[str]

    def choose(self, values: Array, stream: int) -> tuple[ValueCodec, Bytes]:
        """Choose a codec and encode the values with it.

        The values may be empty and may contain NaN and Inf.

        Args:
            values: (r,) read-only array of one of the four element types.
            stream: u64 seed of the random draws.

        Returns:
            The codec and its section.

        Raises:
            EncodeError: if no available codec can encode the values.
        """
        ...
