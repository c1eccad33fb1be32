"""Processes that help ``warm`` to compile: they fill the disk cache, from which the caller loads.

They run the same tasks as the caller, in another order. All processes that use one cache folder have slots
there, which are locked files, as many as there may be processes. A helper inherits its locked slot, so that
ranks that warm together do not start helpers for one another's cores.

A helper can only save time. If it cannot start, fails or is killed, the caller compiles for itself.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from types import TracebackType
from typing import Any

from wirecodec.compilation.tasks import Job
from wirecodec.errors import EncodeError
from wirecodec.kernels.compiler.notice import QUIET
from wirecodec.validation import as_integer

try:
    import fcntl
except ImportError:  # not a POSIX system: there are no locks, so helpers would compile the same kernels
    fcntl = None  # type: ignore[assignment]

VARIABLE = "WIRECODEC_COMPILE_PROCESSES"
MOST = 8
"""Processes by default; each takes up to 300 MB of memory, and the longest kernel limits their use."""

_CODE = "import sys, json; path, *work = json.load(sys.stdin); sys.path[:] = path\n"
_CODE += "from wirecodec.compilation.helper import main; main(*work)"


def count_processes(processes: int | None) -> int:
    """Return the largest number of processes, the caller included.

    Args:
        processes: at least 1; None for that of the environment, or else one per usable core.

    Raises:
        EncodeError: the number is not valid.
    """
    name: str = "processes"
    value: Any = processes
    if processes is None:
        name, text = VARIABLE, os.environ.get(VARIABLE, "")
        if not text:
            return min(MOST, count_cores())
        value = int(text) if text.isdecimal() else text
    count = as_integer(value, name)
    if count < 1:
        raise EncodeError(f"{name} is {count}; it must be at least 1")
    return count


class HelperProcesses:
    """Context in which helper processes run, from the call of ``start`` on.

    Args:
        jobs: what is to be compiled.
        limit: largest number of processes that use the cache folder, the caller included.
    """

    def __init__(self, jobs: Sequence[Job], limit: int) -> None:
        self._jobs = jobs
        self._limit = limit
        self._slot: int | None = None
        self._processes: list[subprocess.Popen[bytes]] = []
        self._started = False

    def __enter__(self) -> HelperProcesses:
        """Return itself; nothing is started yet."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End all helpers, and wait until they have ended."""
        for process in self._processes:
            with contextlib.suppress(OSError):
                process.kill()
        for process in self._processes:
            process.wait()
        if self._slot is not None:
            os.close(self._slot)
            self._slot = None

    def start(self) -> None:
        """Start a helper per free slot; the first call only, and without one, silently, if it fails."""
        if self._started or self._limit < 2 or not can_start_processes():
            return
        self._started = True
        with contextlib.suppress(Exception):
            folder = _find_folder()
            if folder is None:
                return
            os.makedirs(folder, exist_ok=True)
            work = [describe(job) for job in self._jobs]
            slots = [os.path.join(folder, f"compile-{number}.slot") for number in range(self._limit)]
            for number, path in enumerate(slots):
                slot = _take(path)
                if slot is None:
                    continue
                if self._slot is None:
                    self._slot = slot
                    continue
                try:
                    self._processes.append(_start(work, number, slot))
                finally:
                    os.close(slot)


def can_start_processes() -> bool:
    """Return whether this process is a Python interpreter, which can be started again, and locks exist."""
    name = os.path.basename(sys.executable or "")
    return fcntl is not None and name.startswith("python") and not getattr(sys, "frozen", False)


def describe(job: Job) -> dict[str, Any]:
    """Describe a job in JSON's types. A scheme with a stage of the user's has a name unknown to helpers."""
    rule = job.feedback
    feedback = None if rule is None else [type(rule).__name__, vars(rule)]
    return {
        "scheme": str(job.scheme),
        "dtype": job.dtype.name,
        "feedback": feedback,
        "scheduled": job.scheduled,
        "grouped": job.grouped,
        "weighted": job.weighted,
    }


def _start(work: list[dict[str, Any]], number: int, slot: int) -> subprocess.Popen[bytes]:
    """Start one helper, which keeps its slot locked until it ends."""
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", _CODE],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, VARIABLE: "1", QUIET: "1"},
        pass_fds=(slot,),
    )
    assert process.stdin is not None
    with contextlib.suppress(OSError), process.stdin as stream:
        stream.write(json.dumps([sys.path, os.getpid(), number, work]).encode())
    return process


def _find_folder() -> str | None:
    """Return the cache folder of one kernel, the same in all processes; None if it has none."""
    from wirecodec.kernels.cpu.support import find_nonfinite

    kernel: Any = find_nonfinite
    folder: str | None = kernel._cache.cache_path
    return folder


def _take(path: str) -> int | None:
    """Lock a slot; return its file, or None if another process holds it."""
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(file)
        return None
    return file


def count_cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
