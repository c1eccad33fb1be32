"""Common interface of the library's value codecs and their peers: values to a code and back."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np

import wirecodec as wc
from benchmarks.value.distributions import Floats
from wirecodec.limits import UNLIMITED
from wirecodec.registry import value_codec
from wirecodec.tensors import as_bytes
from wirecodec.value.sort_permutation import pack_map, restore_order, sort_ascending, unpack_map

__all__ = ["CONFIGURATIONS", "Codec", "Coder", "build_codecs"]

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
"""Value stages of schemes: every registered codec with its relevant parameters."""


class Coder(Protocol):
    """Codec or peer.

    Attributes:
        name: its name in the tables.
        family: coders that the picture connects by a line.
        peer: True for third-party software.
    """

    @property
    def name(self) -> str: ...  # noqa: D102

    @property
    def family(self) -> str: ...  # noqa: D102

    @property
    def peer(self) -> bool: ...  # noqa: D102

    def fit(self, values: Floats) -> Coder:
        """Return the coder with parameters for these values, if it needs them for an error; not timed."""
        ...

    def encode(self, values: Floats, stream: int) -> Any:
        """Encode float32 ``values``."""
        ...

    def nbytes(self, code: Any) -> int:
        """Return the bytes to send for a code if the receiver knows r, with all side information."""
        ...

    def decode(self, code: Any, r: int) -> Floats:
        """Decode a code to float32 values in their original order."""
        ...


@dataclass(frozen=True)
class Codec:
    """Value codec of the library, or ``auto-value``, as schemes spell it; a code is (codec, section, map)."""

    name: str
    peer = False

    @property
    def family(self) -> str:
        """Return the name without parameters, except for a type or a norm that is not the default."""
        name = self.name.partition("(")[0]
        return self.name if name == "raw" else f"{name} l2" if "norm=l2" in self.name else name

    @cached_property
    def codec(self) -> Any:
        """Parse the codec's frozen dataclass."""
        return wc.Scheme.parse(f"all | raw-index | {self.name}").value

    def fit(self, values: Floats) -> Coder:
        """Return the codec unchanged: its search for parameters is part of ``encode`` and its time."""
        return self

    def encode(self, values: Floats, stream: int) -> Any:
        """Encode values; ``auto-value`` chooses its codec, and codecs of ordered values add a map."""
        if not self.codec.ordered:
            codec, section = self.codec.choose(values, stream)
            return codec, as_bytes(section), NO_MAP
        values, positions = sort_ascending(values)
        return self.codec, as_bytes(self.codec.encode(values, stream)), as_bytes(pack_map(positions))

    def nbytes(self, code: Any) -> int:
        """Return the lengths of section and map."""
        return int(code[1].size + code[2].size)

    def decode(self, code: Any, r: int) -> Floats:
        """Decode a section with all checks of the codec's specification."""
        codec, section, mapping = code
        values = value_codec(codec.wire_id).decode(section, r, np.dtype(np.float32), UNLIMITED)
        if mapping.size:
            values = restore_order(values, unpack_map(mapping, r))
        return np.asarray(values)


NO_MAP = np.empty(0, np.uint8)


def build_codecs() -> list[Coder]:
    """Build every configuration."""
    return [Codec(text) for text in CONFIGURATIONS]
