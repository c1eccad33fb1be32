"""Envelope of an object: who wrote it for which round of which run, its body, its digest and its signature.

The page is formats/spec/rounds.md, section 2. The digest covers everything before it, so an object whose
bytes are cut, replaced or moved to another round does not have the digest in its name. The signature is of
the digest, so a list of names, digests and signatures proves who wrote the objects before they are read.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum

from collectives.errors import Refused
from collectives.store.layout import MAX_ROUND, is_name

MAGIC = b"\xf7\x57\x43\x52"
VERSION = 1
DIGEST, SIGNATURE = 32, 64
NO_SIGNATURE = bytes(SIGNATURE)
_LAYOUT = struct.Struct("<4sBBBBQQ16s")
OVERHEAD = _LAYOUT.size + DIGEST + SIGNATURE
"""Bytes of an envelope beside the name and the body."""

Verify = Callable[[str, bytes, bytes], bool]
"""Tells for a name, a digest and a signature whether the peer of that name has signed the digest."""


class Kind(IntEnum):
    """Kind of an object."""

    SETTINGS = 1
    CONTRIBUTION = 2
    MEMBERS = 3
    STATE = 4


@dataclass(frozen=True)
class Envelope:
    """Object of a store.

    Attributes:
        kind: of the object.
        run: hash of the run's name, 16 bytes.
        number: of the round.
        name: of the peer that wrote it.
        body: its content.
        signature: of the digest, or zeros.
    """

    kind: int
    run: bytes
    number: int
    name: str
    body: bytes
    signature: bytes = NO_SIGNATURE

    @property
    def digest(self) -> bytes:
        """SHA-256 of everything before it."""
        return hashlib.sha256(self._head() + self.body).digest()

    def _head(self) -> bytes:
        name = self.name.encode()
        numbers = self.kind, len(name), 0, self.number, len(self.body)
        return _LAYOUT.pack(MAGIC, VERSION, *numbers, self.run) + name

    def pack(self, sign: Callable[[bytes], bytes] | None = None) -> bytes:
        """Serialize the object; ``sign`` returns the signature of a digest."""
        digest = self.digest
        signature = self.signature if sign is None else sign(digest)
        return b"".join((self._head(), self.body, digest, signature))

    @classmethod
    def unpack(cls, data: bytes) -> Envelope:
        """Parse an object; raise Refused if the bytes are not a whole one."""
        if len(data) < OVERHEAD:
            raise Refused("truncated", f"an object has {len(data)} bytes")
        magic, version, kind, name_len, _, number, body_len, run = _LAYOUT.unpack_from(data)
        if magic != MAGIC:
            raise Refused("magic", "the bytes are no object of a run")
        if version != VERSION:
            raise Refused("version", f"the object has version {version}; this program reads {VERSION}")
        if len(data) != OVERHEAD + name_len + body_len:
            raise Refused(
                "truncated", f"an object has {len(data)} bytes; its header gives {body_len} of body"
            )
        start = _LAYOUT.size + name_len
        name = data[_LAYOUT.size : start].decode("ascii", "replace")
        if not is_name(name) or number > MAX_ROUND:
            raise Refused("name", "the name in an object is not valid")
        end = start + body_len
        if hashlib.sha256(memoryview(data)[:end]).digest() != data[end : end + DIGEST]:
            raise Refused("digest", "an object does not have the digest that it contains")
        return cls(kind, run, number, name, data[start:end], data[end + DIGEST :])


def hash_run(run: str) -> bytes:
    """Return the 16 bytes by which objects name their run."""
    return hashlib.sha256(run.encode()).digest()[:16]


def open_envelope(
    data: bytes, kind: Kind, run: bytes, number: int, verify: Verify, *, name: str | None = None
) -> Envelope:
    """Parse an object that is expected in a place; raise Refused if it does not belong there.

    Args:
        data: the bytes.
        kind, run, number: that are expected there.
        verify: checks the signature.
        name: of the peer that must have written it, or None for any.
    """
    found = Envelope.unpack(data)
    if found.run != run:
        raise Refused("run", "an object belongs to another run")
    if found.kind != kind or found.number != number:
        raise Refused("replay", f"an object of kind {found.kind} was written for round {found.number}")
    if name is not None and found.name != name:
        raise Refused("name", f"an object of peer {found.name!r} has the name of {name!r}")
    if not verify(found.name, found.digest, found.signature):
        raise Refused("signature", f"the signature is not that of peer {found.name!r}")
    return found


def check_everyone(_name: str, _digest: bytes, _signature: bytes) -> bool:
    """Accept any signature: the run has no keys."""
    return True


def names_digest(keys: Mapping[str, bytes]) -> str:
    """Return the digest of all names and public keys, on which peers agree; "" without keys."""
    if not keys:
        return ""
    text = b"".join(name.encode() + b"\0" + keys[name] for name in sorted(keys))
    return hashlib.sha256(text).hexdigest()
