"""Errors of requests of each kind: which are final, how a peer raises them, and that the run goes on."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("fsspec")

import collectives as co
from collectives.store.failures import is_denied, is_final
from collectives.store.files import Files
from collectives.store.folders import Folder
from tests.collectives.store.faulty import Faults
from tests.collectives.store.peers import gradient, make_comm, make_local, move

SCHEME = "all | raw-index | raw"


def answer_of_another_client(answer: Any) -> Exception:
    """Return an error whose response has another form."""
    error = OSError("of another client")
    error.response = answer  # type: ignore[attr-defined]
    return error


def answer_of_s3(code: str, kind: type[Exception] = OSError) -> Exception:
    """Return an error as s3fs raises it: its cause has the server's code."""
    cause = Exception(code)
    cause.response = {"Error": {"Code": code}}  # type: ignore[attr-defined]
    error = kind(code)
    error.__cause__ = cause
    return error


class NoCredentialsError(Exception):
    """Error as that of botocore."""


class HttpError(OSError):
    """Error as that of gcsfs."""

    def __init__(self, code: int) -> None:
        super().__init__(f"status {code}")
        self.code = code


FINAL: dict[str, Exception] = {
    "denied": PermissionError("The provided token has expired."),
    "skewed clock": answer_of_s3("RequestTimeTooSkewed", PermissionError),
    "invalid token": answer_of_s3("InvalidToken"),
    "no credentials": NoCredentialsError("Unable to locate credentials"),
    "status 403": HttpError(403),
    "missing": FileNotFoundError("The specified bucket does not exist"),
    "folder": IsADirectoryError("a folder"),
    "no folder": NotADirectoryError("no folder"),
    "exists": FileExistsError("exists"),
    "read-only": OSError(errno.EROFS, "Read-only file system"),
    "type": TypeError("a bug"),
    "attribute": AttributeError("a bug"),
    "not implemented": NotImplementedError("not here"),
    "memory": MemoryError("too large"),
}
TRANSIENT: dict[str, Exception] = {
    "timeout": TimeoutError("timed out"),
    "lost": ConnectionResetError("reset"),
    "busy": answer_of_s3("SlowDown"),
    "status 503": HttpError(503),
    "full": OSError(errno.ENOSPC, "No space left on device"),
    "stale": OSError(errno.ESTALE, "Stale file handle"),
    "other": RuntimeError("of a client"),
    "text": answer_of_another_client({"Error": "busy"}),
    "empty": answer_of_another_client({"Error": None}),
    "list": answer_of_another_client({"Error": {"Code": ["busy"]}}),
}
ANSWERS = {
    "read": {"missing", "folder", "no folder"},
    "entries": {"missing", "no folder"},
    "put": set(),
    "create": {"exists"},
}
"""Errors that are answers to a request: there is no such object, or there is one."""
REQUESTS: dict[str, Callable[[Files], Any]] = {
    "read": lambda files: files.get("rounds/x", 9),
    "entries": lambda files: files.entries("rounds"),
    "put": lambda files: files.put("rounds/x", b"1"),
    "create": lambda files: files.create("rounds/x", b"1"),
}


class Failing(Folder):
    """Folder whose requests raise an error."""

    def __getattribute__(self, name: str) -> Any:
        if name in REQUESTS:

            def fail(*_: Any) -> None:
                raise self.fs

            return fail
        return super().__getattribute__(name)

    def make_parents(self, path: str) -> None:
        """Make nothing."""


@pytest.mark.parametrize("request_", REQUESTS)
@pytest.mark.parametrize("kind", [*FINAL, *TRANSIENT])
def test_each_error_of_each_request(request_: str, kind: str) -> None:
    """It is an answer, or a CollectiveError: at once if it is final, else after the time for tries."""
    error = (FINAL | TRANSIENT)[kind]
    files = Files("memory://failing", "run", None, 0.12)
    files._folder = Failing(error, "root")
    if kind in ANSWERS[request_]:
        REQUESTS[request_](files)
        return
    with pytest.raises(co.CollectiveError, match=type(error).__name__) as raised:
        REQUESTS[request_](files)
    assert raised.value.reason == "transport"
    assert raised.value.__cause__ is not None
    assert (files.traffic.repeated == 0) == (kind in FINAL)
    if is_denied(error):
        assert "renew the credentials" in str(raised.value)


def test_final_errors() -> None:
    assert all(map(is_final, FINAL.values()))
    assert not any(map(is_final, TRANSIENT.values()))


@pytest.mark.parametrize("operation", ["ls", "get", "put", "create"])
@pytest.mark.parametrize("kind", ["denied", "missing", "skewed clock", "type", "memory", "full", "lost"])
def test_a_run_goes_on_after_an_error(tmp_path: Path, operation: str, kind: str) -> None:
    """Nothing is lost: parameters are the sum of all movements, and the peer says what fails."""
    error, faults = (FINAL | TRANSIENT)[kind], Faults()
    comm = make_comm(
        f"faulty://{tmp_path}", "alice", storage_options={"faults": faults}, quorum=1, deadline=0.01,
        timeout=0.15,
    )  # fmt: skip
    w = np.zeros(16)
    local = make_local(comm, w)
    local.synchronize()
    total = np.zeros(16)

    asked_for: list[str] = []

    def fail(asked: str, path: str) -> None:
        if asked == operation:
            asked_for.append(path)
            raise error

    for number in range(4):
        faults.hook = fail if number in (1, 2) else None
        total += move(w, number)
        reason = "transport"
        asked_for.clear()
        try:
            local.step()
        except co.CollectiveError as raised:
            reason = raised.reason
        assert reason == "transport"
        if kind in FINAL and kind != "missing":  # which is a folder without objects, or one to make
            assert len(asked_for) == len(set(asked_for))
    for _ in range(8):  # what is kept is sent later
        local.step()
    np.testing.assert_allclose(w, total)


def test_an_object_that_cannot_be_read_has_not_arrived(tmp_path: Path) -> None:
    """One object of a stranger costs requests; if all are denied, that is an error at once."""
    faults = Faults()
    comm = make_comm(
        f"faulty://{tmp_path}", "alice", storage_options={"faults": faults}, quorum=1, deadline=0.05,
        timeout=600.0,
    )  # fmt: skip
    folder = tmp_path / "run/rounds" / f"{0:012d}"
    folder.mkdir(parents=True)
    (folder / f"bob.{'0' * 64}").write_bytes(b"?")

    def deny(operation: str, path: str) -> None:
        if operation == "get" and "/bob." in path:
            raise PermissionError("Access Denied")

    faults.hook = deny
    x = gradient(0)
    assert co.allreduce(comm, x, SCHEME).tobytes() == x.tobytes()
    assert comm.last is not None
    assert comm.last.members == ("alice",)

    def deny_all(_operation: str, _path: str) -> None:
        raise PermissionError("Access Denied")

    faults.hook = deny_all
    begin = time.monotonic()
    with pytest.raises(co.CollectiveError, match="renew the credentials"):
        co.allreduce(comm, x, SCHEME)
    assert time.monotonic() - begin < 60


def test_a_decision_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    """It is not passed over, because others may read it and go by it."""
    faults = Faults()
    comm = make_comm(
        f"faulty://{tmp_path}", "alice", storage_options={"faults": faults}, quorum=1, deadline=0.01,
        timeout=600.0,
    )  # fmt: skip

    other = make_comm(tmp_path, "bob", quorum=1, deadline=0.01)
    theirs = co.allreduce(other, gradient(1), SCHEME)

    def deny(operation: str, path: str) -> None:
        if operation == "get" and "members.00" in path:
            raise PermissionError("Access Denied")

    comm.move_to(0)
    faults.hook = deny
    with pytest.raises(co.CollectiveError, match=r"cannot read rounds/0+/members\.00: PermissionError"):
        co.allreduce(comm, gradient(0), SCHEME)
    faults.hook = None
    assert co.allreduce(comm, gradient(0), SCHEME).tobytes() == theirs.tobytes()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_process_is_told_at_once(tmp_path: Path) -> None:
    comm = make_comm(tmp_path, "alice", quorum=1, deadline=0.01, timeout=600.0)
    co.allreduce(comm, gradient(0), SCHEME)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            co.allreduce(comm, gradient(0), SCHEME)
        except co.CollectiveError as error:
            status = 0 if error.reason == "closed" and "after the fork" in str(error) else 2
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    co.allreduce(comm, gradient(0), SCHEME)  # the process that made it goes on


def test_a_list_with_entries_of_any_kind() -> None:
    """Entries without a size, a type or a name, of one name twice, with times of other kinds."""

    class Listing(Folder):
        def entries(self, path: str) -> Any:
            return [
                {"name": "root/x", "size": 0, "type": "file", "mtime": 1.0},
                {"name": "root/x", "size": None, "type": "directory", "mtime": None},
                {"name": "root/y", "mtime": "yesterday"},
                {"size": 3},
                {"name": None},
                {"name": "root/\udcff", "size": "many", "type": 7},
            ]

    files = Files("memory://listing", "run", None, 0.1)
    files._folder = Listing(None, "root")
    listed = files.entries("")
    assert [(one.base, one.size, one.is_folder) for one in listed] == [
        ("x", 0, False), ("x", 0, True), ("y", 0, False), ("\udcff", 0, False),
    ]  # fmt: skip


def test_a_folder_that_is_gone_is_named(tmp_path: Path) -> None:
    """It is not made again in the place of a disk that is not mounted. Back again, the run goes on."""
    comm = make_comm(tmp_path / "runs", "alice", quorum=1, deadline=0.01, timeout=600.0)
    co.allreduce(comm, gradient(0), SCHEME)
    (tmp_path / "runs").rename(tmp_path / "elsewhere")
    with pytest.raises(co.CollectiveError, match="is gone: bring it back"):
        co.allreduce(comm, gradient(0), SCHEME)
    assert not (tmp_path / "runs").exists()
    (tmp_path / "elsewhere").rename(tmp_path / "runs")
    results = [co.allreduce(comm, gradient(k), SCHEME) for k in (1, 2)]
    assert results[1].tobytes() == gradient(2).tobytes()
