"""SFTP server (asyncssh) of a folder, as a process; it prints its port."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import asyncssh


class Server(asyncssh.SSHServer):  # type: ignore[misc]
    """Server that lets anybody in."""

    def begin_auth(self, _username: str) -> bool:
        return False


async def serve(root: str) -> None:
    """Serve a folder until the process ends."""

    def make(channel: Any) -> Any:
        return asyncssh.SFTPServer(channel, chroot=root)

    server = await asyncssh.create_server(
        Server,
        "127.0.0.1",
        0,
        server_host_keys=[asyncssh.generate_private_key("ssh-ed25519")],
        sftp_factory=make,
    )
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.wait_closed()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1]))
