"""Hostile peers: garbage, huge objects, wrong names, replays, forged members, and deleted objects."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("fsspec")

import collectives as co
import wirecodec as wc
from collectives.agreement.header import Header, Operation
from collectives.errors import Refused
from collectives.exchange.specs import ONLY
from collectives.store.arrivals import MAX_PER_NAME
from collectives.store.contribution import Terms, make_body
from collectives.store.envelope import Envelope, Kind, check_everyone, hash_run, make_statement
from collectives.store.files import Files
from collectives.store.layout import SLOTS, path_of_contribution, path_of_members
from collectives.store.members import max_members, parse_members
from collectives.store.rounds import Round
from collectives.store.rules import Rules
from tests.collectives.store.peers import gradient, make_comm, make_local, move, run_each, run_of

NAMES = "alice", "bob"
RUN = bytes(16)
"""Stands for the hash of a run, which is drawn when its first peer comes."""


def place(folder: Path, made: Envelope) -> Envelope:
    """Return an object with the hash of the run in a folder."""
    return replace(made, run=run_of(folder)) if made.run == RUN else made


def write(folder: Path, path: str, data: bytes) -> None:
    full = folder / "run" / path
    full.parent.mkdir(parents=True, exist_ok=True)
    full.write_bytes(data)


def put_envelope(folder: Path, made: Envelope, name: str | None = None, sign: Any = None) -> None:
    """Write a contribution under the name of its peer, or another one."""
    made = place(folder, made)
    path = path_of_contribution(made.number, name or made.name, made.digest)
    write(folder, path, made.pack(sign))


def make_contribution(
    blob: Any, name: str = "mallory", number: int = 0, shape: tuple[int, ...] = (64,), **fields: Any
) -> Envelope:
    """Return a contribution whose header is that of the others, apart from some fields."""
    from collectives.exchange.specs import describe

    operand = describe(
        {"0": (shape, np.dtype("f4"))}, bare=True, scheme=str(wc.Scheme.parse("all | raw-index | raw"))
    )
    header = Header(
        operation=Operation.ALLREDUCE,
        reduction=1,
        algorithm=1,
        sequence=number,
        dtype=operand.dtype,
        elements=operand.elements,
        signature=operand.signature,
        scheme=operand.scheme,
    )._replace(**fields)
    return Envelope(Kind.CONTRIBUTION, RUN, number, name, make_body(Terms(header), bytes(blob)))


SCHEME = "all | raw-index | raw"
GOOD = wc.encode(gradient(7), SCHEME).tobytes()
BAD_VALUES = np.full(64, np.nan, np.float32)


def make_two(folder: Path, **settings: Any) -> list[Any]:
    """Return two honest peers before round 0."""
    comms = [make_comm(folder, name, **({"deadline": 0.3} | settings)) for name in NAMES]
    for comm in comms:
        comm.move_to(0)
    return comms


def sum_two(comms: list[Any]) -> tuple[Any, dict[str, str]]:
    """Let two honest peers sum; return the sum and what was refused, the same for both."""
    results = run_each(lambda n: co.allreduce(comms[n], gradient(n), SCHEME, op="sum"), range(2))
    assert results[0].tobytes() == results[1].tobytes()
    reports = [comm.last for comm in comms]
    assert all(report is not None and report.members == NAMES for report in reports)
    assert np.array_equal(results[0], gradient(0) + gradient(1))
    assert reports[0] is not None
    assert reports[0].refused == reports[1].refused
    return results[0], dict(reports[0].refused)


@pytest.mark.parametrize(
    ("made", "code"),
    [
        (make_contribution(b"garbage"), None),
        (make_contribution(GOOD[:-1]), None),
        (make_contribution(wc.encode(BAD_VALUES).tobytes()), "nonfinite"),
        (make_contribution(wc.encode(1e6 * gradient(3)).tobytes()), "max-norm"),
        (make_contribution(wc.encode(gradient(3, size=65)).tobytes()), None),
        (make_contribution(GOOD, weight=1e9), "weight"),
        (make_contribution(GOOD, weight=float("nan")), "weight"),
        (make_contribution(GOOD, weight=-1.0), "weight"),
        (make_contribution(GOOD, shape=(8, 8)), "shape"),
        (make_contribution(GOOD, reduction=2), "operation"),
        (make_contribution(GOOD, status=3), "absent"),
        (make_contribution(bytes(3000)), "max-bytes"),
        (Envelope(Kind.CONTRIBUTION, RUN, 0, "mallory", b"short"), "header"),
        (Envelope(Kind.STATE, RUN, 0, "mallory", b"x"), "replay"),
        (make_contribution(GOOD, number=5), "replay"),
        (Envelope(Kind.CONTRIBUTION, hash_run("other"), 0, "mallory", b""), "run"),
    ],
    ids=lambda x: "" if isinstance(x, Envelope) else str(x),
)
def test_a_wrong_object_is_refused_by_all(tmp_path: Path, made: Envelope, code: str | None) -> None:
    """It is named with its code, and nothing of it is added."""
    comms = make_two(tmp_path, max_norm=1000.0, max_bytes=2000)
    made = place(tmp_path, made)
    write(tmp_path, path_of_contribution(0, "mallory", made.digest), made.pack())
    _, refused = sum_two(comms)
    assert set(refused) == {"mallory"}
    assert code is None or refused["mallory"] == code


def test_names_are_not_paths(tmp_path: Path) -> None:
    """Names that are none are ignored, and an object under another's name is refused."""
    comms = make_two(tmp_path)
    rounds = "rounds/000000000000"
    digest = "0" * 64
    for name in (
        f"..{digest}",
        f"a b.{digest}",
        f"x.{digest[:-1]}",
        "members.99",
        "members.x",
        f"é.{digest}",
    ):
        write(tmp_path, f"{rounds}/{name}", b"?")
    (tmp_path / "run" / rounds / f"dir.{digest}").mkdir()
    made = make_contribution(GOOD)
    put_envelope(tmp_path, made, name="zoe")  # written by mallory, under the name of zoe
    _, refused = sum_two(comms)
    assert refused == {"zoe": "name"}
    assert {p.name for p in tmp_path.iterdir()} == {"run"}


def test_an_object_with_another_digest_never_arrives(tmp_path: Path) -> None:
    comms = make_two(tmp_path)
    write(tmp_path, f"rounds/{0:012d}/mallory.{'ab' * 32}", place(tmp_path, make_contribution(GOOD)).pack())
    write(tmp_path, f"rounds/{0:012d}/eve.{'ab' * 32}", b"\xf7WCR\x01" + bytes(500))
    assert sum_two(comms)[1] == {}


def members(entries: list[list[str]], number: int = 0, refused: Any = ()) -> Envelope:
    content = {"accepted": entries, "refused": list(refused)}
    body = json.dumps(content, separators=(",", ":")).encode()
    return Envelope(Kind.MEMBERS, RUN, number, "mallory", body)


NO_SIGNATURE = "00" * 64


def propose(folder: Path, made: list[Envelope]) -> None:
    """Write contributions, and a proposal that names them."""
    placed = [place(folder, one) for one in made]
    for one in placed:
        put_envelope(folder, one)
    entries = [[one.name, one.digest.hex(), NO_SIGNATURE] for one in placed]
    write(folder, path_of_members(0, 0), place(folder, members(entries)).pack())


@pytest.mark.parametrize(
    "made",
    [
        b"garbage",
        b"",
        b"[" * 10_000,
        Envelope(Kind.MEMBERS, RUN, 0, "mallory", b"[" * 100_000),
        Envelope(Kind.MEMBERS, RUN, 0, "mallory", b"[]"),
        Envelope(Kind.MEMBERS, RUN, 0, "mallory", b'{"accepted": 1, "refused": []}'),
        Envelope(Kind.MEMBERS, RUN, 1, "mallory", b"{}"),
        members([["mallory", "00" * 32, NO_SIGNATURE]]),  # below the quorum
        members([["../x", "00" * 32, NO_SIGNATURE], ["y", "00" * 32, NO_SIGNATURE]]),
        members([["b", "00" * 32, NO_SIGNATURE], ["a", "00" * 32, NO_SIGNATURE]]),
        members([["a", "00" * 32, NO_SIGNATURE], ["a", "11" * 32, NO_SIGNATURE]]),
        members([["a", "zz", NO_SIGNATURE], ["b", "11" * 32, NO_SIGNATURE]]),
        members([["a", "00" * 32, "00"], ["b", "11" * 32, NO_SIGNATURE]]),
        bytes(2**20),
    ],
    ids=range(14),
)
def test_members_that_are_not_valid_decide_nothing(tmp_path: Path, made: bytes | Envelope) -> None:
    """The next slot decides, for all peers."""
    comms = make_two(tmp_path, timeout=3.0)
    data = made if isinstance(made, bytes) else place(tmp_path, made).pack()
    write(tmp_path, path_of_members(0, 0), data)
    write(tmp_path, path_of_members(0, 1), b"more garbage")
    results = run_each(lambda n: co.allreduce(comms[n], gradient(n), SCHEME, op="sum"), range(2))
    assert results[0].tobytes() == results[1].tobytes() == (gradient(0) + gradient(1)).tobytes()
    assert (tmp_path / "run" / path_of_members(0, 2)).exists()


def test_members_with_foreign_terms_decide_nothing(tmp_path: Path) -> None:
    """Two objects of another sum, and members that name them: the peers go on with the next slot or stop.

    Without keys anybody may do so. No peer then takes the result of the others for its own.
    """
    comm = make_comm(tmp_path, "alice", timeout=3.0, deadline=0.3)
    comm.move_to(0)
    made = [make_contribution(GOOD, name=name, shape=(8, 8)) for name in ("mallory", "mallory2")]
    propose(tmp_path, made)
    with pytest.raises(co.CollectiveError, match="differs from the 2 members") as raised:
        co.allreduce(comm, gradient(0), SCHEME, op="sum")
    assert raised.value.reason == "shape"


def test_a_contribution_with_other_terms_counts_for_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if members name it: its peer keeps what it has not sent."""
    comm = make_comm(tmp_path, "zoe", timeout=3.0)
    comm.move_to(0)
    put = Files.put

    def put_and_name(files: Files, path: str, data: bytes) -> None:
        put(files, path, data)
        own = Envelope.unpack(data)
        made = [place(tmp_path, make_contribution(GOOD, name=name)) for name in NAMES]
        propose(tmp_path, [*made, own])
        decided = place(tmp_path, members([[x.name, x.digest.hex(), NO_SIGNATURE] for x in (*made, own)]))
        taken = Envelope(Kind.TAKEN, decided.run, 0, "mallory", decided.digest)
        write(tmp_path, path_of_members(0, 1), taken.pack())

    monkeypatch.setattr(Files, "put", put_and_name)
    compressor = wc.Compressor("topk(0.5) | rice | raw")
    with pytest.raises(co.CollectiveError, match="differs from the 3 members") as raised:
        co.allreduce(comm, gradient(0), compressor, op="sum")
    assert raised.value.reason == "scheme"
    monkeypatch.undo()
    comm.settle()
    assert not comm.is_open
    assert compressor.residual(ONLY) is None  # the step was rolled back


def test_an_open_contribution_stays_open_while_the_store_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Members that name it do not tell whether it counts; their objects do."""
    comm = make_comm(tmp_path, "zoe", quorum=1, deadline=0.01, timeout=0.2)
    compressor = wc.Compressor("topk(0.5) | rice | raw")

    def fail(*_: Any) -> None:
        raise co.CollectiveError("the store is down", reason="transport")

    monkeypatch.setattr(Round, "_conclude", fail)
    for call in (lambda: co.allreduce(comm, gradient(0), compressor), comm.settle, comm.settle):
        with pytest.raises(co.CollectiveError, match="down"):
            call()
        assert comm.is_open
    monkeypatch.undo()
    comm.settle()
    assert compressor.residual(ONLY) is not None  # it counts


def test_the_times_of_a_round_begin_again(tmp_path: Path) -> None:
    """After a failure of the store, an absent object gets as much time as at first."""
    comm = make_comm(tmp_path, "zoe", deadline=60.0, timeout=60.0)
    own = Terms(Header(operation=Operation.ALLREDUCE, reduction=1))
    one = comm.open_round(0, own, lambda *_: None)
    made = [place(tmp_path, make_contribution(GOOD, name=name)) for name in NAMES]
    entries = [[x.name, x.digest.hex(), NO_SIGNATURE] for x in made]
    write(tmp_path, path_of_members(0, 0), place(tmp_path, members(entries)).pack())
    one.log.read()
    one._vote()
    one._asked = one._asked[0], one._asked[1] - 100
    one.restart()
    one._vote()
    assert one.log.pending is not None
    one._asked = one._asked[0], one._asked[1] - 100
    one._vote()
    assert one.log.pending is None  # dropped


def test_members_that_accept_a_bad_object(tmp_path: Path) -> None:
    """Whoever decides, each peer judges the objects again."""
    comm = make_comm(tmp_path, "zoe", timeout=3.0)
    comm.move_to(0)
    good = make_contribution(GOOD, name="alice")
    other = make_contribution(GOOD, name="bob")
    bad = make_contribution(wc.encode(BAD_VALUES).tobytes())
    propose(tmp_path, [good, other, bad])
    total = co.allreduce(comm, gradient(0), SCHEME, op="sum")
    assert np.array_equal(total, 2 * gradient(7))
    assert comm.last is not None
    assert comm.last.refused == {"mallory": "nonfinite"}


def make_keys() -> tuple[dict[str, bytes], dict[str, bytes]]:
    pytest.importorskip("cryptography")
    pairs = {name: co.StoreComm.make_key() for name in (*NAMES, "mallory")}
    return {name: pair[0] for name, pair in pairs.items()}, {name: pair[1] for name, pair in pairs.items()}


def test_nobody_can_write_for_another(tmp_path: Path) -> None:
    """Forged objects, and members that were not signed, have no effect."""
    private, public = make_keys()
    comms = [make_comm(tmp_path, name, deadline=0.3, key=private[name], keys=public) for name in NAMES]
    put_envelope(tmp_path, make_contribution(GOOD, name="bob"))  # without a signature
    put_envelope(tmp_path, make_contribution(GOOD, name="stranger"))
    forged = make_contribution(wc.encode(gradient(8)).tobytes(), name="bob")
    from collectives.store.signing import make_ring

    mallory = make_ring("mallory", private["mallory"], public)
    forged = place(tmp_path, forged)
    put_envelope(tmp_path, forged, sign=mallory.sign)  # with the signature of another
    statement = make_statement(Kind.CONTRIBUTION, forged.run, 0, forged.digest)
    entries = [[name, forged.digest.hex(), mallory.sign(statement).hex()] for name in NAMES]
    write(tmp_path, path_of_members(0, 0), place(tmp_path, members(entries)).pack(mallory.sign))
    write(tmp_path, path_of_members(0, 1), place(tmp_path, members([])).pack())  # void, not signed
    for comm in comms:
        comm.move_to(0)
    results = run_each(lambda n: co.allreduce(comms[n], gradient(n), SCHEME, op="sum"), range(2))
    assert results[0].tobytes() == results[1].tobytes() == (gradient(0) + gradient(1)).tobytes()
    assert comms[0].last is not None
    assert comms[0].last.refused == {"bob": "signature"}


def test_a_forged_object_does_not_make_a_peer_present(tmp_path: Path) -> None:
    """Alice waits for bob, though somebody has written an object under his name."""
    private, public = make_keys()
    comms = [
        make_comm(tmp_path, name, quorum=1, deadline=8.0, key=private[name], keys=public) for name in NAMES
    ]
    put_envelope(tmp_path, make_contribution(GOOD, name="bob"))
    for comm in comms:
        comm._expected = frozenset(NAMES)
        comm.move_to(0)

    def call(n: int) -> Any:
        time.sleep(0.5 * n)
        return co.allreduce(comms[n], gradient(n), SCHEME, op="sum")

    results = run_each(call, range(2))
    assert results[0].tobytes() == results[1].tobytes() == (gradient(0) + gradient(1)).tobytes()


def test_a_replay_of_a_signed_object(tmp_path: Path) -> None:
    """An object of round 0 is copied to round 1."""
    private, public = make_keys()
    comms = [make_comm(tmp_path, name, deadline=0.3, key=private[name], keys=public) for name in NAMES]
    run_each(lambda n: co.allreduce(comms[n], gradient(n), SCHEME), range(2))
    (old,) = tmp_path.glob(f"run/rounds/{0:012d}/alice.*")
    write(tmp_path, f"rounds/{1:012d}/{old.name}", old.read_bytes())
    results = run_each(lambda n: co.allreduce(comms[n], gradient(n + 5), SCHEME, op="sum"), range(2))
    assert results[0].tobytes() == results[1].tobytes() == (gradient(5) + gradient(6)).tobytes()
    assert comms[0].last is not None
    assert comms[0].last.refused == {"alice": "replay"}


def test_keys_that_do_not_fit(tmp_path: Path) -> None:
    private, public = make_keys()
    with pytest.raises(ValueError, match="key is not the private key of 'alice'"):
        make_comm(tmp_path, "alice", key=private["bob"], keys=public)
    with pytest.raises(ValueError, match="keys has no public key of this peer, 'eve'"):
        make_comm(tmp_path, "eve", key=private["bob"], keys=public)
    with pytest.raises(ValueError, match=r"key is not 32 bytes; it is 64 hexa.* pass bytes.fromhex\(key\)$"):
        make_comm(tmp_path, "alice", key=private["alice"].hex(), keys=public)
    lines = {name: key.hex().encode() + b"\n" for name, key in public.items()}
    with pytest.raises(
        ValueError, match=r"key of 'alice' is not 32 .* pass bytes.fromhex\(key.decode\(\)\)$"
    ):
        make_comm(tmp_path, "alice", key=private["alice"], keys=lines)
    with pytest.raises(ValueError, match=r"key is not 32 bytes$"):
        make_comm(tmp_path, "alice", key=private["alice"].hex()[:-1], keys=public)
    make_comm(tmp_path, "alice", key=private["alice"], keys=public)
    with pytest.raises(ValueError, match="the rules of this peer are not those of the run"):
        make_comm(tmp_path, "bob", key=private["bob"], keys={"bob": public["bob"]})


def test_a_pipe_does_not_block(tmp_path: Path) -> None:
    """Neither in the place of a contribution, nor in that of members; and a link shows no other file."""
    import os

    folder = tmp_path / f"run/rounds/{0:012d}"
    folder.mkdir(parents=True)
    os.mkfifo(folder / f"mallory.{'00' * 32}")
    os.mkfifo(folder / "members.00")
    (folder / "members.01").symlink_to("/dev/zero")
    (folder / f"eve.{'00' * 32}").symlink_to("/etc/hostname")
    comms = [make_comm(tmp_path, name, deadline=0.3, timeout=8.0) for name in NAMES]
    for comm in comms:
        comm.move_to(0)
    results = run_each(lambda n: co.allreduce(comms[n], gradient(n), SCHEME, op="sum"), range(2))
    assert results[0].tobytes() == results[1].tobytes() == (gradient(0) + gradient(1)).tobytes()


def test_many_objects_under_a_name_only_delay_the_good_one(tmp_path: Path) -> None:
    private, public = make_keys()
    comms = [make_comm(tmp_path, name, deadline=30.0, key=private[name], keys=public) for name in NAMES]
    for comm in comms:
        comm._expected = frozenset(NAMES)
        comm.move_to(0)
    for number in range(50):
        made = make_contribution(wc.encode(gradient(number)).tobytes(), name="alice", weight=0.5)
        put_envelope(tmp_path, made)
    results = run_each(lambda n: co.allreduce(comms[n], gradient(n), SCHEME, op="sum"), range(2))
    assert results[0].tobytes() == results[1].tobytes() == (gradient(0) + gradient(1)).tobytes()


def make_garbage(kind: str, path: Path) -> None:
    """Put something that never arrives into the place of a contribution."""
    import os

    if kind == "link":
        path.symlink_to("/etc/hostname")
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.write_bytes(b"" if kind == "empty" else b"garbage")


@pytest.mark.parametrize("kind", ["garbage", "empty", "link", "pipe"])
def test_objects_that_never_arrive_only_delay_those_behind_them(tmp_path: Path, kind: str) -> None:
    """They are under the names of both peers, and before their objects in every list."""
    comms = [make_comm(tmp_path, name, deadline=0.5) for name in NAMES]
    folder = tmp_path / f"run/rounds/{0:012d}"
    folder.mkdir(parents=True)
    for name in NAMES:
        for number in range(2 * MAX_PER_NAME):
            make_garbage(kind, folder / f"{name}.{number:064x}")
    for comm in comms:
        comm.move_to(0)
    results = run_each(lambda n: co.allreduce(comms[n], gradient(n), SCHEME, op="sum"), range(2))
    assert results[0].tobytes() == results[1].tobytes() == (gradient(0) + gradient(1)).tobytes()


@pytest.mark.parametrize("end", ["", "]", "]}"])
def test_members_are_judged_in_linear_time(end: str) -> None:
    """Of the largest size, with parts that occur everywhere."""
    rules = Rules(quorum=2)
    for part in ('],"refused":[', '{"accepted":[', '["a","', "[", "],", "]}"):
        body = '{"accepted":[' + part * (max_members(rules) // len(part) - 2) + end
        begin = time.process_time()
        with pytest.raises(Refused):
            parse_members(Envelope(Kind.MEMBERS, RUN, 0, "mallory", body.encode()), rules, check_everyone)
        assert time.process_time() - begin < 1


def test_members_that_are_overwritten_are_noticed(tmp_path: Path) -> None:
    """Bob reads other members than those that were taken, and is told at once."""
    alice, bob = (make_comm(tmp_path, name, quorum=1, deadline=0.05) for name in NAMES)
    weights = [np.zeros(64) for _ in range(2)]
    locals_ = [make_local(comm, w) for comm, w in zip((alice, bob), weights, strict=True)]
    for local in locals_:
        local.synchronize()
    bob.locate()
    move(weights[0], 0)
    locals_[0].step()
    write(tmp_path, path_of_members(0, 0), place(tmp_path, members([])).pack())
    move(weights[0], 1)
    locals_[0].step()
    move(weights[1], 2)
    with pytest.raises(co.CollectiveError, match="somebody has overwritten") as raised:
        locals_[1].step()
    assert raised.value.reason == "transport"


def test_garbage_in_all_slots_is_an_error_and_no_hang(tmp_path: Path) -> None:
    comm = make_comm(tmp_path, "alice", quorum=1, deadline=0.1, timeout=3.0)
    comm.move_to(0)
    for slot in range(SLOTS):
        write(tmp_path, path_of_members(0, slot), b"garbage" * 100)
    begin = time.monotonic()
    with pytest.raises(co.CollectiveError, match="somebody destroys the run"):
        co.allgather_bytes(comm, b"x")
    assert time.monotonic() - begin < 60
