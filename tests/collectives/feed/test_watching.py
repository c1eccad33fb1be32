"""Feeds of weights: waits for versions, and what readers report."""

from __future__ import annotations

import argparse
import asyncio
import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import collectives as co
from collectives.feed import command
from collectives.store.envelope import Envelope, Kind
from tests.collectives.feed.weights import Training, follow
from tests.collectives.store.faulty import Faults
from tests.collectives.store.stores import Store
from wirecodec.cli import main


def test_the_command(folder: str, training: Training, capsys: pytest.CaptureFixture[str]) -> None:
    publisher = co.Publisher(folder, "run", skips=(2,))
    for _ in range(3):
        training.publish(publisher)
        training.step()
    assert main(["feed", f"{folder}/run", "--last", "2"]) == 0
    title, _, _, *rows = capsys.readouterr().out.splitlines()
    assert title.startswith("run: version 2; ")
    assert [row.split()[0] for row in rows] == ["1", "2"]
    assert main(["feed", f"{folder}/run", "--json"]) == 0
    versions = json.loads(capsys.readouterr().out)["versions"]
    assert [one["version"] for one in versions] == [0, 1, 2]
    assert versions[0]["anchor_bytes"] > versions[2]["bytes"] > 0
    assert versions[2]["skip_bytes"] > 0
    assert main(["feed", folder]) == 2
    assert "has no version of a feed" in capsys.readouterr().err
    with pytest.raises(ValueError, match="--last is 0"):
        command.run(argparse.Namespace(last=0))


def test_a_wait_for_a_newer_version(folder: str, training: Training) -> None:
    publisher, reader, state = co.Publisher(folder, "run"), follow(folder), dict[str, Any]()
    assert reader.latest(timeout=0.03) is None
    training.publish(publisher)
    assert reader.latest(timeout=60) == reader.update(state) == reader.latest() == 0
    begin = time.monotonic()
    assert reader.latest(timeout=0.1) == 0
    assert time.monotonic() - begin >= 0.1
    training.step()
    threading.Timer(0.1, training.publish, [publisher]).start()
    assert reader.latest(timeout=60) == 1


@pytest.mark.parametrize("fails", [False, True])
def test_tasks_wait_for_a_newer_version_without_threads(
    tmp_path: Path, training: Training, fails: bool
) -> None:
    """Hundreds of them wait together, and through an outage of the store."""
    faults = Faults()
    options: dict[str, Any] = {"storage_options": {"faults": faults}, "timeout": 60}
    publisher = co.Publisher(f"faulty://{tmp_path}", "run", **options)
    reader = co.Subscriber(f"faulty://{tmp_path}", "run", poll=0.02, **options)
    assert training.publish(publisher) == reader.update({}) == 0
    training.step()

    async def publish_later() -> int:
        if fails:
            faults.down_until = time.monotonic() + 0.3
        await asyncio.sleep(0.4)
        return await asyncio.to_thread(training.publish, publisher)

    async def main() -> tuple[list[Any], int]:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(2))
        waits = [asyncio.create_task(reader.latest_async(timeout=60)) for _ in range(200)]
        given_up = asyncio.create_task(reader.latest_async(timeout=60))
        published = asyncio.create_task(publish_later())
        await asyncio.sleep(0.1)
        given_up.cancel()
        number = await asyncio.wait_for(published, 40)  # it needs a thread, too
        return await asyncio.gather(*waits), number

    assert asyncio.run(main()) == ([1] * 200, 1)
    assert asyncio.run(reader.latest_async()) == 1
    begin = time.monotonic()
    assert asyncio.run(follow(str(tmp_path / "other")).latest_async(timeout=0.05)) is None
    assert time.monotonic() - begin < 30


def test_a_task_ends_if_the_store_does(tmp_path: Path, training: Training) -> None:
    faults = Faults()
    options: dict[str, Any] = {"storage_options": {"faults": faults}}
    training.publish(co.Publisher(f"faulty://{tmp_path}", "run", **options))
    faults.down_until = time.monotonic() + 3600
    reader = co.Subscriber(f"faulty://{tmp_path}", "run", poll=0.01, timeout=0.2, **options)
    before = faults.requests
    with pytest.raises(co.CollectiveError, match=r"the store failed for 0\.2 s"):
        asyncio.run(reader.latest_async(timeout=60))
    assert faults.requests > before + 2


def test_the_lag_of_a_reader(folder: str, training: Training) -> None:
    publisher, reader, state = co.Publisher(folder, "run"), follow(folder), dict[str, Any]()
    assert reader.lag() == {"version": None, "latest": None, "versions": 0, "seconds": 0.0}
    training.publish(publisher)
    reader.update(state)
    assert reader.lag() == {"version": 0, "latest": 0, "versions": 0, "seconds": 0.0}
    begin = time.time()
    for _ in range(3):
        training.step()
        training.publish(publisher)
        time.sleep(0.05)
    found = reader.lag()
    assert (found["version"], found["latest"], found["versions"]) == (0, 3, 3)
    assert 0.15 <= found["seconds"] <= time.time() - begin
    assert follow(folder).lag()["versions"] == 4


def test_the_command_shows_readers(store: Store, training: Training, capsys: Any) -> None:
    """Those that have a name, whatever strangers put beside their reports."""
    options: dict[str, Any] = {"storage_options": store.options}
    publisher = co.Publisher(store.url, "run", **options)
    readers = [co.Subscriber(store.url, "run", name=name, **options) for name in ("late", "new", None)]
    states: list[dict[str, Any]] = [{} for _ in readers]
    for _ in range(3):
        training.publish(publisher)
        for reader, state in list(zip(readers, states, strict=True))[publisher.version == 2 :]:
            reader.update(state)
        training.step()
    readers[1]._archive.files.put("readers/x", b"garbage")
    readers[1]._archive.files.put("readers/\x1b[1m", b"garbage")
    stranger = Envelope(Kind.READER, readers[0]._archive.run, 7, "far", b"\xff" * 8).pack()
    readers[1]._archive.files.put("readers/far", stranger)
    readers[1]._archive.files.put("readers/other", stranger)
    url = ["feed", f"{store.url}/run", "--storage-options", json.dumps(store.options)]
    assert main([*url, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["readers"]
    assert [(one["reader"], one["version"], one["behind"]) for one in found] == [
        ("far", 7, -5),
        ("late", 1, 1),
        ("new", 2, 0),
    ]
    assert abs(found[1]["written"] - time.time()) < 600
    assert main(url) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[-3:]]
    assert rows[0] == ["far", "7", "-5", "-"]
    assert rows[1][:3] == ["late", "1", "1"]


def test_a_reader_that_may_not_report_follows(tmp_path: Path, training: Training) -> None:
    faults = Faults()
    options: dict[str, Any] = {"storage_options": {"faults": faults}}
    publisher = co.Publisher(f"faulty://{tmp_path}", "run", **options)
    training.publish(publisher)
    written = []

    def refuse(operation: str, path: str) -> None:
        if operation == "put":
            written.append(path)
            raise OSError("not now")

    faults.hook = refuse
    reader = co.Subscriber(f"faulty://{tmp_path}", "run", name="reader", **options)
    state: dict[str, Any] = {}
    begin = time.monotonic()
    assert reader.update(state) == reader.update(state) == reader.prepare(state).commit() == 0
    assert time.monotonic() - begin < 30
    assert len(written) == 1
    with pytest.raises(ValueError, match="name is 'a b'"):
        co.Subscriber(f"faulty://{tmp_path}", "run", name="a b", **options)
