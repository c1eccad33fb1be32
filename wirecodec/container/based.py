"""Record ``base`` (formats/spec/patch.md): what a patch of weights was made from, and what it makes.

Containers with this record, or with a codec of ``INDEX_CODECS`` or ``VALUE_CODECS``, are patches. They are
read with the old tensors, by ``wirecodec.apply``.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from wirecodec.arrays import Array
from wirecodec.errors import Invalid, Malformed

BASE = 11
"""Type of the record, which is critical."""
BY_CLASS, STEPS, STEPS_ZSTD = 12, 16, 17
INDEX_CODECS = {BY_CLASS: "by-class"}
VALUE_CODECS = {STEPS: "steps", STEPS_ZSTD: "steps-zstd"}
"""Names of the codecs that are told the base, by their wire ids."""
REMEDY = (
    "this container is a patch of weights: apply it to the old ones, with wirecodec.apply or the command"
    " wirecodec apply PATCH BASE"
)

_HEAD = struct.Struct("<BBHIIIQ")
_FORM, _TOUCHED = 1, 1


@dataclass(frozen=True, eq=False)
class BaseRecord:
    """Content of the record.

    Attributes:
        digests: (n, 2) u64, digest of each tensor before and after; 0 before if the tensor is new.
        touched: whether the digests are those of the elements that change, not of whole tensors.
        removed: {name: digest} of the tensors that are removed.
        unchanged: number of all other tensors of the state; 0 if ``touched``.
        rest: sum of the digests of these tensors with their names.
    """

    digests: Array
    touched: bool
    removed: dict[str, int]
    unchanged: int
    rest: int

    def write(self) -> bytes:
        """Write the record's body."""
        names = [name.encode() for name in self.removed]
        flags = _TOUCHED if self.touched else 0
        head = _HEAD.pack(_FORM, flags, 0, len(names), self.unchanged, 0, self.rest)
        digests = np.array(list(self.removed.values()), "<u8")
        lengths = np.array([len(name) for name in names], "<u2")
        return b"".join(
            [head, self.digests.astype("<u8").tobytes(), digests.tobytes(), lengths.tobytes(), *names]
        )

    @classmethod
    def read(cls, body: memoryview, tensors: Sequence[str]) -> BaseRecord:
        """Read the record of a container with tensors of these names. Raises Malformed or Invalid."""
        n = len(tensors)
        if len(body) < _HEAD.size:
            raise Malformed("base-record", f"{len(body)} bytes; the head takes {_HEAD.size}")
        form, flags, reserved, removed, unchanged, further, rest = _HEAD.unpack_from(body)
        first = _HEAD.size + 16 * n
        texts = first + 10 * removed
        if form != _FORM or flags > _TOUCHED or reserved or further or texts > len(body):
            raise Malformed(
                "base-record", f"form {form}, flags {flags}, {removed} names in {len(body)} bytes"
            )
        if flags and (unchanged or rest):
            raise Malformed("base-record", "other tensors are counted, but not read")
        lengths = np.frombuffer(body, "<u2", removed, first + 8 * removed).astype(np.int64)
        if texts + int(lengths.sum()) != len(body):
            raise Malformed("base-record", f"the names do not end at byte {len(body)}")
        digests = np.frombuffer(body, "<u8", 2 * n, _HEAD.size).reshape(n, 2)
        stops = texts + np.cumsum(lengths)
        given = [
            bytes(body[stop - size : stop])
            for stop, size in zip(stops.tolist(), lengths.tolist(), strict=True)
        ]
        try:
            names = [name.decode() for name in given]
        except UnicodeDecodeError:
            raise Invalid("base-names", "a name is not UTF-8") from None
        if any(a >= b for a, b in pairwise(given)):
            raise Invalid("base-names", "the names of removed tensors do not ascend")
        if both := {*tensors} & {*names}:
            raise Invalid("base-names", f"tensor {min(both)!r} is changed, and removed")
        values = np.frombuffer(body, "<u8", removed, first).tolist()
        return cls(digests, bool(flags), dict(zip(names, values, strict=True)), unchanged, rest)
