"""The programs check and patch as the contract of vectors/README.md describes a program.

    python program.py CHECK [PATCH] ARGUMENT < CONTAINER

CHECK and PATCH are the paths of the compiled programs. They answer requests in forms of their own, which
their heads describe. This adapter asks them, and needs Python alone.
"""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

LIMITS = {
    "max_bytes": 2**31,
    "max_entries": 2**16,
    "max_elements": 2**28,
    "max_dense": 2**32,
    "max_expansion": 2**12,
    "max_work": 2**28,
}
"""The default limits, in the order of requests."""
TYPES = {
    **{1: "float32", 2: "float16", 3: "bfloat16", 4: "float64"},
    **{
        16: "int8",
        17: "int16",
        18: "int32",
        19: "int64",
        20: "uint8",
        21: "uint16",
        22: "uint32",
        23: "uint64",
    },
    **{24: "bool", 25: "float8_e4m3fn", 26: "float8_e5m2", 27: "complex64", 28: "complex128"},
    **{29: "float8_e8m0fnu", 30: "float4_e2m1fn_x2"},
}
NUMBERS = {name: number for number, name in TYPES.items()}


def pack_limits(given: Mapping[str, int]) -> bytes:
    """Return the limits of a request."""
    return struct.pack("<6Q", *(LIMITS | dict(given)).values())


def pack_spec(name: str, shape: Sequence[int], dtype: str) -> bytes:
    """Return name, shape and type of a tensor."""
    text = name.encode()
    return struct.pack(f"<3I{len(shape)}Q", len(text), NUMBERS[dtype], len(shape), *shape) + text


def ask(command: str, request: bytes) -> bytes:
    """Return the answer of a program to one request."""
    return subprocess.run([command], input=request, capture_output=True, check=True).stdout


def decode(command: str, data: bytes, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a program prints for a container."""
    kind, specs = 0, []
    if "one" in fields:
        kind, one = 2, fields["one"]
        specs = [pack_spec("", one["shape"], one["dtype"])] if one else []
    elif "schema" in fields:
        kind, given = 1, fields["schema"]
        specs = [pack_spec(name, *given[name]) for name in sorted(given, key=str.encode)]
    parts = [pack_limits(fields.get("limits", {})), struct.pack("<I", kind)]
    parts += [struct.pack("<I", len(specs)), *specs] if kind else []
    lines = ask(command, b"".join([*parts, struct.pack("<Q", len(data)), data])).decode().splitlines()
    verdict, *words = lines[0].split(" ")
    if verdict == "refused":
        return {"result": words[0], "code": words[1]}
    first = 1 + (int(words[2]) if len(words) > 2 else 0)
    tensors = [_read_tensor(lines[at : at + 3]) for at in range(first, first + 3 * int(words[0]), 3)]
    return {"result": "ok", "decoded": {"tag": words[1].strip("-"), "tensors": tensors}}


def _read_tensor(lines: Sequence[str]) -> dict[str, Any]:
    _, name, dtype, ndim, *rest = lines[0].split(" ")
    shape, absent = rest[: int(ndim)], rest[int(ndim) :]
    return {
        "name": bytes.fromhex(name.strip("-")).decode(),
        "dtype": dtype,
        "shape": list(map(int, shape)),
        "indices": list(map(int, lines[1].split())),
        "values": lines[2].strip("-"),
        **({"absent": absent[0]} if absent else {}),
    }


def expand(values: Any) -> bytes:
    """Return elements that may be abbreviated."""
    if isinstance(values, str):
        return bytes.fromhex(values)
    if isinstance(values, list):
        return b"".join(map(expand, values))
    period, size = expand(values["repeat"]), int(values["bytes"])
    return (period * (size // len(period) + 1))[:size]


def apply(command: str, data: bytes, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a program prints for a patch."""
    tensors = sorted(fields["state"], key=lambda one: one["name"].encode())
    parts = [
        pack_limits(fields.get("limits", {})),
        struct.pack("<II", fields.get("part", False), len(tensors)),
    ]
    for one in tensors:
        parts += [pack_spec(one["name"], one["shape"], one["dtype"]), expand(one["values"])]
    answer = ask(command, b"".join([*parts, struct.pack("<Q", len(data)), data]))
    head, _, body = answer.partition(b"\n")
    verdict, *words = head.decode().split(" ")
    if verdict == "refused":
        return {"result": words[0], "code": words[1]}
    return {"result": "ok", "target": _read_state(body)}


def _read_state(body: bytes) -> list[dict[str, Any]]:
    found = []
    (count,), at = struct.unpack_from("<I", body), 4
    for _ in range(count):
        name_len, number, ndim = struct.unpack_from("<3I", body, at)
        shape = struct.unpack_from(f"<{ndim}Q", body, at + 12)
        at += 12 + 8 * ndim
        name, at, size = body[at : at + name_len].decode(), at + name_len, WIDTHS[TYPES[number]]
        for dimension in shape:
            size *= dimension
        found.append(
            {"name": name, "dtype": TYPES[number], "shape": shape, "values": body[at : at + size].hex()}
        )
        at += size
    return found


WIDTHS = {
    name: {"complex128": 16, "complex64": 8, "bool": 1}.get(name)
    or next((n for digits, n in (("64", 8), ("32", 4), ("16", 2)) if name.endswith(digits)), 1)
    for name in NUMBERS
}
"""Bytes of an element."""


def main() -> None:
    """Answer one request of the contract."""
    *programs, argument = sys.argv[1:]
    fields, data = json.loads(argument), sys.stdin.buffer.read()
    answer = apply(programs[1], data, fields) if "state" in fields else decode(programs[0], data, fields)
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
