"""Two peers over an SFTP server (asyncssh) of this process; each prints its bits, members and rounds."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
import zlib
from typing import Any

import asyncssh
import numpy as np

import collectives as co
from tests.collectives.store.peers import make_local, move, run_each

NAMES = "alice", "bob"


class Server(asyncssh.SSHServer):  # type: ignore[misc]
    """Server that lets anybody in."""

    def begin_auth(self, _username: str) -> bool:
        return False


def serve(root: str) -> int:
    """Start the server; return its port."""
    loop = asyncio.new_event_loop()

    async def start() -> Any:
        return await asyncssh.create_server(
            Server,
            "127.0.0.1",
            0,
            server_host_keys=[asyncssh.generate_private_key("ssh-ed25519")],
            sftp_factory=lambda channel: asyncssh.SFTPServer(channel, chroot=root),
        )

    threading.Thread(target=loop.run_forever, daemon=True).start()
    server = asyncio.run_coroutine_threadsafe(start(), loop).result(30)
    port: int = server.sockets[0].getsockname()[1]
    return port


def train(n: int, port: int) -> list[Any]:
    options = {"port": port, "username": "name", "password": "none"}
    comm = co.StoreComm(
        "sftp://127.0.0.1/runs", "run", NAMES[n], quorum=2, deadline=0.2, poll=0.05, timeout=60,
        storage_options=options, publish_every=2, keep=4,
    )  # fmt: skip
    w = np.zeros(64, np.float32)
    local = make_local(comm, w)
    local.synchronize()
    for k in range(12):
        move(w, n, k)
        local.step()
    assert comm.last is not None
    return [zlib.crc32(w.tobytes()), comm.last.members, local.round]


if __name__ == "__main__":
    at = serve(sys.argv[1])
    for row in run_each(lambda n: train(n, at), range(2)):
        print(json.dumps(row), flush=True)
    os._exit(0)  # the server's thread does not end
