"""Rules of a run, on which all peers agree: what a peer refuses must not depend on the peer.

The first peer writes them into the store, with a random number of this run. Any other compares its own rules
with them. Both are a part of the run that all further objects name, so objects of an earlier training of the
same name, or of peers with other rules, are those of another run.
"""

from __future__ import annotations

import re
import secrets
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass, fields

from collectives.errors import Refused
from collectives.store.envelope import Envelope, Kind, Sign, check_everyone, hash_run, open_slot
from collectives.store.files import Files
from collectives.store.layout import path_of_settings
from collectives.store.slots import Slots

MAX_SETTINGS = 4096
"""Bytes of the object with the rules."""
FORMAT = "1.1"
"""Version of the format that readers of a run check wholly, with the records that it lets others skip."""
_MOST = 2**53
"""Largest integer of a rule."""
_LARGEST = sys.float_info.max
_FIXED_ROUND = 0
_INTEGER = "[1-9][0-9]{0,15}"
_REAL = r"(?:0|[1-9][0-9]{0,16})(?:\.[0-9]{1,20})?(?:e[+-]?[0-9]{1,3})?"
_SETTINGS = re.compile(
    rf'\{{"format":"(?P<format>[0-9.]{{1,16}})","instance":"(?P<instance>[0-9a-f]{{32}})",'
    rf'"keys":"(?P<keys>(?:[0-9a-f]{{64}})?)","max_bytes":(?P<max_bytes>{_INTEGER}),'
    rf'"max_norm":(?P<max_norm>null|{_REAL}),"max_peers":(?P<max_peers>{_INTEGER}),'
    rf'"max_weight":(?P<max_weight>{_REAL}),"quorum":(?P<quorum>{_INTEGER})\}}'
)


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
    format: str = FORMAT

    def __post_init__(self) -> None:
        for name in ("quorum", "max_bytes", "max_peers"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= _MOST:
                raise ValueError(f"{name} is {value!r}; it must be a whole number, 1 to 2^53")
        if self.quorum > self.max_peers:
            raise ValueError(f"quorum is {self.quorum}, and max_peers is {self.max_peers}")
        if not isinstance(self.keys, str) or len(self.keys) > 64:
            raise ValueError("keys is no digest")
        for name in ("max_norm", "max_weight"):
            value = getattr(self, name)
            if value is None and name == "max_norm":
                continue
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= _LARGEST:
                raise ValueError(f"{name} is {value!r}; it must be a number above 0")
            object.__setattr__(self, name, float(value))


@dataclass(frozen=True)
class Settings:
    """Settings of a run.

    Attributes:
        rules: of the run.
        instance: 32 hexadecimal digits by which this run differs from others of its name.
    """

    rules: Rules
    instance: str

    @classmethod
    def draw(cls, rules: Rules) -> Settings:
        """Return the settings of a new run."""
        return cls(rules, secrets.token_hex(16))

    def pack(self) -> bytes:
        """Serialize the settings: JSON without blanks, in ascending order of the members."""
        one = self.rules
        norm = "null" if one.max_norm is None else repr(one.max_norm)
        return (
            f'{{"format":"{one.format}","instance":"{self.instance}","keys":"{one.keys}",'
            f'"max_bytes":{one.max_bytes},"max_norm":{norm},"max_peers":{one.max_peers},'
            f'"max_weight":{one.max_weight!r},"quorum":{one.quorum}}}'
        ).encode()


def parse_settings(body: bytes) -> Settings:
    """Parse the settings of a run; raise Refused if they are none."""
    found = _SETTINGS.fullmatch(body.decode("latin-1"))
    if found is None:
        raise Refused("rules", "the settings of the run cannot be read")
    try:
        rules = Rules(
            quorum=int(found["quorum"]),
            max_bytes=int(found["max_bytes"]),
            max_norm=None if found["max_norm"] == "null" else float(found["max_norm"]),
            max_weight=float(found["max_weight"]),
            max_peers=int(found["max_peers"]),
            keys=found["keys"],
            format=found["format"],
        )
    except ValueError as error:
        raise Refused("rules", f"the settings of the run are not valid: {error}") from None
    return Settings(rules, found["instance"])


def make_slots(
    files: Files, run: str, grace: float, refuse: Callable[[Refused], object] = lambda refused: None
) -> Slots:
    """Return the slots of the settings.

    Args:
        files: of the run.
        run: its name.
        grace: seconds for which a slot may be incomplete.
        refuse: is called with the verdict on each slot that is not valid.
    """

    def parse(data: bytes) -> Envelope:
        try:
            found = open_slot(data, [Kind.SETTINGS], hash_run(run), _FIXED_ROUND, check_everyone)
            parse_settings(found.body)
        except Refused as refused:
            refuse(refused)
            raise
        return found

    return Slots(files, path_of_settings, parse, MAX_SETTINGS, grace)


def agree_on_rules(files: Files, rules: Rules, run: str, name: str, sign: Sign) -> bytes:
    """Write the rules into the store, or compare them with those that are there; return the hash of the run.

    Their signature has no meaning: rules that differ from this peer's are an error, whoever has written them.
    Settings of another version are garbage, as a stranger can write them, too; there is a warning.

    Args:
        files: of the run.
        rules: of this peer.
        run: name of the run.
        name: of this peer.
        sign: makes signatures.

    Raises:
        OtherRules: the run has others; the message names each difference.
        CollectiveError: the store fails, or somebody has destroyed the settings.
    """
    own = Envelope(Kind.SETTINGS, hash_run(run), _FIXED_ROUND, name, Settings.draw(rules).pack())
    refused = dict[str, str]()
    slots = make_slots(
        files, run, min(5.0, files.patience / 4), lambda one: refused.update({one.code: one.message})
    )
    agreed = slots.claim(lambda: own.pack(sign))
    if "version" in refused:
        warnings.warn(
            f"settings of run {run!r} in {files.root}: {refused['version']}. Peers whose programs write that"
            " version are in another run, beside this one; install the same version of wirecodec on all",
            stacklevel=3,
        )
    theirs = parse_settings(agreed.body).rules
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
    return hash_run(run, agreed.body)
