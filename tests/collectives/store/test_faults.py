"""Faults of the store: errors, outages, lost answers, partial objects, and lists that lag behind.

The faults are injected into the file system. In each case all peers have the same bits, and what was summed
and what the residuals keep is all that was given.
"""

from __future__ import annotations

import errno
import threading
import time
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("fsspec")

import collectives as co
import wirecodec as wc
from collectives.store.backends import UnsuitableStore
from collectives.store.files import Files
from collectives.store.folders import Folder
from collectives.store.rounds import Round
from tests.collectives.store.faulty import Faults, FaultyFileSystem
from tests.collectives.store.peers import gradient, make_comm, run_each, run_peers

NAMES = "alice", "bob", "carol"


def make_faulty(folder: Path, name: str, faults: Faults, **settings: Any) -> Any:
    return make_comm(f"faulty://{folder}", name, storage_options={"faults": faults}, **settings)


def train(comm: co.StoreComm, n: int, rounds: int = 6) -> tuple[list[bytes], Any, Any]:
    """Sum gradients of integers; return the sums, all that was summed, and the residual."""
    compressor = wc.Compressor("topk(0.25) | rice | raw")
    sums = [co.allreduce(comm, {"w": gradient(n, k)}, compressor, op="sum")["w"] for k in range(rounds)]
    return [x.tobytes() for x in sums], sum(sums), compressor.residual("w")


def check_alike_and_exact(results: list[Any], rounds: int = 6) -> None:
    assert all(bits == results[0][0] for bits, _, _ in results)
    given = sum(gradient(n, k) for n in range(len(results)) for k in range(rounds))
    assert np.array_equal(results[0][1] + sum(residual for *_, residual in results), given)


@pytest.mark.parametrize(
    "faults",
    [{"every": 5}, {"lost": 2}, {"partial": 0.05}, {"lag": 0.2}],
    ids=["errors", "lost answers", "partial objects", "lists behind"],
)
def test_a_store_with_faults(tmp_path: Path, faults: dict[str, Any]) -> None:
    """All three are needed for a quorum, so no contribution may get lost."""
    made = [Faults() for _ in NAMES]
    comms = [
        make_faulty(tmp_path, name, fault, quorum=3, deadline=0.2)
        for name, fault in zip(NAMES, made, strict=True)
    ]
    for fault in made:
        for key, value in faults.items():
            setattr(fault, key, value)
    results = run_each(lambda n: train(comms[n], n), range(3))
    check_alike_and_exact(results)
    if "every" in faults:
        assert all(comm.traffic.repeated > 0 for comm in comms)


@pytest.mark.parametrize("seconds", [2, pytest.param(60, marks=pytest.mark.nightly)])
def test_a_store_that_is_down_for_a_while(tmp_path: Path, seconds: float) -> None:
    """Requests are repeated; the run goes on where it was."""
    faults = Faults()
    comms = [make_faulty(tmp_path, name, faults, quorum=3, deadline=0.2, timeout=120) for name in NAMES]

    def call(n: int) -> Any:
        sums, compressor = [], wc.Compressor("topk(0.25) | rice | raw")
        for k in range(6):
            if k == 3 and n == 0:
                faults.down_until = time.monotonic() + seconds
            sums.append(co.allreduce(comms[n], {"w": gradient(n, k)}, compressor, op="sum")["w"])
        return [x.tobytes() for x in sums], sum(sums), compressor.residual("w")

    check_alike_and_exact(run_each(call, range(3)))
    assert sum(comm.traffic.repeated for comm in comms) > 3


@pytest.mark.parametrize("counts", [True, False], ids=["counts", "does not count"])
def test_a_store_that_is_down_for_too_long(tmp_path: Path, counts: bool) -> None:
    """The peer learns in its next call whether its contribution counts, and its residual is right."""
    faults = Faults()
    alice = make_faulty(tmp_path, "alice", faults, quorum=1, deadline=3.0, timeout=0.5)
    bob = make_comm(tmp_path, "bob", quorum=1, deadline=3.0)
    compressor: Any = wc.Compressor("topk(0.25) | rice | raw")
    other: Any = wc.Compressor("topk(0.25) | rice | raw")
    steps = [gradient(0, k) for k in range(3)]
    alice._expected = bob._expected = frozenset({"alice", "bob"})
    first = run_peers(
        [
            lambda: co.allreduce(alice, {"w": steps[0]}, compressor, op="sum")["w"],
            lambda: co.allreduce(bob, {"w": gradient(1, 0)}, other, op="sum")["w"],
        ]
    )
    assert first[0].tobytes() == first[1].tobytes()

    def go_down(operation: str, path: str) -> None:
        if operation == ("ls" if counts else "put") and f"rounds/{1:012d}" in path:
            has_written = list((tmp_path / f"run/rounds/{1:012d}").glob("alice.*"))
            if has_written or not counts:
                faults.down_until = time.monotonic() + 60

    faults.hook = go_down
    alice._expected = bob._expected = frozenset()

    def lose_store() -> None:
        with pytest.raises(co.CollectiveError, match="the store failed for") as raised:
            co.allreduce(alice, {"w": steps[1]}, compressor, op="sum")
        assert raised.value.reason == "transport"

    def go_on() -> Any:
        path = tmp_path / f"run/rounds/{1:012d}"
        while counts and not list(path.glob("alice.*")):
            time.sleep(0.01)
        return co.allreduce(bob, {"w": gradient(1, 1)}, other, op="sum")["w"]

    _, second = run_peers([lose_store, go_on])
    assert bob.last is not None
    assert bob.last.members == (("alice", "bob") if counts else ("bob",))
    with pytest.raises(wc.EncodeError, match="is open"):
        compressor.prepare({"w": steps[1]}, rank=alice.rank)  # the step waits for the verdict
    faults.hook, faults.down_until = None, 0.0
    # The result of the round is still due; this call's own step is late for it.
    result = co.allreduce(alice, {"w": steps[2]}, compressor, op="sum")["w"]
    assert result.tobytes() == second.tobytes()
    assert alice.last is not None
    assert (alice.last.number, alice.last.rank) == (1, None)
    taken = steps[0] + steps[1] if counts else steps[0]
    kept = compressor.residual("w") + other.residual("w")
    assert np.array_equal(first[0] + second + kept, taken + gradient(1, 0) + gradient(1, 1))


def test_a_member_whose_object_is_gone_is_named(tmp_path: Path) -> None:
    """All that cannot read it raise an error; nobody has other bits."""
    alice = make_comm(tmp_path, "alice", quorum=1, deadline=0.05)
    co.allgather_bytes(alice, b"x")
    for path in tmp_path.glob("run/rounds/*/alice.*"):
        path.unlink()
    bob = make_comm(tmp_path, "bob", quorum=1, deadline=0.05)
    bob.move_to(0)
    with pytest.raises(co.CollectiveError, match="object of member 'alice' is not in the store"):
        co.allgather_bytes(bob, b"y")


@pytest.mark.parametrize(("owner", "method"), [(Round, "_pause"), (Files, "put")], ids=["waiting", "writing"])
def test_a_suspended_peer_does_not_decide_a_deleted_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: type, method: str
) -> None:
    """It finds an empty log, and could decide alone; nothing of it counts, and it keeps its gradient."""
    settings: dict[str, Any] = {"quorum": 1, "deadline": 0.05, "publish_every": 1, "keep": 2}
    alice, bob = (make_comm(tmp_path, name, **settings) for name in ("alice", "bob"))
    summed = np.zeros(64, np.float32)
    original = getattr(owner, method)

    def run_alice() -> None:
        for _ in range(40):
            summed[:] += co.allreduce(alice, {"w": np.zeros(64, np.float32)}, "all | raw-index | raw")["w"]

    def suspend(self: Any, *args: Any) -> None:
        monkeypatch.setattr(owner, method, original)
        for path in tmp_path.glob("run/rounds/*/bob.*"):
            path.unlink()  # it comes too late for alice
        run_peers([run_alice])
        original(self, *args)

    monkeypatch.setattr(owner, method, suspend)
    compressor = wc.Compressor("topk(0.25) | rice | raw")
    with pytest.raises(co.CollectiveError, match="was decided and deleted"):
        co.allreduce(bob, {"w": gradient(1)}, compressor)
    assert compressor.residual("w") is None
    assert not summed.any()


def test_a_folder_without_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are then created exclusively, and written afterwards."""

    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr("os.link", refuse)
    comms = [make_comm(tmp_path, name, quorum=3, deadline=0.2) for name in NAMES]
    check_alike_and_exact(run_each(lambda n: train(comms[n], n), range(3)))


class Overwriting:
    """File system whose exclusive creation is none, as of a server that ignores the condition."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def create_exclusively(self, path: str, data: bytes) -> None:
        self._inner.pipe_file(path, data)


def test_a_store_that_ignores_the_condition_is_refused(tmp_path: Path) -> None:
    files = Files(str(tmp_path), "run", None, 1.0)
    files._folder = Folder(Overwriting(files._folder.fs), files.root)
    with pytest.raises(UnsuitableStore, match="overwrites an object"):
        files.check_exclusive("probe")


def test_a_store_without_exclusive_creation_is_refused(tmp_path: Path) -> None:
    import fsspec

    class Plain(fsspec.AbstractFileSystem):  # type: ignore[misc]
        protocol = "plainstore"

    fsspec.register_implementation("plainstore", Plain, clobber=True)
    with pytest.raises(UnsuitableStore, match="not known to create an object only if there is none"):
        Files("plainstore://x", "run", None, 1.0)


class Remembering(FaultyFileSystem):
    """File system that keeps its lists, and does not implement ``invalidate_cache`` (gdrive-fsspec 62)."""

    protocol = "remembering"

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        if path not in self.dircache:
            self.dircache[path] = super().ls(path)
        return list(self.dircache[path])


def test_lists_of_a_file_system_that_keeps_them_are_new(tmp_path: Path) -> None:
    folder = Folder(Remembering(), str(tmp_path))
    assert folder.entries("") == []
    (tmp_path / "x").write_bytes(b"1")
    assert [Path(one["name"]).name for one in folder.entries("")] == ["x"]


class Refusing:
    """Client of an object store, whose requests are refused while ``refusals`` lasts."""

    async_impl, endpoint_url = True, "http://store.example"

    def __init__(self, inner: Any, refusals: int) -> None:
        self._inner, self.refusals = inner, refusals

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def pipe_file(self, path: str, data: bytes, **options: Any) -> None:
        if self.refusals:
            self.refusals -= 1
            raise ConnectionRefusedError("connection refused")
        self._inner.pipe_file(path, data, **options)


def make_refusing(refusals: int) -> Files:
    files = Files("memory://bucket/folder", "run", None, 60.0)
    files._folder = replace(files._folder, fs=Refusing(files._folder.fs, refusals))
    files._is_object_store, files._has_answered = True, False
    return files


def test_a_store_that_never_answered_is_asked_once() -> None:
    files = make_refusing(refusals=1)
    with pytest.raises(co.CollectiveError) as raised:
        files.check_exclusive("probe")
    assert raised.value.reason == "transport"
    assert (files.traffic.requests, files.traffic.repeated) == (1, 0)
    for part in ("http://store.example", "the bucket 'bucket'", "ConnectionRefusedError"):
        assert part in str(raised.value)


def test_a_store_that_has_answered_is_asked_again() -> None:
    files = make_refusing(refusals=0)
    files.put("first", b"1")
    files._folder.fs.refusals = 2
    files.put("second", b"2")
    assert files.traffic.repeated == 2


@pytest.mark.parametrize(
    ("url", "change", "text"),
    [
        ("s3://bucket/folder", {"endpoint_url": "http://127.0.0.1:1"}, "at the endpoint http://127.0.0.1:1"),
        ("s3://missing/folder", {}, "check the endpoint, the bucket 'missing' and the credentials"),
    ],
    ids=["endpoint", "bucket"],
)
def test_a_wrong_s3_store_is_named(
    s3: tuple[str, dict[str, Any]], url: str, change: dict[str, Any], text: str
) -> None:
    with pytest.raises(co.CollectiveError, match=text) as raised:
        make_comm(url, "alice", timeout=600.0, storage_options=s3[1] | change)
    assert raised.value.reason == "transport"


def test_the_client_of_s3_asks_once(s3: tuple[str, dict[str, Any]]) -> None:
    """It makes five attempts by default, with seconds between them."""
    paths = []

    class Failing(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            paths.append(self.path)
            self.send_error(500)

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Failing) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        options = s3[1] | {"endpoint_url": f"http://127.0.0.1:{server.server_port}"}
        with pytest.raises(co.CollectiveError, match="cannot be used"):
            make_comm(s3[0], "alice", timeout=600.0, storage_options=options)
        server.shutdown()
    assert len(paths) == 1
