"""Which codecs take many tensors at a time: those whose sections need neither a copy, a map, nor a limit."""

from __future__ import annotations

from wirecodec.index.base import IndexCodec
from wirecodec.registry import EXPERIMENTAL
from wirecodec.settings.scheme import Scheme
from wirecodec.value.base import ValueCodec


def can_encode_together(scheme: Scheme) -> bool:
    """Tell whether the sections of a scheme's tensors can be made without an entry per tensor."""
    own = all(getattr(codec, "wire_id", 0) < EXPERIMENTAL for codec in (scheme.index, scheme.value))
    return own and not scheme.index.lossy and not scheme.value.ordered


def can_decode_together(index: type[IndexCodec] | None, value: type[ValueCodec]) -> bool:
    """Tell whether sections can be decoded without limits; ``index`` is None for full tensors."""
    if value.wire_id >= EXPERIMENTAL or value.ordered:
        return False
    return index is None or (index.wire_id < EXPERIMENTAL and not index.has_work)
