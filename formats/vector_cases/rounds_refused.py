"""Rounds with objects that do not count: every verdict on a contribution (spec/rounds.md, 2 and 3)."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from formats.reference import Qsgd, Record, Spectrum, Tensor, write
from formats.reference.extension import CRITICAL
from formats.reference.writing.records import write_semantics
from formats.vector_cases.case import Case, patch, values_of
from formats.vector_cases.peer_case import round_case
from formats.vector_cases.peers.folder import Folder, encode
from formats.vector_cases.peers.header import MEAN, Spec
from formats.vector_cases.peers.objects import CONTRIBUTION, STATE, Envelope, hash_run
from formats.vector_cases.peers.rounds import TAKES
from formats.vector_cases.rounds import CALL, FIRST, ONE, ROUND, SECOND, begin

SEMANTICS = 9
"""Type of the record of patches."""
GOOD = encode(ONE, [FIRST])

Verdicts = dict[bytes, str | None]


def cases() -> Iterator[Case]:
    """Yield all cases of this module."""
    yield _envelopes()
    yield _arrivals()
    yield _headers()
    yield _terms()
    yield _containers()
    yield _norms()
    yield _large_norms()
    yield _several()


def _honest(folder: Folder) -> tuple[str, ...]:
    """Let two peers take part, and decide; return their names."""
    made = [
        folder.contribute(CALL, ROUND, name, encode(ONE, [row]))
        for name, row in (("alice", FIRST), ("bob", SECOND))
    ]
    folder.decide(ROUND, made)
    return "alice", "bob"


def _put(folder: Folder, data: bytes, name: str = "mallory") -> bytes:
    """Write bytes under the digest of all but the last 96; return the digest."""
    digest = hashlib.sha256(data[:-96]).digest()
    folder.objects[f"rounds/{ROUND:012d}/{name}.{digest.hex()}"] = data
    return digest


def _finish(id: str, about: str, folder: Folder, verdicts: Verdicts) -> Case:
    names = _honest(folder)
    return round_case(id, about, folder, CALL, ROUND, TAKES, names, verdicts)


def _envelopes() -> Case:
    folder = begin()
    right = folder.make(CALL, ROUND, "mallory", GOOD)
    verdicts: Verdicts = {}
    for code, made in (
        ("magic", replace(right, magic=b"\xf7WCH")),
        ("magic", replace(right, magic=b"\xf7WCH", version=1)),
        ("version", replace(right, version=1)),
        ("version", replace(right, version=3, name="a b")),
        ("name", replace(right, name="mal lory", run=bytes(16))),
        ("run", replace(right, run=hash_run("demo"), kind=STATE)),
        ("run", replace(right, run=hash_run("other", folder.body))),
        ("replay", replace(right, kind=STATE)),
        ("replay", replace(right, number=ROUND + 1, name="mallory2")),
        ("replay", replace(right, number=10**12)),
        ("name", replace(right, name="mallory2")),
    ):
        verdicts[_put(folder, made.pack())] = code
    data = right.pack()
    verdicts[_put(folder, patch(data, 16, "Q", len(right.body) + 1))] = "truncated"
    verdicts[_put(folder, patch(data, 16, "Q", 2**64 - 1))] = "truncated"
    verdicts[_put(folder, patch(data, 6, "B", 255))] = "truncated"
    verdicts[_put(folder, patch(data, 4, "B", 9)[:-1])] = "version"
    about = "Envelopes of each kind of error, in the order of the checks."
    return _finish("verdicts-envelope", about, folder, verdicts)


def _arrivals() -> Case:
    folder = begin(max_bytes=200)
    right = folder.make(CALL, ROUND, "mallory", GOOD)
    verdicts: Verdicts = {}
    folder.put(replace(right, reserved=7))
    folder.put(replace(right, reserved=8), data=replace(right, reserved=8).pack()[:-96] + b"\xff" * 96)
    other = replace(right, reserved=9)
    folder.put(other, data=other.pack()[:-97] + b"\xff" * 97)
    verdicts[other.digest] = None
    verdicts[_put(folder, bytes(135))] = None
    verdicts[_put(folder, bytes(136))] = "magic"
    verdicts[_put(folder, b"\xf7WCR" + bytes(500), "x" * 64)] = "version"
    verdicts[_put(folder, b"\xf7WCR" + bytes(501), "x" * 64)] = None
    payload = bytes(201)
    verdicts[folder.contribute(CALL, ROUND, "short", payload).digest] = "max-bytes"
    verdicts[folder.contribute(CALL, ROUND, "y" * 64, payload).digest] = None
    verdicts[folder.contribute(CALL, ROUND, "z" * 64, payload[1:]).digest] = "magic"
    about = "What has arrived: 136 to max_bytes + 304 bytes with the right digest, whatever their end."
    return _finish("verdicts-arrival", about, folder, verdicts)


def _headers() -> Case:
    folder = begin(max_bytes=300)
    verdicts: Verdicts = {}
    for code, fields in (
        ("header", {"magic": b"\xf7WCR"}),
        ("header", {"version": 2}),
        ("header", {"version": 4}),
        ("header", {"sequence": ROUND - 1, "weight": math.nan}),
        ("header", {"payload_len": len(GOOD) - 1}),
        ("weight", {"weight": math.nan}),
        ("weight", {"weight": -1.0}),
        ("weight", {"weight": math.inf}),
        ("weight", {"weight": 4.000000000000001, "status": 1}),
        ("absent", {"status": 1, "scheme": 1}),
        ("absent", {"status": 9}),
    ):
        made = folder.contribute(CALL, ROUND, "mallory", GOOD, **fields)
        verdicts[made.digest] = code
    harmless: tuple[dict[str, Any], ...] = (
        {"flags": 0xFFFF},
        {"text_len": 70_000},
        {"detail": 0},
        {"weight": 4.0},
        {"weight": 5e-324},
    )
    for given in harmless:
        folder.contribute(CALL, ROUND, "mallory", GOOD, **given)
    for body in (b"", bytes(103), folder.make(CALL, ROUND, "mallory", b"", weight=9.0).body[:103]):
        verdicts[folder.put(Envelope(CONTRIBUTION, folder.run, ROUND, "mallory", body)).digest] = "header"
    made = folder.contribute(CALL, ROUND, "mallory", bytes(301), weight=math.nan)
    verdicts[made.digest] = "max-bytes"
    return _finish("verdicts-header", "Agreement headers, sizes, weights and statuses.", folder, verdicts)


def _terms() -> Case:
    folder = begin()
    verdicts: Verdicts = {}
    right = CALL.header
    changes: tuple[tuple[str, dict[str, Any]], ...] = (
        ("operation", {"operation": 2}),
        ("operation", {"reduction": MEAN, "dtype": 2}),
        ("operation", {"algorithm": 0}),
        ("shape", {"dtype": 4}),
        ("shape", {"elements": 9}),
        ("shape", {"signature": right.signature ^ 1, "scheme": 0}),
        ("scheme", {"scheme": right.scheme ^ 1 << 63}),
    )
    for code, fields in changes:
        verdicts[folder.contribute(CALL, ROUND, "mallory", GOOD, **fields).digest] = code
    state = bytes(31) + b"\1"
    verdicts[folder.contribute(CALL, ROUND, "mallory", GOOD, state).digest] = "parameters"
    verdicts[folder.contribute(CALL, ROUND, "mallory", GOOD, state, operation=1).digest] = "parameters"
    verdicts[folder.contribute(CALL, ROUND, "mallory", b"?", scheme=1).digest] = "scheme"
    return _finish("verdicts-terms", "Other terms, and the first difference.", folder, verdicts)


def _containers() -> Case:
    folder = begin()
    verdicts: Verdicts = {}
    spectrum = Spectrum("0", "float32", (8,), [1], values_of([1.0], "float32"), 2)
    tensor = Tensor("0", "float32", (8,), [1], values_of([1.0], "float32"))
    semantics = [Record(SEMANTICS, CRITICAL, write_semantics([(0, 1)]))]
    two = [Spec("a", "float32", (8,)), Spec("b", "float32", (8,))]
    for code, payload in (
        ("prefix", b""),
        ("prefix", GOOD[:23]),
        ("magic", b"?" + GOOD[1:]),
        ("max-bytes", GOOD[:-8]),
        ("trailing", GOOD + bytes(8)),
        ("entry-checksum", GOOD[:-1] + bytes([GOOD[-1] ^ 1])),
        ("schema-shape", encode([Spec("0", "float32", (2, 4))], [FIRST])),
        ("schema-shape", encode([Spec("0", "float32", (9,))], [FIRST])),
        ("schema-dtype", encode([Spec("0", "float64", (8,))], [FIRST])),
        ("schema-dtype", write([Tensor("0", "int8", (8,), [1], b"\1")], names=False)),
        ("max-entries", encode(two, [FIRST, FIRST])),
        ("patch", write([tensor], names=False, minor=1, extra=semantics)),
        ("nonfinite", encode(ONE, [{1: math.nan}])),
        ("nonfinite", encode(ONE, [{1: 1.0, 2: -math.inf}])),
        ("codec", encode(ONE, [FIRST], "bitmap")),
        ("codec", encode(ONE, [FIRST], value=Qsgd(bits=4))),
        ("codec", write([spectrum], names=False)),
    ):
        verdicts[folder.contribute(CALL, ROUND, "mallory", payload).digest] = code
    folder.contribute(CALL, ROUND, "mallory", encode(ONE, [FIRST], "raw-index"))
    folder.contribute(CALL, ROUND, "mallory", encode(ONE, [{}]))
    folder.contribute(
        CALL, ROUND, "mallory", encode([Spec("any name", "float32", (8,))], [FIRST], names=True)
    )
    return _finish("verdicts-container", "Payloads that are not containers of the call.", folder, verdicts)


def _norms() -> Case:
    folder = begin(max_norm=2.0**27)
    verdicts: Verdicts = {}
    ones = dict.fromkeys(range(1, 8), 1.0)
    last = dict.fromkeys(range(7), 1.0) | {7: 2.0**27}
    for code, row in (
        (None, {0: 2.0**27}),
        (None, {0: 2.0**27, **ones}),
        ("max-norm", last),
        ("max-norm", {0: 2.0**27 + 16}),
        ("max-norm", {0: 2.0**26, 1: 2.0**27}),
    ):
        made = folder.contribute(CALL, ROUND, "mallory", encode(ONE, [row]))
        if code is not None:
            verdicts[made.digest] = code
    about = "Norms at max_norm, 2^27: squares are added in the order of the elements."
    return _finish("verdicts-norm", about, folder, verdicts)


def _large_norms() -> Case:
    folder, call = begin(max_norm=2.0**600), replace(CALL, specs=(Spec(None, "float64", (8,)),))
    large, small = 2.0**600, 2.0**573
    right = encode(call.specs, [{0: large} | dict.fromkeys(range(1, 8), small)])
    wrong = encode(call.specs, [dict.fromkeys(range(7), small) | {7: large}])
    made = [folder.contribute(call, ROUND, name, right) for name in ("alice", "bob")]
    refused = folder.contribute(call, ROUND, "mallory", wrong).digest
    folder.decide(ROUND, made)
    about = "Norms at max_norm, 2^600, whose squares overflow: values are scaled first."
    verdicts: Verdicts = {refused: "max-norm"}
    return round_case("verdicts-norm-large", about, folder, call, ROUND, TAKES, ("alice", "bob"), verdicts)


def _several() -> Case:
    """Return a round with two good contributions of a name, of which members name one."""
    folder = begin(max_peers=2)
    alice = folder.contribute(CALL, ROUND, "alice", encode(ONE, [FIRST]))
    folder.contribute(CALL, ROUND, "bob", encode(ONE, [SECOND]))
    bob = folder.contribute(CALL, ROUND, "bob", encode(ONE, [FIRST]))
    carol = folder.contribute(CALL, ROUND, "carol", encode(ONE, [SECOND]))
    folder.propose(ROUND, 0, [alice, bob, carol])
    refused = ("carol", carol.digest, "any-code")
    proposal = folder.propose(ROUND, 1, [alice, bob], [refused, refused])
    folder.take(ROUND, 2, proposal)
    about = "Two contributions of bob, and three names with max_peers 2: the taken proposal names two."
    return round_case("several", about, folder, CALL, ROUND, TAKES, ("alice", "bob"))
