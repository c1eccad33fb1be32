"""Rules of a run, on which all peers agree: what a peer refuses must not depend on the peer.

The first peer writes them into the store. Any other compares its own with them.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, fields
from typing import Any

from collectives.errors import Refused
from collectives.store.envelope import Envelope, Kind, check_everyone, open_envelope
from collectives.store.files import Files
from collectives.store.layout import path_of_settings
from collectives.store.slots import Slots

MAX_SETTINGS = 64 * 1024
"""Bytes of the object with the rules."""
_FIXED_ROUND = 0


class OtherRules(ValueError):
    """Error of a peer whose rules are not those of the run."""


@dataclass(frozen=True)
class Rules:
    """Rules of a run; ``StoreComm`` describes them.

    Raises:
        ValueError: a rule is out of range.
    """

    quorum: int
    max_bytes: int = 2**30
    max_norm: float | None = None
    max_weight: float = 1.0
    max_peers: int = 256
    keys: str = ""

    def __post_init__(self) -> None:
        for name in ("quorum", "max_bytes", "max_peers"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ValueError(f"{name} is {value!r}; it must be a number, 1 or more")
        if self.quorum > self.max_peers:
            raise ValueError(f"quorum is {self.quorum}, and max_peers is {self.max_peers}")
        if not isinstance(self.keys, str) or len(self.keys) > 64:
            raise ValueError("keys is no digest")
        for name in ("max_norm", "max_weight"):
            value = getattr(self, name)
            if value is None and name == "max_norm":
                continue
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
                raise ValueError(f"{name} is {value!r}; it must be a number above 0")
            object.__setattr__(self, name, float(value))

    def pack(self) -> bytes:
        """Serialize the rules as JSON with sorted keys."""
        return json.dumps(asdict(self), sort_keys=True).encode()


def parse_rules(body: bytes) -> Rules:
    """Parse the rules of a run; raise Refused if they are none."""
    try:
        found: Any = json.loads(body)
        names = {field.name for field in fields(Rules)}
        if not isinstance(found, dict) or set(found) != names:
            raise Refused("rules", "the settings of the run have other fields")
        return Rules(**found)
    except (ValueError, TypeError, RecursionError) as error:
        if isinstance(error, Refused):
            raise
        raise Refused("rules", f"the settings of the run cannot be read: {error}") from None


def agree_on_rules(files: Files, rules: Rules, run: bytes, name: str, sign: Any) -> None:
    """Write the rules into the store, or compare them with those that are there.

    Their signature has no meaning: rules that differ from this peer's are an error, whoever has written them.

    Args:
        files: of the run.
        rules: of this peer.
        run: hash of the run's name.
        name: of this peer.
        sign: makes signatures.

    Raises:
        OtherRules: the run has others; the message names each difference.
        CollectiveError: the store fails, or somebody has destroyed the settings.
    """

    def parse(data: bytes) -> Envelope:
        found = open_envelope(data, Kind.SETTINGS, run, _FIXED_ROUND, check_everyone)
        parse_rules(found.body)
        return found

    own = Envelope(Kind.SETTINGS, run, _FIXED_ROUND, name, rules.pack())
    slots = Slots(files, path_of_settings, parse, MAX_SETTINGS, grace=min(5.0, files.patience / 4))
    agreed = slots.claim(lambda: own.pack(sign))
    theirs = parse_rules(agreed.body)
    different = [
        f"{field.name} is {getattr(rules, field.name)!r}, and {getattr(theirs, field.name)!r} in the run"
        for field in fields(Rules)
        if getattr(rules, field.name) != getattr(theirs, field.name)
    ]
    if different:
        raise OtherRules(
            f"the rules of this peer are not those of the run, which {agreed.name!r} began:"
            f" {'; '.join(different)}. Pass the same on all peers, or begin another run"
        )
