"""Logs of rounds: slots with garbage, dropped proposals, void rounds, groups (spec/rounds.md, 5)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from formats.vector_cases.case import Case, patch
from formats.vector_cases.peer_case import round_case
from formats.vector_cases.peers.folder import INSTANCE, Folder, encode
from formats.vector_cases.peers.header import MEAN
from formats.vector_cases.peers.objects import (
    CONTRIBUTION,
    DROPPED,
    MEMBERS,
    SETTINGS,
    TAKEN,
    Envelope,
    Rules,
    hash_run,
    write_proposal,
)
from formats.vector_cases.peers.rounds import LOST, OPEN, OTHER, TAKES, VOID
from formats.vector_cases.rounds import AVERAGE, CALL, FIRST, ONE, ROUND, SECOND, THIRD, begin

NAMES = "alice", "bob"


def cases() -> Iterator[Case]:
    """Yield all cases of this module."""
    yield _garbage()
    yield _forms()
    yield from _decisions()
    yield from _void()
    yield from _groups()
    yield _settings()


def _two(folder: Folder) -> list[Envelope]:
    """Let two peers contribute."""
    rows = zip(NAMES, (FIRST, SECOND), strict=True)
    return [folder.contribute(CALL, ROUND, name, encode(ONE, [row])) for name, row in rows]


def _slot(number: int) -> str:
    return f"rounds/{ROUND:012d}/members.{number:02d}"


def _garbage() -> Case:
    folder = begin()
    made = _two(folder)
    right = folder.propose(ROUND, 0, made)
    data = right.pack()
    for slot, wrong in enumerate(
        (
            b"garbage",
            b"",
            data[:-1],
            data + b"\0",
            patch(data, len(data) - 96, "B", data[-96] ^ 1),
            replace(right, version=1).pack(),
            replace(right, version=3).pack(),
            replace(right, magic=b"\xf7WC\x1a").pack(),
            replace(right, kind=CONTRIBUTION).pack(),
            replace(right, kind=7).pack(),
            replace(right, number=ROUND - 1).pack(),
            replace(right, run=hash_run("demo")).pack(),
            replace(right, name=".").pack(),
            replace(right, kind=TAKEN, body=right.digest[:-1]).pack(),
            replace(right, kind=TAKEN, body=b"").pack(),
            replace(right, kind=DROPPED, body=b"\0").pack(),
        )
    ):
        folder.objects[_slot(slot)] = wrong
    folder.objects[_slot(16)] = patch(right.pack(), len(data) - 64, "Q", 1)  # a signature without keys
    folder.take(ROUND, 17, right)
    about = "Sixteen slots with garbage, and a proposal whose signature has no meaning without keys."
    return round_case("slots-garbage", about, folder, CALL, ROUND, TAKES, NAMES)


def _forms() -> Case:
    folder = begin()
    made = _two(folder)
    alice, bob = (folder.row(one) for one in made)
    right = write_proposal([alice, bob]).decode()
    for slot, body in enumerate(
        (
            "{}",
            "[]",
            right.replace(",", ", "),
            right + "\n",
            right[:-1] + ',"more":1}',
            '{"refused":[],"accepted":[]}',
            write_proposal([alice]).decode(),
            write_proposal([bob, alice]).decode(),
            write_proposal([alice, alice]).decode(),
            right.replace(alice[1].hex(), alice[1].hex().upper()),
            right.replace("00" * 64, "00" * 63, 1),
            right.replace('"alice"', '"al ice"'),
            right.replace('"refused":[]', '"refused":[["a","b","c"]]'),
            right.replace('"refused":[]', f'"refused":[["a","{"ab" * 32}","A"]]'),
            right.replace('"refused":[]', f'"refused":[["a","{"ab" * 32}",""]]'),
            right.replace('"refused":[]', f'"refused":[["a","{"ab" * 32}","x"],]'),
        )
    ):
        folder.record(ROUND, slot, MEMBERS, body.encode())
    refused = [("zoe", bytes(32), "a"), ("adam", bytes(32), "0-z"), ("adam", bytes(32), "z" * 64)]
    named = [(name, digest, "ff" * 64) for name, digest, _ in (alice, bob)]
    folder.take(ROUND, 17, folder.propose(ROUND, 16, named, refused))
    about = "Sixteen bodies that are no proposal, and one with any signatures and refused objects."
    return round_case("slots-forms", about, folder, CALL, ROUND, TAKES, NAMES)


def _decisions() -> Iterator[Case]:
    folder = begin()
    made = _two(folder)
    absent = ("mallory", bytes(range(32)), "00" * 64)
    folder.propose(ROUND, 0, [made[0], absent], name="mallory")
    about = "A proposal that names an absent object is pending."
    yield round_case("open-absent", about, folder, CALL, ROUND, OPEN)
    right = folder.propose(ROUND, 1, made)
    folder.drop(ROUND, 2, "bob")
    yield round_case("open-dropped", "Nothing is pending after a drop.", folder, CALL, ROUND, OPEN)
    folder.take(ROUND, 3, right)
    about = "A proposal that was not pending is taken after a drop; the record after it has no effect."
    folder.drop(ROUND, 4)
    yield round_case("taken-later", about, folder, CALL, ROUND, TAKES, NAMES)
    folder = begin()
    made = _two(folder)
    taken = folder.propose(ROUND, 0, [made[0], absent])
    folder.take(ROUND, 1, taken)
    folder.take(ROUND, 2, folder.propose(ROUND, 3, made))
    about = "Taken although an object is absent: no reader has a result."
    yield round_case("lost-absent", about, folder, CALL, ROUND, LOST)
    folder = begin()
    made = _two(folder)
    folder.propose(ROUND, 0, made)
    folder.record(ROUND, 1, TAKEN, bytes(32))
    yield round_case("lost-proposal", "No proposal has the digest that is taken.", folder, CALL, ROUND, LOST)
    folder = begin()
    made = _two(folder)
    folder.decide(ROUND, made)
    folder.put(made[1], data=made[0].pack())
    about = "An object was overwritten with that of another peer after the decision."
    yield round_case("lost-overwritten", about, folder, CALL, ROUND, LOST, verdicts={made[1].digest: None})


def _void() -> Iterator[Case]:
    folder = begin()
    made = _two(folder)
    folder.decide(ROUND, [])
    yield round_case("void", "A proposal without entries is taken.", folder, CALL, ROUND, VOID)
    folder = begin()
    made = _two(folder)
    bad = folder.contribute(CALL, ROUND, "carol", b"?")
    folder.decide(ROUND, [made[0], bad])
    about = "One good object of two, with a quorum of two."
    yield round_case("void-quorum", about, folder, CALL, ROUND, VOID, verdicts={bad.digest: "prefix"})
    folder = begin(3)
    made = [*_two(folder), folder.contribute(CALL, ROUND, "carol", b"", weight=-1.0)]
    folder.decide(ROUND, made)
    about = "Two objects with terms: the third has a wrong weight. The quorum is three."
    yield round_case("void-terms", about, folder, CALL, ROUND, VOID, verdicts={made[2].digest: "weight"})


def _groups() -> Iterator[Case]:
    folder = begin()
    made = _two(folder)
    others: list[Envelope] = []
    for name, fields in (
        ("carol", {"weight": -1.0}),
        ("dave", {"weight": math.inf}),
        ("eve", {"weight": math.nan}),
        ("frank", {"status": 1}),
        ("grace", {"status": 2}),
        ("harry", {}),
    ):
        given: dict[str, Any] = fields
        others.append(folder.contribute(AVERAGE, ROUND, name, encode(ONE, [THIRD]), **given))
    codes = ("weight", "weight", "weight", "absent", "absent", "operation")
    verdicts = dict(zip([one.digest for one in others], codes, strict=True))
    folder.decide(ROUND, [*made, *others])
    about = "The largest group is that of objects with a right weight and status 0."
    yield round_case("groups", about, folder, CALL, ROUND, TAKES, NAMES, verdicts)
    folder = begin()
    made = _two(folder)
    more = [
        folder.contribute(AVERAGE, ROUND, name, encode(ONE, [THIRD])) for name in ("aaron", "carol", "dave")
    ]
    folder.decide(ROUND, [*made, *more])
    verdicts = {one.digest: "operation" for one in more}
    about = "The members' terms are others: this peer leaves the round."
    yield round_case("groups-other", about, folder, CALL, ROUND, OTHER, (), verdicts)
    folder = begin()
    made = _two(folder)
    more = [folder.contribute(AVERAGE, ROUND, name, encode(ONE, [THIRD])) for name in ("aaron", "dave")]
    folder.decide(ROUND, [*made, *more])
    about = "Two groups of two: that of the first name counts, here another."
    verdicts = {one.digest: "operation" for one in more}
    yield round_case("groups-equal-other", about, folder, CALL, ROUND, OTHER, (), verdicts)
    assert AVERAGE.reduction == MEAN
    about = "Two groups of two: that of the first name counts."
    verdicts = {one.digest: "operation" for one in made}
    yield round_case("groups-equal", about, folder, AVERAGE, ROUND, TAKES, ("aaron", "dave"), verdicts)
    folder = begin()
    made = _two(folder)
    bad = [
        folder.contribute(AVERAGE, ROUND, name, encode(ONE, [{0: math.nan}]))
        for name in ("carol", "dave", "eve")
    ]
    folder.decide(ROUND, [*made, *bad])
    about = "The largest group has no good object, so the round is void for its peers."
    verdicts = dict.fromkeys((one.digest for one in bad), "nonfinite")
    verdicts |= dict.fromkeys((one.digest for one in made), "operation")
    yield round_case("groups-bad", about, folder, AVERAGE, ROUND, VOID, (), verdicts)


def _settings() -> Case:
    """Return a round after settings of many forms, of which the last is valid."""
    rules = Rules(2, max_bytes=1000, max_norm=1e9, max_peers=8, max_weight=1.0)
    usual = rules.write(INSTANCE).decode()
    odd = usual.replace("1000000000.0", "1e9").replace('"max_weight":1.0', '"max_weight":0.1e1')
    folder = Folder(rules, body=odd.encode())
    slot = 0
    for body in (
        "",
        "{}",
        usual.replace(",", ", "),
        usual + " ",
        usual.replace('"quorum":2}', '"quorum":2,"more":1}'),
        usual.replace('"format":"1.1",', ""),
        usual.replace('"format":"1.1"', '"format":"1.x"'),
        usual.replace(INSTANCE, INSTANCE.upper()),
        usual.replace(INSTANCE, INSTANCE[:-1]),
        usual.replace('"quorum":2', '"quorum":2.0'),
        usual.replace('"quorum":2', '"quorum":02'),
        usual.replace('"quorum":2', '"quorum":0'),
        usual.replace('"quorum":2', '"quorum":9'),
        usual.replace('"max_bytes":1000', f'"max_bytes":{2**53 + 1}'),
        usual.replace("1000000000.0", "0.0"),
        usual.replace("1000000000.0", "-1.0"),
        usual.replace("1000000000.0", "1e309"),
        usual.replace("1000000000.0", "1e-400"),
        usual.replace("1000000000.0", "1.e9"),
        usual.replace("1000000000.0", "1E9"),
        usual.replace("1000000000.0", "true"),
        usual.replace('"max_weight":1.0', '"max_weight":null'),
    ):
        made = Envelope(SETTINGS, hash_run("demo"), 0, "alice", body.encode())
        folder.objects[f"settings.{slot:02d}"] = made.pack()
        slot += 1
    for made in (
        Envelope(SETTINGS, hash_run("demo", usual.encode()), 0, "alice", usual.encode()),
        Envelope(SETTINGS, hash_run("demo"), 1, "alice", usual.encode()),
        Envelope(CONTRIBUTION, hash_run("demo"), 0, "alice", usual.encode()),
    ):
        folder.objects[f"settings.{slot:02d}"] = made.pack()
        slot += 1
    folder.settle(slot, "zoe")
    folder.decide(ROUND, _two(folder))
    about = "Settings of 25 forms that are none; those that count have other digits of the same numbers."
    return round_case("settings", about, folder, CALL, ROUND, TAKES, NAMES)
