"""What an index codec is: ascending u32 indices below d to bytes, and back.

Sections and their checks are those of formats/spec/index/NAME.md. A codec is called only where 0 < r < d;
the other supports need no bytes (formats/SPEC.md, 2.2).

A codec may have two things more. Where its steps can be far more than its bytes and r, a classmethod
``work(section, d, r) -> int`` makes the checks that come first and counts the steps; their sum over a
container is held against ``DecodeLimits.max_work`` before ``decode`` is called. And a codec that does not
decode to the indices that went in is a ``LossyIndexCodec``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeGuard, runtime_checkable

from wirecodec.arrays import Array, Bytes
from wirecodec.limits import DecodeLimits

__all__ = ["Approximation", "IndexChoice", "IndexCodec", "LossyIndexCodec", "is_lossy"]


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


@dataclass(frozen=True, eq=False)
class Approximation:
    """A section that does not say exactly what it was made of.

    Attributes:
        section: as ``encode`` gives it; not written where every element will be found.
        found: (n,) u32, the indices that readers will find, at which the values are gathered from the tensor;
            None where they are as many as went in, and the values stay what they were.
        complete: whether ``found`` holds every index that went in. If not, NaN and Inf are refused: one whose
            index is missing would be lost.
    """

    section: Bytes
    found: Array | None
    complete: bool = False


@runtime_checkable
class LossyIndexCodec(IndexCodec, Protocol):
    """An index codec that decodes to other indices than went in, and says so by ``lossy``, which is True."""

    lossy: ClassVar[bool]

    def approximate(self, indices: Array, d: int, stream: int) -> Approximation:
        """What ``encode`` gives, and what it will decode to; arguments as there."""
        ...


def is_lossy(codec: Any) -> TypeGuard[LossyIndexCodec]:
    """Whether an index codec decodes to other indices than went in; codecs that do not say are exact."""
    return bool(getattr(codec, "lossy", False))


@runtime_checkable
class IndexChoice(Protocol):
    """A name without an id of its own: it picks a codec for each chunk."""

    name: ClassVar[str]

    def choose(self, indices: Array | None, d: int, stream: int) -> tuple[IndexCodec, Bytes]:
        """The codec, and its section of ``indices`` (arguments as of ``encode``).

        None stands for all of ``d``, or for none: the section is empty then.
        """
        ...
