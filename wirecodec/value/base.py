"""What a value codec is: the values of a chunk, in the order of its indices, to bytes and back.

Sections and their checks are those of formats/spec/value/NAME.md. A codec is called only where r > 0.
"""

from __future__ import annotations

from typing import Any, ClassVar, Protocol, TypeGuard, runtime_checkable

import numpy as np

from wirecodec.arrays import Array, Bytes
from wirecodec.limits import DecodeLimits

__all__ = ["OrderedValueCodec", "ValueChoice", "ValueCodec", "is_ordered"]


@runtime_checkable
class ValueCodec(Protocol):
    """A frozen dataclass whose fields are its parameters.

    Attributes:
        name: what schemes call it.
        wire_id: its id in formats/registry.toml.
        carries_nonfinite: whether NaN and Inf come back; where they do not, the pipeline refuses them, naming
            the element, before ``encode`` sees them.
    """

    name: ClassVar[str]
    wire_id: ClassVar[int]
    carries_nonfinite: ClassVar[bool]

    def encode(self, values: Array, stream: int) -> Bytes:
        """The section, a uint8 array or bytes.

        Args:
            values: (r,), read-only, of one of the four element types.
            stream: a u64 that seeds what is drawn at random.

        The ``position`` of an EncodeError is the number of the value; the pipeline turns it into the
        element's.
        """
        ...

    @classmethod
    def decode(cls, section: Bytes, r: int, dtype: np.dtype[Any], limits: DecodeLimits) -> Array:
        """The (r,) values of a section; a WireError of the codec's page where it is wrong.

        Args:
            section: read-only bytes, at a multiple of 8 in memory.
            r: how many values there are.
            dtype: the element type to deliver.
            limits: max_work bounds steps beyond the section's bytes and r.
        """
        ...


@runtime_checkable
class OrderedValueCodec(ValueCodec, Protocol):
    """A value codec whose values come and go in ascending order, and says so by ``ordered``, which is True.

    The pipeline sorts, and stores with the section a map of where each value came from. ``-0`` comes before
    ``+0``, and equal values as they stood.
    """

    ordered: ClassVar[bool]


def is_ordered(codec: Any) -> TypeGuard[OrderedValueCodec]:
    """Whether a value codec needs its values sorted; codecs that do not say take them as they come."""
    return bool(getattr(codec, "ordered", False))


@runtime_checkable
class ValueChoice(Protocol):
    """A name without an id of its own: it picks a codec for each chunk."""

    name: ClassVar[str]

    def choose(self, values: Array, stream: int) -> tuple[ValueCodec, Bytes]:
        """The codec, and its section of ``values`` (arguments as of ``encode``).

        The values may be none, and need not be finite: a choice refuses what no codec of its own carries.
        """
        ...
