"""Folder of a run in the making: what honest peers, and others, write into it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from formats.reference import Rice, Tensor, write
from formats.reference.writing.container import Index
from formats.reference.writing.protocols import ValueWriter
from formats.reference.writing.value.raw import Raw
from formats.vector_cases.case import values_of
from formats.vector_cases.peers.header import Spec
from formats.vector_cases.peers.objects import (
    CONTRIBUTION,
    DROPPED,
    MEMBERS,
    NO_STATE,
    SETTINGS,
    STATE,
    TAKEN,
    Envelope,
    Key,
    Row,
    Rules,
    digest_keys,
    hash_run,
    write_proposal,
)
from formats.vector_cases.peers.rounds import Call, Run, View

INSTANCE = "000102030405060708090a0b0c0d0e0f"


def make_keys(*names: str) -> dict[str, Key]:
    """Return keys that everybody knows, one per name."""
    return {name: Key(hashlib.sha256(f"key of {name}".encode()).digest()) for name in names}


def encode(
    specs: Sequence[Spec],
    rows: Sequence[dict[int, float]],
    index: Index | Sequence[Index] | None = None,
    value: ValueWriter | None = None,
    *,
    names: bool = False,
) -> bytes:
    """Return a container of the elements {index: value} of each tensor."""
    tensors = [
        Tensor(spec.name or "0", spec.dtype, spec.shape, sorted(row), _bytes(spec, row))
        for spec, row in zip(specs, rows, strict=True)
    ]
    return write(tensors, Rice() if index is None else index, value or Raw(), names=names)


def _bytes(spec: Spec, row: dict[int, float]) -> bytes:
    if spec.dtype != "float64":
        return values_of([row[i] for i in sorted(row)], spec.dtype)
    import struct

    return b"".join(struct.pack("<d", row[i]) for i in sorted(row))


@dataclass
class Folder:
    """Folder of a run.

    Attributes:
        rules: in its settings.
        name: of the run.
        keys: of peers; empty without keys.
        settings: forms of the settings to write into slots, in place of the usual one.
        objects: bytes by path.
    """

    rules: Rules
    name: str = "demo"
    keys: dict[str, Key] = field(default_factory=dict)
    body: bytes = b""
    objects: dict[str, bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.rules = replace(self.rules, keys=digest_keys(self.public))
        self.body = self.body or self.rules.write(INSTANCE)
        self.run = hash_run(self.name, self.body)

    @property
    def public(self) -> dict[str, bytes]:
        """Public keys by name."""
        return {name: key.public for name, key in self.keys.items()}

    @property
    def view(self) -> View:
        """The run as its peers see it."""
        return View.of(Run(self.name, self.objects, self.public))

    def settle(self, slot: int = 0, name: str = "alice") -> None:
        """Write the settings into a slot."""
        made = Envelope(SETTINGS, hash_run(self.name), 0, name, self.body)
        self.objects[f"settings.{slot:02d}"] = made.pack(self.keys.get(name))

    def put(self, made: Envelope, name: str | None = None, data: bytes | None = None) -> Envelope:
        """Write a contribution at the path of its digest; return it."""
        path = f"rounds/{made.number:012d}/{name or made.name}.{made.digest.hex()}"
        self.objects[path] = made.pack(self.keys.get(made.name)) if data is None else data
        return made

    def contribute(
        self, call: Call, number: int, name: str, payload: bytes, state: bytes = NO_STATE, **fields: Any
    ) -> Envelope:
        """Write a contribution to a call; fields of the header may be others. Return it."""
        return self.put(self.make(call, number, name, payload, state, **fields))

    def make(
        self, call: Call, number: int, name: str, payload: bytes, state: bytes = NO_STATE, **fields: Any
    ) -> Envelope:
        """Return such a contribution."""
        header = replace(call.header, sequence=number, payload_len=len(payload))
        body = replace(header, **fields).pack() + (call.state if state == NO_STATE else state) + payload
        return Envelope(CONTRIBUTION, self.run, number, name, body)

    def row(self, made: Envelope, signer: str | None = None) -> Row:
        """Return the entry of an accepted object."""
        key = self.keys.get(signer or made.name)
        return made.name, made.digest, made.sign(key).hex()

    def record(self, number: int, slot: int, kind: int, body: bytes = b"", name: str = "alice") -> Envelope:
        """Write a record into the log of a round; return it."""
        made = Envelope(kind, self.run, number, name, body)
        self.objects[f"rounds/{number:012d}/members.{slot:02d}"] = made.pack(self.keys.get(name))
        return made

    def propose(
        self,
        number: int,
        slot: int,
        accepted: Iterable[Envelope | Row],
        refused: Sequence[Row] = (),
        name: str = "alice",
    ) -> Envelope:
        """Write a proposal into the log of a round; return it."""
        rows = [self.row(one) if isinstance(one, Envelope) else one for one in accepted]
        return self.record(number, slot, MEMBERS, write_proposal(sorted(rows), refused), name)

    def take(self, number: int, slot: int, proposal: Envelope, name: str = "alice") -> Envelope:
        """Take a proposal; return the record."""
        return self.record(number, slot, TAKEN, proposal.digest, name)

    def drop(self, number: int, slot: int, name: str = "alice") -> Envelope:
        """Drop the pending proposal; return the record."""
        return self.record(number, slot, DROPPED, b"", name)

    def decide(self, number: int, accepted: Iterable[Envelope | Row], slot: int = 0) -> None:
        """Propose and take members in two slots."""
        self.take(number, slot + 1, self.propose(number, slot, accepted), "bob")

    def publish(self, number: int, name: str, body: bytes) -> str:
        """Write a state before a round; return its path."""
        made = Envelope(STATE, self.run, number, name, body)
        path = f"states/{number:012d}.{name}.{made.digest.hex()}"
        self.objects[path] = made.pack(self.keys.get(name))
        return path

    def start(self, slot: int, body: bytes, name: str = "alice") -> None:
        """Write a state before round 0 into a slot."""
        made = Envelope(STATE, self.run, 0, name, body)
        self.objects[f"start.{slot:02d}"] = made.pack(self.keys.get(name))
