"""Run any reader of patches of weights over the vectors of vectors/patches (contract: vectors/README.md)."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from formats.conformance import DEFAULT_DIR, Failure, expand_values, parse_hex, refusal_of

PATCHES = "patches"
"""Folder of the vectors."""
INDEX_IDS, VALUE_IDS = {1, 2, 3, 6, 12}, {1, 7, 16, 17}
"""Codecs of a patch's entries."""
LONG = 64
"""Least length in bytes of elements that are abbreviated if they repeat."""

State = dict[str, tuple[str, tuple[int, ...], bytes]]
"""Tensors by name: element type, shape, and the little-endian bytes of all elements."""
Apply = Callable[[bytes, State, dict[str, int], bool], State]
"""Reader: given a patch, a state, limits, and whether the state is a part, it returns the target."""


@dataclass(frozen=True)
class Patch:
    """One file of vectors/patches.

    Attributes:
        state: what the patch is applied to; it is not the base in each of the vectors.
        part: whether the caller says that the state has only a part of the tensors.
        target: the state afterwards, or None if the patch is refused.
        result, code: the kind of the refusal and its code, or "ok" and None.
    """

    id: str
    about: str
    data: bytes
    limits: dict[str, int]
    state: State
    part: bool
    target: State | None
    result: str
    code: str | None


def load_patches(vectors: Path = DEFAULT_DIR) -> Iterator[Patch]:
    """Load the patches in the order of their file names."""
    for path in sorted((vectors / PATCHES).glob("*.json")):
        yield parse_patch(json.loads(path.read_text(encoding="utf-8")))


def parse_patch(fields: Mapping[str, Any]) -> Patch:
    """Return the vector of a file's fields."""
    return Patch(
        id=fields["id"],
        about=fields["about"],
        data=parse_hex(fields["hex"]),
        limits=fields.get("limits", {}),
        state=parse_state(fields["state"]),
        part=fields.get("part", False),
        target=parse_state(fields["target"]) if "target" in fields else None,
        result=fields["result"],
        code=fields.get("code"),
    )


def parse_state(tensors: Sequence[Mapping[str, Any]]) -> State:
    """Return the state in a field ``state`` or ``target`` of a vector, an argument or an answer."""
    return {t["name"]: (t["dtype"], tuple(t["shape"]), expand_values(t["values"])) for t in tensors}


def write_state(state: State) -> list[dict[str, Any]]:
    """Return the field ``state`` or ``target``; elements that repeat are abbreviated."""
    return [
        {"name": name, "dtype": dtype, "shape": list(shape), "values": _write_values(data, shape)}
        for name, (dtype, shape, data) in state.items()
    ]


def _write_values(data: bytes, shape: Sequence[int]) -> str | dict[str, Any]:
    size = len(data) // max(math.prod(shape), 1)
    if len(data) >= LONG and data == data[:size] * (len(data) // size):
        return {"repeat": data[:size].hex(), "bytes": len(data)}
    return data.hex()


def check_patch(apply: Apply, patch: Patch) -> str | None:
    """Run a reader on one patch; return a description of its failure, or None."""
    try:
        found = apply(patch.data, dict(patch.state), dict(patch.limits), patch.part)
    except Exception as error:
        kind, code = refusal_of(error)
        if (kind, code) != (patch.result, patch.code) and not (kind == "Unsupported" and has_others(patch)):
            return f"refused as {kind} {code}, not {patch.result} {patch.code}: {error}"
        return None
    if patch.target is None:
        return f"accepted, not refused as {patch.result} {patch.code}"
    if found.keys() != patch.target.keys():
        return f"tensors {sorted(found)}, not {sorted(patch.target)}"
    for name, (dtype, shape, data) in patch.target.items():
        if (found[name][0], tuple(found[name][1])) != (dtype, shape):
            return f"{name!r} is {found[name][:2]}, not {(dtype, shape)}"
        if bytes(found[name][2]) != data:
            return f"the elements of {name!r} differ"
    return None


def has_others(patch: Patch) -> bool:
    """Return whether a patch is refused for a domain, a map or a codec that readers may leave out."""
    if patch.code != "base-entries":
        return False
    (count,) = struct.unpack_from("<I", patch.data, 8)
    ids = (patch.data[24 + 40 * n + 36 :][:4] for n in range(count))
    return any(d >> 4 or m or i not in INDEX_IDS or v not in VALUE_IDS for d, i, v, m in ids)


def run_patches(apply: Apply, vectors: Path = DEFAULT_DIR) -> list[Failure]:
    """Run a reader over all patches; return its failures."""
    found = ((patch.id, check_patch(apply, patch)) for patch in load_patches(vectors))
    return [Failure(id, message) for id, message in found if message is not None]


def reference(data: bytes, state: State, limits: dict[str, int], part: bool) -> State:
    """Apply with the reference reader; a model for other adapters.

    Args:
        data: the patch.
        state: the tensors that the caller has.
        limits: the limits that differ from the defaults, by name.
        part: whether the state has only a part of the tensors.

    Returns:
        The target.

    Raises:
        WireError: if the patch is refused.
    """
    from formats.reference import Limits
    from formats.reference import patch as reader
    from formats.zstd import find_decompressor

    given, allowed = to_numbers(state), Limits(**limits)
    return to_names(reader.apply(data, given, partial=part, limits=allowed, zstd=find_decompressor()))


def to_numbers(state: State) -> dict[str, tuple[int, tuple[int, ...], bytes]]:
    """Return a state as the reference takes it, with the numbers of element types."""
    from formats.reference.element_types import CODE_NAMED

    return {name: (CODE_NAMED[dtype], shape, data) for name, (dtype, shape, data) in state.items()}


def to_names(state: Mapping[str, tuple[int, tuple[int, ...], bytes]]) -> State:
    """Return a state of the reference with the names of element types."""
    from formats.reference.element_types import CODE_NAMED

    names = {number: name for name, number in CODE_NAMED.items()}
    return {name: (names[number], shape, data) for name, (number, shape, data) in state.items()}
