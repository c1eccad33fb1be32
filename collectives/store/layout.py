"""Names of peers and of objects in the folder of a run: formats/spec/rounds.md, section 1.

A name of a peer is checked before it becomes a part of a path. A path that others have made is parsed, not
trusted: whatever does not have this form is ignored.
"""

from __future__ import annotations

import re
from typing import NamedTuple

MAX_NAME = 64  # bytes
SLOTS = 32
"""Slots of an agreed object, and of the log of a round. Those whose bytes are not valid are passed over."""
MAX_ROUND = 10**12 - 1

NAME = "[A-Za-z0-9][A-Za-z0-9_-]{0,63}"
"""Regular expression of a name. Like all others here, it has no class of digits of other scripts."""
_NAME = re.compile(NAME)
_OBJECT = re.compile(rf"({NAME})\.([0-9a-f]{{64}})")
_STATE = re.compile(rf"([0-9]{{12}})\.({NAME})\.([0-9a-f]{{64}})")
_ROUND = re.compile(r"[0-9]{12}")
_SLOT = re.compile(r"members\.([0-9]{2})")

ROUNDS, STATES = "rounds", "states"


class ObjectName(NamedTuple):
    """Name of a contribution.

    Attributes:
        name: of the peer, as the path claims.
        digest: of the object, in hexadecimal digits.
    """

    name: str
    digest: str


def check_name(name: object, what: str = "name") -> str:
    """Return a name; raise ValueError if it cannot be the name of a peer or of a run."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError(
            f"{what} is {name!r}; it must have 1 to {MAX_NAME} letters, digits, '-' and '_', and start with a"
            " letter or a digit"
        )
    return name


def is_name(name: object) -> bool:
    """Return whether a value can be the name of a peer."""
    return isinstance(name, str) and _NAME.fullmatch(name) is not None


def path_of_round(number: int) -> str:
    """Return the folder of a round."""
    return f"{ROUNDS}/{number:012d}"


def path_of_contribution(number: int, name: str, digest: bytes) -> str:
    """Return the path of a peer's object in a round."""
    return f"{path_of_round(number)}/{name}.{digest.hex()}"


def path_of_members(number: int, slot: int) -> str:
    """Return the path of a slot in the log of a round."""
    return f"{path_of_round(number)}/members.{slot:02d}"


def path_of_state(number: int, name: str, digest: bytes) -> str:
    """Return the path of the state before a round."""
    return f"{STATES}/{number:012d}.{name}.{digest.hex()}"


def path_of_settings(slot: int) -> str:
    """Return the path of a slot for the settings of the run."""
    return f"settings.{slot:02d}"


def path_of_start(slot: int) -> str:
    """Return the path of a slot for the state before round 0."""
    return f"start.{slot:02d}"


def parse_contribution(base: str) -> ObjectName | None:
    """Parse the last part of a path; return None if it is no contribution."""
    found = _OBJECT.fullmatch(base)
    return ObjectName(found[1], found[2]) if found else None


def parse_slot(base: str) -> int | None:
    """Return the number of a slot in the log of a round, or None."""
    found = _SLOT.fullmatch(base)
    return int(found[1]) if found and int(found[1]) < SLOTS else None


def parse_round(base: str) -> int | None:
    """Return the number of a round's folder, or None."""
    return int(base) if _ROUND.fullmatch(base) else None


def parse_state(base: str) -> tuple[int, ObjectName] | None:
    """Return the round and the name of a published state, or None."""
    found = _STATE.fullmatch(base)
    return (int(found[1]), ObjectName(found[2], found[3])) if found else None
