"""Common interface of the library's index codecs and their peers: indices to a code and back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

import wirecodec as wc
from wirecodec.limits import UNLIMITED
from wirecodec.registry import index_codecs
from wirecodec.tensors import as_bytes

__all__ = ["Codec", "Coder", "build_codecs"]

Indices = npt.NDArray[np.uint32]

VARIANTS: dict[str, list[dict[str, Any]]] = {
    "binned": [{"bin": 50}, {"bin": 500}],
    "bloom": [{"policy": "p0", "fpr": 1e-3}, {"policy": "p1", "fpr": 1e-3}, {"policy": "p2", "fpr": 1e-3}],
}
"""Parameter sets of codecs that are measured with more than their defaults."""


class Coder(Protocol):
    """Index codec or peer.

    Attributes:
        name: its name in the tables.
        peer: True for third-party software.
        threads: True if it may run on two threads.
        exact: True if it decodes to its input.
    """

    @property
    def name(self) -> str: ...  # noqa: D102

    @property
    def peer(self) -> bool: ...  # noqa: D102

    @property
    def threads(self) -> bool: ...  # noqa: D102

    @property
    def exact(self) -> bool: ...  # noqa: D102

    def encode(self, indices: Indices, d: int) -> Any:
        """Encode uint32 ``indices`` below ``d``."""
        ...

    def nbytes(self, code: Any) -> int:
        """Return the bytes to send for a code if the receiver knows d and r."""
        ...

    def decode(self, code: Any, d: int, r: int) -> Indices:
        """Decode a code to uint32 indices."""
        ...


@dataclass(frozen=True)
class Codec:
    """Index codec of the library, or ``auto-index``; a code is (codec, section, number of indices)."""

    codec: Any
    peer = False
    threads = True

    @property
    def name(self) -> str:
        """Return the codec as schemes spell it."""
        return str(wc.Scheme(wc.selectors.All(), self.codec, wc.codecs.Raw())).split(" | ")[1]

    @property
    def exact(self) -> bool:
        """Return True unless the codec is lossy."""
        return not self.codec.lossy

    def encode(self, indices: Indices, d: int) -> Any:
        """Encode indices; the code of a lossy codec includes the number of indices it decodes to."""
        codec = self.codec
        if self.exact:
            codec, section = codec.choose(indices, d, 0)
            return codec, as_bytes(section), indices.size
        approximation = codec.approximate(indices, d, 0)
        decoded = indices if approximation.found is None else approximation.found
        return codec, as_bytes(approximation.section), decoded.size

    def nbytes(self, code: Any) -> int:
        """Return the length of the section."""
        return int(code[1].size)

    def decode(self, code: Any, d: int, r: int) -> Indices:
        """Decode a section with all checks of the codec's specification."""
        codec, section, count = code
        return np.asarray(codec.decode(section, d, count, UNLIMITED))


def build_codecs() -> list[Coder]:
    """Build every registered index codec in its variants by id, then both forms of ``auto-index``."""
    codecs: list[Coder] = []
    for _, cls in sorted(index_codecs().items()):
        codecs += [Codec(cls(**parameters)) for parameters in VARIANTS.get(cls.name, [{}])]
    return [*codecs, Codec(wc.codecs.AutoIndex()), Codec(wc.codecs.AutoIndex(smallest=True))]
