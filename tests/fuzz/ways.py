"""Golden vectors through every public way into the decoder, for mutation testing.

``conformance.check`` reads a vector with ``decode_many``. Other functions share its code only in part, and
have shortcuts for one tensor and for many. What each must return follows from the vector alone.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import ml_dtypes
import numpy as np

import wirecodec as wc
from formats.conformance import Vector, check
from formats.reference.element_types import IN_RECORD
from formats.streams import CONTAINERS, UNITS, Part, Split
from tests.fuzz.judge import library
from wirecodec.element_types import name_of
from wirecodec.interop import decode_sum

__all__ = ["Ways", "bounded", "splits_of"]

MAX_ADDED = 2**16
"""Elements up to which a vector is added to dense arrays."""
UNSUMMED = {"max-expansion", "schema-names", "schema-shape", "schema-dtype"}
"""Codes of checks that ``decode_add`` makes in another way: its arrays are a schema."""
NOWHERE: Any = {"nothing": ((1,), "float32")}


class Ways:
    """A vector and what every way of reading it must give. Call it for the verdict: whether all do.

    Args:
        vector: the vector. Its tensors' sizes are read from the header when this object is made.
    """

    def __init__(self, vector: Vector) -> None:
        self.vector, self.data = vector, vector.data
        self.limits = wc.DecodeLimits(**vector.limits)
        self.sizes = {t[0]: math.prod(t[2]) for t in vector.tensors}
        self.count: int | None = len(self.sizes)
        if vector.result != "ok":
            self.sizes = _sizes_in_header(vector)
            early = str(vector.code).startswith("max-") and vector.code != "max-work"
            self.count = len(self.sizes) if self.sizes and not early else None
        n = int.from_bytes(self.data[8:12], "little")
        rows = self.data[24 : 24 + 40 * min(n, MAX_ADDED)]
        self.is_added = IN_RECORD not in rows[36::40]
        self.is_small = sum(self.sizes.values()) <= MAX_ADDED and self.is_added
        self.sums = {t[0]: _dense(t) for t in vector.tensors} if self.is_small else {}

    def __call__(self) -> bool:
        return check(library, self.vector) is None and all(each() for each in self._others())

    def _others(self) -> Iterator[Callable[[], bool]]:
        if self.vector.result == "ok":
            yield from (self._decodes_one, self._takes_schemas, self._is_inspected, self._is_in_streams)
            if self.is_small:
                yield self._is_added
            elif not self.is_added and sum(self.sizes.values()) <= MAX_ADDED:
                yield self._is_not_cast
        elif self.vector.expected is None:
            yield self._is_refused_alone
            if self.is_small and self.vector.code not in UNSUMMED:
                yield self._is_not_added

    def _decode(self, **options: Any) -> Any:
        return _code(lambda: wc.decode(self.data, limits=self.limits, **options))

    def _decode_many(self, schema: Any) -> Any:
        return _code(lambda: wc.decode_many(self.data, limits=self.limits, schema=schema))

    def _decodes_one(self) -> bool:
        if self.count != 1:
            return bool(self._decode() == ("SchemaMismatch", "schema-count"))
        ((_, dtype, shape, indices, values),) = self.vector.tensors
        schema = tuple(shape), dtype
        for options in ({}, {"schema": schema}) if self.vector.schema is None else ({"schema": schema},):
            if not _is_alike(self._decode(**options), dtype, shape, indices, values, self.vector.within[0]):
                return False
        return bool(
            self._decode(schema=((*shape, 1), dtype)) == ("SchemaMismatch", "schema-shape")
            and self._decode(schema=(shape, _other(dtype))) == ("SchemaMismatch", "schema-dtype")
        )

    def _takes_schemas(self) -> bool:
        if self.vector.schema is None and wc.inspect(self.data).digest:
            return True  # the names are not known
        fitting = {t[0]: (tuple(t[2]), t[1]) for t in self.vector.tensors}
        if isinstance(found := self._decode_many(fitting), tuple) or list(found) != list(fitting):
            return False
        rows = zip(found.values(), self.vector.tensors, self.vector.within, strict=True)
        if not all(_is_alike(x, *tensor[1:], within) for x, tensor, within in rows):
            return False
        for name, (shape, dtype) in fitting.items():
            wrong_shape, wrong_dtype = ((*shape, 1), dtype), (shape, _other(dtype))
            if self._decode_many({**fitting, name: wrong_shape}) != ("SchemaMismatch", "schema-shape"):
                return False
            if self._decode_many({**fitting, name: wrong_dtype}) != ("SchemaMismatch", "schema-dtype"):
                return False
            break
        more = {**fitting, **NOWHERE}
        return bool(self._decode_many(more) == ("SchemaMismatch", "schema-names"))

    def _is_inspected(self) -> bool:
        if self.vector.schema is not None:
            return True
        info = wc.inspect(self.data)
        members = [member for entry in info.entries for member in entry.members]
        specs = {t[0]: (tuple(t[2]), t[1], len(t[3])) for t in self.vector.tensors}
        if info.nbytes != len(self.data) or dict(members) != self.sizes or info.tag != self.vector.tag:
            return False
        meta = {"container": info.meta, "tensors": info.tensor_meta}
        if meta != (self.vector.meta or {"container": {}, "tensors": {}}):
            return False
        rows = zip(self.vector.tensors, self.vector.absent, strict=True)
        if list(info.patches) != [tensor[0] for tensor, absent in rows if absent == "unchanged"]:
            return False
        for e in info.entries:
            shape, dtype, _ = specs[e.members[0][0]]
            stored = sum(specs[name][2] for name, _ in e.members)
            if (e.shape, e.dtype) != (shape if len(e.members) == 1 else (e.size,), dtype):
                return False
            if not e.transform and e.nnz != stored:
                return False
        return True

    def _is_in_streams(self) -> bool:
        twice = self.data * 2
        for source in (twice, io.BytesIO(twice)):
            if [blob.tobytes() for blob in wc.iter_blobs(source, limits=self.limits)] != [self.data] * 2:
                return False
        return True

    def _is_added(self) -> bool:
        if "unchanged" in self.vector.absent:
            kept: Any = {name: np.ones(size) for name, size in self.sizes.items()}
            for add in (wc.decode_add, decode_sum):
                if _code(lambda add=add: add([self.data], kept)) != ("SchemaMismatch", "patch"):  # type: ignore[misc]
                    return False
            return all((array == 1).all() for array in kept.values())
        cases: Any = ((self.data, 1, np.float32), ([self.data, self.data], 2, np.float64))
        for blobs, factor, dtype in cases:
            out: Any = {name: np.ones(size, dtype) for name, size in self.sizes.items()}
            wc.decode_add(blobs, out, limits=self.limits, scale=0.5)
            if not self._is_sum(out, 1.0, 0.5, factor):
                return False
        out = {name: np.ones(size) for name, size in self.sizes.items()}
        decode_sum([self.data], out, limits=self.limits)
        if not self._is_sum(out, 0.0, 1.0, 1):
            return False
        if self.count == 1:
            (lone,) = out.values()
            wc.decode_add(self.data, lone, limits=self.limits)
        return self.count != 1 or self._is_sum(out, 0.0, 1.0, 2)

    def _is_not_cast(self) -> bool:
        """Tell whether a tensor that is no float is not added."""
        out: Any = {name: np.ones(size) for name, size in self.sizes.items()}
        code = _code(lambda: wc.decode_add(self.data, out, limits=self.limits))
        return code == ("Unsupported", "dtype") and all((array == 1).all() for array in out.values())

    def _is_sum(self, out: dict[str, Any], start: float, scale: float, factor: int) -> bool:
        """Compare with start + scale * value, added ``factor`` times in the arrays' type."""
        for (name, array), within in zip(out.items(), self.vector.within, strict=True):
            values = self.sums[name].astype(array.dtype)
            want = np.full(array.size, start, array.dtype)
            for _ in range(factor):
                want += array.dtype.type(scale) * values
            if np.array_equal(array, want, equal_nan=True):
                continue
            if not within or not (np.abs(array - want) <= 2 * within + 1e-6 * np.abs(want)).all():
                return False
        return True

    def _is_refused_alone(self) -> bool:
        right = self.vector.result, self.vector.code
        counted = ("SchemaMismatch", "schema-count")
        return bool(self._decode() == (counted if self.count not in (None, 1) else right))

    def _is_not_added(self) -> bool:
        out: Any = {name: np.ones(size) for name, size in self.sizes.items()}
        found = _code(lambda: wc.decode_add([self.data], out, limits=self.limits))
        again = _code(lambda: decode_sum([self.data], out, limits=self.limits))
        same = found == again == (self.vector.result, self.vector.code)
        return bool(same and all((array == 1).all() for array in out.values()))


def _code(read: Callable[[], Any]) -> Any:
    """Return the result of a call, or (kind, code) of its refusal."""
    try:
        return read()
    except wc.WireError as error:
        return type(error).__name__, error.code


def _sizes_in_header(vector: Vector) -> dict[str, int]:
    """Return the tensors of a container whose header is valid; none of any other."""
    try:
        info = wc.inspect(vector.data)
    except wc.WireError:
        return {}
    return {name: size for entry in info.entries for name, size in entry.members}


def _dense(tensor: Any) -> Any:
    """Return a tensor's elements as float64, (size,)."""
    _, dtype, shape, indices, values = tensor
    found = np.zeros(math.prod(shape))
    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else np.dtype(dtype)
    with np.errstate(all="ignore"):
        found[list(indices)] = np.frombuffer(values, kind).astype(np.float64)
    return found


def _other(dtype: str) -> str:
    return "float16" if dtype != "float16" else "bfloat16"


def _is_alike(found: Any, dtype: str, shape: Any, indices: Any, values: bytes, within: float) -> bool:
    """Compare a decoded tensor with a vector's."""
    if isinstance(found, tuple) or (name_of(found.dtype), found.shape) != (dtype, tuple(shape)):
        return False
    if not np.array_equal(found.indices, indices):
        return False
    if not within:
        return bool(found.values.tobytes() == values)
    wanted = np.frombuffer(values, found.values.dtype).astype(np.float64)
    return bool((np.abs(found.values.astype(np.float64) - wanted) <= within).all())


def splits_of() -> Iterator[tuple[str, Split]]:
    """Yield the library's splitters of streams: kind and function, of bytes and of a file."""
    for kind in (UNITS, CONTAINERS):
        for wrap in (bytes, io.BytesIO):
            yield kind, _splitter(kind, wrap)


def _splitter(kind: str, wrap: Callable[[bytes], Any]) -> Split:
    def split(data: bytes, limits: dict[str, int]) -> Iterator[Part]:
        allowed = wc.DecodeLimits(**limits)
        parts = wc.iter_stream if kind == UNITS else wc.iter_blobs
        for part in parts(wrap(data), limits=allowed):
            yield (part.application, part.body) if isinstance(part, wc.Unit) else part.nbytes

    return split


def bounded(split: Split) -> Split:
    """Return the splitter, which ends after 100 parts: a changed one may never end."""
    return lambda data, limits: islice(split(data, limits), 100)
