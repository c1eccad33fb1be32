"""The page formats/spec/rounds.md: its example, and a peer that is written from the page alone."""

from __future__ import annotations

import hashlib
import json
import os
import re
import struct
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("fsspec")

import collectives as co
import wirecodec as wc
from collectives.store.envelope import Envelope, Kind, hash_run
from tests.collectives.store.peers import gradient, make_comm, run_peers

PAGE = Path(__file__).parents[3] / "formats" / "spec" / "rounds.md"
SCHEME = "topk(0.25) | rice | raw"


def test_the_example() -> None:
    text = PAGE.read_text(encoding="utf-8").partition("## 8.")[2]
    shown = bytes.fromhex("".join(re.findall(r"^    ([0-9a-f ]+)$", text, re.MULTILINE)))
    assert shown == Envelope(Kind.CONTRIBUTION, hash_run("demo", b"{}"), 3, "a", b"").pack()


def test_the_codes() -> None:
    """Each code of this package is on the page."""
    page = PAGE.read_text(encoding="utf-8")
    sources = Path(co.__file__).parent.joinpath("store").glob("*.py")
    codes = {code for path in sources for code in re.findall(r'Refused\(\s*"([\w-]+)"', path.read_text())}
    internal = {
        "truncated",
        "digest",
        "members",
        "quorum",
        "rules",
    }  # of slots
    assert codes - internal <= set(re.findall(r"`([\w-]+)`", page))


def pack(kind: int, run: bytes, number: int, name: str, body: bytes) -> tuple[str, bytes]:
    """Return the digest and the bytes of an object, by section 2."""
    head = b"\xf7\x57\x43\x52" + struct.pack("<BBBBQQ", 2, kind, len(name), 0, number, len(body))
    head += run + name.encode() + body
    digest = hashlib.sha256(head).digest()
    return digest.hex(), head + digest + bytes(64)


def short_hash(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()[:8]


class Foreign:
    """Peer that takes part in an all-reduce of one float32 tensor without a name, by the page."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self.name = folder / "run", name
        settings = (self.folder / "settings.00").read_bytes()
        self.run = hashlib.sha256(b"run\0" + settings[40 + settings[6] : -96]).digest()[:16]

    def contribute(self, number: int, x: Any) -> None:
        blob = wc.encode(x, SCHEME).tobytes()
        signature = short_hash(struct.pack("<BI", 0, 1) + struct.pack("<IBBQ", 0, 1, 1, x.size))
        scheme = short_hash(str(wc.Scheme.parse(SCHEME)).encode())
        header = b"\xf7\x57\x43\x48" + struct.pack("<BBBBQ", 3, 0, 3, 2, number)
        header += struct.pack("<BBHIQQ", 1, 1, 0, 0, x.size, len(blob)) + signature
        header += struct.pack("<Q", 2**64 - 1) + scheme + struct.pack("<d", 1.0)
        digest, data = pack(2, self.run, number, self.name, header + bytes(32) + blob)
        path = self.folder / f"rounds/{number:012d}"
        path.mkdir(parents=True, exist_ok=True)
        temporary = path / f".{self.name}.tmp"
        temporary.write_bytes(data)
        temporary.rename(path / f"{self.name}.{digest}")

    def decide(self, number: int, count: int) -> None:
        """Create the members when so many contributions have arrived."""
        path = self.folder / f"rounds/{number:012d}"
        while len(names := sorted(p.name for p in path.glob("*.*") if len(p.suffix) == 65)) < count:
            time.sleep(0.01)
        entries = [[*name.split("."), "00" * 64] for name in names]
        content = {"accepted": entries, "refused": []}
        body = json.dumps(content, separators=(",", ":")).encode()
        _, data = pack(3, self.run, number, self.name, body)
        self.append(path, 0, data)

    def append(self, path: Path, slot: int, data: bytes) -> None:
        """Create the record in a slot, if there is none."""
        temporary = path / ".members.tmp"
        temporary.write_bytes(data)
        with suppress(FileExistsError):
            os.link(temporary, path / f"members.{slot:02d}")
        temporary.unlink()

    def average(self, number: int) -> Any:
        """Read the members, and average their contributions in their order."""
        path = self.folder / f"rounds/{number:012d}"
        while not (path / "members.00").exists():
            time.sleep(0.01)
        data = (path / "members.00").read_bytes()
        (length,) = struct.unpack_from("<Q", data, 16)
        start = 40 + data[6]
        total = None
        accepted = json.loads(data[start : start + length])["accepted"]
        proposed = hashlib.sha256(data[:-96]).digest()
        self.append(path, 1, pack(5, self.run, number, self.name, proposed)[1])
        record = (path / "members.01").read_bytes()
        assert record[-128:-96] == proposed
        for name, digest, _ in accepted:
            entry = (path / f"{name}.{digest}").read_bytes()
            x = wc.decode(entry[40 + len(name) + 104 : -96]).to_dense()
            total = x if total is None else total + x
        return total / np.float32(len(accepted))


@pytest.mark.parametrize("decides", [False, True])
def test_a_peer_that_is_written_from_the_page(tmp_path: Path, decides: bool) -> None:
    comm = make_comm(tmp_path, "alice", deadline=60.0 if decides else 0.2, timeout=60.0)

    def foreign() -> Any:
        peer = Foreign(tmp_path, "zoe")
        results = []
        for k in range(3):
            peer.contribute(k, gradient(1, k))
            if decides:
                peer.decide(k, 2)
            results.append(peer.average(k).tobytes())
        return results

    def own() -> Any:
        comm.locate()
        if decides:
            comm._expected = frozenset({"alice", "zoe", "nobody"})
        results = []
        for k in range(3):
            results.append(co.allreduce(comm, gradient(0, k), SCHEME).tobytes())
            assert comm.last.members == ("alice", "zoe")
            if decides:
                comm._expected = frozenset({"alice", "zoe", "nobody"})
        return results

    first, second = run_peers([foreign, own])
    assert first == second
