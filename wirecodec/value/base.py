"""Base classes of value codecs: values of a chunk, in the order of its indices, to bytes and back.

formats/spec/value/NAME.md defines each codec's section and its checks. Codecs are called with r > 0 only.
Methods with a body are optional: the body is right for every codec.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import suppress
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from wirecodec.arrays import Array, Bytes
from wirecodec.errors import EncodeError, WireError
from wirecodec.limits import UNLIMITED, DecodeLimits
from wirecodec.support import SectionBatch, slice_sections


class ValueChoice(ABC):
    """Name without a wire id, which chooses a value codec for each chunk.

    Attributes:
        name: name in scheme strings.
        carries_nonfinite: True if the pipeline passes NaN and Inf to ``choose``.
        ordered: True for an ``OrderedValueCodec``.
        of_any_type: True if values may be of any element type, not only of the four floats.
    """

    name: ClassVar[str]
    carries_nonfinite: ClassVar[bool] = True
    of_any_type: ClassVar[bool] = False
    ordered: ClassVar[bool] = False

    @property
    def takes_step(self) -> bool:
        """Whether a selector may choose the width of the codec's cells; see ``Selection.step``."""
        return False

    def keeps(self, dtype: np.dtype[Any]) -> bool:
        """Tell whether all values of an element type are decoded bit for bit.

        Codecs of any element type do so. Another lossless codec returns True for the types that it keeps.
        """
        return self.of_any_type

    @abstractmethod
    def choose(self, values: Array, stream: int) -> tuple[ValueCodec, Bytes]:
        """Choose a codec and encode the values with it.

        The values may be empty and may contain NaN and Inf.

        Args:
            values: (r,) read-only array of one of the four element types.
            stream: u64 seed of the random draws.

        Returns:
            The codec and its section.

        Raises:
            EncodeError: if no available codec can encode the values.
        """

    def choose_with_step(self, values: Array, stream: int, step: float) -> tuple[ValueCodec, Bytes]:
        """Encode values with the width of cells that a selector chose; the default ignores it."""
        return self.choose(values, stream)

    def encode_batch(self, values: Array, cuts: Array, streams: Array) -> SectionBatch | None:
        """Encode the values of many tensors, none empty, each as ``choose`` does.

        Args:
            values: (R,) read-only; finite, unless the codec carries NaN and Inf.
            cuts: (n + 1,) i64, the place of each tensor's values.
            streams: (n,) u64, seeds of the random draws.

        Returns:
            The sections, or None if ``choose`` raises an error for a tensor.
        """
        rows = zip(pairwise(cuts.tolist()), streams.tolist(), strict=True)
        try:
            return SectionBatch.join([self.choose(values[a:b], stream) for (a, b), stream in rows])
        except EncodeError:
            return None

    def encode_batch_with_steps(self, values: Array, cuts: Array, steps: Array) -> SectionBatch:
        """Encode the finite values of many tensors, each as ``choose_with_step`` does if ``takes_step``.

        Args:
            values, cuts: as for ``encode_batch``.
            steps: (n,) f64, widths of the cells.
        """
        rows = zip(pairwise(cuts.tolist()), steps.tolist(), strict=True)
        return SectionBatch.join([self.choose_with_step(values[a:b], 0, step) for (a, b), step in rows])

    def max_bytes(self, r: int, dtype: np.dtype[Any]) -> int:
        """Return the most bytes of a section of at most r values. Raises EncodeError if unknown."""
        raise EncodeError(
            f"value codec {self.name!r} has no bound; define max_bytes(r, dtype) to return its section's most"
            " bytes"
        )


class ValueCodec(ValueChoice):
    """Value codec: a frozen dataclass whose fields are the codec's parameters.

    Attributes:
        name: name in scheme strings.
        wire_id: id in formats/registry.toml; user-defined codecs use 0x80 to 0xFF.
        carries_nonfinite: True if NaN and Inf are preserved. If False, the pipeline raises EncodeError at the
            first such element and does not call ``encode``.
        ordered: True for an ``OrderedValueCodec``.

    Examples:
        >>> import wirecodec as wc
        >>> isinstance(wc.codecs.QSGD(bits=4), wc.ValueCodec)
        True
    """

    wire_id: ClassVar[int]

    @abstractmethod
    def encode(self, values: Array, stream: int) -> Bytes:
        """Encode values as a section.

        Args:
            values: (r,) read-only array of one of the four element types, r > 0.
            stream: u64 seed of the random draws.

        Returns:
            The section, a uint8 array or bytes.

        Raises:
            EncodeError: if a value cannot be encoded. ``position`` is the index into ``values``; the pipeline
                replaces it by the element's index.
        """

    @classmethod
    @abstractmethod
    def decode(cls, section: Bytes, r: int, dtype: np.dtype[Any], limits: DecodeLimits) -> Array:
        """Decode a section.

        Args:
            section: read-only uint8 array, aligned to 8 bytes.
            r: number of values, above 0.
            dtype: element type of the result.
            limits: ``max_work`` bounds the steps beyond section bytes and r.

        Returns:
            (r,) array of type ``dtype``.

        Raises:
            WireError: if the section violates a check of the codec's spec page.
        """

    def choose(self, values: Array, stream: int) -> tuple[ValueCodec, Bytes]:
        """Return the codec itself and its section; see ``ValueChoice``."""
        return self, self.encode(values, stream) if values.size else _EMPTY

    @classmethod
    def decode_batch(
        cls, words: Array, starts: Array, lengths: Array, cuts: Array, dtype: np.dtype[Any]
    ) -> tuple[Array, Array] | None:
        """Decode the sections of many tensors, each as ``decode`` does.

        Args:
            words: (m,) u32, the container.
            starts: (n,) i64, the first word of each section.
            lengths: (n,) i64, bytes of each section.
            cuts: (n + 1,) i64, the place of each tensor's values.
            dtype: element type of the result.

        Returns:
            An array with the values, and the (n,) place of each tensor's values in it. If a section fails a
            check, those of the sections before it; or None if there are none, or the codec does not know
            which section it is. ``decode`` then raises the error.
        """
        rows = zip(slice_sections(words, starts, lengths), np.diff(cuts).tolist(), strict=True)
        values: list[Array] = []
        with suppress(WireError):
            for section, r in rows:
                values.append(cls.decode(section, r, dtype, UNLIMITED))
        return (np.concatenate(values), cuts[: len(values)]) if values else None


_EMPTY: Bytes = np.empty(0, np.uint8)


class OrderedValueCodec(ValueCodec):
    """Value codec that needs ascending values.

    The pipeline sorts the values and stores a map to their original order with the section. -0 precedes +0,
    and the sort is stable.
    """

    ordered: ClassVar[bool] = True
