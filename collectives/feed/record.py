"""Record of a version: its digest, and the objects that make it of other versions (formats/spec/feeds.md).

The record decides a version: its slot is created exclusively, after all objects that it names.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import NamedTuple

from collectives.errors import Refused
from collectives.store.envelope import DIGEST
from collectives.store.layout import MAX_ROUND

_HEAD = struct.Struct("<BBHI9Q16s")
_PART = struct.Struct(f"<QQ{DIGEST}s")
_FORM = 1
_NOTHING = 2**64 - 1
_UNREAD = 1
MAX_PARTS, MAX_RECENT = 64, 256
MAX_BODY = _HEAD.size + MAX_PARTS * _PART.size + MAX_RECENT * 8


class Part(NamedTuple):
    """Object that makes a version.

    Attributes:
        base: version of which it is made; None for an anchor, which is made of nothing.
        size: bytes of the object.
        digest: SHA-256 of the object.
    """

    base: int | None
    size: int
    digest: bytes


@dataclass(frozen=True)
class Version:
    """Record of a version.

    Attributes:
        number: of the version, from 0 on.
        digest: of the state.
        tensors, nbytes, elements: numbers of tensors, bytes and elements of the state.
        changed: elements that differ from the version before.
        written: microseconds since 1970, by the publisher's clock.
        anchor: newest version with an anchor, at most ``number``.
        oldest: version from which on all records and patches are kept.
        session: random bytes of the publisher.
        unread: whether a reader of the patches looks at changed elements alone.
        parts: objects that make this version.
        recent: digests of the versions before this one, the last one first.
    """

    number: int
    digest: int
    tensors: int
    nbytes: int
    elements: int
    changed: int
    written: int
    anchor: int
    oldest: int
    session: bytes
    unread: bool
    parts: tuple[Part, ...]
    recent: tuple[int, ...]

    def pack(self) -> bytes:
        """Serialize the record."""
        head = _HEAD.pack(
            _FORM,
            _UNREAD * self.unread,
            len(self.parts),
            len(self.recent),
            self.digest,
            self.tensors,
            self.nbytes,
            self.elements,
            self.changed,
            self.written,
            self.anchor,
            self.oldest,
            0,
            self.session,
        )
        parts = (_PART.pack(_NOTHING if p.base is None else p.base, p.size, p.digest) for p in self.parts)
        return b"".join((head, *parts, struct.pack(f"<{len(self.recent)}Q", *self.recent)))

    @classmethod
    def parse(cls, number: int, body: bytes) -> Version:
        """Parse a record; raise Refused if the bytes are none."""
        if len(body) < _HEAD.size:
            raise Refused("truncated", f"a record of a version has {len(body)} bytes")
        form, flags, n_parts, n_recent, *numbers, session = _HEAD.unpack_from(body)
        digest, tensors, nbytes, elements, changed, written, anchor, oldest, reserved = numbers
        if form != _FORM or flags > _UNREAD or reserved:
            raise Refused("version", f"a record of a version has form {form} and flags {flags}")
        end = _HEAD.size + n_parts * _PART.size
        if n_parts > MAX_PARTS or n_recent > MAX_RECENT or len(body) != end + 8 * n_recent:
            raise Refused("truncated", f"a record of a version has {len(body)} bytes")
        parts = tuple(
            Part(None if base == _NOTHING else base, size, sha)
            for base, size, sha in _PART.iter_unpack(body[_HEAD.size : end])
        )
        has_anchor = any(part.base is None for part in parts)
        sound = oldest <= anchor <= number <= MAX_ROUND and has_anchor == (anchor == number)
        if not sound or any(part.base is not None and part.base >= number for part in parts):
            raise Refused("value", f"the record of version {number} names version {anchor} as its anchor")
        recent = struct.unpack_from(f"<{n_recent}Q", body, end)
        return cls(
            number,
            digest,
            tensors,
            nbytes,
            elements,
            changed,
            written,
            anchor,
            oldest,
            session,
            bool(flags),
            parts,
            recent,
        )
