"""The command rounds: who took part, refusals and lateness."""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fsspec")

import collectives as co
from collectives.rounds import command
from collectives.store import opening
from collectives.store.envelope import Envelope, Kind
from tests.collectives.store.peers import make_comm, run_each, run_of
from wirecodec.cli import main

NAMES = "alice", "bob"


@pytest.fixture
def run(tmp_path: Path) -> str:
    """A run of three rounds: all count, mallory is refused, and bob is gone."""
    comms = [make_comm(tmp_path, name, quorum=1, deadline=10.0) for name in NAMES]
    comms[0]._expected = comms[1]._expected = frozenset(NAMES)
    run_each(lambda n: co.allgather_bytes(comms[n], b"x"), range(2))
    made = Envelope(Kind.CONTRIBUTION, run_of(tmp_path), 1, "mallory", b"garbage")
    path = tmp_path / f"run/rounds/{1:012d}/mallory.{made.digest.hex()}"
    path.parent.mkdir()
    path.write_bytes(made.pack())
    run_each(lambda n: co.allgather_bytes(comms[n], b"x"), range(2))
    comms[0]._timing = replace(comms[0]._timing, deadline=0.05)
    co.allgather_bytes(comms[0], b"x")
    late = Envelope(Kind.CONTRIBUTION, run_of(tmp_path), 2, "bob", b"late")
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


def test_a_folder_of_runs_lists_them(run: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_comm(tmp_path, "alice", quorum=1)  # of the same run
    co.StoreComm(str(tmp_path), "new", "alice", quorum=2)
    (tmp_path / "other").mkdir()
    assert main(["rounds", f"{tmp_path}/"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines[:1] + lines[-1:] == [
        ["run", "rounds", "quorum"],
        ["wirecodec", "rounds", f"{tmp_path}/RUN", "shows", "one", "of", "them"],
    ]
    assert [line for line in lines if line[:1] in (["new"], ["run"])][1:] == [
        ["new", "0", "2"],
        ["run", "3", "1"],
    ]
    assert main(["rounds", str(tmp_path), "--json"]) == 0
    assert [one["run"] for one in json.loads(capsys.readouterr().out)["runs"]] == ["new", "run"]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["missing/run"], "missing/run is no folder of a run: there is no such folder"),
        (["."], "is no folder of a run: it has no settings that can be read"),
        (["file"], "file is a file, and a run is a folder"),
        (["file/run"], "file/run is no folder of a run"),
        (["x/run", "--last", "0"], "--last is 0; it must be 1 or more"),
        (["x/run", "--storage-options", "[]"], "--storage-options must be a JSON object"),
        (["x/run", "--storage-options", "{'a': 1}"], "--storage-options is no valid JSON: Expecting"),
        (["nowhere://x/run"], "nowhere://x/run cannot be read: ValueError: Protocol not known: nowhere"),
    ],
)
def test_errors(
    arguments: list[str],
    text: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    begin = time.monotonic()
    assert main(["rounds", *arguments]) == 2
    error = capsys.readouterr().err
    assert text in error
    assert error.count("\n") == 1
    assert time.monotonic() - begin < 10  # it does not try again


def test_at_least_one_round_is_shown() -> None:
    with pytest.raises(ValueError, match="--last is 0"):
        command.run(argparse.Namespace(last=0))


def test_wrong_storage_options_are_named(
    s3: tuple[str, dict[str, Any]], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "_PATIENCE", 0.1)
    for options in ({"endpoint": "http://127.0.0.1:1"}, {**s3[1], "endpoint_url": "http://127.0.0.1:1"}):
        assert main(["rounds", s3[0], "--storage-options", json.dumps(options)]) == 2
        error = capsys.readouterr().err
        assert error.startswith(f"wirecodec: {s3[0]} cannot be read: ")
        assert error.endswith("; check --storage-options\n")
    assert main(["rounds", s3[0], "--storage-options", json.dumps(s3[1])]) == 2
    assert "is no folder of a run" in capsys.readouterr().err


def test_a_store_in_a_file_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="cannot be a folder of a run, because a file is in its path"):
        make_comm(tmp_path / "file", "alice")
