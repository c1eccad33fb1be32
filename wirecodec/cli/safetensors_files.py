"""Files of the format safetensors: a header in JSON, and the elements of all tensors one after the other.

They hold bfloat16 and float8, which .npy files cannot name. The package safetensors is not needed: its reader
for NumPy has no such types.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

import ml_dtypes
import numpy as np

from wirecodec.arrays import Array, Bytes
from wirecodec.cli.formatting import format_name
from wirecodec.element_types import FLOAT4_X2, name_of

_TYPES: dict[str, np.dtype[Any]] = {
    "F64": np.dtype("<f8"),
    "F32": np.dtype("<f4"),
    "F16": np.dtype("<f2"),
    "BF16": np.dtype(ml_dtypes.bfloat16),
    "F8_E4M3": np.dtype(ml_dtypes.float8_e4m3fn),
    "F8_E5M2": np.dtype(ml_dtypes.float8_e5m2),
    "F8_E8M0": np.dtype(ml_dtypes.float8_e8m0fnu),
    "F4": FLOAT4_X2,
    "C64": np.dtype("<c8"),
    "I64": np.dtype("<i8"),
    "I32": np.dtype("<i4"),
    "I16": np.dtype("<i2"),
    "I8": np.dtype("i1"),
    "U64": np.dtype("<u8"),
    "U32": np.dtype("<u4"),
    "U16": np.dtype("<u2"),
    "U8": np.dtype("u1"),
    "BOOL": np.dtype("?"),
}
_NAMES = {dtype: name for name, dtype in _TYPES.items()}
_PACKED = "F4"
"""Type whose shape counts numbers of 4 bits, of which an element has two: those of the last dimension."""
_OPAQUE = {"F6_E2M3": 6, "F6_E3M2": 6, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8}
"""Bits of an element of the types that containers do not name. Patches carry their bytes."""
_LENGTH = 8
_METADATA = "__metadata__"


@dataclass(frozen=True, eq=False)
class Safetensors:
    """Content of a .safetensors.

    Attributes:
        head: the bytes before the elements.
        rows: {name: row of the header}, in the order of the header.
        metadata: the texts of the header, or None.
        arrays: {name: tensor}, in the order of the elements; they share the memory of the file, and are
            aligned if they are there. Tensors of ``opaque`` types are (bytes,) uint8.
        opaque: {name: "F6_E2M3 of shape [2, 8]"} of tensors whose type containers do not name.
    """

    head: bytes
    rows: dict[str, Any]
    metadata: Any
    arrays: dict[str, Array]
    opaque: dict[str, str]


def load_safetensors(file: BinaryIO) -> dict[str, Array]:
    """Read all tensors of a .safetensors, each in its own type.

    Raises:
        ValueError: the file is damaged, or a tensor has a type that containers cannot hold.
    """
    found = view_safetensors(np.frombuffer(file.read(), np.uint8))
    for name in found.opaque:
        raise _unknown_type(name, found.rows[name])
    return {name: np.require(found.arrays[name], None, ["A"]) for name in found.rows}


def view_safetensors(data: Bytes) -> Safetensors:
    """View the tensors of a .safetensors.

    Raises:
        ValueError: the file is damaged, or a tensor has an unknown type.
    """
    start = _LENGTH + int.from_bytes(data[:_LENGTH].tobytes(), "little")
    if start > data.size:
        raise ValueError(
            f"the header of the .safetensors ends at byte {start} of {data.size}; the file is cut"
        )
    head = data[:start].tobytes()
    rows = _parse_header(head[_LENGTH:])
    metadata = rows.pop(_METADATA, None)
    arrays, end = dict[str, Array](), start
    for name, row in sorted(rows.items(), key=lambda item: _first_byte(*item)):
        arrays[name], end = _view_tensor(name, row, data, start, end)
    if end != data.size:
        raise ValueError(
            f"the tensors of the .safetensors end at byte {end} of {data.size}; the file is damaged"
        )
    opaque = {
        name: f"{row['dtype']} of shape {row['shape']}"
        for name, row in rows.items()
        if row["dtype"] in _OPAQUE
    }
    return Safetensors(head, rows, metadata, arrays, opaque)


def _parse_header(text: bytes) -> dict[str, Any]:
    """Parse a header; raise ValueError if it is no JSON object, or if a name is in it twice."""
    try:
        header = json.loads(text, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the header of the .safetensors is damaged: {error}") from None
    if not isinstance(header, dict):
        raise ValueError("the header of the .safetensors is damaged: it is no JSON object")
    return header


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name is in it twice")
    return found


def _first_byte(name: str, row: Any) -> tuple[int, int]:
    """Return the place of a tensor's elements; raise ValueError unless its row has all fields."""
    if isinstance(row, Mapping):
        shape: Any = row.get("shape")
        offsets: Any = row.get("data_offsets")
        if (
            isinstance(row.get("dtype"), str)
            and _are_sizes(shape)
            and _are_sizes(offsets)
            and len(offsets) == 2
        ):
            return offsets[0], offsets[1]
    raise ValueError(f"tensor '{format_name(name)}': its row in the header of the .safetensors is damaged")


def _are_sizes(numbers: Any) -> bool:
    return isinstance(numbers, list) and all(type(n) is int and n >= 0 for n in numbers)


def _view_tensor(name: str, row: Mapping[str, Any], data: Bytes, start: int, end: int) -> tuple[Array, int]:
    """Return a tensor, which must begin at byte ``end`` of the file, and the byte after it."""
    count, nbytes = math.prod(row["shape"]), _count_bytes(row)
    if row["dtype"] in _TYPES:
        dtype, shape = _TYPES[row["dtype"]], _element_shape(name, row)
    elif row["dtype"] in _OPAQUE:
        dtype, shape = np.dtype(np.uint8), [nbytes]
    else:
        raise _unknown_type(name, row)
    first, stop = (start + offset for offset in row["data_offsets"])
    if first != end or stop - first != nbytes or stop > data.size:
        raise ValueError(
            f"tensor '{format_name(name)}' of {count} {row['dtype']} is at bytes {first} to {stop} of"
            f" {data.size}; the .safetensors is damaged"
        )
    flat = np.frombuffer(data, dtype, nbytes // dtype.itemsize, first) if nbytes else np.empty(0, dtype)
    return flat.reshape(shape), stop


def _count_bytes(row: Mapping[str, Any]) -> int:
    """Return the bytes of a tensor; 0 for an unknown type."""
    kind: str = row["dtype"]
    count: int = math.prod(row["shape"])
    own = 4 if kind == _PACKED else 8 * _TYPES[kind].itemsize if kind in _TYPES else _OPAQUE.get(kind, 0)
    return -(-count * own // 8)


def _element_shape(name: str, row: Mapping[str, Any]) -> list[int]:
    """Return the shape of a tensor's array. Raises ValueError if pairs of numbers do not fill its rows."""
    shape = row["shape"]
    if row["dtype"] != _PACKED:
        return list(shape)
    if not shape or shape[-1] % 2:
        raise ValueError(
            f"tensor '{format_name(name)}' of F4 has the shape {shape}; its last dimension must be even, as"
            " a byte has two numbers"
        )
    return [*shape[:-1], shape[-1] // 2]


def _unknown_type(name: str, row: Mapping[str, Any]) -> ValueError:
    return ValueError(
        f"tensor '{format_name(name)}' has type {row['dtype']}, which containers cannot hold; convert it"
        f" to one of {', '.join(_TYPES)}"
    )


def save_safetensors(
    file: BinaryIO, specs: Mapping[str, tuple[tuple[int, ...], np.dtype[Any]]], arrays: Iterable[Array]
) -> None:
    """Write tensors, each in its own type.

    Args:
        file: a binary file, open for writing.
        specs: {name: (shape, dtype)}.
        arrays: in the order of ``specs``.

    Raises:
        ValueError: a name or a type that the format does not have.
    """
    file.write(make_head({name: make_row(name, *spec) for name, spec in specs.items()}, list(specs), None))
    for array in arrays:
        write_elements(file, array)


def make_row(name: str, shape: Sequence[int], dtype: np.dtype[Any]) -> dict[str, Any]:
    """Make the row of a tensor without its place. Raises ValueError for a name or type of no .safetensors."""
    if name == _METADATA or dtype not in _NAMES:
        what = (
            f"the name {name!r}"
            if name == _METADATA
            else f"the type {name_of(dtype)} of '{format_name(name)}'"
        )
        raise ValueError(f"a .safetensors cannot have {what}; write an .npz")
    if dtype != FLOAT4_X2:
        return {"dtype": _NAMES[dtype], "shape": list(shape)}
    if not shape:
        raise ValueError(
            f"a .safetensors cannot have '{format_name(name)}' of F4 without dimensions; write an .npz"
        )
    return {"dtype": _PACKED, "shape": [*shape[:-1], 2 * shape[-1]]}


def make_head(rows: Mapping[str, Any], order: Iterable[str], metadata: Any) -> bytes:
    """Make the bytes before the elements.

    Args:
        rows: {name: row}, in the order of the header; their places are not read.
        order: names in the order of the elements.
        metadata: texts of the header; None for none.
    """
    places, end = dict[str, list[int]](), 0
    for name in order:
        row = rows[name]
        first, end = end, end + _count_bytes(row)
        places[name] = [first, end]
    header = {} if metadata is None else {_METADATA: metadata}
    header |= {name: {**row, "data_offsets": places[name]} for name, row in rows.items()}
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % _LENGTH)  # so that elements are aligned
    return len(text).to_bytes(_LENGTH, "little") + text


def write_elements(file: BinaryIO, array: Array) -> None:
    """Write the elements of a tensor."""
    file.write(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
