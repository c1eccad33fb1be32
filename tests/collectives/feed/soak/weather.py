"""Weather of the soak: faults of the store, and what strangers put into it."""

from __future__ import annotations

import os
import random
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fsspec

from tests.collectives.store.conftest import wait_for
from tests.collectives.store.faulty import Faults, FaultyFileSystem

LONGEST_GARBAGE = 100


class Interrupted(BaseException):
    """Interrupt of a program, at a request."""


@dataclass
class Fault:
    """Hook of a faulty store: requests that fail, and interrupts.

    Attributes:
        random: source of chances.
        fails, interrupts: chances per request.
    """

    random: random.Random
    fails: float = 0.03
    interrupts: float = 0.01

    def __call__(self, operation: str, path: str) -> None:
        chance = self.random.random()
        if chance < self.interrupts:
            raise Interrupted
        if chance < self.interrupts + self.fails:
            raise OSError(f"a request fails: {operation} {path}")


class SoakedFileSystem(FaultyFileSystem):
    """Faulty folder whose lists, one in two, lack the objects of the last moments."""

    protocol = "soaked"
    LAG = 0.3

    def ls(self, path: str, detail: bool = True, **options: Any) -> list[Any]:
        found = super().ls(path, detail=True, **options)
        if self.faults.hook is not None and random.random() < 0.5:
            found = [one for one in found if time.time() - one["mtime"] > self.LAG]
        return found if detail else [one["name"] for one in found]


fsspec.register_implementation("soaked", SoakedFileSystem, clobber=True)


def register_s3() -> None:
    """Put faults into the client of S3 of this process."""
    import s3fs
    from fsspec.asyn import sync

    def make_faulty(name: str) -> Callable[..., Any]:
        def call(fs: Any, path: str, *arguments: Any, **options: Any) -> Any:
            fs.faults.begin(name, path)  # in the thread of the caller, which it may interrupt
            answer = sync(fs.loop, getattr(fs, f"_{name}"), path, *arguments, **options)
            if name == "pipe_file":
                fs.faults.end_write()
            return answer

        return call

    class SoakedS3(s3fs.S3FileSystem):  # type: ignore[misc]
        """Client of S3 with faults before its requests, and lost answers of its writes."""

        def __init__(self, faults: Faults, **options: Any) -> None:
            super().__init__(**options)
            self.faults = faults

        ls, cat_file = make_faulty("ls"), make_faulty("cat_file")
        pipe_file, rm_file = make_faulty("pipe_file"), make_faulty("rm_file")

    fsspec.register_implementation("s3", SoakedS3, clobber=True)


@contextmanager
def serve_s3(folder: Path) -> Iterator[int]:
    """Serve the folders in a folder as buckets, and yield the port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "localbucket", "--port", str(port), str(folder)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            wait_for(port, server)
            yield port
        finally:
            server.terminate()


def make_options(chance: random.Random, *, calm: bool, port: int | None) -> dict[str, Any]:
    """Return the arguments of a Publisher or a Subscriber whose store has faults, unless it is calm.

    In calm weather, it must succeed, also if the machine is slow and garbage costs many requests.
    """
    faults = Faults() if calm else Faults(lost=7, hook=Fault(random.Random(chance.random())))
    options: dict[str, Any] = {"faults": faults}
    if port is not None:
        options |= {"endpoint_url": f"http://127.0.0.1:{port}", "key": "key", "secret": "secret"}
        options["client_kwargs"] = {"region_name": "us-east-1"}
    return {"storage_options": options, "timeout": 120.0 if calm else 10.0}


def _damage(feed: Path, chance: random.Random) -> None:
    """Change the bytes of an object, cut it, or delete it."""
    objects = sorted((feed / "objects").glob("*.*"))
    if not objects:
        return
    one = chance.choice(objects[-12:])
    with suppress(OSError):  # which the writer has deleted meanwhile, or which is a folder
        data = bytearray(one.read_bytes())
        match chance.randrange(3):
            case 0:
                at = chance.randrange(len(data) or 1)
                data[at : at + 1] = b"?"
                one.write_bytes(data)
            case 1:
                one.write_bytes(data[: len(data) // 2])
            case _:
                one.unlink()


def _records_in(feed: Path) -> list[Path]:
    """Return the records that publishers have written, the newest last; garbage is shorter."""
    found = []
    for one in sorted((feed / "versions").glob("????????????.??")):
        with suppress(FileNotFoundError):
            if one.is_file() and one.stat().st_size > LONGEST_GARBAGE:
                found.append(one)
    return found


def _damage_record(feed: Path, chance: random.Random) -> None:
    """Cut the record of a version behind which all lists have newer ones; else nobody would know of those."""
    now = time.time()
    with suppress(FileNotFoundError):
        listed = [one for one in _records_in(feed) if now - one.stat().st_mtime > 3 * SoakedFileSystem.LAG]
        if len(listed) > 1:
            os.truncate(chance.choice(listed[-7:-1]), 40)


def _plant(feed: Path, chance: random.Random) -> None:
    """Put foreign objects beside those of the feed, also in the slots of versions to come."""
    records = _records_in(feed)
    newest = int(records[-1].name.partition(".")[0]) if records else 0
    number = newest + chance.choice((1, 2, 5, 1000))
    name = chance.choice((f"{number:012d}.00", f"{number:012d}.77", "x", f"{number:012d}.01", "\x01é"))
    path = feed / chance.choice(("versions", "objects")) / name
    with suppress(OSError):  # which the writer has made meanwhile
        if chance.random() < 0.2:
            path.mkdir()
        else:
            with path.open("xb") as file:
                file.write(chance.randbytes(chance.choice((0, 3, LONGEST_GARBAGE))))


STRANGERS: tuple[Callable[[Path, random.Random], None], ...] = (_damage, _damage_record, _plant)
