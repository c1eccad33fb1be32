"""What an index codec is: ascending u32 indices below d to bytes, and back.

Sections and their checks are those of formats/spec/index/NAME.md. A codec is called only where 0 < r < d; the
other supports need no bytes (formats/SPEC.md, 2.2).
"""

from __future__ import annotations

from typing import ClassVar, Protocol, runtime_checkable

from wirecodec.arrays import Array, Bytes
from wirecodec.limits import DecodeLimits

__all__ = ["IndexChoice", "IndexCodec"]


@runtime_checkable
class IndexCodec(Protocol):
    """A frozen dataclass whose fields are its parameters.

    Attributes:
        name: what schemes call it.
        wire_id: its id in formats/registry.toml.
    """

    name: ClassVar[str]
    wire_id: ClassVar[int]

    def encode(self, indices: Array, d: int, stream: int) -> Bytes:
        """The section, a uint8 array or bytes.

        Args:
            indices: (r,) u32, read-only, ascending, unique and below ``d``.
            d: elements of the chunk.
            stream: a u64 that seeds what is drawn at random.
        """
        ...

    @classmethod
    def decode(cls, section: Bytes, d: int, r: int, limits: DecodeLimits) -> Array:
        """The (r,) u32 indices of a section, all checked; a WireError of the codec's page otherwise.

        Args:
            section: read-only bytes, at a multiple of 8 in memory.
            d: elements of the chunk.
            r: how many are present.
            limits: max_work bounds steps beyond the section's bytes and r.
        """
        ...


@runtime_checkable
class IndexChoice(Protocol):
    """A name without an id of its own: it picks a codec for each chunk."""

    name: ClassVar[str]

    def choose(self, indices: Array | None, d: int, stream: int) -> tuple[IndexCodec, Bytes]:
        """The codec, and its section of ``indices`` (arguments as of ``encode``).

        None stands for all of ``d``, or for none: the section is empty then.
        """
        ...
