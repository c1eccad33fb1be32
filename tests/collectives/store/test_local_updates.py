"""LocalUpdates over a store: peers that are late, join, leave and come back; equal bits and exact sums."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("fsspec")

import collectives as co
from collectives.local_updates.shared_state import hash_state, pack_state, unpack_state
from collectives.store.envelope import Envelope, Kind
from collectives.store.files import Files
from collectives.store.layout import path_of_state
from tests.collectives.injector import OWN, Injected, Injector
from tests.collectives.store.peers import make_comm, make_local, move, run_each, run_of, run_peers

NAMES = "alice", "bob", "carol"


@pytest.mark.parametrize(
    "settings", [{}, {"momentum": 0.5, "nesterov": True}, {"divide": "senders"}], ids=str
)
def test_bits_are_those_over_a_communicator(tmp_path: Path, settings: Any) -> None:
    def train(comm: Any, n: int) -> bytes:
        w = np.zeros(64, np.float32)
        local = make_local(comm, w, every=2, **settings)
        local.synchronize()
        for k in range(8):
            move(w, n, k)
            local.step()
        assert local.round == 4
        return w.tobytes()

    expected = co.simulate(3, lambda comm: train(comm, comm.rank))
    comms = [make_comm(tmp_path, name, quorum=3, deadline=0.05) for name in NAMES]
    assert run_each(lambda n: train(comms[n], n), range(3)) == expected


def test_all_begin_with_the_state_of_one(tmp_path: Path) -> None:
    def begin(n: int) -> bytes:
        w = np.full(5, float(n), np.float32)
        make_local(make_comm(tmp_path, NAMES[n]), w).synchronize()
        return w.tobytes()

    assert len(set(run_each(begin, range(3)))) == 1


@pytest.mark.parametrize("momentum", [0.0, 0.5])
def test_a_state_that_a_run_does_not_allow(tmp_path: Path, momentum: float) -> None:
    """An error before anything is written, with the limit that is enough."""
    w = np.zeros(1000, np.float32)
    needed = (4000 + 137) * (2 if momentum else 1) + 1024
    few = make_local(
        make_comm(tmp_path / "few", "alice", quorum=1, max_bytes=needed - 1), w, momentum=momentum
    )
    for call in (few.synchronize, few.step):
        with pytest.raises(ValueError, match=f"max_bytes={needed} or more"):
            call()
    comm = make_comm(tmp_path, "alice", quorum=1, deadline=0.01, max_bytes=needed, publish_every=1)
    local = make_local(comm, w, momentum=momentum)
    local.synchronize()
    for _ in range(2):
        w += 1
        local.step()
    other = make_local(make_comm(tmp_path, "bob", quorum=1, max_bytes=needed), w.copy(), momentum=momentum)
    assert other.synchronize()
    assert other.round == 2


def test_a_round_whose_step_overflows_counts_for_nobody(tmp_path: Path) -> None:
    """Its members raise alike, and a peer that was away passes over it."""
    comms = [make_comm(tmp_path, name, quorum=2, deadline=0.05) for name in NAMES]
    arrays = [np.zeros(8) for _ in NAMES]
    locals_ = [make_local(comm, w, rate=1e30) for comm, w in zip(comms, arrays, strict=True)]
    run_each(lambda n: locals_[n].synchronize(), range(3))

    def overflow(n: int) -> str:
        arrays[n] += 1e290
        with pytest.raises(co.CollectiveError, match="the step of the outer optimizer") as info:
            locals_[n].step()
        return info.value.reason

    assert run_each(overflow, range(2)) == ["value"] * 2

    def go_on(n: int) -> tuple[int, bytes]:
        locals_[n].revert()
        arrays[n] += 1 + n
        locals_[n].step()
        return locals_[n].round, locals_[n].state_dict()["parameter/w"].tobytes()

    assert len(set(run_each(go_on, range(2)))) == 1
    arrays[2] += 1
    assert locals_[2].synchronize()
    assert np.array_equal(locals_[2].state_dict()["parameter/w"], locals_[0].state_dict()["parameter/w"])
    assert np.isfinite(arrays[0]).all()


def test_a_peer_that_listens_takes_the_result_whole(tmp_path: Path) -> None:
    """With alpha, a share of its own parameters would pull the others back later."""
    comms = [make_comm(tmp_path, name, quorum=2, deadline=0.05) for name in NAMES[:2]]

    def train(n: int) -> list[float]:
        w = np.zeros(1)
        local = make_local(comms[n], w, alpha=0.5)
        local.synchronize()
        w += 4 - 2 * n
        local.exchange(weight=1.0 - n)
        for _ in range(3):
            local.exchange()
        state: list[float] = local.state_dict()["parameter/w"].tolist()
        return state

    assert run_each(train, range(2)) == [[4.0]] * 2


class Peer:
    """Peer that trains alone, whose rounds are decided at once with a quorum of 1."""

    def __init__(self, folder: Path, name: str, **settings: Any) -> None:
        given = {"quorum": 1, "deadline": 0.01, "poll": 0.01} | settings
        self.comm = make_comm(folder, name, **given)
        self.w = np.zeros(64)
        self.total = np.zeros(64)  # of its steps
        self.local = make_local(self.comm, self.w)
        self.local.synchronize()
        self.count = 0
        self.number = sum(name.encode())

    def step(self) -> None:
        self.total += move(self.w, self.number, self.count)
        self.count += 1
        self.local.step()

    @property
    def kept(self) -> Any:
        """Movement that was not sent: of the residual, and what is carried; downhill, so negative."""
        residual = self.local._compressor.residual("w")
        carried = self.local._anchor.carried.get("w", 0)
        return -((0 if residual is None else residual) + carried)


def test_a_late_peer_keeps_its_movement(tmp_path: Path) -> None:
    """Alice takes three rounds alone; bob takes them over, and his movement counts in the fourth."""
    alice, bob = Peer(tmp_path, "alice"), Peer(tmp_path, "bob")
    for _ in range(3):
        alice.step()
    bob.step()  # takes over three rounds, and takes part in the fourth
    assert bob.comm.last is not None
    assert (bob.comm.last.number, bob.comm.last.members) == (3, ("bob",))
    alice.step()  # is late for that one, takes it over, and takes part in the fifth
    assert alice.comm.last is not None
    assert (alice.comm.last.number, alice.local.round, bob.local.round) == (4, 5, 4)
    moved = alice.total + bob.total - alice.kept - bob.kept
    assert np.array_equal(alice.w, moved)  # each round had one member, so the mean is its movement


def test_a_peer_that_misses_its_round_carries_its_movement(tmp_path: Path) -> None:
    """It has written an object, and sees itself missing in the members."""
    alice, bob = Peer(tmp_path, "alice"), Peer(tmp_path, "bob", deadline=30.0)
    bob.comm._expected = frozenset({"alice", "bob", "carol"})  # bob would wait

    def alice_alone() -> None:
        while not list(tmp_path.glob("run/rounds/000000000000/bob.*")):
            time.sleep(0.01)
        # Alice does not see bob's object, as in a list that lags behind.
        files = alice.comm._place.files
        visible = files.entries
        files.entries = lambda path: [one for one in visible(path) if not one.base.startswith("bob.")]
        alice.step()
        files.entries = visible

    run_peers([bob.step, alice_alone])
    assert bob.comm.last is not None
    assert (bob.comm.last.members, bob.comm.last.rank) == (("alice",), None)
    assert alice.w.tobytes() == bob.w.tobytes()
    assert np.array_equal(bob.kept, bob.total)
    saved = bob.local.state_dict()
    assert np.array_equal(saved["carried/w"], -bob.total)
    bob.local.load_state_dict(saved)
    bob.comm._timing = alice.comm._timing
    bob.step()
    assert bob.comm.last.number == 1
    alice.step()
    assert np.array_equal(alice.w, alice.total + bob.total - alice.kept - bob.kept)
    bob.local.revert()
    assert "carried/w" not in bob.local.state_dict()


def test_a_peer_joins_from_a_published_state(tmp_path: Path) -> None:
    """Old objects are deleted; the newest state that members have confirmed, and later rounds, are enough."""
    alice = Peer(tmp_path, "alice", publish_every=4, keep=8)
    for _ in range(30):
        alice.step()
    assert sorted(p.name[:12] for p in tmp_path.glob("run/states/*")) == [f"{n:012d}" for n in (20, 24, 28)]
    joiner = Peer(tmp_path, "zoe", publish_every=4, keep=8)
    assert joiner.w.tobytes() == alice.w.tobytes()
    assert (joiner.comm.round, joiner.local.round) == (30, 30)
    joiner.step()
    alice.step()
    assert joiner.comm.last is not None
    assert (joiner.comm.last.members, joiner.comm.last.number) == (("zoe",), 30)


@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_a_peer_that_starts_again_with_the_newest_state_keeps_its_movement(
    tmp_path: Path, rounds: int
) -> None:
    """It reads a published state, or the first one, and the rounds since; they lead to its own state."""
    settings: dict[str, Any] = {"quorum": 1, "deadline": 0.05, "publish_every": 2, "keep": 4}
    w = np.zeros(64)
    local, moved = make_local(make_comm(tmp_path, "alice", **settings), w), np.zeros(64)
    local.synchronize()
    for number in range(rounds):
        moved += move(w, number)
        local.step()
    moved += move(w, rounds)
    saved, again = local.state_dict(), w.copy()
    local = make_local(make_comm(tmp_path, "alice", **settings), again)
    local.load_state_dict(saved)
    assert not local.synchronize()
    assert again.tolist() == w.tolist()
    for _ in range(9):
        local.exchange()
    assert again.tolist() == moved.tolist()


def test_peers_that_start_again_before_a_state_was_published(tmp_path: Path) -> None:
    """Nobody has called ``synchronize`` at the start: only who has the first state may write it."""
    settings: dict[str, Any] = {"quorum": 1, "deadline": 0.05}
    w = np.zeros(64)
    local = make_local(make_comm(tmp_path, "alice", **settings), w)
    for number in range(2):
        move(w, number)
        local.step()
    other = make_local(make_comm(tmp_path, "carol", **settings), np.ones(64))
    assert not other.synchronize()
    again = make_local(make_comm(tmp_path, "alice", **settings), w.copy())
    again.load_state_dict(local.state_dict())
    assert not again.synchronize()
    again.exchange()
    joined = np.zeros(64)
    fresh = make_local(make_comm(tmp_path, "bob", **settings), joined)
    assert fresh.synchronize()
    assert fresh.round == again.round


def test_a_peer_that_was_away_for_too_long_takes_a_state(tmp_path: Path) -> None:
    """Its movement is carried over the gap."""
    alice, bob = (Peer(tmp_path, name, publish_every=4, keep=8) for name in ("alice", "bob"))
    for _ in range(30):
        alice.step()
    bob.step()
    assert bob.comm.last is not None
    assert (bob.comm.last.number, bob.comm.last.members) == (30, ("bob",))
    alice.step()
    assert np.array_equal(alice.w, alice.total + bob.total - alice.kept - bob.kept)


def test_a_forged_state_is_not_taken(tmp_path: Path) -> None:
    """A state whose digest the members of its round do not have is left out."""
    alice = Peer(tmp_path, "alice", publish_every=4, keep=8)
    for _ in range(14):
        alice.step()
    state = alice.local._anchor.state
    forged = unpack_state(pack_state(state), state)
    forged.parameters["w"][0] += 1
    for number in (13, 14, 10**9):
        made = Envelope(Kind.STATE, run_of(tmp_path), number, "mallory", pack_state(forged))
        (tmp_path / "run" / path_of_state(number, "mallory", made.digest)).write_bytes(made.pack())
    (tmp_path / f"run/states/{12:012d}.eve.{'00' * 32}").write_bytes(b"garbage")
    joiner = Peer(tmp_path, "zoe", publish_every=4, keep=8)
    assert joiner.w.tobytes() == alice.w.tobytes()


def test_a_refused_peer_is_told_and_stays_up_to_date(tmp_path: Path) -> None:
    peers = [Peer(tmp_path, name, max_norm=1e3, quorum=1, deadline=0.3) for name in ("alice", "bob")]
    peers[1].w += 1e6

    def step(n: int) -> Any:
        try:
            peers[n].step()
        except co.CollectiveError as error:
            return error.reason
        return None

    assert run_each(step, range(2)) == [None, "refused"]
    peers[1].local.revert()
    peers[1].step()
    assert peers[1].local.round >= 2


def test_a_peer_without_the_state_is_told(tmp_path: Path) -> None:
    alice = Peer(tmp_path, "alice")
    alice.step()
    w = np.zeros(64)
    local = make_local(make_comm(tmp_path, "bob", deadline=0.01, quorum=1), w)
    local._link.find_rounds(local._outer).end.move_to(0)
    w += 1
    local._anchor.state.parameters["w"][3] = 7
    with pytest.raises(co.CollectiveError, match=r"call synchronize\(\)") as raised:
        local.step()
    assert raised.value.reason == "parameters"
    local.synchronize()
    assert w.tobytes() == alice.w.tobytes()


def test_settings_that_have_no_meaning(tmp_path: Path) -> None:
    comm, w = make_comm(tmp_path, "alice"), np.zeros(4, np.float32)
    with pytest.raises(ValueError, match="fragments must be 1 and delay 0"):
        make_local(comm, w, every=3, delay=1)
    with pytest.raises(TypeError, match="CLTk needs ranks that stay"):
        co.LocalUpdates(None, {"w": w}, co.CLTk(0.1), comm, every=1)
    with pytest.raises(TypeError, match="OkTopK needs ranks that stay"):
        co.LocalUpdates(None, {"w": w}, co.OkTopK(0.1), comm, every=1)
    with pytest.raises(co.CollectiveError, match="sums its own steps"):
        co.allreduce(comm, {"w": w}, co.OkTopK(0.1))
    with pytest.raises(ValueError, match="commit=False has no meaning"):
        make_local(comm, w).exchange(commit=False)


def test_the_digest_of_a_state() -> None:
    """It is that of the page, computed here by hand."""
    import hashlib
    import struct

    from collectives.local_updates.outer import OuterState

    state = OuterState(3, {"b": np.array([[1.0, 2.0]], np.float32), "a": np.array([3.0])}, {})
    data = struct.pack("<QIB", 3, 2, 0)
    data += struct.pack("<I", 1) + b"a" + struct.pack("<BBQ", 4, 1, 1)
    data += struct.pack("<I", 1) + b"b" + struct.pack("<BBQQ", 1, 2, 1, 2)
    data += struct.pack("<d", 3.0) + struct.pack("<ff", 1.0, 2.0)
    assert hash_state(state) == hashlib.sha256(data).digest()
    assert hash_state(unpack_state(pack_state(state), state)) == hash_state(state)


def test_an_empty_object_on_an_s3_server(s3: tuple[str, dict[str, Any]]) -> None:
    """Its range is refused by the server; it is garbage like any other."""
    url, options = s3
    files = Files(url, "run", options, 5.0)
    files._folder.put("empty", b"")
    assert files.get("empty", 10) == b""
    assert files.get("missing", 10) is None
    assert files.create("new", b"1")
    assert not files.create("new", b"2")
    assert files.get("new", 10) == b"1"


def test_over_an_s3_server(s3: tuple[str, dict[str, Any]]) -> None:
    """A real server: conditional writes, lists and deletions by its protocol."""
    url, options = s3

    def train(n: int) -> tuple[bytes, Any]:
        comm = co.StoreComm(
            url, "run", NAMES[n], quorum=3, deadline=0.2, poll=0.05, timeout=60, storage_options=options,
            publish_every=2, keep=4,
        )  # fmt: skip
        w = np.zeros(64, np.float32)
        local = make_local(comm, w)
        local.synchronize()
        for k in range(12):
            move(w, n, k)
            local.step()
        assert comm.last is not None
        assert (local.round, comm.last.members) == (12, NAMES)
        return w.tobytes(), comm.traffic

    results = run_each(train, range(3))
    assert len({bits for bits, _ in results}) == 1
    w = np.zeros(64, np.float32)
    joiner = co.StoreComm(
        url, "run", "zoe", quorum=3, deadline=0.2, poll=0.05, storage_options=options,
        publish_every=2, keep=4, resume=True,
    )  # fmt: skip
    assert make_local(joiner, w).synchronize()
    assert w.tobytes() == results[0][0]


def test_over_an_sftp_server(tmp_path: Path) -> None:
    """A process with a real server and two peers, whose connections end with it."""
    missing = [name for name in ("paramiko", "asyncssh") if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip(f"no SFTP server: {' and '.join(missing)} not installed")
    command = [sys.executable, "-m", "tests.collectives.store.sftp_run", str(tmp_path)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=240, check=False, cwd=Path(__file__).parents[3]
    )
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(rows) == 2
    assert rows[0] == rows[1]
    assert rows[0][1:] == [["alice", "bob"], 12]


@pytest.mark.parametrize("reverts", [False, True])
def test_a_movement_that_counts_after_an_interrupt(tmp_path: Path, reverts: bool) -> None:
    """It is not sent again; a program that reverts after the interrupt drops the rest only."""
    peer = Peer(tmp_path, "alice")
    peer.step()
    entries = peer.comm._place.files.entries
    files = peer.comm._place.files

    def interrupt(path: str) -> Any:
        if list(tmp_path.glob(f"run/{path}/alice.*")):
            raise KeyboardInterrupt
        return entries(path)

    files.entries = interrupt
    with pytest.raises(KeyboardInterrupt):
        peer.step()
    files.entries = entries
    assert peer.comm.is_open
    if reverts:
        peer.local.revert()
    peer.step()
    assert not peer.comm.is_open
    assert np.array_equal(peer.w, peer.total - peer.kept)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("part", range(0, 12, 3))
def test_an_interrupt_at_any_call_loses_nothing(tmp_path: Path, part: int) -> None:
    """The next step completes the round, or takes part in another one; sums stay exact."""
    peer = Peer(tmp_path, "alice", deadline=0.001, poll=0.001)
    for _ in range(3):
        peer.step()
    counter = Injector(OWN)
    with counter.active():
        peer.step()
    rounds = peer.local.round
    for number in range(1 + part, counter.calls, 12):
        injector = Injector(OWN, number)
        with contextlib.suppress(Injected, MemoryError, co.CollectiveError), injector.active():
            peer.step()
        peer.step()
        assert np.array_equal(peer.w, peer.total - peer.kept), injector.place
        assert peer.local.round > rounds, injector.place
        rounds = peer.local.round
