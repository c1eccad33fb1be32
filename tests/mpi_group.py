"""Group of ranks that run tests: one mpirun, its deadlines, and the reports of its ranks.

Each rank writes its reports into a file in the folder of the group. The reports of all ranks are merged into
one result per test.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import IO, Any, Literal, TypeAlias

import pytest

from tests.mpi_processes import FOLDER, end_all, find_processes, rank_environment

__all__ = ["Group", "Result"]

Result: TypeAlias = tuple[Literal["passed", "failed", "skipped"], str, dict[str, Any]]
"""Outcome of a test, its text, and further attributes of the report."""


class Group:
    """One mpirun and the reports of its ranks.

    Args:
        prefix: the command that starts ranks.
        ranks: number of ranks.
        items: the tests that they run, in this order.
    """

    def __init__(self, prefix: Sequence[str], ranks: int, items: Sequence[pytest.Item]) -> None:
        self.ranks = ranks
        self._timeout = float(os.environ.get("MPI_TEST_TIMEOUT", "120"))
        self._startup = float(os.environ.get("MPI_TEST_STARTUP", "120"))
        self._grace = float(os.environ.get("MPI_TEST_GRACE", "5"))
        self._ended = False
        self._start_failure = ""  # the reason why no rank began any test
        self._latest: float | None = None  # time at which a rank last began or ended a test
        self._begun: defaultdict[str, set[int]] = defaultdict(set)
        self._reports: defaultdict[str, dict[int, dict[str, Any]]] = defaultdict(dict)
        self._remaining = [item.nodeid for item in items]
        self._folder = Path(tempfile.mkdtemp(prefix="mpi-tests-"))
        self._files: dict[int, IO[str]] = {}
        (self._folder / "tests.json").write_text(json.dumps(self._remaining))
        config = items[0].config
        command = [*prefix, "-n", str(ranks), sys.executable, "-m", "pytest"]
        command += ["-q", "--color=no", "-p", "no:cacheprovider", "-m", "", f"--rootdir={config.rootpath}"]
        if config.inipath is not None:
            command += ["-c", str(config.inipath)]
        command += sorted({str(item.path) for item in items})
        with open(self._folder / "log", "wb") as log:
            self._process = subprocess.Popen(
                command,
                cwd=config.rootpath,
                env=rank_environment(self._folder)
                | {FOLDER: str(self._folder), "MPI_TEST_LAUNCHER": str(os.getpid())},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._started = time.monotonic()

    def will_run(self, nodeid: str) -> bool:
        """Return whether this group can still report the test."""
        return bool(self._start_failure) or (nodeid in self._remaining and not self._ended)

    def wait_for(self, item: pytest.Item) -> Result:
        """Wait for the result of one test."""
        nodeid = item.nodeid
        if self._start_failure:
            return "failed", self._start_failure, {}
        mark = item.get_closest_marker("mpi")
        timeout = float(mark.kwargs.get("timeout", self._timeout)) if mark else self._timeout
        self._remaining.remove(nodeid)
        while True:
            exited = self._process.poll()  # before reading, so that reports written before the end are read
            self._read()
            if len(self._reports[nodeid]) == self.ranks:
                return self._merge(nodeid)
            if exited is not None:
                return self._fail(nodeid, f"mpirun ended with {exited} during this test")
            now = time.monotonic()
            if self._latest is None:
                if now > self._started + self._startup:
                    return self._fail(nodeid, f"the ranks did not start within {self._startup:g} s")
            elif now > self._latest + timeout:
                return self._fail(nodeid, f"not finished within {timeout:g} s")
            failed = [
                report["seen"] for report in self._reports[nodeid].values() if report["outcome"] == "failed"
            ]
            if failed and now > min(failed) + self._grace:
                return self._fail(
                    nodeid, f"a rank failed, and others were still running {self._grace:g} s later"
                )
            time.sleep(0.01)

    def end(self) -> None:
        """End every process of the group, and remove the folder.

        The ranks do not reach MPI_Finalize, which takes many ranks on few cores several seconds.
        """
        if self._ended:
            return
        self._ended = True
        end_all(self._process, self._folder)
        for file in self._files.values():
            file.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _read(self) -> None:
        for rank in range(self.ranks):
            if rank not in self._files:
                path = self._folder / f"{rank}.jsonl"
                if not path.exists():
                    continue
                self._files[rank] = open(path, encoding="utf-8")  # noqa: SIM115 - closed in end()
            file = self._files[rank]
            while True:
                at = file.tell()
                line = file.readline()
                if not line.endswith("\n"):  # no line, or an incomplete one
                    file.seek(at)
                    break
                event = json.loads(line)
                self._latest = event["seen"] = time.monotonic()
                if event["event"] == "begin":
                    self._begun[event["id"]].add(rank)
                else:
                    self._reports[event["id"]][rank] = event

    def _merge(self, nodeid: str) -> Result:
        """Merge all ranks' outcomes: failed if any rank failed, skipped if all skipped."""
        reports = self._reports[nodeid]
        if any(report["outcome"] == "failed" for report in reports.values()):
            return "failed", format_tracebacks(reports), {}
        if all(report["outcome"] == "skipped" for report in reports.values()):
            expected = reports[0].get("wasxfail")
            return "skipped", reports[0]["text"], {} if expected is None else {"wasxfail": expected}
        return "passed", "", {}

    def _fail(self, nodeid: str, why: str) -> Result:
        """Fail this test with all known details, and end the group, because a rank died or hangs."""
        reports, begun = self._reports[nodeid], self._begun[nodeid]
        inside = [rank for rank in range(self.ranks) if rank in begun and rank not in reports]
        lines = [f"{why}; on {self.ranks} ranks, still in the test: {', '.join(map(str, inside)) or 'none'}"]
        log = (self._folder / "log").read_text(errors="replace")
        stacks = self._get_stacks(inside) if self._process.poll() is None else ""
        if reports:
            lines.append(format_tracebacks(reports))
        if stacks:
            lines.append(stacks)
        lines.append(f"---- output of mpirun (end) ----\n{log[-3000:]}")
        text = "\n".join(lines)
        if self._latest is None:
            self._start_failure = text
        self.end()
        return "failed", text, {}

    def _get_stacks(self, ranks: Iterable[int]) -> str:
        """Ask hanging ranks for their stacks; a stopped rank gives none."""
        parts = []
        living = find_processes(self._folder)
        for rank in ranks:
            pid_file, stack_file = self._folder / f"{rank}.pid", self._folder / f"{rank}.stack"
            pid = int(pid_file.read_text() or 0) if pid_file.exists() else 0
            if pid in living:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGUSR1)
                deadline = time.monotonic() + 1
                while time.monotonic() < deadline and not (stack_file.exists() and stack_file.stat().st_size):
                    time.sleep(0.02)
                text = stack_file.read_text(errors="replace") if stack_file.exists() else ""
                frames = [
                    line
                    for line in text.splitlines()
                    if f"{os.sep}_pytest{os.sep}" not in line and "File" in line
                ]
                parts.append("\n".join([f"---- rank {rank} is at ----", *(frames[:20] or ["(no answer)"])]))
        return "\n".join(parts)


def format_tracebacks(reports: dict[int, dict[str, Any]]) -> str:
    """Format the failures of all ranks; ranks with equal failures share one."""
    same: defaultdict[str, list[int]] = defaultdict(list)
    for rank in sorted(reports):
        if reports[rank]["outcome"] == "failed":
            same[reports[rank]["text"]].append(rank)
    return "\n".join(
        f"==== rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))} ====\n{text}"
        for text, ranks in same.items()
    )
