"""The command rounds: who took part, refusals and lateness."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("fsspec")

import collectives as co
from collectives.store.envelope import Envelope, Kind, hash_run
from tests.collectives.store.peers import make_comm, run_each
from wirecodec.cli import main

NAMES = "alice", "bob"


@pytest.fixture
def run(tmp_path: Path) -> str:
    """A run of three rounds: all count, mallory is refused, and bob is gone."""
    comms = [make_comm(tmp_path, name, quorum=1, deadline=10.0) for name in NAMES]
    comms[0]._expected = comms[1]._expected = frozenset(NAMES)
    run_each(lambda n: co.allgather_bytes(comms[n], b"x"), range(2))
    made = Envelope(Kind.CONTRIBUTION, hash_run("run"), 1, "mallory", b"garbage")
    path = tmp_path / f"run/rounds/{1:012d}/mallory.{made.digest.hex()}"
    path.parent.mkdir()
    path.write_bytes(made.pack())
    run_each(lambda n: co.allgather_bytes(comms[n], b"x"), range(2))
    comms[0]._timing = replace(comms[0]._timing, deadline=0.05)
    co.allgather_bytes(comms[0], b"x")
    late = Envelope(Kind.CONTRIBUTION, hash_run("run"), 2, "bob", b"late")
    (tmp_path / f"run/rounds/{2:012d}/bob.{late.digest.hex()}").write_bytes(late.pack())
    return str(tmp_path / "run")


def test_the_page(run: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rounds", run]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "run: 3 rounds in the store; quorum 1; no keys"
    assert lines[2].split()[:2] == ["round", "members"]
    assert lines[3].split()[:2] == ["0", "2"]
    assert "mallory (header)" in lines[4]
    assert lines[5].split()[:2] == ["2", "1"]
    assert "bob (" in lines[5]
    peers = {line.split()[0]: line.split()[1:4] for line in lines[8:]}
    assert peers == {"alice": ["3", "0", "0"], "bob": ["2", "0", "1"], "mallory": ["0", "1", "0"]}


def test_json_and_the_picture(run: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = tmp_path / "rounds.png"
    assert main(["rounds", run, "--json", "--last", "2", "--png", str(picture)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["run"], found["total"], found["rules"]["quorum"]) == ("run", 3, 1)
    first, second = found["rounds"]
    assert first["members"] == ["alice", "bob"]
    assert first["refused"] == {"mallory": "header"}
    assert second["members"] == ["alice"]
    assert second["late"]["bob"] >= 0
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["missing/run"], "is no folder of a run"),
        (["x/run", "--last", "0"], "--last is 0; it must be 1 or more"),
        (["x/run", "--storage-options", "[]"], "must be a JSON object"),
    ],
)
def test_errors(arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rounds", *arguments]) == 2
    assert text in capsys.readouterr().err
