"""Hostile bytes in each kind of object: honest peers finish their rounds, with equal bits.

Nothing that a stranger or a peer with a key writes may cost more than requests and a deadline.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("fsspec")

import collectives as co
import wirecodec as wc
from collectives.store.arrivals import Arrivals
from collectives.store.contribution import Terms, read_contribution
from collectives.store.envelope import NO_SIGNATURE, Envelope, Kind, hash_run, make_statement
from collectives.store.layout import ObjectName
from collectives.store.members import Accepted, Members
from collectives.store.rules import Rules, Settings
from collectives.store.signing import Ring, make_ring
from tests.collectives.store.peers import gradient, make_comm, make_local, move, run_each, run_of, run_peers
from tests.collectives.store.test_hostile import GOOD, make_contribution, make_keys

NAMES = "alice", "bob"
SCHEME = "all | raw-index | raw"
OTHER = hash_run("another")
DEEP = b"[" * 900 + b"]" * 900


def write(folder: Path, path: str, data: bytes) -> None:
    full = folder / "run" / path
    full.parent.mkdir(parents=True, exist_ok=True)
    full.write_bytes(data)


def make_peers(folder: Path, *, keyed: bool) -> tuple[list[Any], Ring]:
    """Return two honest peers before round 0, and what mallory signs with."""
    settings: dict[str, Any] = {"deadline": 0.3, "timeout": 4.0}
    if not keyed:
        comms = [make_comm(folder, name, **settings) for name in NAMES]
        ring = make_ring("mallory", None, None)
    else:
        private, public = make_keys()
        comms = [make_comm(folder, name, key=private[name], keys=public, **settings) for name in NAMES]
        ring = make_ring("mallory", private["mallory"], public)
    for comm in comms:
        comm.move_to(0)
    return comms, ring


def name_absent(run: bytes, ring: Ring, number: int = 0) -> bytes:
    """Return members that name two objects that nobody has written, with mallory's signatures."""
    entries = []
    for name in ("mallory", "mallory2") if not ring.names else ("mallory",):
        digest = hashlib.sha256(name.encode()).digest()
        signature = ring.sign(make_statement(Kind.CONTRIBUTION, run, number, digest))
        entries.append(Accepted(name, digest, signature))
    return Members(tuple(entries)).pack()


def damage(data: bytes) -> dict[str, bytes]:
    """Return what a stranger may make of an object's bytes."""
    return {
        "empty": b"",
        "truncated": data[:-1],
        "longer": data + b"?",
        "magic": b"?" + data[1:],
        "version": data[:4] + b"\x01" + data[5:],
        "digest": data[:-96] + bytes(32) + data[-64:],
        "signature": data[:-1] + bytes([data[-1] ^ 1]),
        "body": data[:60] + bytes([data[60] ^ 1]) + data[61:],
    }


DAMAGES = sorted(damage(bytes(200)))


def bodies() -> dict[str, bytes]:
    good = Members((Accepted("a", bytes(32), NO_SIGNATURE), Accepted("b", bytes(32), NO_SIGNATURE))).pack()
    digits = "\u0661".encode()
    return {
        "deep": good[:-1] + b',"x":' + DEEP + b"}",
        "blank": good.replace(b",", b", ", 1),
        "capitals": good.replace(b"00", b"0A", 1),
        "spaces": good.replace(b"0000", b"00 0", 1),
        "digits": good.replace(b"0", digits, 1),
        "twice": good.replace(b'"b"', b'"a"'),
        "huge": good[:-1] + b',"x":' + b"9" * 5000 + b"}",
        "code": good.replace(b'"refused":[', b'"refused":[["a","' + b"0" * 64 + '","\U00011f02"]'.encode()),
        "line": good + b"\n",
    }


@pytest.mark.parametrize("keyed", [False, True], ids=["no keys", "keys"])
@pytest.mark.parametrize(
    "hostile", [*(f"body {x}" for x in bodies()), "absent", "absent and old", "taken", "dropped", "other run"]
)
def test_slots(tmp_path: Path, hostile: str, keyed: bool) -> None:
    """A proposal or a record of mallory, who has a key if there are any."""
    comms, ring = make_peers(tmp_path, keyed=keyed)
    run = run_of(tmp_path)
    kind, body, number, of = Kind.MEMBERS, name_absent(run, ring), 0, run
    if hostile.startswith("body "):
        body = bodies()[hostile[5:]]
    elif hostile == "absent and old":
        body = name_absent(run, ring, 7)
    elif hostile == "taken":
        kind, body = Kind.TAKEN, b"short"
    elif hostile == "dropped":
        kind, body = Kind.DROPPED, b""
    elif hostile == "other run":
        of = OTHER
    data = Envelope(kind, of, number, "mallory", body).pack(ring.sign)
    write(tmp_path, f"rounds/{0:012d}/members.00", data)
    finish(comms)


def finish(comms: list[Any], rounds: int = 2) -> None:
    """Let the peers sum; all count, and all have the same bits."""
    for k in range(rounds):
        gradients = [gradient(n, k) for n in range(len(comms))]
        calls = [
            partial(co.allreduce, comm, x, SCHEME, op="sum") for comm, x in zip(comms, gradients, strict=True)
        ]
        found = run_peers(calls)
        assert [x.tobytes() for x in found] == [np.sum(gradients, axis=0).tobytes()] * len(comms)


@pytest.mark.filterwarnings("ignore:.* the object has version:UserWarning")
@pytest.mark.parametrize("keyed", [False, True], ids=["no keys", "keys"])
@pytest.mark.parametrize("hostile", DAMAGES)
def test_damage(tmp_path: Path, hostile: str, keyed: bool) -> None:
    """Damaged contributions, slots, states and settings, all in one folder."""
    make_peers(tmp_path / "other", keyed=False)
    settings = (tmp_path / "other/run/settings.00").read_bytes()
    write(tmp_path, "settings.00", damage(settings)[hostile])
    comms, ring = make_peers_at(tmp_path, keyed=keyed, slot=0 if hostile == "signature" else 1)
    run = run_of(tmp_path, 0 if hostile == "signature" else 1)
    made = replace(make_contribution(GOOD), run=run)
    path = f"rounds/{0:012d}/mallory.{made.digest.hex()}"
    write(tmp_path, path, damage(made.pack(ring.sign))[hostile])
    proposal = Envelope(Kind.MEMBERS, run, 0, "mallory", b'{"accepted":[],"refused":[]}').pack(ring.sign)
    if hostile != "signature":  # without keys, such a proposal is a right one
        write(tmp_path, f"rounds/{0:012d}/members.00", damage(proposal)[hostile])
    state = Envelope(Kind.STATE, run, 1, "mallory", b"state")
    write(tmp_path, f"states/{1:012d}.mallory.{state.digest.hex()}", damage(state.pack(ring.sign))[hostile])
    totals = run_each(lambda n: co.allreduce(comms[n], gradient(n), SCHEME, op="sum"), range(2))
    assert totals[0].tobytes() == totals[1].tobytes()
    assert comms[0].last.members == comms[1].last.members


def make_peers_at(folder: Path, *, keyed: bool, slot: int) -> tuple[list[Any], Ring]:
    found = make_peers(folder, keyed=keyed and slot > 0)
    assert (folder / f"run/settings.{slot:02d}").exists()
    return found


@pytest.mark.parametrize("number", ["1e999", "9" * 400, "-1", "NaN", "\u0661", "0", "1" + "0" * 30])
def test_settings_that_are_none(tmp_path: Path, number: str) -> None:
    """A number that is too large or no number is garbage in a slot."""
    good = Settings(Rules(2), "0" * 32).pack()
    for field in (b'"max_norm":null', b'"quorum":2', b'"max_bytes":1073741824'):
        name = field.partition(b":")[0]
        write(tmp_path, "settings.00", b"")
        body = good.replace(field, name + b":" + number.encode())
        data = Envelope(Kind.SETTINGS, hash_run("run"), 0, "mallory", body).pack()
        write(tmp_path, "settings.00", data)
        (tmp_path / "run/settings.01").unlink(missing_ok=True)
        make_comm(tmp_path, "alice")
        assert (tmp_path / "run/settings.01").exists()


def test_an_instance_makes_another_run(tmp_path: Path) -> None:
    """Objects of an earlier training of the same name have no effect."""
    import shutil

    comms, _ = make_peers(tmp_path, keyed=True)
    finish(comms)
    old = tmp_path / "old"
    (tmp_path / "run").rename(old)
    comms, _ = make_peers(tmp_path, keyed=True)
    shutil.copytree(old / "rounds", tmp_path / "run/rounds")
    finish(comms)


def test_reserved_bytes_are_ignored(tmp_path: Path) -> None:
    comms, _ = make_peers(tmp_path, keyed=False)
    made = replace(make_contribution(GOOD), run=run_of(tmp_path), reserved=9)
    write(tmp_path, f"rounds/{0:012d}/mallory.{made.digest.hex()}", made.pack())
    results = run_each(lambda n: co.allreduce(comms[n], gradient(n), SCHEME, op="sum"), range(2))
    expected = gradient(0) + gradient(1) + gradient(7)
    assert results[0].tobytes() == results[1].tobytes() == expected.tobytes()


def test_codecs_that_are_not_of_the_scheme(tmp_path: Path) -> None:
    comms, _ = make_peers(tmp_path, keyed=False)
    blob = wc.encode(gradient(3), "all | raw-index | mean").tobytes()
    made = replace(make_contribution(blob), run=run_of(tmp_path))
    write(tmp_path, f"rounds/{0:012d}/mallory.{made.digest.hex()}", made.pack())
    finish(comms, 1)
    assert comms[0].last.refused == {"mallory": "codec"}


def test_memory_of_good_objects_is_bounded(tmp_path: Path) -> None:
    """One good object per name is kept, whatever its peer has written."""
    comms, _ = make_peers(tmp_path, keyed=False)
    run, kept = run_of(tmp_path), []
    for k in range(40):
        made = replace(make_contribution(wc.encode(gradient(k), SCHEME).tobytes()), run=run)
        write(tmp_path, f"rounds/{0:012d}/mallory.{made.digest.hex()}", made.pack())
    open_round: Callable[..., Any] = comms[0].open_round

    def keep(*args: Any, **settings: Any) -> Any:
        kept.append(open_round(*args, **settings))
        return kept[-1]

    comms[0].open_round = keep
    results = run_each(lambda n: co.allreduce(comms[n], gradient(n), SCHEME, op="sum"), range(2))
    assert results[0].tobytes() == results[1].tobytes()
    arrivals = kept[-1].arrivals
    assert len(arrivals.good) <= 3
    assert len(arrivals.refused) <= 10


def test_a_rewritten_object_has_not_arrived(tmp_path: Path) -> None:
    """Whatever mallory makes of her object later, it has its verdict, or none."""
    comms, _ = make_peers(tmp_path, keyed=False)
    made = replace(make_contribution(GOOD), run=run_of(tmp_path))
    data = made.pack()
    path = f"rounds/{0:012d}/mallory.{made.digest.hex()}"
    for hostile, changed in damage(data).items():
        write(tmp_path, path, changed)
        place = replace(comms[0]._place, number=0)
        own = read_contribution(data, place.run, 0, "mallory", place.rules)
        arrivals = Arrivals(place, Terms(own.terms.header), lambda *_: None)
        judged = arrivals.judge(ObjectName("mallory", made.digest.hex()))
        same = hostile in ("signature", "digest")  # which stand behind what is digested
        assert (judged is not None and judged.code == "") == same
        assert judged is not None or not same


@pytest.mark.parametrize("weight", [1e-6, 1.0])
def test_the_effect_of_a_sender(tmp_path: Path, weight: float) -> None:
    """With ``divide="senders"``, it is at most max_norm, and in proportion to its weight."""

    def train(n: int) -> float:
        comm = make_comm(tmp_path, f"peer{n}", quorum=4, deadline=0.1, max_norm=1.0)
        w = np.zeros(8, np.float32)
        compressor = wc.Compressor("nonzero | raw-index | raw")
        own = weight if n == 3 else 1.0
        local = co.LocalUpdates(None, {"w": w}, compressor, comm, every=1, divide="senders", weight=own)
        local.synchronize()
        w[7 if n == 3 else 0] += 0.999
        local.step()
        return float(w[7])

    effects = run_each(train, range(4))
    assert len(set(effects)) == 1
    assert 0 < effects[0] <= 1.0 * weight


def test_states_of_strangers(tmp_path: Path) -> None:
    """Many names of states cost requests; a peer that joins finds the right one."""
    comms = [make_comm(tmp_path, name, deadline=0.1, publish_every=2, keep=8) for name in NAMES]
    weights = [np.zeros(64) for _ in range(3)]
    locals_ = [make_local(comm, w) for comm, w in zip(comms, weights, strict=False)]
    run_each(lambda n: locals_[n].synchronize(), range(2))

    def train(n: int) -> None:
        for k in range(4):
            move(weights[n], n, k)
            locals_[n].step()

    run_each(train, range(2))
    for k in range(80):
        write(tmp_path, f"states/{4:012d}.bob.{k:064x}", b"garbage")
        write(tmp_path, f"states/{999999:012d}.bob.{k:064x}", b"garbage")
    for k in range(50, 150):
        (tmp_path / f"run/rounds/{k:012d}").mkdir()
    other = make_local(make_comm(tmp_path, "zoe"), weights[2])
    assert other.synchronize()
    assert other.round == 4


def test_the_norm_at_its_limit_has_one_order() -> None:
    """The limit that the sum in the order of the elements gives is kept, and the next smaller one is not."""
    x = np.random.default_rng(0).normal(size=200_000).astype(np.float32)
    squares = x.astype(np.float64) ** 2
    limit = float(np.sqrt(np.add.accumulate(squares)[-1]))
    blob, total = wc.encode(x, SCHEME), np.zeros_like(x)
    wc.decode_add(blob, total, max_norm=limit)
    with pytest.raises(wc.LimitExceeded):
        wc.decode_add(blob, total, max_norm=float(np.nextafter(limit, 0)))


def test_objects_of_another_version_are_named(tmp_path: Path) -> None:
    """A peer with an older program does not count, and all learn why: at the start, or from a void round."""
    bob = make_comm(tmp_path / "old", "bob", quorum=1, deadline=0.05)
    co.allgather_bytes(bob, b"x")
    for path in [*tmp_path.glob("old/run/settings.00"), *tmp_path.glob("old/run/rounds/*/bob.*")]:
        data = damage(path.read_bytes())["version"]
        digest = hashlib.sha256(data[:-96]).hexdigest()
        new = tmp_path / "new" / path.relative_to(tmp_path / "old")
        new.parent.mkdir(parents=True, exist_ok=True)
        new.with_name(f"bob.{digest}" if path.name.startswith("bob") else path.name).write_bytes(data)
    with pytest.warns(UserWarning, match="the object has version 1; this program reads 2"):
        alice = make_comm(tmp_path / "new", "alice", quorum=2, deadline=0.05, timeout=0.3)
    with pytest.raises(co.CollectiveError, match=r"that of 'bob' .its program has another") as caught:
        co.allgather_bytes(alice, b"x")
    assert caught.value.reason == "timeout"
    assert alice.last.refused == {"bob": "version"}
