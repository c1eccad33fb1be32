"""Interrupts of a peer at any call of an exchange over a StoreComm; it goes on, or is started again."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import collectives as co
import wirecodec as wc
from collectives.errors import CollectiveError
from collectives.exchange.specs import ONLY
from collectives.local_updates import over_store
from collectives.local_updates.over_store import StoreRounds
from collectives.store import sums
from collectives.store.envelope import Kind
from collectives.store.layout import path_of_round
from collectives.store.local import LocalFolder
from collectives.store.log import Log
from collectives.store.members import Accepted, Members
from collectives.store.participant import OLD_ROUNDS, Participant
from collectives.store.rounds import Round
from tests.collectives.injector import OWN, Injected, Injector
from tests.collectives.store.peers import make_comm
from tests.oracles import Array

STEP = np.array([1, 2, 3, 4], np.float32)
ALONE: dict[str, Any] = {"quorum": 1, "deadline": 0.001, "poll": 0.001}


class Sgd:
    """Optimizer of a worker, whose steps are all the same."""

    taken = 0

    def __init__(self, w: Array) -> None:
        self.w = w

    def step(self, closure: Any = None) -> None:
        self.w += STEP
        Sgd.taken += 1


def make_local(folder: Path, w: Array, every: int) -> co.LocalUpdates:
    compressor = wc.Compressor("topk(k=1) | raw-index | raw")
    comm = make_comm(folder, "alice", **ALONE)
    return co.LocalUpdates(Sgd(w), {"w": w}, compressor, comm, every=every)


def exchange_all(local: co.LocalUpdates) -> None:
    """Exchange until nothing is left, without further steps."""
    for _ in range(8):
        local.exchange()


def train(folder: Path, injector: Injector, *, restarts: bool) -> Array:
    """Take six steps, of which every second one exchanges; the second exchange has an interrupt."""
    w, Sgd.taken = np.zeros(4, np.float32), 0
    local = make_local(folder, w, every=2)
    local.synchronize()
    for step in range(1, 7):
        if step == 5 and restarts:
            saved, w = local.state_dict(), w.copy()
            local = make_local(folder, w, every=2)
            local.load_state_dict(saved)
        try:
            if step == 4:
                with injector.active():
                    local.step()
            else:
                local.step()
        except (Injected, MemoryError):
            pass
    exchange_all(local)
    return w


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize(
    "stride", [29, pytest.param(2, marks=[pytest.mark.nightly, pytest.mark.timeout(3600)])]
)
def test_nothing_is_lost_or_applied_twice(tmp_path: Path, restarts: bool, stride: int) -> None:
    for number in range(2):  # the first run imports and compiles
        whole = Injector(OWN)
        assert train(tmp_path / str(number), whole, restarts=restarts).tolist() == (6 * STEP).tolist()
    wrong = []
    for number in range(3, whole.calls + 1, stride | 1):
        injector = Injector(OWN, number | 1)  # odd ones are interrupts
        w = train(tmp_path / f"at {number}", injector, restarts=restarts)
        if w.tolist() != (Sgd.taken * STEP).tolist():
            wrong.append(f"{number}: {w / STEP}, at {injector.place}")
    assert not wrong, f"of {whole.calls} calls:\n" + "\n".join(wrong[:10])


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
@pytest.mark.parametrize("decided", [True, False])
def test_a_contribution_is_settled_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, decided: bool, error: type[BaseException]
) -> None:
    """The store fails after the contribution, and an exception breaks off ``settle``."""
    comm = make_comm(tmp_path, "alice", **ALONE)
    compressor, total = wc.Compressor("topk(k=1) | raw-index | raw"), np.zeros(4)
    wait = Round.wait

    def fail(self: Round, expected: Any) -> Any:
        if decided:
            wait(self, expected)
        raise CollectiveError("the store is down", reason="transport")

    monkeypatch.setattr(Round, "wait", fail)
    with pytest.raises(CollectiveError):
        co.allreduce(comm, {"w": STEP}, compressor)
    monkeypatch.setattr(Round, "wait", wait)
    settle = sums.settle_step

    def interrupt(*_: Any, **__: Any) -> None:
        monkeypatch.setattr(sums, "settle_step", settle)
        raise error

    monkeypatch.setattr(sums, "settle_step", interrupt)
    with pytest.raises(error):
        comm.settle()
    assert comm.is_open
    for _ in range(8):
        total += co.allreduce(comm, {"w": np.zeros(4, np.float32)}, compressor)["w"]
    assert total.tolist() == STEP.tolist()  # the next call has returned the result of the first round


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, RuntimeError])
@pytest.mark.parametrize("place", ["settle_step", "_take", "advance"])
@pytest.mark.parametrize("after", [False, True])
def test_a_round_is_completed_before_an_exception_is_raised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[BaseException], place: str, after: bool
) -> None:
    """The program catches it, and goes on with its own steps."""
    owner: Any = {"settle_step": over_store, "_take": StoreRounds, "advance": Participant}[place]
    real, errors = getattr(owner, place), [error]

    def fail_once(*args: Any, **settings: Any) -> None:
        if errors and not after:
            raise errors.pop()
        real(*args, **settings)
        if errors:
            raise errors.pop()

    w = np.zeros(4, np.float32)
    compressor = wc.Compressor("topk(k=1) | raw-index | raw")
    local = co.LocalUpdates(None, {"w": w}, compressor, make_comm(tmp_path, "alice", **ALONE), every=2)
    local.synchronize()
    for step in range(1, 7):
        w += STEP
        if step == 4:
            monkeypatch.setattr(owner, place, fail_once)
            with pytest.raises(error):
                local.step()
        else:
            local.step()
    exchange_all(local)
    assert w.tolist() == (6 * STEP).tolist()


@pytest.mark.parametrize("is_deleted", [False, True])
def test_a_round_that_was_deleted_is_not_decided_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_deleted: bool
) -> None:
    """The store fails for a peer while others make so many rounds that they delete this one."""
    settings = {**ALONE, "publish_every": 1, "keep": 2}
    alice, bob = (make_comm(tmp_path, name, **settings) for name in ("alice", "bob"))
    compressor, wait = wc.Compressor("topk(k=1) | raw-index | raw"), Round.wait

    def fail(*_: Any) -> None:
        raise CollectiveError("the store is down", reason="transport")

    monkeypatch.setattr(Round, "wait", fail)
    with pytest.raises(CollectiveError):
        co.allreduce(bob, STEP, compressor)
    monkeypatch.setattr(Round, "wait", wait)
    folder = tmp_path / "run" / path_of_round(0)
    for path in folder.iterdir():
        path.unlink()  # bob's contribution comes too late for alice
    nothing = np.zeros(4, np.float32)
    for _ in range(OLD_ROUNDS * 2 + 2 if is_deleted else 2):
        assert not co.allreduce(alice, nothing, "all | raw-index | raw").any()
    assert folder.exists() != is_deleted
    bob.settle()
    assert not bob.is_open
    assert compressor.residual(ONLY) is None  # the step was rolled back


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("lines", [False, True])
def test_a_log_is_read_again_from_where_an_exception_broke_off(tmp_path: Path, lines: bool) -> None:
    """Dropped, proposed, proposed again, taken: the decision is that of an undisturbed reader."""
    comm = make_comm(tmp_path, "alice", **ALONE)
    place = comm._place
    one, other = (Members((Accepted("alice", bytes([n]) * 32, bytes(64)),)) for n in range(2))
    written = Log(place, 0.0)
    for kind, body in [
        (Kind.MEMBERS, one.pack()),
        (Kind.DROPPED, b""),
        (Kind.TAKEN, b"of another length"),
        (Kind.MEMBERS, other.pack()),
        (Kind.MEMBERS, one.pack()),
    ]:
        written.append(kind, body, "alice", comm._ring.sign)
    assert written.pending is not None
    written.append(Kind.TAKEN, written.pending, "alice", comm._ring.sign)
    whole = Injector(OWN, lines=lines, returns=True)
    with whole.active():
        Log(place, 0.0).read()
    for number in range(1, whole.calls + 1):
        log = Log(place, 0.0)
        with (
            suppress(Injected, MemoryError, CollectiveError),
            Injector(OWN, number, lines=lines, returns=True).active(),
        ):
            log.read()
        log.read()
        assert log.decision == written.decision == other, number


def test_a_state_that_is_loaded_replaces_an_open_contribution(tmp_path: Path, monkeypatch: Any) -> None:
    comm = make_comm(tmp_path, "alice", **ALONE)
    compressor = wc.Compressor("topk(k=1) | raw-index | raw")
    saved, wait = compressor.state_dict(), Round.wait

    def fail(self: Round, expected: Any) -> Any:
        raise CollectiveError("the store is down", reason="transport")

    monkeypatch.setattr(Round, "wait", fail)
    with pytest.raises(CollectiveError):
        co.allreduce(comm, {"w": STEP}, compressor)
    monkeypatch.setattr(Round, "wait", wait)
    compressor.load_state_dict(saved)
    for _ in range(2):  # the first call returns the result of the open round
        assert co.allreduce(comm, {"w": STEP}, compressor)["w"].tolist() == [0, 0, 0, 4]
    residual = compressor.residual("w")
    assert residual is not None
    assert residual.tolist() == [1, 2, 3, 0]


REQUESTS: dict[str, Callable[[LocalFolder], object]] = {
    "read": lambda folder: folder.read("a/b/object", 99),
    "put": lambda folder: folder.put("a/b/object", b"other"),
    "create": lambda folder: folder.create("a/b/new", b"new"),
    "entries": lambda folder: folder.entries("a/b"),
    "make_parents": lambda folder: folder.make_parents("a/c/d/object"),
    "delete": lambda folder: folder.delete("a/b/object"),
    "delete_folder": lambda folder: folder.delete_folder("a"),
}


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts descriptors in /proc")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("lines", [False, True], ids=["calls", "lines"])
@pytest.mark.parametrize("name", REQUESTS)
def test_an_interrupted_request_leaves_no_descriptor_open(tmp_path: Path, name: str, lines: bool) -> None:
    def make(place: str) -> LocalFolder:
        folder = LocalFolder(None, str(tmp_path / place))
        folder.make_root()
        folder.make_parents("a/b/object")
        folder.put("a/b/object", b"object")
        return folder

    whole, request = Injector(OWN, lines=lines, returns=True), REQUESTS[name]
    folder = make("whole")
    with whole.active():
        request(folder)
    assert whole.calls > 10
    left = []
    for number in range(1, whole.calls + 1, 2):  # odd ones are interrupts
        folder, injector = make(str(number)), Injector(OWN, number, lines=lines, returns=True)
        before = len(os.listdir("/proc/self/fd"))
        with suppress(Injected), injector.active():
            request(folder)
        if len(os.listdir("/proc/self/fd")) != before:
            gc.collect()
            left += [injector.place] * (len(os.listdir("/proc/self/fd")) != before)
    assert not left, "descriptors stay open:\n" + "\n".join(left)
