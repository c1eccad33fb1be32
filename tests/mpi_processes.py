"""mpirun and its processes: search for the command, environment of the ranks, and termination."""

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
    "find_orphans",
    "find_processes",
    "find_shared_memory",
    "mpi_required",
    "rank_environment",
    "record_shared_memory",
    "require_mpirun",
]

FOLDER = "MPI_TEST_FOLDER"  # set for ranks only: the folder of their tests and reports
_MARK = "MPI_TEST_MARK"  # set for mpirun and all its descendants
_RECORD = ".shared"  # end of the names of files that ``record_shared_memory`` writes

_PR_SET_PDEATHSIG = 1  # of Linux's prctl


def find_mpirun() -> tuple[list[str] | None, str]:
    """Find the command that starts ranks, first beside this Python; or return None and a reason."""
    for module in ("mpi4py", "numpy"):
        if importlib.util.find_spec(module) is None:
            return None, f"{module} is not installed"
    path = os.path.dirname(sys.executable) + os.pathsep + os.environ.get("PATH", "")
    command = shutil.which("mpirun", path=path) or shutil.which("mpiexec", path=path)
    if command is None:
        return None, "no mpirun beside this Python or in PATH"
    version = subprocess.run([command, "--version"], capture_output=True, text=True, check=False, timeout=60)
    if version.returncode != 0:
        return None, f"{command} does not run: {(version.stdout + version.stderr).strip()[-300:]}"
    if "open mpi" in version.stdout.lower() or "open-mpi" in version.stdout.lower():
        return [command, "--oversubscribe", "--bind-to", "none"], ""
    return [command], ""


def mpi_required() -> bool:
    """Return whether a missing mpirun is a failure (REQUIRE_MPI=1) instead of a reason to skip."""
    return os.environ.get("REQUIRE_MPI", "") not in ("", "0")


def require_mpirun() -> list[str]:
    """Find the command that starts ranks; skip or fail the test if there is none."""
    prefix, missing = find_mpirun()
    if prefix is None:
        (pytest.fail if mpi_required() else pytest.skip)(missing)
    return prefix


def rank_environment(folder: Path) -> dict[str, str]:
    """Return the environment of ranks that share one host and few cores.

    They use no network, and a waiting rank yields its core. Open MPI's shared memory is in ``folder`` and is
    removed with it; in /dev/shm, that of a killed rank would stay. The environment contains the folder's
    name, by which ``find_processes`` recognizes the processes.
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
    """Have the kernel kill this process when its parent ends, even if this process is stopped.

    This ends ranks if pytest is killed before it calls ``end_all``. It works on Linux only. The setting
    survives exec but not fork, so mpirun's ranks also call this function.
    """
    if sys.platform == "linux":
        parent = os.getppid()
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # the parent ended before the call
            os.kill(os.getpid(), signal.SIGKILL)


def end_all(process: subprocess.Popen[bytes], folder: Path, shared: Iterable[Path] = ()) -> None:
    """End a process that was started with ``rank_environment(folder)``, and all its descendants.

    Args:
        process: mpirun.
        folder: identifies the descendants by their environment. Open MPI gives each rank its own process
            group, and MPICH its own session, so neither of these identifies them.
        shared: files to remove in addition to ``find_shared_memory(folder)``, which finds only recorded ones
            after mpirun has ended the ranks.
    """
    shared = {*shared, *find_shared_memory(folder)}
    if process.poll() is None:
        process.terminate()  # mpirun forwards it
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(2)
    for pid in find_processes(folder):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    if process.poll() is None:
        process.kill()
    process.wait()
    deadline = time.monotonic() + 5
    while find_processes(folder) and time.monotonic() < deadline:  # a kill takes effect later
        time.sleep(0.01)
    for path in {*shared, *find_shared_memory(folder)}:  # some are recorded while the ranks end
        path.unlink(missing_ok=True)


def find_processes(folder: Path) -> list[int]:
    """Find the living processes that inherited ``rank_environment(folder)``. Works on Linux only."""
    mark = f"{_MARK}={folder}".encode()
    return [
        int(path.name)
        for path in Path("/proc").glob("[0-9]*")
        if mark in _read(path / "environ").split(b"\0")  # a zombie has none
    ]


def find_shared_memory(folder: Path) -> set[Path]:
    """Find the shared-memory files of these processes under MPICH; killed ranks leave them behind.

    They are the files of living processes, and those of any process that called ``record_shared_memory``.
    """
    mapped = [_read(Path(f"/proc/{pid}/maps")) for pid in find_processes(folder)]
    return _parse_shared_memory(*mapped, *(_read(path) for path in folder.glob(f"*{_RECORD}")))


def record_shared_memory(folder: Path) -> None:
    """Write the names of this process's shared-memory files into a folder, where they outlive the process.

    A rank can end, and mpirun with it, before any other process has searched for its files.
    """
    names = map(os.fspath, _parse_shared_memory(_read(Path("/proc/self/maps"))))
    (folder / f"{os.getpid()}{_RECORD}").write_text("\n".join(names))


def find_orphans() -> set[Path]:
    """Find the shared-memory files of MPICH that no process uses. Other jobs may use theirs meanwhile."""
    files = set(Path("/dev/shm").glob("mpich_shm_*"))
    used = _parse_shared_memory(*map(_read, Path("/proc").glob("[0-9]*/maps")))
    return {path for path in files - used if path.exists()}


def _parse_shared_memory(*texts: bytes) -> set[Path]:
    """Return the names of MPICH's shared-memory files in texts."""
    found = re.findall(rb"/dev/shm/mpich_shm_\w+", b"\n".join(texts))
    return {Path(os.fsdecode(name)) for name in found}


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # it has ended, or belongs to another user
        return b""
