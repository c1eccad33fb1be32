"""Rounds in which all objects are right: weights, means, keys, and calls of each kind (spec/rounds.md)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from formats.reference import Rice
from formats.vector_cases.case import Case
from formats.vector_cases.peer_case import begin_case, round_case
from formats.vector_cases.peers.ed25519 import ORDER
from formats.vector_cases.peers.folder import Folder, encode, make_keys
from formats.vector_cases.peers.header import ALLREDUCE, GATHER, GATHER_BYTES, MEAN, NONE, SUM, Spec
from formats.vector_cases.peers.objects import MEMBERS, Envelope, Rules
from formats.vector_cases.peers.rounds import TAKES, Call, parse_scheme
from formats.vector_cases.peers.texts import compressor_text, mapping_text

SCHEME = "nonzero | rice | raw"
ONE = (Spec(None, "float32", (8,)),)
CALL = Call(ALLREDUCE, SUM, SCHEME, ONE)
AVERAGE = replace(CALL, reduction=MEAN)
NAMED = (
    Spec("b", "bfloat16", (4,)),
    Spec("d", "float64", (3,)),
    Spec("h", "float16", (4,)),
    Spec("w", "float32", (2, 3)),
    Spec("é", "float32", ()),
)
ROUND = 3
FIRST, SECOND, THIRD = {0: 1.5, 3: -2.0, 7: 1e8}, {0: 0.25, 3: 0.1, 7: 1.0}, {2: -7.0, 7: -1e8}
"""Elements of three peers; the sum of the last element depends on the order."""


def cases() -> Iterator[Case]:
    """Yield all cases of this module."""
    yield _usual("mean", "The mean of three peers without keys; the order of the sum shows.", AVERAGE)
    yield _usual("sum", "Their sum.", CALL)
    yield from _weights()
    yield _named()
    yield _keyed()
    yield from _other_calls()
    yield from _schemes()
    yield _reserved()
    yield from _begins()


def begin(quorum: int = 2, *names: str, **rules: float | None) -> Folder:
    """Return a folder with settings, and with keys of some peers."""
    folder = Folder(Rules(quorum, **rules), keys=make_keys(*names))  # type: ignore[arg-type]
    folder.settle()
    return folder


def _usual(id: str, about: str, call: Call, weights: tuple[float, ...] = (1.0, 1.0, 1.0)) -> Case:
    folder, made = begin(), []
    for name, row, weight in zip(("alice", "bob", "carol"), (FIRST, SECOND, THIRD), weights, strict=True):
        made.append(folder.contribute(call, ROUND, name, encode(ONE, [row]), weight=weight))
    folder.decide(ROUND, made)
    counts = any(weights)
    return round_case(id, about, folder, call, ROUND, TAKES, ("alice", "bob", "carol"), counts=counts)


def _weights() -> Iterator[Case]:
    yield _usual("sum-weights", "A sum with weights; nothing is added for weight 0.", CALL, (0.1, 4.0, 0.0))
    yield _usual("mean-weights", "A mean: weights times a power of 2.", AVERAGE, (3.0, 0.1, 1.7))
    yield _usual("mean-weights-equal", "Equal weights, and -0: factors 1, 1, 0.", AVERAGE, (0.3, 0.3, -0.0))
    yield _usual("weights-zero", "All weights are 0: the round counts for nobody.", AVERAGE, (0.0, 0.0, 0.0))
    folder = begin()
    rows = ({0: 3e38}, {0: 3e38})
    made = [
        folder.contribute(CALL, ROUND, name, encode(ONE, [row]))
        for name, row in zip(("alice", "bob"), rows, strict=True)
    ]
    folder.decide(ROUND, made)
    about = "Finite values whose sum is not: the round counts for nobody."
    yield round_case("sum-infinite", about, folder, CALL, ROUND, TAKES, ("alice", "bob"), counts=False)


def _named() -> Case:
    call, folder = replace(AVERAGE, specs=NAMED), begin()
    rows = (
        [{0: 1.0, 2: -3.5}, {0: 0.1, 1: 1e300}, {3: 2048.0}, {0: 1.0, 5: 2.0}, {0: 0.5}],
        [{0: 1 / 128}, {0: 0.2}, {3: 1.0}, {5: 1e-3}, {}],
        [{2: 2.0}, {2: -0.7}, {3: 1.0, 1: 5.0}, {}, {0: -8.0}],
    )
    made = [
        folder.contribute(call, ROUND, name, encode(NAMED, row), weight=weight)
        for name, row, weight in zip(("alice", "bob", "carol"), rows, (1.0, 0.5, 3.0), strict=True)
    ]
    folder.decide(ROUND, made)
    about = "Tensors of four types with names; containers have no names."
    return round_case("named", about, folder, call, ROUND, TAKES, ("alice", "bob", "carol"))


def _keyed() -> Case:
    """Return a round with keys: signatures in objects have no part in it, those in members count."""
    folder = begin(2, "alice", "bob", "carol", "reader")
    made = [
        folder.contribute(CALL, ROUND, name, encode(ONE, [row]))
        for name, row in (("alice", FIRST), ("bob", SECOND), ("carol", THIRD))
    ]
    path = next(path for path in folder.objects if "/bob." in path)
    folder.objects[path] = folder.objects[path][:-96] + bytes(range(96))
    stranger = Folder(folder.rules, keys={"mallory": make_keys("mallory")["mallory"]}, body=folder.body)
    body = encode(ONE, [{0: 1.0}])
    stranger.contribute(CALL, ROUND, "mallory", body)
    folder.objects |= stranger.objects
    rows = [folder.row(one) for one in made]

    def forge(slot: int, key: str, **fields: object) -> None:
        right = folder.propose(ROUND, slot, made)
        forged = replace(right, **fields)  # type: ignore[arg-type]
        folder.objects[f"rounds/{ROUND:012d}/members.{slot:02d}"] = forged.pack(
            {**folder.keys, **stranger.keys}.get(key)
        )

    forge(0, "mallory", name="mallory")
    forge(1, "bob")
    forge(2, "nobody")
    old = Envelope(MEMBERS, folder.run, ROUND - 1, "alice", folder.propose(ROUND, 3, made).body)
    forge(3, "nobody", signature=old.sign(folder.keys["alice"]))
    earlier = [replace(one, number=ROUND - 1) for one in made]
    stale = [(n, d, e.sign(folder.keys[n]).hex()) for (n, d, _), e in zip(rows, earlier, strict=True)]
    folder.propose(ROUND, 4, stale)
    folder.propose(ROUND, 5, [rows[0], (rows[1][0], rows[1][1], rows[2][2])])
    folder.propose(ROUND, 6, [rows[0], (rows[1][0], rows[1][1], "00" * 64)])
    signed = folder.propose(ROUND, 7, made).sign(folder.keys["alice"])
    large = int.from_bytes(signed[32:], "little") + ORDER
    forge(7, "nobody", signature=signed[:32] + large.to_bytes(32, "little"))
    good = folder.propose(ROUND, 8, made, name="carol")
    folder.take(ROUND, 9, good, "bob")
    about = "Ed25519 keys: eight forged proposals, a stranger, and an object with another end."
    return round_case("keyed", about, folder, CALL, ROUND, TAKES, ("alice", "bob", "carol"))


def _other_calls() -> Iterator[Case]:
    call = Call(GATHER_BYTES, NONE, "", ())
    folder = begin()
    made = [
        folder.contribute(call, ROUND, name, data) for name, data in (("alice", b""), ("bob", b"any bytes"))
    ]
    folder.decide(ROUND, made)
    about = "An allgather of bytes: algorithm, dtype, elements and both hashes are 0."
    yield round_case("gather-bytes", about, folder, call, ROUND, TAKES, ("alice", "bob"))
    call = replace(CALL, operation=GATHER, reduction=NONE)
    folder = begin()
    made = [
        folder.contribute(call, ROUND, name, encode(ONE, [row]))
        for name, row in (("alice", FIRST), ("bob", SECOND))
    ]
    folder.decide(ROUND, made)
    about = "An allgather of tensors: algorithm 1, no reduction."
    yield round_case("gather", about, folder, call, ROUND, TAKES, ("alice", "bob"))


def _schemes() -> Iterator[Case]:
    schemes = [["b", "all | bitmap | raw"], ["*", "topk(0.5) | rice | raw"]]
    stages = tuple(parse_scheme(text) for _, text in schemes)
    specs = (Spec("b", "float32", (4,)), Spec("w", "float32", (8,)))
    rows = [[{0: 1.0, 1: 2.0}, {3: 1.0}], [{2: 1.0}, {3: 0.5, 4: 0.5}]]
    for id, text, about in (
        ("schemes", mapping_text(schemes), "Schemes by name; each may have the codecs of the other."),
        ("compressor", compressor_text(schemes, step=ROUND), "Compressors, whose step is the round."),
    ):
        call, folder = Call(ALLREDUCE, MEAN, text, specs, stages=stages), begin()
        made = [
            folder.contribute(call, ROUND, name, encode(specs, row, ["bitmap", Rice()], names=True))
            for name, row in zip(("alice", "bob"), rows, strict=True)
        ]
        made.append(folder.contribute(call, ROUND, "carol", encode(specs, rows[0], "bitmap")))
        folder.decide(ROUND, made)
        yield round_case(id, about, folder, call, ROUND, TAKES, ("alice", "bob", "carol"))


def _reserved() -> Case:
    folder = begin()
    made = [folder.contribute(CALL, ROUND, "alice", encode(ONE, [FIRST]))]
    made.append(folder.put(replace(folder.make(CALL, ROUND, "bob", encode(ONE, [SECOND])), reserved=9)))
    proposal = replace(folder.propose(ROUND, 0, made), reserved=255)
    folder.objects[f"rounds/{ROUND:012d}/members.00"] = proposal.pack()
    taken = replace(folder.take(ROUND, 1, proposal), reserved=1)
    folder.objects[f"rounds/{ROUND:012d}/members.01"] = taken.pack()
    about = "Reserved bytes that are not 0, under right digests."
    return round_case("reserved", about, folder, CALL, ROUND, TAKES, ("alice", "bob"))


def _decide_in(folder: Folder, number: int, *, void: bool) -> None:
    """Write the log of a round whose objects were deleted."""
    made = [
        folder.make(CALL, number, name, encode(ONE, [row]))
        for name, row in (("alice", FIRST), ("bob", SECOND))
    ]
    folder.decide(number, [] if void else made)


def _begins() -> Iterator[Case]:
    folder = begin()
    yield begin_case("begins-0", "A run without rounds.", folder, 0)
    for number in (0, 1):
        _decide_in(folder, number, void=True)
    yield begin_case("begins-void", "Void rounds from the first on are passed over.", folder, 2)
    _decide_in(folder, 2, void=False)
    _decide_in(folder, 3, void=True)
    folder.contribute(CALL, 4, "alice", encode(ONE, [FIRST]))
    _decide_in(folder, 5, void=True)
    folder.objects["rounds/000000000009/members.00"] = b"garbage"
    folder.objects["rounds/00000000000a/members.00"] = b"garbage"
    about = "The newest round is 2; after the void round 3 follows 4, whatever later folders have."
    yield begin_case("begins-after", about, folder, 4)
    folder = begin()
    _decide_in(folder, 7, void=False)
    yield begin_case("begins-absent", "The log of round 7 decides, also without its objects.", folder, 8)
