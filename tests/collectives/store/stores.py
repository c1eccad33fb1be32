"""Stores of the tests: a folder of each kind, with the garbage that strangers can put into it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
Plant = Callable[[str], None]


@dataclass(frozen=True)
class Store:
    """Store of one kind.

    Attributes:
        url: of an empty folder.
        options: of its file system.
        files: returns the names of all objects in the store, also outside of the folder.
        garbage: {name: puts it at a path in the folder}.
        pid: process that writes the files.
    """

    url: str
    options: dict[str, Any]
    files: Callable[[], set[str]]
    garbage: dict[str, Plant]
    pid: int = field(default_factory=os.getpid)


def local_store(folder: Path) -> Store:
    return Store(str(folder / "runs"), {}, lambda: _walk(folder), _garbage_of_files(folder))


def memory_store(name: str) -> Store:
    import fsspec

    fs = fsspec.filesystem("memory")
    root = f"/{name}/runs"

    def put(path: str, data: bytes = b"?") -> None:
        fs.pipe_file(f"{root}/{path}", data)

    garbage: dict[str, Plant] = {
        "object": put,
        "folder": lambda path: fs.makedirs(f"{root}/{path}"),
        "prefix": lambda path: put(f"{path}/x"),
    }
    return Store(f"memory:/{root}", {}, lambda: set(fs.find(f"/{name}")), garbage)


def s3_store(url: str, options: dict[str, Any]) -> Store:
    import s3fs

    fs = s3fs.S3FileSystem(skip_instance_cache=True, **options)
    root = url.removeprefix("s3://")

    def files() -> set[str]:
        fs.invalidate_cache()
        return set(fs.find(root.partition("/")[0]))

    garbage: dict[str, Plant] = {
        "object": lambda path: fs.pipe_file(f"{root}/{path}", b"?"),
        "empty object": lambda path: fs.pipe_file(f"{root}/{path}", b""),
    }
    return Store(url, options, files, garbage)


@contextmanager
def sftp_store(folder: Path) -> Iterator[Store]:
    """Serve a folder by SFTP, in another process, while the context lasts."""
    command = [sys.executable, "-m", "tests.collectives.store.sftp_server", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=ROOT) as server:
        try:
            assert server.stdout is not None
            options = {"port": int(server.stdout.readline()), "username": "name", "password": "none"}
            garbage = _garbage_of_files(folder)
            yield Store("sftp://127.0.0.1/runs", options, lambda: _walk(folder), garbage, server.pid)
        finally:
            server.kill()


def _walk(folder: Path) -> set[str]:
    """Return the paths of all files, also of those whose names are not UTF-8."""
    return {
        os.path.relpath(os.path.join(parent, name), folder)
        for parent, _, names in os.walk(folder)
        for name in names
    }


def _garbage_of_files(folder: Path) -> dict[str, Plant]:
    """Return the garbage of a folder of files; ``private`` beside the runs is what links point to."""
    private = folder / "private"

    def at(path: str) -> Path:
        full = folder / "runs" / path
        full.parent.mkdir(parents=True, exist_ok=True)
        return full

    def bind(path: str) -> None:
        with socket.socket(socket.AF_UNIX) as made:
            back = os.getcwd()
            os.chdir(at(path).parent)  # paths of sockets are short
            try:
                made.bind(at(path).name)
            finally:
                os.chdir(back)

    def link(target: str) -> Plant:
        return lambda path: at(path).symlink_to(private / target)

    def put(path: str) -> None:
        at(path).write_bytes(b"?")

    def make_sparse(path: str) -> None:
        with at(path).open("wb") as file:
            file.truncate(1 << 40)

    return {
        "file": put,
        "folder": lambda path: at(path).mkdir(),
        "full folder": lambda path: at(f"{path}/x/y").mkdir(parents=True),
        "pipe": lambda path: os.mkfifo(at(path)),
        "socket": bind,
        "sparse file": make_sparse,
        "link to a file": link("file"),
        "link to a folder": link("folder"),
        "link to nothing": link("nothing"),
        "link to a device": lambda path: at(path).symlink_to("/dev/zero"),
        "link to itself": lambda path: at(path).symlink_to(at(path).name),
    }
