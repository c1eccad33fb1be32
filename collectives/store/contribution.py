"""Contribution of a peer to a round, and the verdict on it.

Its body has the agreement header, the digest of the state from which the peer started, and the payload. The
verdict is a function of the bytes, of the rules, and of the terms on which the members agree. So all members
refuse the same objects.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter

import numpy as np

import wirecodec as wc
from collectives.agreement.header import HEADER_SIZE, MAGIC, VERSION, Header, Status
from collectives.channel import ByteArray
from collectives.errors import Refused
from collectives.store.envelope import OVERHEAD, Envelope, Kind, Sign
from collectives.store.layout import MAX_NAME
from collectives.store.rules import Rules

NO_STATE = bytes(32)
HEAD = HEADER_SIZE + len(NO_STATE)
"""Bytes of a body before its payload."""
MAX_TEXT = 1024
"""Bytes of the text of a peer that cannot contribute."""
_COMPARED = ("operation", "reduction", "algorithm", "dtype", "elements", "signature", "scheme")
_get_compared = attrgetter(*_COMPARED)

Check = Callable[["ByteArray", Header], None]
"""Checks a payload under its header; raises WireError if it must be refused."""


@dataclass(frozen=True)
class Terms:
    """What contributions to one sum have in common.

    Attributes:
        header: whose fields are compared, apart from those that differ between peers.
        state: digest of the state before the round; zeros if there is none.
    """

    header: Header
    state: bytes = NO_STATE

    @property
    def key(self) -> tuple[object, ...]:
        """Values that are equal for equal terms."""
        return (*_get_compared(self.header), self.state)

    def find_difference(self, other: Terms) -> str:
        """Return the reason of a CollectiveError for other terms."""
        if self.state != other.state:
            return "parameters"
        for reason, names in (
            ("operation", _COMPARED[:3]),
            ("shape", _COMPARED[3:6]),
            ("scheme", _COMPARED[6:]),
        ):
            if any(getattr(self.header, name) != getattr(other.header, name) for name in names):
                return reason
        return ""


@dataclass(frozen=True, eq=False)
class Contribution:
    """Readable object of a peer in a round.

    Attributes:
        name: of the peer.
        digest: of the object.
        signature: that the object has, which need not be right; all other attributes follow from the digest.
        terms: of the peer, with its weight.
        payload: a container, bytes, or the text of a peer that cannot contribute.
    """

    name: str
    digest: bytes
    signature: bytes
    terms: Terms
    payload: ByteArray

    @property
    def weight(self) -> float:
        """Weight of the peer's values."""
        return self.terms.header.weight

    @property
    def is_absent(self) -> bool:
        """Whether the peer says that it cannot contribute."""
        return self.terms.header.status != Status.OK


def max_object(rules: Rules) -> int:
    """Return the most bytes of a contribution."""
    return rules.max_bytes + OVERHEAD + MAX_NAME + HEAD


def make_body(terms: Terms, payload: ByteArray | bytes) -> bytes:
    """Serialize a contribution."""
    header = terms.header._replace(payload_len=len(payload))
    return b"".join((header.pack(), terms.state, bytes(payload)))


def read_contribution(data: bytes, run: bytes, number: int, name: str, rules: Rules) -> Contribution:
    """Parse a contribution; raise Refused if it does not belong in this place.

    The verdict follows from the digest alone. The signature is not checked.

    Args:
        data: the object's bytes, whose digest was checked.
        run, number: of the round.
        name: of the peer, from the path.
        rules: of the run.
    """
    found = Envelope.parse(data)
    found.require_place([Kind.CONTRIBUTION], run, number, name)
    body = found.body
    if len(body) < HEAD:
        raise Refused("header", "a contribution has no whole header")
    header = Header.unpack(body[:HEADER_SIZE])
    state, payload = body[HEADER_SIZE:HEAD], np.frombuffer(body, np.uint8)[HEAD:]
    if header.magic != MAGIC or header.version != VERSION or header.sequence != number:
        raise Refused("header", "a contribution has another header")
    if header.payload_len != len(payload):
        raise Refused("header", "the length of a payload is not that in its header")
    if len(payload) > rules.max_bytes:
        raise Refused("max-bytes", f"a payload has more than {rules.max_bytes} bytes")
    if not 0 <= header.weight <= rules.max_weight:
        raise Refused("weight", f"weight is {header.weight!r}; the run allows 0 to {rules.max_weight!r}")
    return Contribution(name, found.digest, found.signature, Terms(header, state), payload)


def judge(contribution: Contribution, terms: Terms, check: Check) -> None:
    """Raise Refused unless a contribution can be a part of a sum.

    Args:
        contribution: of any peer.
        terms: on which members agree.
        check: checks the payload.
    """
    if contribution.is_absent:
        raise Refused("absent", "the peer cannot contribute")
    if contribution.terms.key != terms.key:
        raise Refused(contribution.terms.find_difference(terms), "the peer differs from the others")
    try:
        check(contribution.payload, contribution.terms.header)
    except wc.WireError as error:
        raise Refused(error.code, error.message) from error


def pack_contribution(name: str, run: bytes, number: int, body: bytes, sign: Sign) -> tuple[Envelope, bytes]:
    """Return an object of this peer, and its bytes."""
    made = Envelope(Kind.CONTRIBUTION, run, number, name, body)
    return made, made.pack(sign)
