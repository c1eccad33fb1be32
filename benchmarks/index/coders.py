"""One face for the library's codecs and for peers: indices to a code that has a size, and back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from wirecodec.arrays import as_bytes
from wirecodec.index import AutoIndex
from wirecodec.index.base import IndexChoice, IndexCodec
from wirecodec.limits import UNLIMITED
from wirecodec.registry import index_codecs
from wirecodec.scheme import call_string

__all__ = ["Codec", "Coder", "codecs"]

Indices = npt.NDArray[np.uint32]

VARIANTS: dict[str, list[dict[str, Any]]] = {
    "binned": [{"bin": 50}, {"bin": 500}],
    "bloom": [{"policy": "p0", "fpr": 1e-3}, {"policy": "p1", "fpr": 1e-3}, {"policy": "p2", "fpr": 1e-3}],
}
"""Parameters to measure a codec with, where its defaults are not all of it."""


class Coder(Protocol):
    """A codec or a peer.

    Attributes:
        name: what the tables call it.
        peer: whether it is another's work.
        threads: whether it may use two threads.
        exact: whether it decodes to what was encoded.
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
        """The code of u32 ``indices`` below ``d``."""
        ...

    def nbytes(self, code: Any) -> int:
        """What one would send of a code, where d and r are known."""
        ...

    def decode(self, code: Any, d: int, r: int) -> Indices:
        """The u32 indices of a code."""
        ...


@dataclass(frozen=True)
class Codec:
    """An index codec of the library, or a choice among them; a code is (codec, section, its indices)."""

    codec: IndexCodec | IndexChoice
    peer = False
    threads = True

    @property
    def name(self) -> str:
        """As a scheme spells it."""
        return call_string(self.codec)

    @property
    def exact(self) -> bool:
        """Unless the codec says otherwise."""
        return not getattr(self.codec, "lossy", False)

    def encode(self, indices: Indices, d: int) -> Any:
        """The choice, where it is one, then its section; a lossy codec also finds what it will decode to."""
        codec: Any = self.codec
        if isinstance(codec, IndexChoice):
            codec, section = codec.choose(indices, d, 0)
            return codec, as_bytes(section), indices.size
        if self.exact:
            return codec, as_bytes(codec.encode(indices, d, 0)), indices.size
        made = codec.approximate(indices, d, 0)
        return codec, as_bytes(made.section), indices.size if made.found is None else made.found.size

    def nbytes(self, code: Any) -> int:
        """The section's length."""
        return int(code[1].size)

    def decode(self, code: Any, d: int, r: int) -> Indices:
        """With every check of the codec's page."""
        codec, section, count = code
        return np.asarray(codec.decode(section, d, count, UNLIMITED))


def codecs() -> list[Coder]:
    """Every index codec of the registry by id, in its variants, then ``auto-index``, fast and smallest."""
    made: list[Coder] = []
    for _, cls in sorted(index_codecs().items()):
        made += [Codec(cls(**given)) for given in VARIANTS.get(cls.name, [{}])]
    return [*made, Codec(AutoIndex()), Codec(AutoIndex(smallest=True))]
