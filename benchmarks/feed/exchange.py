"""Exchange of a run: the store's address, a folder for records, and the words that processes wait for."""

from __future__ import annotations

import json
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.feed.methods import METHODS, Method, Store
from benchmarks.feed.settings import Settings

__all__ = ["BUCKET", "PORT", "Exchange", "read_arguments"]

PORT, BUCKET = 9000, "bucket"


@dataclass(frozen=True)
class Exchange:
    """Part of a run that a process has.

    Attributes:
        folder: of this machine, for records.
        host: of the store.
        method, settings: of the run.
    """

    folder: Path
    host: str
    method: Method
    settings: Settings

    def open_store(self) -> Store:
        """Return the bucket, once its server accepts connections."""
        wait_until(lambda: _answers(self.host), "the store answers")
        options = {
            "endpoint_url": f"http://{self.host}:{PORT}",
            "key": "key",
            "secret": "secret",
            "client_kwargs": {"region_name": "us-east-1"},
        }
        return Store(f"s3://{BUCKET}/run", options)

    def write(self, name: str, record: Any) -> None:
        """Write a record, all of it or none."""
        partial = self.folder / f"{name}.partial"
        partial.write_text(json.dumps(record))
        partial.replace(self.folder / f"{name}.json")

    def wait_for(self, name: str) -> None:
        """Wait for a record."""
        wait_until((self.folder / f"{name}.json").exists, f"{name} is written")


def read_arguments() -> tuple[Exchange, list[str]]:
    """Return the exchange that the command line names, and further arguments."""
    folder, host, method, settings, *others = sys.argv[1:]
    return Exchange(Path(folder), host, METHODS[method], Settings.unpack(settings)), others


def wait_until(is_true: Callable[[], bool], what: str, seconds: float = 120.0) -> None:
    """Wait for something that another process does. Raises TimeoutError."""
    end = time.monotonic() + seconds
    while not is_true():
        if time.monotonic() > end:
            raise TimeoutError(f"waited {seconds:.0f} s until {what}")
        time.sleep(0.05)


def _answers(host: str) -> bool:
    try:
        socket.create_connection((host, PORT), 1).close()
    except OSError:
        return False
    return True
