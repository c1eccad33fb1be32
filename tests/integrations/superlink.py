"""A SuperLink of Flower for ``flwr run``, which ends with the test.

Without one, ``flwr run`` starts its own, which stays in the background.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]


@contextlib.contextmanager
def superlink(folder: Path) -> Iterator[dict[str, str]]:
    """Start a SuperLink in simulation mode; yield the environment of the ``flwr run`` that finds it."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    scripts = Path(sys.executable).parent
    environment = {
        "FLWR_HOME": str(folder / ".flwr"),
        "FLWR_LOCAL_SUPERLINK_HTTP_API_PORT": str(port),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}",
    }
    command = [str(scripts / "flower-superlink"), "--insecure", "--simulation", "--host", "127.0.0.1"]
    with subprocess.Popen(
        [*command, "--port", str(port)],
        env={**os.environ, **environment, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as server:
        try:
            _wait_for(port, server)
            yield environment
        finally:
            server.terminate()


def _wait_for(port: int, server: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + 60
    while time.monotonic() < end and server.poll() is None:
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        time.sleep(0.2)
    raise RuntimeError(f"flower-superlink does not answer on port {port}")
