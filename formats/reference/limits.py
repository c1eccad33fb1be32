"""Limits and schema of a caller (SPEC section 7).

Limits keep a small hostile container from causing a large cost. A schema gives the names, shapes and element
types that the caller expects. It is the strongest guard, because it also bounds the sizes; with a schema,
max_expansion is not applied.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Schema = Mapping[str, tuple[tuple[int, ...], str]]
"""(shape, element type name) by tensor name."""


@dataclass(frozen=True)
class Limits:
    """Upper bounds, each inclusive; the defaults are those of SPEC section 7."""

    max_bytes: int = 2**31
    """Length of the container in bytes."""
    max_entries: int = 65_536
    """Rows of the table of contents, plus members of fused entries except the first of each."""
    max_elements: int = 2**28
    """Elements stored, summed over the entries."""
    max_dense: int = 2**32
    """Elements, stored or not, summed over the entries."""
    max_expansion: int = 2**12
    """Elements stored, per byte of the container."""
    max_work: int = 2**28
    """Steps of index codecs beyond their bytes and outputs, summed over the entries."""


@dataclass
class Work:
    """The part of max_work that remains while the entries are decoded in turn."""

    left: int


DEFAULT_LIMITS = Limits()
