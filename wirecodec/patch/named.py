"""Digests of the tensors of a state with their names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from wirecodec.patch import digest
from wirecodec.patch.states import divide, read_bits
from wirecodec.patch.threads import map_in_threads


def sum_named(state: Mapping[str, Any], names: Sequence[str]) -> int:
    """Add up the digests of some tensors of a state, each with its name (formats/spec/patch.md, "rest")."""

    def sum_batch(batch: Sequence[str]) -> int:
        found = digest.digest_tensors([read_bits(name, state[name]) for name in batch])
        return sum(map(digest.digest_named, batch, found))

    return sum(map_in_threads(sum_batch, divide(names, state))) & digest.MASK
