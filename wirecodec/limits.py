"""Limits and schemas of decoding (formats/SPEC.md, section 7).

``DecodeLimits`` bound the cost of a small hostile container. A schema is the stronger guard: a receiver that
knows its model gives each tensor's shape and element type. Any other container is rejected before a codec
runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

TensorSchema: TypeAlias = "tuple[Sequence[int] | int, Any]"
"""(shape, dtype) of one tensor; the dtype in any form that NumPy accepts, or "bfloat16"."""

Schema: TypeAlias = "Mapping[str, TensorSchema]"
"""{name: (shape, dtype)} of all tensors of a container."""


@dataclass(frozen=True)
class DecodeLimits:
    """Upper bounds on the cost of decoding one container (formats/SPEC.md, section 7).

    Args:
        max_bytes: length of the container, in bytes.
        max_entries: entries of the table; each member of a fused entry after its first counts as one, too.
        max_elements: stored elements of all tensors, Σ r.
        max_dense: elements of all tensors, stored or not, Σ d. ``to_dense`` of a decoded tensor allocates at
            most this many.
        max_work: steps of all index codecs beyond their bytes and outputs.
        max_expansion: stored elements per byte of the container; not applied if a schema is given.

    Raises:
        ValueError: a limit is not an integer, or is negative.

    Examples:
        >>> import wirecodec as wc
        >>> limits = wc.DecodeLimits(max_bytes=2**20)
        >>> limits.max_bytes, limits.max_entries
        (1048576, 65536)
    """

    max_bytes: int = 2**31
    max_entries: int = 65_536
    max_elements: int = 2**28
    max_dense: int = 2**32
    max_work: int = 2**28
    max_expansion: int = 2**12

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise ValueError(f"DecodeLimits.{name} is {value!r}; it must be an integer from 0 on")


DEFAULT_LIMITS = DecodeLimits()
_ANY = 2**63 - 1
UNLIMITED = DecodeLimits(_ANY, _ANY, _ANY, _ANY, _ANY, _ANY)
"""No limits: for containers that this process made, or if nothing is allocated from their fields."""
