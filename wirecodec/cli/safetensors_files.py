"""Files of the format safetensors: a header in JSON, and the elements of all tensors one after the other.

They hold bfloat16 and float8, which .npy files cannot name. The package safetensors is not needed: its reader
for NumPy has no such types.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any, BinaryIO

import ml_dtypes
import numpy as np

from wirecodec.arrays import Array
from wirecodec.cli.formatting import format_name

_TYPES: dict[str, np.dtype[Any]] = {
    "F64": np.dtype("<f8"),
    "F32": np.dtype("<f4"),
    "F16": np.dtype("<f2"),
    "BF16": np.dtype(ml_dtypes.bfloat16),
    "F8_E4M3": np.dtype(ml_dtypes.float8_e4m3fn),
    "F8_E5M2": np.dtype(ml_dtypes.float8_e5m2),
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
_LENGTH = 8
_METADATA = "__metadata__"


def load_safetensors(file: BinaryIO) -> dict[str, Array]:
    """Read all tensors of a .safetensors, each in its own type.

    Raises:
        ValueError: the file is damaged, or a tensor has a type that containers cannot hold.
    """
    data = file.read()
    start = _LENGTH + int.from_bytes(data[:_LENGTH], "little")
    if start > len(data):
        raise ValueError(
            f"the header of the .safetensors ends at byte {start} of {len(data)}; the file is cut"
        )
    rows = {name: row for name, row in _parse_header(data[_LENGTH:start]).items() if name != _METADATA}
    arrays, end = {}, start
    for name, row in sorted(rows.items(), key=lambda item: _first_byte(*item)):
        arrays[name], end = _view_tensor(name, row, data, start, end)
    if end != len(data):
        raise ValueError(
            f"the tensors of the .safetensors end at byte {end} of {len(data)}; the file is damaged"
        )
    return {name: arrays[name] for name in rows}


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


def _view_tensor(name: str, row: Mapping[str, Any], data: bytes, start: int, end: int) -> tuple[Array, int]:
    """Return a tensor, which must begin at byte ``end`` of the file, and the byte after it."""
    dtype = _TYPES.get(row["dtype"])
    if dtype is None:
        raise ValueError(
            f"tensor '{format_name(name)}' has type {row['dtype']}, which containers cannot hold; convert it"
            f" to one of {', '.join(_TYPES)}"
        )
    count = math.prod(row["shape"])
    first, stop = (start + offset for offset in row["data_offsets"])
    if first != end or stop - first != count * dtype.itemsize or stop > len(data):
        raise ValueError(
            f"tensor '{format_name(name)}' of {count} {row['dtype']} is at bytes {first} to {stop} of"
            f" {len(data)}; the .safetensors is damaged"
        )
    flat = np.frombuffer(data, dtype, count, first) if count else np.empty(0, dtype)
    return np.require(flat, None, ["A"]).reshape(row["shape"]), stop


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
    header: dict[str, Any] = {}
    end = 0
    for name, (shape, dtype) in specs.items():
        if name == _METADATA or dtype not in _NAMES:
            what = f"the name {name!r}" if name == _METADATA else f"the type {dtype} of '{format_name(name)}'"
            raise ValueError(f"a .safetensors cannot have {what}; write an .npz")
        first, end = end, end + math.prod(shape) * dtype.itemsize
        header[name] = {"dtype": _NAMES[dtype], "shape": list(shape), "data_offsets": [first, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _LENGTH)  # so that elements are aligned
    file.write(len(text).to_bytes(_LENGTH, "little") + text)
    for array in arrays:
        file.write(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
