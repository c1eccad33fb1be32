"""Faults of a store in the soak: garbage, rewritten objects, requests that fail, a full disk, and a fork."""

from __future__ import annotations

import errno
import os
import random
import resource
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np

import collectives as co
from collectives.store.envelope import NO_SIGNATURE, Envelope, Kind
from collectives.store.layout import path_of_contribution, path_of_members, path_of_round
from collectives.store.members import Accepted, Members
from tests.collectives.store.stores import local_store
from tests.soak.links import StoreLink

__all__ = ["deny", "fail", "fill", "fork", "plant", "rewrite"]

ODD_NAMES = ("r1.\n", "r1.\udcff", ".tmp", "x" * 255, "members.1", "members.\u0663\u0662", "r1.%00")
NUMBERS = errno.EIO, errno.ENOSPC, errno.ETIMEDOUT, errno.ESTALE
CHILD_SECONDS = 30.0
ELSEWHERE = f"r1.{'0' * 64}"
"""Object of another run, to which a link leads."""
SIGNED = 96
"""Bytes of the digest and the signature at the end of an object, which its name does not cover."""


def plant(link: StoreLink, draw: random.Random, ranks: int) -> None:
    """Put two pieces of garbage into the folder of the next round, or beside it."""
    number = link.comm.locate()
    for one in draw.sample(list(GARBAGE), 2):
        with suppress(FileExistsError):
            GARBAGE[one](link, draw, number, ranks)


@contextmanager
def fail(link: StoreLink, draw: random.Random, ranks: int) -> Iterator[None]:
    """Let requests fail at random before they have an effect, and lose every third answer."""

    def ask(operation: str, path: str) -> None:
        if draw.random() < 0.15:
            raise OSError(draw.choice(NUMBERS), f"of the soak: {operation}")

    link.faults.hook, link.faults.lost = ask, 3
    try:
        yield
    finally:
        link.faults.hook, link.faults.lost = None, 0


@contextmanager
def deny(link: StoreLink, draw: random.Random, ranks: int) -> Iterator[None]:
    """Refuse all requests of the peer from some request on, until its call ends."""
    left = draw.randrange(12)

    def ask(operation: str, path: str) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise PermissionError(errno.EACCES, f"of the soak: {operation}")

    link.faults.hook = ask
    try:
        yield
    finally:
        link.faults.hook = None


@contextmanager
def rewrite(link: StoreLink, draw: random.Random, ranks: int) -> Iterator[None]:
    """Rewrite contributions while peers read them; in the end, only their signatures are others."""
    number, ends = link.comm.locate(), threading.Event()

    def run() -> None:
        while not ends.is_set():
            for path in link.folder.glob(f"{path_of_round(number)}/r?.*"):
                with suppress(FileNotFoundError):
                    _rewrite(path, draw)
            time.sleep(0.002)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        ends.set()
        thread.join()


def _rewrite(path: Path, draw: random.Random) -> None:
    """Write other bytes into an object for a moment, and leave others in its signature."""
    if path.is_symlink() or not path.is_file():
        return
    data = path.read_bytes()
    with path.open("r+b") as file:
        file.write(_flip(draw, data)[: len(data)])
        file.flush()
        time.sleep(draw.uniform(0, 0.02))
        file.seek(0)
        file.write(data[:-SIGNED] + draw.randbytes(SIGNED)[: len(data)])


@contextmanager
def fill(link: StoreLink, draw: random.Random, ranks: int) -> Iterator[None]:
    """Let writes break off in the middle of a file for some time, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (draw.randrange(300), before[1]))
    timer = threading.Timer(draw.uniform(0.05, 0.6), resource.setrlimit, (resource.RLIMIT_FSIZE, before))
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@contextmanager
def fork(link: StoreLink, draw: random.Random, ranks: int) -> Iterator[None]:
    """Use the store in a forked process, where it is refused; then go on here."""
    child = os.fork()
    if not child:
        try:
            co.allreduce(link.comm, np.ones(4, np.float32))
        except co.CollectiveError as error:
            os._exit(0 if error.reason == "closed" else 1)
        finally:
            os._exit(2)
    end = time.monotonic() + CHILD_SECONDS
    while not (ended := os.waitpid(child, os.WNOHANG))[0]:
        if time.monotonic() > end:
            os.kill(child, signal.SIGKILL)
        time.sleep(0.005)
    assert ended[1] == 0, f"the forked process ended with {ended[1]}"
    yield


def _put(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("xb") as file:
        file.write(data)


def _slot(draw: random.Random, number: int) -> str:
    return path_of_members(number, draw.randrange(3))


def _plant_kind(link: StoreLink, draw: random.Random, number: int, ranks: int) -> None:
    """Put what is no object, such as a link or a pipe, into a slot or into the place of a contribution."""
    kinds = local_store(link.folder.parents[1]).garbage
    rank, digest = draw.randrange(ranks), draw.randbytes(32)
    path = draw.choice([_slot(draw, number), path_of_contribution(number, f"r{rank}", digest)])
    if not (link.folder / path).exists():
        kinds[draw.choice(list(kinds))](f"{link.folder.name}/{path}")


def _plant_absent(link: StoreLink, draw: random.Random, number: int, ranks: int) -> None:
    """Propose members whose objects are not there."""
    accepted = tuple(Accepted(f"r{rank}", draw.randbytes(32), NO_SIGNATURE) for rank in range(ranks))
    body = Members(accepted).pack()
    made = Envelope(Kind.MEMBERS, link.comm._place.run, number, "r0", body)
    _put(link.folder / _slot(draw, number), made.pack())


def _plant_object(change: Callable[[random.Random, bytes], bytes]) -> Callable[..., None]:
    """Return a function that puts a changed object of an earlier round into this one."""

    def put(link: StoreLink, draw: random.Random, number: int, ranks: int) -> None:
        found = sorted(link.folder.glob("rounds/*/r?.*"))
        if not found:
            return
        one = draw.choice(found)
        name = draw.choice([one.name, f"{one.name[:3]}{draw.randbytes(32).hex()}"])
        path = draw.choice([f"{path_of_round(number)}/{name}", _slot(draw, number)])
        data = change(draw, one.read_bytes()) if one.is_file() and not one.is_symlink() else b""
        _put(link.folder / path, data)

    return put


def _truncate(draw: random.Random, data: bytes) -> bytes:
    return data[: draw.randrange(len(data) + 1)]


def _replace_version(draw: random.Random, data: bytes) -> bytes:
    return data[:4] + draw.randbytes(1) + data[5:]


def _flip(draw: random.Random, data: bytes) -> bytes:
    at = draw.randrange(len(data) + 1)
    return data[:at] + bytes([255 - x for x in data[at : at + 1]]) + data[at + 1 :]


def _plant_name(link: StoreLink, draw: random.Random, number: int, ranks: int) -> None:
    """Put a file with an odd name into the folder of the round, or of all rounds."""
    folder = draw.choice([path_of_round(number), "rounds", "states", ""])
    _put(link.folder / folder / draw.choice(ODD_NAMES), draw.randbytes(40))


def _plant_round(link: StoreLink, draw: random.Random, number: int, ranks: int) -> None:
    """Make the folder of a later round, with an object in its log."""
    _put(link.folder / path_of_members(number + draw.randrange(2, 10**6), 0), draw.randbytes(200))


def _plant_link(link: StoreLink, draw: random.Random, number: int, ranks: int) -> None:
    """Make a link to a folder elsewhere in the place of a round's folder; what is there stays."""
    elsewhere, made = link.folder.parents[1] / "elsewhere", link.folder.parents[1] / f"new{draw.random()}"
    made.mkdir()
    (made / ELSEWHERE).write_bytes(b"")
    with suppress(OSError):  # another rank has made it
        made.rename(elsewhere)
    assert (elsewhere / ELSEWHERE).exists(), "a peer has deleted an object outside of its run"
    path = link.folder / path_of_round(number + draw.randrange(3))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(elsewhere)


def _plant_text(link: StoreLink, draw: random.Random, number: int, ranks: int) -> None:
    """Propose members in a text that a reader of JSON may not read: deep, or with a large number."""
    body = draw.choice(
        [b"[" * 10**5, b'{"accepted":[' + b"9" * 5000 + b'],"refused":[]}', b'{"accepted":[1e999']
    )
    made = Envelope(Kind.MEMBERS, link.comm._place.run, number, "r0", body)
    _put(link.folder / _slot(draw, number), made.pack())


def _plant_state(link: StoreLink, draw: random.Random, number: int, ranks: int) -> None:
    """Write bytes in the place of a state that are no state."""
    digest = draw.randbytes(32).hex()
    _put(link.folder / f"states/{number:012d}.r{draw.randrange(ranks)}.{digest}", draw.randbytes(300))


GARBAGE: dict[str, Callable[[StoreLink, random.Random, int, int], None]] = {
    "no object": _plant_kind,
    "members that are absent": _plant_absent,
    "as it was": _plant_object(lambda draw, data: data),
    "truncated": _plant_object(_truncate),
    "of another version": _plant_object(_replace_version),
    "other bytes": _plant_object(_flip),
    "odd name": _plant_name,
    "later round": _plant_round,
    "linked round": _plant_link,
    "text": _plant_text,
    "state": _plant_state,
}
