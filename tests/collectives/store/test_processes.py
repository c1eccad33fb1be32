"""Eight processes that are killed, stopped, late, leaving and joining, with equal bits and exact sums."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("fsspec")

import wirecodec as wc
from collectives.store.contribution import HEAD
from collectives.store.envelope import Envelope

ROOT = Path(__file__).parents[3]
DEADLINE = 0.5


class Process:
    """Peer in a process of its own, whose output goes to a file."""

    def __init__(self, folder: Path, name: str, rounds: int, life: int = 0, **settings: Any) -> None:
        self.name = name
        given = {"url": str(folder / "store"), "name": name, "life": life, "late": []}
        given |= {
            "last": str(folder / "last"),
            "leaves": 10**9,
            "deadline": DEADLINE,
            "pace": 12 / rounds,
        } | settings
        self.path = folder / f"{name}-{life}.jsonl"
        self.log = self.path.open("wb")
        command = [sys.executable, "-m", "tests.collectives.store.peer", json.dumps(given)]
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "OMP_NUM_THREADS": "1",
            "NUMBA_NUM_THREADS": "1",
        }
        errors = (folder / f"{name}-{life}.err").open("wb")
        self.process = subprocess.Popen(command, stdout=self.log, stderr=errors, cwd=ROOT, env=environment)
        errors.close()

    def lines(self) -> list[dict[str, Any]]:
        whole = self.path.read_bytes().rpartition(b"\n")[0]
        return [json.loads(line) for line in whole.splitlines()]

    def rounds(self) -> list[list[Any]]:
        return [line["round"] for line in self.lines() if "round" in line and "error" not in line]

    def wait_for_round(self, number: int, *, as_member: bool = False) -> None:
        end = time.monotonic() + 240
        while not any(row[0] >= number and not (as_member and row[3] is None) for row in self.rounds()):
            assert self.process.poll() is None, self.path.with_suffix(".err").read_text()
            assert time.monotonic() < end, f"{self.name} hangs"
            time.sleep(0.05)

    def send(self, number: int) -> None:
        self.process.send_signal(number)


@pytest.mark.parametrize("rounds", [40, pytest.param(200, marks=pytest.mark.nightly)])
def test_peers_come_and_go(tmp_path: Path, rounds: int) -> None:
    def at(share: float) -> int:
        return int(share * rounds)

    peers = [Process(tmp_path, f"peer{n}", rounds) for n in range(4)]
    peers.append(Process(tmp_path, "late", rounds, late=[*range(at(0.2), rounds, 7)]))
    peers.append(Process(tmp_path, "leaving", rounds, leaves=at(0.7)))
    victim, stopped = Process(tmp_path, "victim", rounds), Process(tmp_path, "stopped", rounds)
    peers.append(stopped)
    try:
        guide = peers[0]
        victim.wait_for_round(at(0.2))
        victim.send(signal.SIGKILL)
        stopped.wait_for_round(at(0.3))
        stopped.send(signal.SIGSTOP)
        peers.append(Process(tmp_path, "victim", rounds, life=1))
        guide.wait_for_round(at(0.6))
        stopped.send(signal.SIGCONT)
        # On a busy machine, they need time to start and to catch up.
        peers[-1].wait_for_round(0, as_member=True)
        stopped.wait_for_round(at(0.6), as_member=True)
        last = max(rounds, 10 + max(row[0] for row in guide.rounds()))
        (tmp_path / "new").write_text(str(last))
        (tmp_path / "new").rename(tmp_path / "last")
        for peer in peers:
            status = peer.process.wait(240)
            assert status == 0, (peer.name, peer.path.with_suffix(".err").read_text())
    finally:
        for peer in (*peers, victim):
            if peer.process.poll() is None:
                peer.send(signal.SIGKILL)
                peer.process.wait()
            peer.log.close()
    check(tmp_path, [*peers, victim], last, at(0.6))


def check(folder: Path, peers: list[Process], rounds: int, resumed: int) -> None:
    """Compare what the peers report with what an oracle computes from the objects in the store.

    Args:
        folder: of the test.
        peers: all of them.
        rounds: number of rounds.
        resumed: round from which the stopped peer goes on.
    """
    decided = {number: read_members(folder, number) for number in range(rounds)}
    states, w = {}, np.zeros(256)
    sent: dict[str, Any] = defaultdict(lambda: np.zeros(256))
    import zlib

    for number, entries in decided.items():
        total = np.zeros(256)
        for name, digest in entries:
            movement = decode(folder, number, name, digest)
            sent[f"{name} {digest}"] += movement
            total += movement
        if entries:
            w = w - total / len(entries)
        states[number] = zlib.crc32(w.tobytes())
    reported = set()
    for peer in peers:
        own: Any = np.zeros(256)
        for number, digest, members, rank in peer.rounds():
            if number >= rounds:
                continue
            reported.add(number)
            assert digest == states[number], (peer.name, number)
            assert members == [name for name, _ in decided[number]]
            if rank is not None:
                name, at = decided[number][rank]
                assert name == peer.name
                own += sent[f"{name} {at}"]
        end = next((line["end"] for line in peer.lines() if "end" in line), None)
        if end is not None:
            movement = own + np.array(end["kept"])
            assert np.abs(movement + np.array(end["total"])).max() < 1e-8, peer.name
    assert reported == set(range(rounds))
    counts = [len(entries) for entries in decided.values()]
    assert min(counts) >= 3
    assert len(set(counts)) >= 3, "peers come and go"
    joiner = next(peer for peer in peers if peer.name == "victim" and "1." in peer.path.name)
    assert joiner.lines()[0]["joined"] > 0
    assert any(row[3] is not None for row in joiner.rounds())
    away = next(peer for peer in peers if peer.name == "stopped")
    assert any(row[3] is not None for row in away.rounds() if row[0] >= resumed)


def read_members(folder: Path, number: int) -> list[tuple[str, str]]:
    data = (folder / f"store/run/rounds/{number:012d}/members.00").read_bytes()
    return [(name, digest) for name, digest, _ in json.loads(Envelope.unpack(data).body)["accepted"]]


def decode(folder: Path, number: int, name: str, digest: str) -> Any:
    data = (folder / f"store/run/rounds/{number:012d}/{name}.{digest}").read_bytes()
    (tensor,) = wc.decode_many(Envelope.unpack(data).body[HEAD:]).values()
    return tensor.to_dense()
