"""``warm`` in several processes: they share the work, and a helper that fails does no harm."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

import wirecodec as wc
from tests.child import ROOT, run
from wirecodec.compilation.helper import _read
from wirecodec.compilation.processes import VARIABLE, count_processes, describe
from wirecodec.compilation.tasks import list_jobs

pytest.importorskip("fcntl")

SCHEME = "all | bitmap | raw"

WARM = f"""
import sys
import numpy as np
import wirecodec as wc
from wirecodec.compilation import processes
from wirecodec.kernels.compiler.compile_log import log

started = []
def note(*arguments, start=processes._start):
    started.append(start(*arguments))
    return started[-1]
processes._start = note
{{before}}
wc.warm("{SCHEME}", processes={{count}})
assert all(process.poll() is not None for process in started)  # none outlives the call
print(len(started), sum(entry.compiled for entry in log), sum(not entry.compiled for entry in log))
before = len(log)
wc.decode(wc.encode(np.arange(100_000, dtype=np.float32), "{SCHEME}"))
assert len(log) == before
"""


CHEAP = ("bitmap", "support.add_at", "support.copy", "support.find")
"""Beginnings of the names of kernels that compile in about a second or less."""


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, tuple[int, int, int]]:
    """A cache that two processes filled, and their numbers; no test may change it."""
    folder = tmp_path_factory.mktemp("filled")
    return folder, warm_in(folder, 2)


@pytest.fixture
def folder(filled: tuple[Path, tuple[int, int, int]], tmp_path: Path) -> Path:
    """A copy of that cache without some kernels, which must be compiled."""
    shutil.copytree(filled[0], tmp_path, dirs_exist_ok=True)
    removed = [path for name in CHEAP for path in tmp_path.rglob(f"{name}*.nb?")]
    assert len(removed) >= 8
    for path in removed:
        path.unlink()
    return tmp_path


def list_kernels(folder: Path) -> list[tuple[str, str]]:
    """List kernel and kind of the files of a cache; the rest of a name is a hash."""
    return sorted((path.name.partition("-")[0], path.suffix) for path in folder.rglob("*.nb?"))


def warm_in(folder: Path, count: int, before: str = "", **env: str) -> tuple[int, int, int]:
    """Warm in a new process; return the numbers of helpers, compiled kernels and loaded kernels."""
    output = run(WARM.format(count=count, before=before), NUMBA_CACHE_DIR=str(folder), **env)
    started, compiled, loaded = map(int, output.split())
    return started, compiled, loaded


def test_a_helper_compiles_a_part_and_leaves_all_in_the_cache(
    filled: tuple[Path, tuple[int, int, int]],
) -> None:
    folder, (started, compiled, loaded) = filled
    assert started == 1
    assert compiled
    assert loaded
    assert warm_in(folder, 2) == (0, 0, compiled + loaded)  # nothing is missing, so no helper starts


FAULTS = {
    "killed at once": """
def kill(*arguments, start=processes._start):
    process = start(*arguments)
    process.kill()
    return process
processes._start = kill
""",
    "killed while it compiles": """
import threading, time
def kill_later(*arguments, start=processes._start):
    process = start(*arguments)
    threading.Timer(1.5, process.kill).start()
    return process
processes._start = kill_later
""",
    "fails": "processes._CODE = 'raise SystemExit(3)'",
    "cannot start": """
import subprocess
def refuse(*arguments, **options):
    raise PermissionError
subprocess.Popen = refuse
""",
    "another interpreter": "sys.executable = '/bin/sleep'",
    "slots are taken": """
import fcntl, os
kept = []
def take_none(path):
    kept.append(path)
processes._take = take_none
""",
}


IN_SWEEP = ("killed at once", "fails", "another interpreter")
"""Faults of a helper that compiles nothing: for the caller, they are alike."""


@pytest.mark.parametrize(
    "fault",
    [pytest.param(fault, marks=[pytest.mark.sweep] if fault in IN_SWEEP else []) for fault in FAULTS],
)
def test_the_caller_compiles_for_itself_if_a_helper(
    fault: str, folder: Path, filled: tuple[Path, tuple[int, int, int]]
) -> None:
    """All kernels are in the cache afterwards."""
    whole, (_, *numbers) = filled
    _, compiled, loaded = warm_in(folder, 2, FAULTS[fault])
    assert compiled
    assert compiled + loaded == sum(numbers)
    assert list_kernels(folder) == list_kernels(whole)
    assert warm_in(folder, 1) == (0, 0, compiled + loaded)  # no file is damaged


def test_processes_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert count_processes(3) == 3
    assert 1 <= count_processes(None) <= 8
    monkeypatch.setenv(VARIABLE, "1")
    assert count_processes(None) == 1
    assert count_processes(2) == 2
    monkeypatch.setenv(VARIABLE, "0")
    with pytest.raises(wc.EncodeError, match="WIRECODEC_COMPILE_PROCESSES is 0; it must be at least 1"):
        count_processes(None)
    monkeypatch.setenv(VARIABLE, "many")
    with pytest.raises(wc.EncodeError, match="WIRECODEC_COMPILE_PROCESSES is 'many'; it must be an integer"):
        count_processes(None)
    with pytest.raises(wc.EncodeError, match="processes is 0"):
        wc.warm(processes=0)


@pytest.mark.parametrize(
    "compressor",
    [
        wc.Compressor("topk(0.01) | auto-index | error-bounded(0.01)", feedback=wc.MomentumCorrection(0.7)),
        wc.Compressor("budget(bits=0.25) | rice | error-bounded", scope="group", weights={"e*": 0.5}),
        wc.Compressor({"b*": "all | raw-index | raw", "*": "dct | topk(k=3) | rice | raw"}, feedback=None),
    ],
)
def test_a_helper_reads_the_jobs_of_its_parent(compressor: wc.Compressor) -> None:
    jobs = list_jobs(compressor, "bfloat16", feedback=False)
    assert [_read(describe(job)) for job in jobs] == jobs


def test_a_helper_ends_with_its_parent(tmp_path: Path) -> None:
    """A parent that is killed can end nobody."""
    code = textwrap.dedent(f"""
        import os, signal, threading
        import wirecodec as wc
        from wirecodec.compilation import processes
        def end(*arguments, start=processes._start):
            process = start(*arguments)
            print(process.pid, flush=True)
            threading.Timer(1, os.kill, (os.getpid(), signal.SIGKILL)).start()
            return process
        processes._start = end
        wc.warm("{SCHEME}", processes=2)
    """)
    env = {**os.environ, "PYTHONPATH": str(ROOT), "NUMBA_CACHE_DIR": str(tmp_path)}
    parent = subprocess.run(
        [sys.executable, "-c", code], check=False, env=env, stdout=subprocess.PIPE, text=True
    )
    helper = int(parent.stdout)
    end = time.monotonic() + 30
    while is_running(helper):
        assert time.monotonic() < end
        time.sleep(0.1)


def is_running(process: int) -> bool:
    """Return whether a process exists and has not ended."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
