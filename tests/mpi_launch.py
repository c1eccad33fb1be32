"""``pytest`` alone runs the tests marked ``mpi``: one mpirun a rank count, in which every rank runs them.

    @pytest.mark.mpi(4)                         runs on 4 ranks
    @pytest.mark.mpi(1, 2, 4)                   one item for each rank count
    @pytest.mark.mpi(3, timeout=10)             with a deadline of its own, in seconds

This file is both sides. The *launcher*, in the pytest that a person started, starts a *group* of ranks
when it comes to the first test of a rank count, and reports each test as soon as all ranks have. A
*rank* is a pytest of its own that runs the same tests in the same order, writes down what happened, and
meets the others after each test. A group that dies or hangs fails the test it was in; a new group runs
the rest. Ranks write one file each, in a folder that the launcher made; there is no other channel.

Test modules must not import mpi4py.MPI at their top: the launcher imports them, too, and would become a
rank of an MPI job of its own.

Environment: REQUIRE_MPI=1 makes a missing mpirun a failure instead of a skip. In seconds, MPI_TEST_TIMEOUT is
the deadline of a test (60), MPI_TEST_STARTUP that of starting a group (120), MPI_TEST_GRACE how long ranks
may stay in a test that another has failed (5).
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Sequence
from pathlib import Path
from typing import IO, Any, Literal, TypeAlias

import pytest

__all__ = [
    "Launcher",
    "Rank",
    "end_session",
    "find_mpirun",
    "plugin",
    "rank_environment",
    "session_members",
]

Result: TypeAlias = tuple[Literal["passed", "failed", "skipped"], str, dict[str, Any]]
"""A test's outcome, the text to go with it, and further attributes of the report."""

FOLDER = "MPI_TEST_FOLDER"  # set for ranks only: where they find their tests and leave their reports


def plugin() -> Launcher | Rank:
    """The plugin for this process, to be registered in pytest_configure."""
    folder = os.environ.get(FOLDER)
    return Rank(Path(folder)) if folder else Launcher()


def rank_count(item: pytest.Item) -> int | None:
    """On how many ranks an item runs; None where it is not for MPI."""
    mark = item.get_closest_marker("mpi")
    if mark is None:
        return None
    if len(mark.args) == 1:
        return int(mark.args[0])
    assert isinstance(item, pytest.Function)
    ranks = item.callspec.params["mpi_ranks"]
    assert isinstance(ranks, int)
    return ranks


class Expansion:
    """What launcher and ranks do alike: one item for each rank count of a mark."""

    @pytest.fixture
    def mpi_ranks(self, request: pytest.FixtureRequest) -> int:
        """The number of ranks of a test that is marked with several."""
        return int(request.param)

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Parametrise a test function that is marked with several rank counts."""
        mark = metafunc.definition.get_closest_marker("mpi")
        if mark is None:
            return
        if not mark.args:
            raise pytest.UsageError(f"{metafunc.definition.nodeid}: the mpi mark needs a number of ranks")
        if len(mark.args) > 1:
            metafunc.fixturenames.append("mpi_ranks")
            metafunc.parametrize("mpi_ranks", mark.args, ids=[f"n={n}" for n in mark.args], indirect=True)


# ---- launcher ----


class Launcher(Expansion):
    """Runs groups, and reports for them.

    Attributes:
        before_launch: called once, before the first group starts: to fill caches on disk that many ranks
            would otherwise fill all at once.
    """

    def __init__(self) -> None:
        self.before_launch: Callable[[], None] | None = None
        self._prefix: list[str] | None = None
        self._missing = ""
        self._looked = False
        self._group: Group | None = None

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Ordinary tests first, then those of one rank count after another: a group runs once."""
        items.sort(key=lambda item: rank_count(item) or 0)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> bool | None:
        """Report an MPI test from its group."""
        ranks = rank_count(item)
        if ranks is None:
            return None
        hook = item.ihook
        hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        start = time.time()
        outcome, text, extra = self._result(item, ranks)
        path, line, _ = item.location
        report = pytest.TestReport(
            nodeid=item.nodeid,
            location=item.location,
            keywords=dict.fromkeys(item.keywords, 1),
            outcome=outcome,
            longrepr=(path, (line or 0) + 1, text) if outcome == "skipped" else (text or None),
            when="call",
            start=start,
            stop=time.time(),
            duration=time.time() - start,
            **extra,
        )
        hook.pytest_runtest_logreport(report=report)
        hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    def pytest_sessionfinish(self) -> None:
        """Leave no process behind, whatever ended the session."""
        if self._group is not None:
            self._group.end()

    def _result(self, item: pytest.Item, ranks: int) -> Result:
        if not self._looked:
            self._looked = True
            self._prefix, self._missing = find_mpirun()
            if self._prefix and self.before_launch is not None:
                # What is broken breaks a test, too, and is reported there.
                with contextlib.suppress(Exception):
                    self.before_launch()
        if not self._prefix:
            required = os.environ.get("REQUIRE_MPI", "") not in ("", "0")
            reason = f"{self._missing} (REQUIRE_MPI=1 makes this a failure)"
            return ("failed" if required else "skipped"), reason, {}
        if self._group is None or self._group.ranks != ranks or not self._group.will_run(item.nodeid):
            if self._group is not None:
                self._group.end()
            items = item.session.items
            rest = [other for other in items[items.index(item) :] if rank_count(other) == ranks]
            self._group = Group(self._prefix, ranks, rest)
        return self._group.result(item)


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


class Group:
    """One mpirun, and what its ranks have reported so far.

    Args:
        prefix: the command that starts ranks.
        ranks: how many.
        items: what they run, in this order.
    """

    def __init__(self, prefix: Sequence[str], ranks: int, items: Sequence[pytest.Item]) -> None:
        self.ranks = ranks
        self._timeout = float(os.environ.get("MPI_TEST_TIMEOUT", "60"))
        self._startup = float(os.environ.get("MPI_TEST_STARTUP", "120"))
        self._grace = float(os.environ.get("MPI_TEST_GRACE", "5"))
        self._ended = False
        self._never_began = ""  # why no rank began any test
        self._latest: float | None = None  # when a rank last began or ended a test
        self._began: defaultdict[str, set[int]] = defaultdict(set)
        self._reports: defaultdict[str, dict[int, dict[str, Any]]] = defaultdict(dict)
        self._left = [item.nodeid for item in items]
        self._folder = Path(tempfile.mkdtemp(prefix="mpi-tests-"))
        self._files: dict[int, IO[str]] = {}
        (self._folder / "tests.json").write_text(json.dumps(self._left))
        config = items[0].config
        command = [*prefix, "-n", str(ranks), sys.executable, "-m", "pytest"]
        command += ["-q", "--color=no", "-p", "no:cacheprovider", f"--rootdir={config.rootpath}"]
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
        """Whether a result for this test can be had without starting another group."""
        return bool(self._never_began) or (nodeid in self._left and not self._ended)

    def result(self, item: pytest.Item) -> Result:
        """Wait for one test."""
        nodeid = item.nodeid
        if self._never_began:
            return "failed", self._never_began, {}
        mark = item.get_closest_marker("mpi")
        timeout = float(mark.kwargs.get("timeout", self._timeout)) if mark else self._timeout
        self._left.remove(nodeid)
        while True:
            exited = self._process.poll()  # before reading, so that what was written before the end is read
            self._read()
            if len(self._reports[nodeid]) == self.ranks:
                return self._merge(nodeid)
            if exited is not None:
                return self._broken(nodeid, f"mpirun ended with {exited} during this test")
            now = time.monotonic()
            if self._latest is None:
                if now > self._started + self._startup:
                    return self._broken(nodeid, f"the ranks did not start within {self._startup:g} s")
            elif now > self._latest + timeout:
                return self._broken(nodeid, f"not finished within {timeout:g} s")
            failed = [
                report["seen"] for report in self._reports[nodeid].values() if report["outcome"] == "failed"
            ]
            if failed and now > min(failed) + self._grace:
                return self._broken(
                    nodeid, f"a rank failed, and others were still running {self._grace:g} s later"
                )
            time.sleep(0.01)

    def end(self) -> None:
        """End every process of the group, and remove the folder.

        Also when all tests are done: many ranks on few cores take seconds in MPI_Finalize, and prove nothing.
        """
        if self._ended:
            return
        self._ended = True
        end_session(self._process)
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
                if not line.endswith("\n"):  # nothing, or half a line
                    file.seek(at)
                    break
                event = json.loads(line)
                self._latest = event["seen"] = time.monotonic()
                if event["event"] == "begin":
                    self._began[event["id"]].add(rank)
                else:
                    self._reports[event["id"]][rank] = event

    def _merge(self, nodeid: str) -> Result:
        """One outcome from all ranks': failed if any failed, skipped if all were."""
        reports = self._reports[nodeid]
        if any(report["outcome"] == "failed" for report in reports.values()):
            return "failed", tracebacks(reports), {}
        if all(report["outcome"] == "skipped" for report in reports.values()):
            expected = reports[0].get("wasxfail")
            return "skipped", reports[0]["text"], {} if expected is None else {"wasxfail": expected}
        return "passed", "", {}

    def _broken(self, nodeid: str, why: str) -> Result:
        """The group is lost: fail this test with all that is known, and end the group."""
        reports, began = self._reports[nodeid], self._began[nodeid]
        inside = [rank for rank in range(self.ranks) if rank in began and rank not in reports]
        lines = [f"{why}; on {self.ranks} ranks, still in the test: {', '.join(map(str, inside)) or 'none'}"]
        log = (self._folder / "log").read_text(errors="replace")
        stacks = self._stacks(inside) if self._process.poll() is None else ""
        if reports:
            lines.append(tracebacks(reports))
        if stacks:
            lines.append(stacks)
        lines.append(f"---- output of mpirun (end) ----\n{log[-3000:]}")
        text = "\n".join(lines)
        if self._latest is None:
            self._never_began = text
        self.end()
        return "failed", text, {}

    def _stacks(self, ranks: Iterable[int]) -> str:
        """Where hanging ranks are, by their own account; a stopped one gives none."""
        parts = []
        for rank in ranks:
            pid_file, stack_file = self._folder / f"{rank}.pid", self._folder / f"{rank}.stack"
            pid = int(pid_file.read_text() or 0) if pid_file.exists() else 0
            if pid and _session_of(pid) == self._process.pid:
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
                parts.append(
                    "\n".join([f"---- rank {rank} is at ----", *(frames[:20] or ["(it does not answer)"])])
                )
        return "\n".join(parts)


def tracebacks(reports: dict[int, dict[str, Any]]) -> str:
    """The failures of all ranks; ranks that failed alike share one."""
    same: defaultdict[str, list[int]] = defaultdict(list)
    for rank in sorted(reports):
        if reports[rank]["outcome"] == "failed":
            same[reports[rank]["text"]].append(rank)
    return "\n".join(
        f"==== rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))} ====\n{text}"
        for text, ranks in same.items()
    )


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
        if _session_of(int(path.name)) == session and not _is_zombie(path)
    ]


def _session_of(pid: int) -> int | None:
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


# ---- ranks ----


class Rank(Expansion):
    """Runs the tests that the launcher listed, in its order, together with the other ranks."""

    def __init__(self, folder: Path) -> None:
        import faulthandler

        from mpi4py import MPI

        self._comm = MPI.COMM_WORLD.Dup()  # tests must not see our barrier
        self._folder = folder
        rank = self._comm.rank
        (folder / f"{rank}.pid").write_text(str(os.getpid()))
        self._out = open(folder / f"{rank}.jsonl", "a", encoding="utf-8")  # noqa: SIM115 - open to the end
        self._stack = open(folder / f"{rank}.stack", "w", encoding="utf-8")  # noqa: SIM115
        faulthandler.register(signal.SIGUSR1, file=self._stack, all_threads=False)
        self._phases: list[pytest.TestReport] = []
        threading.Thread(target=self._die_with_launcher, daemon=True).start()

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Keep the launcher's tests, in the launcher's order."""
        wanted = json.loads((self._folder / "tests.json").read_text())
        known = {item.nodeid: item for item in items}
        items[:] = [known[nodeid] for nodeid in wanted if nodeid in known]

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Tell when a test begins and how it ended; then meet the others."""
        self._phases.clear()
        self._tell(event="begin", id=item.nodeid)
        result = yield
        failed = [report for report in self._phases if report.failed]
        skipped = [report for report in self._phases if report.skipped]
        if failed:
            text = "\n".join(_text(report) for report in failed)
            self._tell(event="end", id=item.nodeid, outcome="failed", text=text)
        elif skipped:
            reason = (
                skipped[0].longrepr[2] if isinstance(skipped[0].longrepr, tuple) else skipped[0].longreprtext
            )
            more = {"wasxfail": skipped[0].wasxfail} if hasattr(skipped[0], "wasxfail") else {}
            self._tell(event="end", id=item.nodeid, outcome="skipped", text=reason, **more)
        else:
            self._tell(event="end", id=item.nodeid, outcome="passed", text="")
        meeting = self._comm.Ibarrier()
        while not meeting.Test():
            time.sleep(0.0005)  # a blocking barrier would keep a core busy that a slower rank needs
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Collect the reports of setup, call and teardown."""
        self._phases.append(report)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Failed tests are reported by the launcher; mpirun would end the other ranks for an exit status."""
        if session.exitstatus == pytest.ExitCode.TESTS_FAILED:
            session.exitstatus = pytest.ExitCode.OK

    def _tell(self, **event: Any) -> None:
        self._out.write(json.dumps(event) + "\n")
        self._out.flush()

    def _die_with_launcher(self) -> None:
        """A launcher that was killed cannot end its ranks."""
        launcher = int(os.environ["MPI_TEST_LAUNCHER"])
        while True:
            time.sleep(2)
            try:
                os.kill(launcher, 0)
            except ProcessLookupError:
                os._exit(1)


def _text(report: pytest.TestReport) -> str:
    where = "" if report.when == "call" else f"[in {report.when}]\n"
    return (
        where
        + report.longreprtext
        + "".join(f"\n-- {name} --\n{content}" for name, content in report.sections)
    )
