"""mpirun and the processes it starts: where it is, what ranks on one machine need, how all are ended."""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

__all__ = [
    "FOLDER",
    "die_with_parent",
    "end_all",
    "find_mpirun",
    "mpi_required",
    "needed_mpirun",
    "processes_of",
    "rank_environment",
    "shared_memory",
]

FOLDER = "MPI_TEST_FOLDER"  # set for ranks only: where they find their tests and leave their reports
_MARK = "MPI_TEST_MARK"  # set for mpirun and all that it starts

_PR_SET_PDEATHSIG = 1  # of Linux's prctl


def find_mpirun() -> tuple[list[str] | None, str]:
    """The command that starts ranks, or None and the reason; the one beside this Python goes first."""
    for module in ("mpi4py", "numpy"):
        if importlib.util.find_spec(module) is None:
            return None, f"{module} is not installed"
    path = os.path.dirname(sys.executable) + os.pathsep + os.environ.get("PATH", "")
    found = shutil.which("mpirun", path=path) or shutil.which("mpiexec", path=path)
    if found is None:
        return None, "no mpirun beside this Python or in PATH"
    said = subprocess.run([found, "--version"], capture_output=True, text=True, check=False, timeout=60)
    if said.returncode != 0:
        return None, f"{found} does not run: {(said.stdout + said.stderr).strip()[-300:]}"
    if "open mpi" in said.stdout.lower() or "open-mpi" in said.stdout.lower():
        return [found, "--oversubscribe", "--bind-to", "none"], ""
    return [found], ""


def mpi_required() -> bool:
    """Whether a missing mpirun is a failure (REQUIRE_MPI=1) and not a reason to skip."""
    return os.environ.get("REQUIRE_MPI", "") not in ("", "0")


def needed_mpirun() -> list[str]:
    """The command that starts ranks, for a test that is skipped, or fails, where there is none."""
    prefix, missing = find_mpirun()
    if prefix is None:
        (pytest.fail if mpi_required() else pytest.skip)(missing)
    return prefix


def rank_environment(folder: Path) -> dict[str, str]:
    """For ranks that share one host and few cores: no network, and a waiting rank gives up its core.

    Open MPI's shared memory lies in ``folder``, so that what a killed rank leaves behind goes with it; in
    /dev/shm it would stay. All that is started with this environment is known by the folder's name.
    """
    inherited = {key: value for key, value in os.environ.items() if key != "PYTEST_ADDOPTS"}
    return inherited | {
        _MARK: str(folder),
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMPI_MCA_pml": "ob1",
        "OMPI_MCA_btl": "self,sm",
        "OMPI_MCA_btl_sm_backing_directory": str(folder),
        "OMPI_MCA_mpi_yield_when_idle": "1",
        "OMP_NUM_THREADS": "1",
        "NUMBA_NUM_THREADS": "1",
        "PYTHONFAULTHANDLER": "1",
    }


def die_with_parent() -> None:
    """From now on, this process is killed when the one that started it ends, even while it is stopped.

    What ``end_all`` does, for a pytest that is killed before it comes to that. Linux only; nothing elsewhere.
    It outlasts an exec, not a fork: mpirun's ranks call it, too.
    """
    if sys.platform == "linux":
        parent = os.getppid()
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it ended just before
            os.kill(os.getpid(), signal.SIGKILL)


def end_all(process: subprocess.Popen[bytes], folder: Path, shared: Iterable[Path] = ()) -> None:
    """End a process that was started with ``rank_environment(folder)``, and all that it started.

    Args:
        process: mpirun.
        folder: tells what it started. Open MPI gives each rank a process group of its own, MPICH even a
            session: only what a process inherits and keeps, its first environment, says whose it is.
        shared: what to remove besides ``shared_memory(folder)``, of which nothing is known once mpirun ended
            the ranks.
    """
    shared = {*shared, *shared_memory(folder)}
    if process.poll() is None:
        process.terminate()  # mpirun passes it on
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(2)
    for pid in processes_of(folder):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    if process.poll() is None:
        process.kill()
    process.wait()
    deadline = time.monotonic() + 5
    while processes_of(folder) and time.monotonic() < deadline:  # a kill takes effect when it is seen
        time.sleep(0.01)
    for path in shared:
        path.unlink(missing_ok=True)


def processes_of(folder: Path) -> list[int]:
    """The living processes that ``rank_environment(folder)`` came down to. Linux only; none elsewhere."""
    mark = f"{_MARK}={folder}".encode()
    return [
        int(path.name)
        for path in Path("/proc").glob("[0-9]*")
        if mark in _read(path / "environ").split(b"\0")  # a dead one that nobody waited for has none
    ]


def shared_memory(folder: Path) -> set[Path]:
    """Where the ranks among these processes share memory under MPICH; a killed one leaves it there."""
    maps = b"\n".join(_read(Path(f"/proc/{pid}/maps")) for pid in processes_of(folder))
    return {Path(os.fsdecode(found)) for found in re.findall(rb"/dev/shm/mpich_shm_\w+", maps)}


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # it ended meanwhile, or is another user's
        return b""
