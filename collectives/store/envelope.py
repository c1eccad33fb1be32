"""Envelope of an object: who wrote it for which round of which run, its body, digest and signature.

The page is formats/spec/rounds.md, section 2. The digest covers everything before it. Of an object whose path
has its digest, other bytes have not arrived. The signature is of the digest, the kind, the run and the round.
So a list of names, digests and signatures proves who wrote the objects for this round, before they are read.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import IntEnum

from collectives.errors import Refused
from collectives.store.layout import is_name

MAGIC = b"\xf7\x57\x43\x52"
VERSION = 2
DIGEST, SIGNATURE = 32, 64
NO_SIGNATURE = bytes(SIGNATURE)
_LAYOUT = struct.Struct("<4sBBBBQQ16s")
_END = DIGEST + SIGNATURE
OVERHEAD = _LAYOUT.size + _END
"""Bytes of an envelope beside the name and the body."""

Sign = Callable[[bytes], bytes]
"""Returns this peer's signature of a statement."""
Verify = Callable[[str, bytes, bytes], bool]
"""Tells for a name, a statement and a signature whether the peer of that name has signed the statement."""


class Kind(IntEnum):
    """Kind of an object."""

    SETTINGS = 1
    CONTRIBUTION = 2
    MEMBERS = 3
    STATE = 4
    TAKEN = 5
    DROPPED = 6
    VERSION = 7  # of a feed: formats/spec/feeds.md
    READER = 8  # of a feed


def make_statement(kind: int, run: bytes, number: int, digest: bytes) -> bytes:
    """Return what a peer signs for an object; with the round, so that an old signature does not fit.

    Args:
        kind, run, number: of the object.
        digest: SHA-256 of the object.
    """
    return struct.pack("<B16sQ", kind, run, number) + digest


@dataclass(frozen=True)
class Envelope:
    """Object of a store.

    Attributes:
        kind: of the object.
        run: hash of the run, 16 bytes.
        number: of the round.
        name: of the peer that wrote it.
        body: its content.
        signature: of its statement, or zeros.
        reserved: a byte that readers ignore; the digest covers it.
    """

    kind: int
    run: bytes
    number: int
    name: str
    body: bytes
    signature: bytes = NO_SIGNATURE
    reserved: int = 0

    @property
    def digest(self) -> bytes:
        """SHA-256 of everything before it."""
        return hashlib.sha256(self._head() + self.body).digest()

    def _head(self) -> bytes:
        name = self.name.encode()
        numbers = self.kind, len(name), self.reserved, self.number, len(self.body)
        return _LAYOUT.pack(MAGIC, VERSION, *numbers, self.run) + name

    def pack(self, sign: Sign | None = None) -> bytes:
        """Serialize the object, with the signature that ``sign`` makes."""
        content = self._head() + self.body
        digest = hashlib.sha256(content).digest()
        statement = make_statement(self.kind, self.run, self.number, digest)
        signature = self.signature if sign is None else sign(statement)
        return b"".join((content, digest, signature))

    @classmethod
    def unpack(cls, data: bytes) -> Envelope:
        """Parse an object in a slot; raise Refused if the bytes are not a whole one."""
        found = cls.parse(data)
        if not has_digest(data, data[-_END:-SIGNATURE]):
            raise Refused("digest", "an object does not have the digest that it contains")
        return found

    @classmethod
    def parse(cls, data: bytes) -> Envelope:
        """Parse an object without a look at its digest; raise Refused if the bytes are none."""
        if len(data) < OVERHEAD:
            raise Refused("truncated", f"an object has {len(data)} bytes")
        magic, version, kind, name_len, reserved, number, body_len, run = _LAYOUT.unpack_from(data)
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
        if not is_name(name):
            raise Refused("name", "the name in an object is not valid")
        return cls(kind, run, number, name, data[start:-_END], data[-SIGNATURE:], reserved)

    def require_place(
        self, kinds: Collection[Kind], run: bytes, number: int, name: str | None = None
    ) -> None:
        """Raise Refused if the object does not belong in a place.

        Args:
            kinds: any of which it may have.
            run, number: that it must have.
            name: of the peer that must have written it, or None for any.
        """
        if self.run != run:
            raise Refused("run", "an object belongs to another run")
        if self.kind not in kinds or self.number != number:
            raise Refused("replay", f"an object of kind {self.kind} was written for round {self.number}")
        if name is not None and self.name != name:
            raise Refused("name", f"an object of peer {self.name!r} has the name of {name!r}")


def has_digest(data: bytes, digest: bytes) -> bool:
    """Return whether an object has a digest. What stands in the place of its digest has no part in it."""
    return len(data) >= OVERHEAD and hashlib.sha256(memoryview(data)[:-_END]).digest() == digest


def hash_run(run: str, settings: bytes = b"") -> bytes:
    """Return the 16 bytes by which objects name their run.

    Args:
        run: name of the run.
        settings: body of its settings; empty for the settings themselves.
    """
    return hashlib.sha256(run.encode() + b"\0" + settings).digest()[:16]


def open_slot(data: bytes, kinds: Collection[Kind], run: bytes, number: int, verify: Verify) -> Envelope:
    """Parse the object in a slot; raise Refused if it does not belong there.

    Args:
        data: the bytes.
        kinds: any of which it may have.
        run, number: that are expected there.
        verify: checks the signature.
    """
    found = Envelope.unpack(data)
    found.require_place(kinds, run, number)
    require_signature(found, data[-_END:-SIGNATURE], verify)
    return found


def require_signature(found: Envelope, digest: bytes, verify: Verify) -> None:
    """Raise Refused if the signature of an object is not that of the peer in it."""
    statement = make_statement(found.kind, found.run, found.number, digest)
    if not verify(found.name, statement, found.signature):
        raise Refused("signature", f"the signature is not that of peer {found.name!r}")


def check_everyone(_name: str, _statement: bytes, _signature: bytes) -> bool:
    """Accept any signature: the run has no keys."""
    return True


def names_digest(keys: Mapping[str, bytes]) -> str:
    """Return the digest of all names and public keys, on which peers agree; "" without keys."""
    if not keys:
        return ""
    text = b"".join(name.encode() + b"\0" + keys[name] for name in sorted(keys))
    return hashlib.sha256(text).hexdigest()
