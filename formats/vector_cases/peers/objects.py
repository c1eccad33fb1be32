"""Objects of a run as bytes: envelopes, settings, proposals, contributions (spec/rounds.md, 2 to 5)."""

from __future__ import annotations

import hashlib
import re
import struct
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from formats.vector_cases.peers import ed25519
from formats.vector_cases.peers.header import SIZE, Header

MAGIC = bytes.fromhex("f7574352")
VERSION = 2
LAYOUT = "<4sBBBBQQ16s"
FIXED = 136
"""Bytes of an envelope beside its name and its body."""
END = 96
"""Bytes of its digest and signature."""
SETTINGS, CONTRIBUTION, MEMBERS, STATE, TAKEN, DROPPED = range(1, 7)
KIND_NAMES = {SETTINGS: "settings", MEMBERS: "proposal", STATE: "state", TAKEN: "taken", DROPPED: "dropped"}
STATEMENT = b"wirecodec rounds 2\0"
NO_STATE = bytes(32)
NAME = r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}"
SLOTS = 32
MOST = 2**53


class Refused(Exception):
    """Refusal of an object."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


@dataclass(frozen=True)
class Key:
    """Keys of a peer."""

    private: bytes

    @property
    def public(self) -> bytes:
        """The public key, 32 bytes."""
        return ed25519.find_public(self.private)


@dataclass(frozen=True)
class Envelope:
    """Object of a store; the defaults are what writers write."""

    kind: int
    run: bytes
    number: int
    name: str
    body: bytes = b""
    signature: bytes = bytes(64)
    reserved: int = 0
    version: int = VERSION
    magic: bytes = MAGIC

    @property
    def content(self) -> bytes:
        """All bytes before the digest."""
        name = self.name.encode("latin-1")
        numbers = self.version, self.kind, len(name), self.reserved, self.number, len(self.body)
        return struct.pack(LAYOUT, self.magic, *numbers, self.run) + name + self.body

    @property
    def digest(self) -> bytes:
        """SHA-256 of these."""
        return hashlib.sha256(self.content).digest()

    @property
    def statement(self) -> bytes:
        """Bytes that a peer signs."""
        return make_statement(self.kind, self.run, self.number, self.digest)

    def sign(self, key: Key | None) -> bytes:
        """Return the signature of a key, or zeros without one."""
        return bytes(64) if key is None else ed25519.sign(key.private, self.statement)

    def pack(self, key: Key | None = None) -> bytes:
        """Return the whole object, signed by a key if there is one."""
        return self.content + self.digest + (self.signature if key is None else self.sign(key))


def make_statement(kind: int, run: bytes, number: int, digest: bytes) -> bytes:
    """Return the bytes that a peer signs for an object."""
    return STATEMENT + struct.pack("<B16sQ", kind, run, number) + digest


def hash_run(name: str, settings: bytes = b"") -> bytes:
    """Return the field ``run``; for the settings themselves without their body."""
    return hashlib.sha256(name.encode() + b"\0" + settings).digest()[:16]


def read_envelope(data: bytes) -> Envelope:
    """Read an envelope; raise Refused for the first check of section 2 that fails."""
    if len(data) < FIXED:
        raise Refused("truncated")
    magic, version, kind, name_len, reserved, number, body_len, run = struct.unpack_from(LAYOUT, data)
    if magic != MAGIC:
        raise Refused("magic")
    if version != VERSION:
        raise Refused("version")
    if len(data) != FIXED + name_len + body_len:
        raise Refused("truncated")
    name = data[40 : 40 + name_len].decode("latin-1")
    if not re.fullmatch(NAME, name):
        raise Refused("name")
    return Envelope(kind, run, number, name, data[40 + name_len : -END], data[-64:], reserved)


def check_place(
    found: Envelope, kinds: Collection[int], run: bytes, number: int, name: str | None = None
) -> None:
    """Raise Refused unless an envelope is that of its place."""
    if found.run != run:
        raise Refused("run")
    if found.kind not in kinds or found.number != number:
        raise Refused("replay")
    if name is not None and found.name != name:
        raise Refused("name")


def is_signed(keys: Mapping[str, bytes], found: Envelope, digest: bytes, signature: bytes) -> bool:
    """Return whether a signature is that of the peer in an envelope; always without keys."""
    if not keys:
        return True
    statement = make_statement(found.kind, found.run, found.number, digest)
    return found.name in keys and ed25519.verify(keys[found.name], statement, signature)


def read_slot(
    data: bytes, kinds: Collection[int], run: bytes, number: int, keys: Mapping[str, bytes]
) -> Envelope:
    """Read the object in a slot; raise Refused if it is not valid there."""
    found = read_envelope(data)
    if found.digest != data[-END:-64]:
        raise Refused("digest")
    check_place(found, kinds, run, number)
    if not is_signed(keys, found, found.digest, found.signature):
        raise Refused("signature")
    return found


# ---- section 4 ----

_INTEGER = "[1-9][0-9]{0,15}"
_NUMBER = r"(?:0|[1-9][0-9]{0,16})(?:\.[0-9]{1,20})?(?:e[+-]?[0-9]{1,3})?"
_SETTINGS = re.compile(
    r'\{"format":"([0-9.]{1,16})","instance":"([0-9a-f]{32})","keys":"((?:[0-9a-f]{64})?)",'
    rf'"max_bytes":({_INTEGER}),"max_norm":(null|{_NUMBER}),"max_peers":({_INTEGER}),'
    rf'"max_weight":({_NUMBER}),"quorum":({_INTEGER})\}}'
)


@dataclass(frozen=True)
class Rules:
    """Members of the settings but ``instance``, in their order."""

    quorum: int
    max_bytes: int = 4096
    max_norm: float | None = None
    max_peers: int = 8
    max_weight: float = 4.0
    keys: str = ""
    format: str = "1.1"

    def write(self, instance: str) -> bytes:
        """Return the body of the settings."""
        norm = "null" if self.max_norm is None else repr(self.max_norm)
        return (
            f'{{"format":"{self.format}","instance":"{instance}","keys":"{self.keys}",'
            f'"max_bytes":{self.max_bytes},"max_norm":{norm},"max_peers":{self.max_peers},'
            f'"max_weight":{self.max_weight!r},"quorum":{self.quorum}}}'
        ).encode()

    def to_json(self) -> dict[str, Any]:
        """Return the field of a vector."""
        return {
            "max_bytes": self.max_bytes,
            "max_norm": self.max_norm,
            "max_peers": self.max_peers,
            "max_weight": self.max_weight,
            "quorum": self.quorum,
        }


def read_settings(body: bytes) -> Rules:
    """Read the body of settings. Raises Refused if the bytes are no settings."""
    found = _SETTINGS.fullmatch(body.decode("latin-1"))
    if found is None:
        raise Refused("settings")
    version, _, keys, max_bytes, max_norm, max_peers, max_weight, quorum = found.groups()
    norm = None if max_norm == "null" else float(max_norm)
    rules = Rules(int(quorum), int(max_bytes), norm, int(max_peers), float(max_weight), keys, version)
    integers = rules.max_bytes, rules.max_peers, rules.quorum
    reals = [rules.max_weight] + ([] if norm is None else [norm])
    if max(integers) > MOST or rules.quorum > rules.max_peers:
        raise Refused("settings")
    if not all(0 < x <= sys.float_info.max for x in reals):
        raise Refused("settings")
    return rules


def digest_keys(keys: Mapping[str, bytes]) -> str:
    """Return the member ``keys`` for public keys by name."""
    if not keys:
        return ""
    return hashlib.sha256(b"".join(x.encode() + b"\0" + keys[x] for x in sorted(keys))).hexdigest()


# ---- section 5 ----

_ACCEPTED = rf'\["{NAME}","[0-9a-f]{{64}}","[0-9a-f]{{128}}"\]'
_REFUSED = rf'\["{NAME}","[0-9a-f]{{64}}","[0-9a-z-]{{1,64}}"\]'
_PROPOSAL = re.compile(
    rf'\{{"accepted":\[((?:{_ACCEPTED}(?:,{_ACCEPTED})*)?)\],"refused":\[((?:{_REFUSED}(?:,{_REFUSED})*)?)\]\}}'
)
_ROW = re.compile(r'\["([^"]*)","([^"]*)","([^"]*)"\]')
Row = tuple[str, bytes, str]
"""Name, digest, and a signature in hex or a code."""


def write_proposal(accepted: Sequence[Row], refused: Sequence[Row] = ()) -> bytes:
    """Return the body of a proposal."""
    lists = [
        ",".join(f'["{name}","{digest.hex()}","{last}"]' for name, digest, last in rows)
        for rows in (accepted, refused)
    ]
    return f'{{"accepted":[{lists[0]}],"refused":[{lists[1]}]}}'.encode()


def read_proposal(found: Envelope, rules: Rules, keys: Mapping[str, bytes]) -> list[Row]:
    """Read the accepted objects of a proposal. Raises Refused if the bytes are no proposal."""
    form = _PROPOSAL.fullmatch(found.body.decode("latin-1"))
    if form is None:
        raise Refused("proposal")
    accepted, refused = (
        [(name, bytes.fromhex(digest), last) for name, digest, last in _ROW.findall(part)]
        for part in form.groups()
    )
    names = [name for name, _, _ in accepted]
    if max(len(accepted), len(refused)) > rules.max_peers or names != sorted(set(names)):
        raise Refused("proposal")
    if 0 < len(accepted) < rules.quorum:
        raise Refused("proposal")
    for name, digest, signature in accepted:
        named = Envelope(CONTRIBUTION, found.run, found.number, name)
        if not is_signed(keys, named, digest, bytes.fromhex(signature)):
            raise Refused("proposal")
    return accepted


# ---- section 3 ----


@dataclass(frozen=True)
class Contribution:
    """Object of a peer whose envelope, header, size and weight are right."""

    name: str
    digest: bytes
    header: Header
    state: bytes
    payload: bytes

    @property
    def terms(self) -> tuple[Any, ...]:
        """What contributions to one sum have in common."""
        return *self.header.terms, self.state


def has_arrived(data: bytes | None, digest: bytes, most: int) -> bool:
    """Return whether an object has the digest in its path, and at most so many bytes."""
    if data is None or not FIXED <= len(data) <= most:
        return False
    return hashlib.sha256(data[:-END]).digest() == digest


def read_contribution(data: bytes, run: bytes, number: int, name: str, rules: Rules) -> Contribution:
    """Read a contribution that has arrived; raise Refused for the first row of section 3 up to the weight."""
    found = read_envelope(data)
    check_place(found, [CONTRIBUTION], run, number, name)
    body, head = found.body, SIZE + len(NO_STATE)
    if len(body) < head:
        raise Refused("header")
    header, payload = Header.read(body[:SIZE]), body[head:]
    own = Header()
    if (header.magic, header.version, header.sequence) != (own.magic, own.version, number):
        raise Refused("header")
    if header.payload_len != len(payload):
        raise Refused("header")
    if len(payload) > rules.max_bytes:
        raise Refused("max-bytes")
    if not 0 <= header.weight <= rules.max_weight:
        raise Refused("weight")
    return Contribution(name, hashlib.sha256(data[:-END]).digest(), header, body[SIZE:head], payload)
