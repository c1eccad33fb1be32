"""What a value codec is: the values of a chunk, in the order of its indices, to bytes and back.

Sections and their checks are those of formats/spec/value/NAME.md. A codec is called only where r > 0.
"""

from __future__ import annotations

from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np

from wirecodec.arrays import Array, Bytes
from wirecodec.limits import DecodeLimits

__all__ = ["ValueChoice", "ValueCodec"]


@runtime_checkable
class ValueCodec(Protocol):
    """A frozen dataclass whose fields are its parameters; ``wire_id`` is its id in formats/registry.toml."""

    name: ClassVar[str]
    wire_id: ClassVar[int]
    carries_nonfinite: ClassVar[bool]
    """Whether NaN and Inf come back.

    Where they do not, the pipeline refuses them before ``encode`` sees them.
    """

    def encode(self, values: Array, stream: int) -> Bytes:
        """(r,) ``values`` of one of the four element types as a section; ``stream`` seeds what is drawn at
        random.

        An EncodeError's ``position`` is the number of the value; the pipeline turns it into that of the
        element.
        """
        ...

    @classmethod
    def decode(cls, section: Bytes, r: int, dtype: np.dtype[Any], limits: DecodeLimits) -> Array:
        """The (r,) values of a section (read-only, at a multiple of 8 in memory) in ``dtype``; else a
        WireError of the page.
        """
        ...


@runtime_checkable
class ValueChoice(Protocol):
    """A name without an id of its own: it picks a codec for each chunk."""

    name: ClassVar[str]

    def resolve(self, values: Array) -> ValueCodec:
        """The codec for these values."""
        ...
