"""Folders of each kind of store: exact names, and garbage of each kind in each place."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("fsspec")

import collectives as co
from collectives.store.backends import UnsuitableStore
from collectives.store.files import Files
from tests.collectives.store.peers import make_comm, make_local
from tests.collectives.store.stores import Store

SCHEME = "all | raw-index | raw"
NAMES = (
    "lr[1]", "lr*", "lr?", "l[!x]1", "**", "lr#1", "lr#", "lr%31", "lr1 ", " lr1", "lr1\t", "lr::1", "lr1::memory://",
    "lr1?versionId=x", "../lr1", "./lr1", "{lr1,lr2}", "lr\\1", "é",
)  # fmt: skip
NEIGHBOURS = "lr1", "lr2", "lr"
OBJECT = f"bob.{'0' * 64}"
ROUND = "run/rounds/{:012d}"


def open_files(store: Store, name: str) -> Files:
    files = Files(f"{store.url}/{name}", "run", store.options, 1.0)
    files.check_exclusive("probe")
    return files


def test_a_folder_touches_its_own_objects_only(store: Store) -> None:
    """It is another folder than its neighbours, whatever fsspec makes of its name, or it is refused."""
    for neighbour in NEIGHBOURS:
        files = open_files(store, neighbour)
        for path in ("rounds/1/a", "rounds/1/b", "states/c"):
            files.put(path, b"theirs")
    refused = set()
    for name in NAMES:
        before = store.files()
        try:
            files = open_files(store, name)
        except (UnsuitableStore, ValueError):
            refused.add(name)
            assert store.files() == before, name
            continue
        if name in ("./lr1", "../lr1"):  # the same folder, or its parent's
            continue
        assert files.entries("") == [], name
        for path in ("rounds/1/a", "rounds/1/b", "rounds/1/c/d", "states/c", "states/d"):
            assert files.create(path, b"mine")
        assert len(store.files() - before) == 5, name
        assert files.get("rounds/1/a", 9) == b"mine"
        assert [one.base for one in files.entries("rounds/1")] == ["a", "b", "c"]
        files.clean("states", lambda base: base == "d")
        files.delete_folder("rounds/1")
        assert len(store.files() - before) == 1, name
        files.delete("states/c")
        assert store.files() == before, name
    assert not refused & {"lr[1]", "lr*", "l[!x]1", "lr%31", "lr1 ", "{lr1,lr2}", "é"}
    assert store.url.startswith("sftp") == ("lr#1" in refused) == ("lr?" in refused)


def count_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_garbage_costs_a_request(store: Store, tmp_path: Path) -> None:
    """Each kind in each place: each round has its sum, nothing leaks, and what links point to stays."""
    private = tmp_path / "private"
    (private / "folder").mkdir(parents=True)
    (private / "file").write_text("private")
    (private / "folder" / OBJECT).write_text("private")
    comm = make_comm(
        store.url, "alice", storage_options=store.options, quorum=1, deadline=0.01, timeout=1.0,
        publish_every=1, keep=2,
    )  # fmt: skip
    places = [
        (kind, place)
        for kind in store.garbage
        for place in (f"{ROUND}/members.00", f"{ROUND}/{OBJECT}", ROUND, f"{ROUND}/x")
        if not (kind in ("folder", "full folder", "prefix") and place == ROUND)
        and not (store.url.startswith("s3") and place == ROUND)  # the test's server has real folders
    ]
    descriptors = None
    for number, (kind, place) in enumerate(places):
        store.garbage[kind](place.format(number))
        result = co.allreduce(comm, np.full(4, number, np.float32), SCHEME)
        assert result.tolist() == [number] * 4, (kind, place)
        assert comm.last is not None
        assert comm.last.members == ("alice",), (kind, place)
        if number == 3:
            descriptors = count_descriptors()
    assert descriptors is not None
    assert count_descriptors() <= descriptors + 1
    assert sorted(one.name for one in private.rglob("*")) == sorted(["folder", "file", OBJECT])
    assert not [name for name in store.files() if name.endswith(".tmp")]
    assert comm.traffic.repeated == 0


@pytest.mark.parametrize("place", ["run/states", "run/rounds", "run/settings.00", "run/start.00"])
def test_garbage_before_the_start(store: Store, place: str, tmp_path: Path) -> None:
    """A run starts in a folder with garbage of each kind that is no folder."""
    (tmp_path / "private" / "folder").mkdir(parents=True)
    (tmp_path / "private" / "file").write_text("private")
    if store.url.startswith("s3") and "." not in place:
        pytest.skip("the test's server has real folders")
    for number, kind in enumerate(store.garbage):
        if kind == "sparse file" or ("folder" in kind and "link" not in kind):
            continue
        url = f"{store.url}/{number}"
        store.garbage[kind](f"{number}/{place}")
        comm = make_comm(url, "alice", storage_options=store.options, quorum=1, deadline=0.01, timeout=1.0)
        w = np.zeros(4, np.float32)
        local = make_local(comm, w)
        local.synchronize()
        w += 1
        local.step()
        assert w.sum() == 1, kind  # top-k with k = 1
    assert os.listdir(tmp_path / "private" / "folder") == []


def test_names_that_are_not_text(store: Store, tmp_path: Path) -> None:
    """They are left out, and the others are listed."""
    if store.url.startswith(("memory", "s3")):
        pytest.skip("names are text")
    files = open_files(store, "run")
    files.put("rounds/1/a", b"1")
    with open(os.fsencode(tmp_path / "runs/run/run/rounds/1") + b"/\xff\xfe", "wb"):
        pass
    assert "a" in [one.base for one in files.entries("rounds/1")]
    files.delete_folder("rounds/1")


@contextmanager
def full_disk(pid: int) -> Iterator[None]:
    """Let a process's writes of more than 1000 bytes fail in the middle of a file, as on a full disk."""
    before = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, before)


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="no limit of another process")
@pytest.mark.parametrize("links", [True, False], ids=["links", "no links"])
def test_a_full_disk(store: Store, links: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of a failed write stays, and the run goes on when there is space again."""
    if store.url.startswith(("memory", "s3")):
        pytest.skip("no disk of this process")

    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError(1, "no links here")

    if not links:
        monkeypatch.setattr("os.link", refuse)
    comm = make_comm(store.url, "alice", storage_options=store.options, quorum=1, deadline=0.01, timeout=0.3)
    x = np.arange(1000, dtype=np.float32)
    assert co.allreduce(comm, x, SCHEME).tobytes() == x.tobytes()
    before = store.files()
    with full_disk(store.pid):
        for write in (comm._place.files.put, comm._place.files.create):
            with pytest.raises(co.CollectiveError, match="the store failed for") as raised:
                write("rounds/000000000009/x", bytes(2000))
            assert raised.value.reason == "transport"
        with pytest.raises(co.CollectiveError, match="the store failed for"):
            co.allreduce(comm, 2 * x, SCHEME)
        assert store.files() == before
    assert comm._place.files.create("rounds/000000000009/x", bytes(2000))
    results = [co.allreduce(comm, x, SCHEME) for _ in range(2)]
    assert results[1].tobytes() == x.tobytes()
    assert not [name for name in store.files() if name.endswith(".tmp")]
