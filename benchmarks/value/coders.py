"""One face for the library's value codecs and for peers: values to a code that has a size, and back."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from benchmarks.value.distributions import Floats
from wirecodec.arrays import as_bytes
from wirecodec.limits import UNLIMITED
from wirecodec.registry import value_codec
from wirecodec.scheme import Scheme
from wirecodec.value.base import ValueChoice, is_ordered
from wirecodec.value.order import ascending, map_of, positions_of, restored

__all__ = ["CONFIGURATIONS", "Codec", "Coder", "codecs"]

CONFIGURATIONS = (
    *("raw", "raw(float16)", "raw(bfloat16)"),
    *("deflate", "zstd"),
    *(f"qsgd(bits={bits})" for bits in range(2, 9)),
    *("qsgd(norm=l2)", "qsgd(bits=7, norm=l2)"),
    *("sign-scale", "mean"),
    *(f"offset-float(bits={bits})" for bits in range(4, 11)),
    "offset-float(bits=8, rounding=stochastic)",
    *("polyfit", "polyfit(degree=1)", "polyfit(degree=5, error=0.001)"),
    "dexpfit",
    *("terngrad", "terngrad(clip=2.5)", "3lc", "3lc(sparsity=1.75)"),
    *("sketchml", "sketchml(buckets=16)", "sketchml(buckets=256)"),
    *(f"error-bounded(error={error})" for error in (0.2, 0.1, 0.05, 0.02, 0.01, 0.001)),
    *(f"auto-value(error={error})" for error in (0.1, 0.05, 0.01, 0.001)),
)
"""The value stage of schemes: every codec of the registry with the parameters that matter."""


class Coder(Protocol):
    """A codec or a peer.

    Attributes:
        name: what the tables call it.
        family: what the picture joins by a line.
        peer: whether it is another's work.
    """

    @property
    def name(self) -> str: ...  # noqa: D102

    @property
    def family(self) -> str: ...  # noqa: D102

    @property
    def peer(self) -> bool: ...  # noqa: D102

    def fitted(self, values: Floats) -> Coder:
        """With parameters for these values, where they have to be found for an error; not timed."""
        ...

    def encode(self, values: Floats, stream: int) -> Any:
        """The code of float32 ``values``."""
        ...

    def nbytes(self, code: Any) -> int:
        """What one would send of a code, where r is known: a mapping and all side information included."""
        ...

    def decode(self, code: Any, r: int) -> Floats:
        """The float32 values of a code, in the order that they had."""
        ...


@dataclass(frozen=True)
class Codec:
    """A value codec of the library, or a choice, as schemes spell it; a code is (codec, section, map)."""

    name: str
    peer = False

    @property
    def family(self) -> str:
        """The name without its parameters, but with a norm that is not the default, and a type."""
        name = self.name.partition("(")[0]
        return self.name if name == "raw" else f"{name} l2" if "norm=l2" in self.name else name

    @cached_property
    def codec(self) -> Any:
        """The frozen dataclass."""
        return Scheme.parse(f"all | raw-index | {self.name}").value

    @cached_property
    def _chooses(self) -> bool:
        return isinstance(self.codec, ValueChoice)

    @cached_property
    def _ordered(self) -> bool:
        return is_ordered(self.codec)

    def fitted(self, values: Floats) -> Coder:
        """As it is: codecs that take an error find their own way to it, and are timed with that."""
        return self

    def encode(self, values: Floats, stream: int) -> Any:
        """The choice, where it is one, then its section; and the map, where it wants its values in order."""
        codec = self.codec
        if self._chooses:
            codec, section = codec.choose(values, stream)
            return codec, as_bytes(section), NO_MAP
        if not self._ordered:
            return codec, as_bytes(codec.encode(values, stream)), NO_MAP
        values, positions = ascending(values)
        return codec, as_bytes(codec.encode(values, stream)), as_bytes(map_of(positions))

    def nbytes(self, code: Any) -> int:
        """The lengths of section and map."""
        return int(code[1].size + code[2].size)

    def decode(self, code: Any, r: int) -> Floats:
        """With every check of the codec's page."""
        codec, section, mapping = code
        values = value_codec(codec.wire_id).decode(section, r, np.dtype(np.float32), UNLIMITED)
        if mapping.size:
            values = restored(values, positions_of(mapping, r))
        return np.asarray(values)


NO_MAP = np.empty(0, np.uint8)


def codecs() -> list[Coder]:
    """Every configuration."""
    return [Codec(text) for text in CONFIGURATIONS]
