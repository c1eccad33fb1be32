"""Members of a round: a proposal which contributions count, in which order.

It is JSON in an envelope: names, digests and signatures of the accepted objects, and names, digests and codes
of the refused ones. Without an accepted object, the round is void: nothing of it counts for anybody.

Equal bytes must get equal verdicts, on any machine. So there is one text for each proposal, and it is read by
regular expressions of its entries: no number, no nesting and no blank depends on a library. Each byte is read
a fixed number of times: whoever may write a slot must not hold up its readers.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise

from collectives.errors import Refused
from collectives.store.envelope import Envelope, Kind, Verify, make_statement
from collectives.store.layout import NAME
from collectives.store.rules import Rules

_ACCEPTED = rb'\["(%s)","([0-9a-f]{64})","([0-9a-f]{128})"\]' % NAME.encode()
_REFUSED = rb'\["(%s)","([0-9a-f]{64})","([0-9a-z-]{1,64})"\]' % NAME.encode()
_START, _BETWEEN, _END = b'{"accepted":[', b'],"refused":[', b"]}"
"""What stands before, between and after the lists; no entry has it, so the first place is the only one."""
_ENTRY = 300
"""Bytes of an entry, at most."""


@dataclass(frozen=True)
class Accepted:
    """Contribution that counts.

    Attributes:
        name: of the peer.
        digest, signature: of its object.
    """

    name: str
    digest: bytes
    signature: bytes


@dataclass(frozen=True)
class RefusedObject:
    """Contribution that does not count.

    Attributes:
        name: of the peer, as its path claims.
        digest: of its object, likewise, in hexadecimal digits.
        code: why.
    """

    name: str
    digest: str
    code: str


@dataclass(frozen=True)
class Members:
    """Decision about a round.

    Attributes:
        accepted: ascending by name; none if the round is void.
        refused: in any order.
    """

    accepted: tuple[Accepted, ...] = ()
    refused: tuple[RefusedObject, ...] = ()

    @property
    def is_void(self) -> bool:
        """Whether nothing of the round counts."""
        return not self.accepted

    def find(self, name: str) -> Accepted | None:
        """Return the entry of a peer, or None."""
        return next((one for one in self.accepted if one.name == name), None)

    def pack(self) -> bytes:
        """Serialize the proposal."""
        accepted = (f'["{x.name}","{x.digest.hex()}","{x.signature.hex()}"]' for x in self.accepted)
        refused = (f'["{x.name}","{x.digest}","{x.code}"]' for x in self.refused)
        return f'{{"accepted":[{",".join(accepted)}],"refused":[{",".join(refused)}]}}'.encode()


def max_members(rules: Rules) -> int:
    """Return the most bytes of the object."""
    return 4096 + 2 * _ENTRY * rules.max_peers


def parse_members(envelope: Envelope, rules: Rules, verify: Verify) -> Members:
    """Parse a proposal; raise Refused if it breaks the rules.

    Args:
        envelope: whose place and signature were checked.
        rules: of the run.
        verify: checks that each accepted object was written by its peer.
    """
    first, between, second = envelope.body.partition(_BETWEEN)
    if not (first.startswith(_START) and between and second.endswith(_END)):
        raise Refused("members", "the members of the round cannot be read")
    accepted = tuple(
        Accepted(name, bytes.fromhex(digest), bytes.fromhex(signature))
        for name, digest, signature in _read_rows(_ACCEPTED, first[len(_START) :], rules)
    )
    refused = tuple(RefusedObject(*row) for row in _read_rows(_REFUSED, second[: -len(_END)], rules))
    if any(one.name >= other.name for one, other in pairwise(accepted)):
        raise Refused("members", "the members of the round are not in ascending order")
    if 0 < len(accepted) < rules.quorum:
        raise Refused("quorum", f"{len(accepted)} members; the run needs {rules.quorum}")
    for one in accepted:
        statement = make_statement(Kind.CONTRIBUTION, envelope.run, envelope.number, one.digest)
        if not verify(one.name, statement, one.signature):
            raise Refused("signature", f"an entry of the members was not signed by peer {one.name!r}")
    return Members(accepted, refused)


def _read_rows(entry: bytes, text: bytes, rules: Rules) -> list[tuple[str, str, str]]:
    """Return the entries of a list, which has nothing else."""
    rows = re.findall(entry, text)
    if b",".join(b'["%s","%s","%s"]' % row for row in rows) != text:
        raise Refused("members", "a list of the members has an entry that cannot be read")
    if len(rows) > rules.max_peers:
        raise Refused("members", f"a list of the members has {len(rows)} entries; at most {rules.max_peers}")
    return [tuple(part.decode("ascii") for part in row) for row in rows]
