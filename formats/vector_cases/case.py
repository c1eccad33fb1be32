"""Building blocks of the cases: a Case is one vector, ready to be written as JSON (vectors/README.md).

``valid`` and ``bad`` build cases and check them at once with the reference decoder. The number generator is
the specification's own hash, so vectors do not depend on a version of Python.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from formats.conformance import One
from formats.reference import (
    Bloom,
    Decoded,
    Limits,
    Meta,
    Raw,
    Rice,
    Schema,
    Tensor,
    WireError,
    decode,
    write,
)
from formats.reference.annotations import ZERO
from formats.reference.element_types import TYPE_NAMED
from formats.reference.floats import BY_NAME, FLOAT32, convert, pack_elements, to_float32_bits
from formats.reference.prng import draw32
from formats.reference.writing.container import Index
from formats.reference.writing.protocols import ValueWriter
from formats.zstd import find_decompressor

UNKNOWN_CODEC = 0x7F
"""Index, value and map codec id that is never assigned (SPEC section 4)."""
UNKNOWN_RECORD = 0xFFF0
"""First of the sixteen record types that are never assigned."""
RAW = Raw()
NUMERIC_SEEDS = {
    "offset-float-stochastic-r530",
    *(f"{codec}-{dtype}" for codec in ("qsgd", "terngrad") for dtype in BY_NAME),
}
"""Vectors of version 1.0 whose seed above 2^53 is a number; in all later ones it is a string."""
LONG = 64
"""Least length in bytes of values that are abbreviated if they repeat."""
LONG_CONTAINER = 2**16
"""Least length in bytes of a container that is abbreviated if a part of it repeats."""
REPEATS = re.compile(rb"(.{1,16}?)\1{999,}", re.DOTALL)


@dataclass(frozen=True)
class Case:
    """One vector: its JSON fields, in the order in which they are written."""

    id: str
    fields: dict[str, Any]

    @property
    def verdict(self) -> str:
        """``valid`` if readers must accept the container, else ``bad``."""
        return "valid" if self.fields["result"] == "ok" else "bad"


def valid(
    id: str,
    about: str,
    data: bytes,
    expect: Sequence[Tensor] | None = None,
    *,
    limits: dict[str, int] | None = None,
    schema: Schema | None = None,
    one: One | None = None,
    tag: bytes = b"",
    encode: dict[str, Any] | None = None,
    within: Sequence[float] = (),
) -> Case:
    """Build the case of a container that readers must accept.

    Args:
        id: name of the vector and of its file.
        about: one line on what the vector tests.
        data: the container.
        expect: its tensors in the order of their keys; None takes those that the decoder returns.
        limits: the reader's limits that differ from the defaults.
        schema: the reader's schema.
        one: what the reader expects if it asks for one tensor, without a name.
        tag: the tag that goes with ``expect``.
        encode: the input from which an exact writer makes these bytes, as the JSON field holds it.
        within: for each tensor, the largest difference allowed for a reader's value; 0 by default.

    Raises:
        WireError: if the decoder refuses the container.
        AssertionError: if it decodes to something else.
    """
    decoded = _decode(data, limits, schema, one)
    for t in decoded.tensors:
        t.indices = list(t.indices)
    wanted = decoded if expect is None else replace(decoded, tensors=list(expect), tag=tag)
    for t in wanted.tensors:
        t.indices = list(t.indices)
    if decoded != wanted:
        raise AssertionError(f"{id} does not decode to the tensors that it was made from")
    fields: dict[str, Any] = {"id": id, "about": about, "result": "ok"}
    fields |= _options(limits, schema, one)
    fields["hex"] = container_json(data)
    tensors = [tensor_json(t) for t in decoded.tensors]
    for t_json, far in zip(tensors, within, strict=False):
        t_json.update({"within": far} if far else {})
    fields["decoded"] = {"tag": decoded.tag.hex(), "tensors": tensors}
    if decoded.meta != Meta():
        names = [t.name for t in decoded.tensors]
        fields["decoded"]["meta"] = {
            "container": decoded.meta.container,
            "tensors": {names[key]: texts for key, texts in decoded.meta.tensors.items()},
        }
    if encode is not None:
        fields["encode"] = encode
    return Case(id, fields)


def exact(
    id: str,
    about: str,
    tensors: Sequence[Tensor],
    index: Index = "raw-index",
    value: ValueWriter = RAW,
    *,
    many: bool = False,
    seed: int = 0,
    tag: bytes = b"",
) -> Case:
    """Build the case of a container that an exact writer must reproduce from the tensors.

    Args:
        id: name of the vector and of its file.
        about: one line on what the vector tests.
        tensors: the input of the encoder, all of it selected.
        index: the index codec of all entries.
        value: the value codec of all entries.
        many: whether there is a names record; otherwise there is one tensor.
        seed: seed of a value codec that draws.
        tag: application data; empty for none.
    """
    data = write(tensors, index, value, seed=seed, names=many, tag=tag)
    ordered = sorted(tensors, key=lambda t: t.name.encode("utf-8"))
    expect = None
    if value == Raw() and not isinstance(index, Bloom):
        expect = [
            Tensor(t.name if many else str(key), t.dtype, t.shape, t.indices, t.values)
            for key, t in enumerate(ordered)
        ]
    encode = {
        "many": many,
        "scheme": f"all | {scheme_index(index)} | {value.scheme}",
        "seed": str(seed) if seed > 2**53 and id not in NUMERIC_SEEDS else seed,
        "tag": tag.hex(),
        "tensors": [tensor_json(t) for t in ordered],
    }
    return valid(id, about, data, expect, tag=tag, encode=encode)


def bad(
    id: str,
    about: str,
    kind: str,
    code: str,
    data: bytes,
    *,
    limits: dict[str, int] | None = None,
    schema: Schema | None = None,
    one: One | None = None,
) -> Case:
    """Build the case of a container that readers must refuse for the stated reason.

    Args:
        id: name of the vector and of its file.
        about: one line on what the vector tests.
        kind: kind of the refusal.
        code: code of the refusal.
        data: the container.
        limits: the reader's limits that differ from the defaults.
        schema: the reader's schema.
        one: what the reader expects if it asks for one tensor, without a name.

    Raises:
        AssertionError: if the decoder accepts the container, or refuses it for another reason.
    """
    try:
        _decode(data, limits, schema, one)
    except WireError as error:
        if (error.kind, error.code) != (kind, code):
            raise AssertionError(f"{id} is refused with {error.kind} {error}, not {kind} {code}") from error
    else:
        raise AssertionError(f"{id} is accepted, not refused with {kind} {code}")
    fields: dict[str, Any] = {"id": id, "about": about, "result": kind, "code": code}
    return Case(id, fields | _options(limits, schema, one) | {"hex": container_json(data)})


def _decode(data: bytes, limits: dict[str, int] | None, schema: Schema | None, one: One | None) -> Decoded:
    if one is not None:
        schema = {"": one.tensor} if one.tensor else None
    single = one is not None
    return decode(data, Limits(**(limits or {})), schema, single=single, zstd=find_decompressor())


def _options(limits: dict[str, int] | None, schema: Schema | None, one: One | None = None) -> dict[str, Any]:
    options: dict[str, Any] = {}
    if limits is not None:
        options["limits"] = limits
    if schema is not None:
        options["schema"] = {name: [list(shape), dtype] for name, (shape, dtype) in schema.items()}
    if one is not None:
        options["one"] = {"shape": list(one.tensor[0]), "dtype": one.tensor[1]} if one.tensor else {}
    return options


def scheme_index(index: Index) -> str:
    """Return the index codec in the syntax of schemes."""
    return index if isinstance(index, str) else str(getattr(index, "scheme", "rice"))


def container_json(data: bytes) -> str | list[Any]:
    """Return a container in hex; the parts of a long one that repeat are abbreviated."""
    if len(data) < LONG_CONTAINER:
        return data.hex()
    parts: list[Any] = []
    at = 0
    for match in REPEATS.finditer(data):
        parts += [data[at : match.start()].hex(), {"repeat": match[1].hex(), "bytes": len(match[0])}]
        at = match.end()
    return [part for part in (*parts, data[at:].hex()) if part]


def tensor_json(t: Tensor) -> dict[str, Any]:
    """Return a tensor's JSON fields, abbreviated if that is shorter."""
    values: Any = t.values.hex()
    item = TYPE_NAMED[t.dtype].itemsize
    for period in (item, 2 * item):
        if len(t.values) >= LONG and t.values == (t.values[:period] * len(t.values))[: len(t.values)]:
            values = {"repeat": t.values[:period].hex(), "bytes": len(t.values)}
            break
    return {
        "name": t.name,
        "dtype": t.dtype,
        "shape": list(t.shape),
        "indices": _indices_json(list(t.indices), math.prod(t.shape)),
        "values": values,
        **({"absent": t.absent} if t.absent != ZERO else {}),
    }


def _indices_json(indices: list[int], size: int) -> Any:
    if indices and len(indices) == size:
        return "all"
    ranges: list[list[int]] = []
    for n, i in enumerate(indices):
        if ranges and ranges[-1][1] == i:  # a range stops at the position of its next element
            ranges[-1][1] += ranges[-1][2]
        else:
            step = indices[n + 1] - i if n + 1 < len(indices) else 1
            ranges.append([i, i + step, step])
    return {"ranges": ranges} if 4 * len(ranges) < len(indices) else indices


def number(n: int) -> float:
    """Return the n-th binary32 number, of normal size and mixed sign, of a fixed sequence."""
    word = draw32(0x0123456789ABCDEF, n)
    magnitude = 1.0 + (word & 0x7FFFFF) / 0x800000
    return math.ldexp(-magnitude if word >> 31 else magnitude, (word >> 23 & 15) - 10)


def values_of(numbers: Sequence[float], dtype: str) -> bytes:
    """Return binary32 numbers as elements, rounded if the type is narrower."""
    target = BY_NAME[dtype]
    return pack_elements([convert(to_float32_bits(x), FLOAT32, target) for x in numbers], target.itemsize)


def values_for(count: int, dtype: str, first: int = 0) -> bytes:
    """Return elements of the fixed sequence as little-endian bytes.

    Args:
        count: number of elements.
        dtype: name of the element type.
        first: position of the first one in the sequence.
    """
    return values_of([number(first + n) for n in range(count)], dtype)


def spread(r: int, d: int, salt: int = 0) -> list[int]:
    """Return irregular but fixed ascending indices.

    Args:
        r: number of indices.
        d: their upper bound, exclusive.
        salt: selects another set of indices.
    """
    ranked = sorted(range(d), key=lambda i: (draw32(0xFEDCBA9876543210 + salt, i), i))
    return sorted(ranked[:r])


def sparse(name: str, d: int, indices: Sequence[int], dtype: str = "float32", first: int = 0) -> Tensor:
    """Return a tensor of one dimension with values of the fixed sequence.

    Args:
        name: its name.
        d: its size.
        indices: indices of the elements present.
        dtype: name of the element type.
        first: position of the first value in the sequence.
    """
    return Tensor(name, dtype, (d,), indices, values_for(len(indices), dtype, first))


def patch(data: bytes, offset: int, layout: str, *values: int) -> bytes:
    """Return a copy of the bytes with little-endian integers written over some of them.

    Args:
        data: the bytes.
        offset: offset of the first integer.
        layout: widths of the integers, as letters of struct.
        values: the integers.
    """
    out = bytearray(data)
    struct.pack_into("<" + layout, out, offset, *values)
    return bytes(out)


def rice(*parameters: int) -> Rice:
    """Return the rice codec with the given parameters."""
    return Rice(parameters)
