"""What a reader is willing to spend, and what it expects (formats/SPEC.md, section 7).

``DecodeLimits`` bound what a small hostile container can cost before it is refused. A schema is the stronger
guard: a receiver that knows its model names each tensor's shape and element type, and anything else is
refused before a codec runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

__all__ = ["DEFAULT_LIMITS", "UNLIMITED", "DecodeLimits", "Schema", "TensorSchema"]

TensorSchema: TypeAlias = "tuple[Sequence[int] | int, Any]"
"""(shape, dtype) of one tensor; the dtype in any form that NumPy takes, or "bfloat16"."""

Schema: TypeAlias = "Mapping[str, TensorSchema]"
"""{name: (shape, dtype)} of all tensors of a container."""


@dataclass(frozen=True)
class DecodeLimits:
    """Upper bounds on what decoding one container may cost; counts of elements unless said otherwise.

    Args:
        max_bytes: length of the container in bytes.
        max_entries: entries of its table, and members of fused entries but the first of each.
        max_elements: stored elements, Σ r.
        max_dense: elements of all tensors, stored or not, Σ d; and what ``to_dense`` of a decoded tensor may
            allocate.
        max_work: steps that the index codecs of all entries may take beyond their bytes and outputs.
        max_expansion: stored elements for each byte of the container, where no schema vouches for them.
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
                raise ValueError(f"DecodeLimits.{name} is {value!r}; it must be an integer, 0 or more")


DEFAULT_LIMITS = DecodeLimits()
_ANY = 2**63 - 1
UNLIMITED = DecodeLimits(_ANY, _ANY, _ANY, _ANY, _ANY, _ANY)
"""No limits: for containers of this process's own, and where nothing is allocated on the container's word."""
