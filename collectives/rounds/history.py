"""History of a run, as its store has it; objects of old rounds may have been deleted."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any

from collectives.errors import CollectiveError
from collectives.store.envelope import check_everyone, hash_run
from collectives.store.files import Files
from collectives.store.layout import (
    ROUNDS,
    is_name,
    parse_contribution,
    parse_round,
    parse_slot,
    path_of_round,
)
from collectives.store.log import Log, Place
from collectives.store.rules import Rules, make_slots, parse_settings


@dataclass(frozen=True)
class Arrival:
    """Contribution of a peer that is still in the store.

    Attributes:
        name: of the peer, as the path claims.
        digest: of the object, likewise.
        size: in bytes.
        after: seconds after the first contribution of the round, by the store's clock; None if unknown.
    """

    name: str
    digest: str
    size: int
    after: float | None


@dataclass(frozen=True)
class RoundRecord:
    """What happened in a round.

    Attributes:
        number: of the round.
        members: names of the peers that count, in the order of the sum; None while the round is open.
        refused: {name: code}.
        late: {name: seconds after the decision} of contributions that are not named; None if unknown.
        arrivals: contributions that are in the store.
        decided: seconds between the first contribution and the decision; None if unknown.
    """

    number: int
    members: Sequence[str] | None
    refused: dict[str, str]
    late: dict[str, float | None]
    arrivals: Sequence[Arrival]
    decided: float | None

    @property
    def sizes(self) -> list[int]:
        """Bytes of the members' objects that are in the store."""
        return [one.size for one in self.arrivals if one.name in (self.members or ())]

    def to_json(self) -> dict[str, Any]:
        """Return the record for ``--json``."""
        return asdict(self)


@dataclass(frozen=True)
class History:
    """Rounds of a run.

    Attributes:
        run: its name.
        rules: on which its peers agree.
        rounds: the newest ones, ascending.
        total: number of rounds whose folders are in the store.
    """

    run: str
    rules: Rules
    rounds: Sequence[RoundRecord]
    total: int


@dataclass(frozen=True)
class Summary:
    """Run in a folder of runs.

    Attributes:
        run: its name.
        rules: on which its peers agree.
        total: number of rounds whose folders are in the store.
    """

    run: str
    rules: Rules
    total: int


class NoRun(ValueError):
    """Error of a path that is no folder of a run."""


def read_history(files: Files, run: str, last: int) -> History:
    """Read the newest rounds of a run. Signatures are not checked, because that takes the run's keys.

    Args:
        files: of the run.
        run: its name.
        last: number of rounds.

    Raises NoRun if there is no such run.
    """
    place = find_place(files, run)
    if place is None:
        raise NoRun(_describe_missing(files))
    numbers = _list_rounds(files)
    rounds = [_read_round(replace(place, number=number)) for number in numbers[-last:]]
    return History(run, place.rules, rounds, len(numbers))


def read_runs(files: Files) -> list[Summary]:
    """Return the runs in a folder, by their names."""
    summaries = []
    for entry in files.entries(""):
        if entry.is_folder and is_name(entry.base):
            folder = files.below(entry.base)
            place = find_place(folder, entry.base)
            if place is not None:
                summaries.append(Summary(entry.base, place.rules, len(_list_rounds(folder))))
    return summaries


def _describe_missing(files: Files) -> str:
    """Describe why a path is no folder of a run."""
    found = files.entries("")
    if [one.base for one in found if not one.is_folder] == [files.root.rpartition("/")[2]]:
        return f"{files.root} is a file, and a run is a folder"
    why = "it has no settings that can be read" if found else "there is no such folder, or it is empty"
    return f"{files.root} is no folder of a run: {why}"


def _list_rounds(files: Files) -> list[int]:
    return sorted(n for entry in files.entries(ROUNDS) if (n := parse_round(entry.base)) is not None)


def find_place(files: Files, run: str) -> Place | None:
    """Return the place of the first round of a run, or None if there is no such run."""
    _, found = make_slots(files, run, grace=0).find()
    if found is None:
        return None
    rules = parse_settings(found.body).rules
    return Place(files, rules, hash_run(run, found.body), 0, check_everyone, frozenset())


def _read_round(place: Place) -> RoundRecord:
    """Read one round."""
    number = place.number
    entries = place.files.entries(path_of_round(number))
    log = Log(place, grace=0)
    with suppress(CollectiveError):
        log.read()
    members = log.decision
    objects = [(named, entry) for entry in entries if (named := parse_contribution(entry.base)) is not None]
    times = [entry.written for _, entry in objects if entry.written is not None]
    first = min(times, default=None)
    at = next((entry.written for entry in entries if parse_slot(entry.base) == log.slot - 1), None)
    arrivals = [
        Arrival(named.name, named.digest, entry.size, _subtract(entry.written, first))
        for named, entry in objects
    ]
    if members is None:
        return RoundRecord(number, None, {}, {}, arrivals, None)
    known = {one.digest.hex() for one in members.accepted} | {one.digest for one in members.refused}
    late = {named.name: _subtract(entry.written, at) for named, entry in objects if named.digest not in known}
    return RoundRecord(
        number,
        [one.name for one in members.accepted],
        {one.name: one.code for one in members.refused},
        late,
        arrivals,
        _subtract(at, first),
    )


def _subtract(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one - other
