"""Codecs that containers of a scheme may have: peers with the scheme read these, and perhaps no others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import wirecodec as wc
from collectives.channel import ByteArray
from collectives.errors import Refused
from collectives.exchange.specs import SchemeArgument
from wirecodec.interop import as_scheme, index_codecs, value_codecs

_PRIVATE = 0x80
"""First id of codecs that programs register."""
_ALWAYS_INDEX, _ALWAYS_VALUE = {"raw-index", "rice"}, {"raw"}
"""Codecs of tensors without values, such as those of a peer with weight 0."""


@dataclass(frozen=True)
class Codecs:
    """Names of codecs and transforms.

    Attributes:
        index, value, transform: allowed ones; "" is no transform.
    """

    index: frozenset[str]
    value: frozenset[str]
    transform: frozenset[str]

    @classmethod
    def of(cls, scheme: SchemeArgument) -> Codecs:
        """Return the codecs of a scheme, of several, or of a Compressor.

        A stage without an id chooses among codecs, so it may have all that are not private.
        """
        if isinstance(scheme, wc.Compressor):
            schemes = list(scheme.schemes.values())
        else:
            schemes = [as_scheme(x) for x in (scheme.values() if isinstance(scheme, Mapping) else [scheme])]
        index, value = set(_ALWAYS_INDEX), set(_ALWAYS_VALUE)
        for one in schemes:
            index |= _find_names(one.index, index_codecs())
            value |= _find_names(one.value, value_codecs())
        transforms = {"" if one.transform is None else one.transform.name for one in schemes}
        return cls(frozenset(index), frozenset(value), frozenset({"", *transforms}))

    def check(self, payload: ByteArray, index: set[str], value: set[str], transform: set[str]) -> None:
        """Raise Refused with code "codec" if a valid container has another codec or transform.

        Args:
            payload: the container.
            index, value, transform: names of those that it has.
        """
        if index <= self.index and value <= self.value and transform <= self.transform:
            return
        for entry in wc.inspect(payload).entries:
            is_own = (
                self.index.issuperset(entry.index.split("+"))
                and self.value.issuperset(entry.value.split("+"))
                and entry.transform in self.transform
            )
            if not is_own:
                names = " | ".join(filter(None, (entry.transform, entry.index, entry.value)))
                raise Refused("codec", f"a container has {names}, which are not of its scheme")


def _find_names(stage: Any, codecs: Mapping[int, Any]) -> set[str]:
    """Return the names that a stage of a scheme may have in a container."""
    if getattr(stage, "wire_id", None) is None:
        return {one.name for number, one in codecs.items() if number < _PRIVATE}
    dtype = getattr(stage, "dtype", None)  # of values that are stored in another type
    return {stage.name if dtype is None else f"{stage.name}-{dtype}"}
