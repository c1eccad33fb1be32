"""Interfaces of the index and value writers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Protocol


class IndexWriter(Protocol):
    """An index codec with its parameters.

    A lossy codec, which decodes to other indices, also has ``approximate``, as ``Bloom`` does.
    """

    id: ClassVar[int]

    def write_section(self, indices: Sequence[int], d: int) -> bytes:
        """Write the index section of a support of 0 < r < d indices."""
        ...


class ValueWriter(Protocol):
    """A value codec with its parameters.

    A codec that orders values has the attribute ``ordered`` and receives sorted values.
    """

    @property
    def id(self) -> int:
        """Id of the codec."""
        ...

    @property
    def scheme(self) -> str:
        """The codec in the syntax of schemes, every argument by keyword."""
        ...

    def write_section(self, values: bytes, dtype: Any, stream: int) -> bytes:
        """Write the value section of r > 0 values.

        Args:
            values: the elements' little-endian bytes.
            dtype: their element type; codecs of floats take a ``Format`` alone.
            stream: stream of the draws (SPEC section 5).
        """
        ...
