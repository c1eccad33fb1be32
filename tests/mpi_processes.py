"""mpirun and the processes it starts: where it is, what ranks on one machine need, how all are ended."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

__all__ = [
    "FOLDER",
    "end_session",
    "find_mpirun",
    "mpi_required",
    "needed_mpirun",
    "rank_environment",
    "session_members",
    "session_of",
]

FOLDER = "MPI_TEST_FOLDER"  # set for ranks only: where they find their tests and leave their reports


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

    Shared memory lies in ``folder``, so that what a killed rank leaves behind goes with it; in /dev/shm
    it would stay.
    """
    inherited = {key: value for key, value in os.environ.items() if key != "PYTEST_ADDOPTS"}
    return inherited | {
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


def end_session(process: subprocess.Popen[bytes]) -> None:
    """End a process that was started with start_new_session, and everything it started that is still there.

    mpirun gives each rank a process group of its own, but leaves it in mpirun's session.
    """
    if process.poll() is None:
        process.terminate()  # mpirun passes it on
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(2)
    for pid in session_members(process.pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    if process.poll() is None:
        process.kill()
    process.wait()
    deadline = time.monotonic() + 5
    while session_members(process.pid) and time.monotonic() < deadline:  # a kill takes effect when it is seen
        time.sleep(0.01)


def session_members(session: int) -> list[int]:
    """The living processes of a session. Linux only; none elsewhere."""
    return [
        int(path.name)
        for path in Path("/proc").glob("[0-9]*")
        if session_of(int(path.name)) == session and not _is_zombie(path)
    ]


def session_of(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except (ProcessLookupError, PermissionError):
        return None


def _is_zombie(process: Path) -> bool:
    """Dead, and waiting for a parent to take notice."""
    try:
        return (process / "stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True
