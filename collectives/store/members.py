"""Members of a round: the object that decides which contributions count, in which order.

It is JSON in an envelope: names, digests and signatures of the accepted objects, and names, digests and codes
of the refused ones. Without an accepted object, the round is void: nothing of it counts for anybody.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from collectives.errors import Refused
from collectives.store.envelope import SIGNATURE, Envelope, Verify
from collectives.store.layout import is_name
from collectives.store.rules import Rules

MAX_CODE = 64
_ENTRY = 400  # bytes of JSON per entry, at most


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
        """Serialize the decision."""
        content = {
            "accepted": [[one.name, one.digest.hex(), one.signature.hex()] for one in self.accepted],
            "refused": [[one.name, one.digest, one.code] for one in self.refused],
        }
        return json.dumps(content, separators=(",", ":")).encode()


def max_members(rules: Rules) -> int:
    """Return the most bytes of the object."""
    return 4096 + 2 * _ENTRY * rules.max_peers


def parse_members(envelope: Envelope, rules: Rules, verify: Verify) -> Members:
    """Parse a decision; raise Refused if it breaks the rules.

    Args:
        envelope: whose signature was checked.
        rules: of the run.
        verify: checks that each accepted object was written by its peer.
    """
    try:
        content: Any = json.loads(envelope.body)
        accepted = tuple(_parse_accepted(row, verify) for row in _rows(content, "accepted", rules))
        refused = tuple(_parse_refused(row) for row in _rows(content, "refused", rules))
    except (ValueError, RecursionError) as error:
        if isinstance(error, Refused):
            raise
        raise Refused("members", f"the members of the round cannot be read: {error}") from None
    names = [one.name for one in accepted]
    if any(one >= other for one, other in pairwise(names)):
        raise Refused("members", "the members of the round are not in ascending order")
    if 0 < len(accepted) < rules.quorum:
        raise Refused("quorum", f"{len(accepted)} members; the run needs {rules.quorum}")
    return Members(accepted, refused)


def _rows(content: Any, key: str, rules: Rules) -> Sequence[Any]:
    rows = content.get(key) if isinstance(content, dict) else None
    if not isinstance(rows, list) or len(rows) > rules.max_peers:
        raise Refused("members", f"the members of the round have no valid list {key!r}")
    return rows


def _parse_accepted(row: Any, verify: Verify) -> Accepted:
    name, digest, signature = _parse_row(row)
    made = Accepted(name, bytes.fromhex(digest), bytes.fromhex(signature))
    if len(made.digest) != 32 or len(made.signature) != SIGNATURE:
        raise Refused("members", "an entry of the members has another length")
    if not verify(name, made.digest, made.signature):
        raise Refused("signature", f"an entry of the members was not signed by peer {name!r}")
    return made


def _parse_refused(row: Any) -> RefusedObject:
    name, digest, code = _parse_row(row)
    if len(digest) != 64 or len(code) > MAX_CODE or not code.isprintable():
        raise Refused("members", "an entry of the refused objects is not valid")
    return RefusedObject(name, digest, code)


def _parse_row(row: Any) -> tuple[str, str, str]:
    if not (isinstance(row, list) and len(row) == 3 and all(isinstance(x, str) for x in row)):
        raise Refused("members", "an entry of the members has no three texts")
    if not is_name(row[0]):
        raise Refused("members", "an entry of the members has no valid name")
    return row[0], row[1], row[2]
