"""Fixture of an S3 server."""

from __future__ import annotations

import importlib.util
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.collectives.store.stores import Store, local_store, memory_store, s3_store, sftp_store


@pytest.fixture
def s3(tmp_path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """A bucket of an S3-compatible server (localbucket), and the options of its file system."""
    missing = [name for name in ("s3fs", "localbucket") if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip(f"no S3 server: {' and '.join(missing)} not installed")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    (tmp_path / "data" / "bucket").mkdir(parents=True)
    command = [sys.executable, "-m", "localbucket", "--port", str(port), str(tmp_path / "data")]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            wait_for(port, server)
            yield (
                "s3://bucket/folder",
                {
                    "endpoint_url": f"http://127.0.0.1:{port}",
                    "key": "key",
                    "secret": "secret",
                    "client_kwargs": {"region_name": "us-east-1"},
                },
            )
        finally:
            server.terminate()


def wait_for(port: int, server: subprocess.Popen[bytes]) -> None:
    """Wait until a server accepts connections."""
    for _ in range(200):
        if server.poll() is not None:
            pytest.fail(f"the S3 server ended with {server.returncode}")
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    pytest.fail("the S3 server did not start")


@pytest.fixture(params=["memory", "local", "s3", "sftp"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """A store of each kind that the tests have."""
    if request.param == "memory":
        yield memory_store(tmp_path.name)
    elif request.param == "local":
        yield local_store(tmp_path)
    elif request.param == "s3":
        yield s3_store(*request.getfixturevalue("s3"))
    else:
        pytest.importorskip("asyncssh")
        pytest.importorskip("paramiko")
        with sftp_store(tmp_path) as made:
            yield made
