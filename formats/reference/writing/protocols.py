"""TODO writing.protocols"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Protocol

from formats.reference.floats import Format


class IndexWriter(Protocol):
    """An index codec with its parameters; ``section`` writes a support of 0 < r < d indices.

    One that decodes to other indices also has ``approximate``, as ``Bloom`` does.
    """

    id: ClassVar[int]

    def write_section(self, indices: Sequence[int], d: int) -> bytes:
        """The index section of the codec's page."""
        ...


class ValueWriter(Protocol):
    """A value codec with its parameters; ``section`` writes r > 0 values.

    One that stores them in order says so as ``ordered``, and gets them so.
    """

    @property
    def id(self) -> int:
        """Of the codec."""
        ...

    @property
    def scheme(self) -> str:
        """The codec as schemes spell it, every argument by keyword."""
        ...

    def write_section(self, values: bytes, dtype: Format, stream: int) -> bytes:
        """The value section of the codec's page.

        Args:
            values: the elements' little-endian bytes.
            dtype: their format.
            stream: what draws are made of (SPEC section 5).
        """
        ...
