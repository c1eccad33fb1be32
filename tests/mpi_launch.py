"""Pytest plugin that runs the tests marked ``mpi`` under mpirun, with one mpirun per rank count.

    @pytest.mark.mpi(4)                         runs on 4 ranks
    @pytest.mark.mpi(1, 2, 4)                   one item for each rank count
    @pytest.mark.mpi(3, timeout=10)             has its own deadline, in seconds

This file contains both sides. The *launcher* is the user's pytest. At the first test of each rank count it
starts a *group* of ranks (mpi_group.py). It reports each test as soon as all ranks have reported it. A *rank*
is another pytest process that runs the same tests in the same order, reports each, and waits for the other
ranks after each. If a group dies or hangs, the current test fails, and a new group runs the remaining ones.
Each rank writes its files into the folder of its group. There is no other channel.

Test modules must not import mpi4py.MPI at module level. The launcher also imports them, and would initialize
MPI itself.

Environment: REQUIRE_MPI=1 makes a missing mpirun a failure instead of a skip. Three variables are in seconds:
MPI_TEST_TIMEOUT is the deadline per test (120), MPI_TEST_STARTUP the deadline for the start of a group (120),
MPI_TEST_GRACE the time that ranks may spend in a test after another rank failed it (5).
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from tests.mpi_group import Group, Result
from tests.mpi_processes import FOLDER, find_mpirun, mpi_required, record_shared_memory

__all__ = ["Launcher", "Rank", "make_plugin"]


def make_plugin() -> Launcher | Rank:
    """Create the plugin for this process, which pytest_configure registers."""
    folder = os.environ.get(FOLDER)
    return Rank(Path(folder)) if folder else Launcher()


def get_rank_count(item: pytest.Item) -> int | None:
    """Return the number of ranks of a test, or None if it is not marked ``mpi``."""
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
    """Common part of launcher and ranks: one item per rank count of a mark."""

    @pytest.fixture
    def mpi_ranks(self, request: pytest.FixtureRequest) -> int:
        """Number of ranks of a test that is marked with several."""
        return int(request.param)

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Parametrize a test function that is marked with several rank counts."""
        mark = metafunc.definition.get_closest_marker("mpi")
        if mark is None:
            return
        if not mark.args:
            raise pytest.UsageError(
                f"{metafunc.definition.nodeid}: the mpi mark needs a number of ranks, such as mpi(2)"
            )
        if len(mark.args) > 1:
            metafunc.fixturenames.append("mpi_ranks")
            metafunc.parametrize("mpi_ranks", mark.args, ids=[f"n={n}" for n in mark.args], indirect=True)


# ---- launcher ----


class Launcher(Expansion):
    """Plugin of the user's pytest, which starts groups and reports their results.

    Attributes:
        before_launch: called once, before the first group starts. It can fill caches on disk that all ranks
            would otherwise fill at the same time.
    """

    def __init__(self) -> None:
        self.before_launch: Callable[[], None] | None = None
        self._prefix: list[str] | None = None
        self._missing = ""
        self._searched = False
        self._group: Group | None = None

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Sort the tests by rank count, ordinary ones first, so that each rank count needs one group."""
        items.sort(key=lambda item: get_rank_count(item) or 0)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> bool | None:
        """Report an MPI test with the result of its group."""
        ranks = get_rank_count(item)
        if ranks is None:
            return None
        hook = item.ihook
        hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        start = time.time()
        outcome, text, extra = self._get_result(item, ranks)
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
        """End all processes of the current group."""
        if self._group is not None:
            self._group.end()

    def _get_result(self, item: pytest.Item, ranks: int) -> Result:
        if not self._searched:
            self._searched = True
            self._prefix, self._missing = find_mpirun()
            if self._prefix and self.before_launch is not None:
                # An error here also occurs in a test, which reports it.
                with contextlib.suppress(Exception):
                    self.before_launch()
        if not self._prefix:
            reason = f"{self._missing} (REQUIRE_MPI=1 makes this a failure)"
            return ("failed" if mpi_required() else "skipped"), reason, {}
        if self._group is None or self._group.ranks != ranks or not self._group.will_run(item.nodeid):
            if self._group is not None:
                self._group.end()
            items = item.session.items
            rest = [other for other in items[items.index(item) :] if get_rank_count(other) == ranks]
            self._group = Group(self._prefix, ranks, rest)
        return self._group.wait_for(item)


# ---- ranks ----


class Rank(Expansion):
    """Plugin of a rank's pytest, which runs the launcher's tests together with the other ranks."""

    def __init__(self, folder: Path) -> None:
        import faulthandler

        from mpi4py import MPI

        self._comm = MPI.COMM_WORLD.Dup()  # separates the barrier below from the tests
        record_shared_memory(folder)
        self._folder = folder
        rank = self._comm.rank
        (folder / f"{rank}.pid").write_text(str(os.getpid()))
        self._out = open(folder / f"{rank}.jsonl", "a", encoding="utf-8")  # noqa: SIM115 - open to the end
        self._stack = open(folder / f"{rank}.stack", "w", encoding="utf-8")  # noqa: SIM115
        faulthandler.register(signal.SIGUSR1, file=self._stack, all_threads=False)
        self._phases: list[pytest.TestReport] = []
        threading.Thread(target=self._end_with_launcher, daemon=True).start()

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Keep the launcher's tests, in the launcher's order."""
        wanted = json.loads((self._folder / "tests.json").read_text())
        known = {item.nodeid: item for item in items}
        items[:] = [known[nodeid] for nodeid in wanted if nodeid in known]

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Report the begin and the end of a test; then wait for the other ranks."""
        self._phases.clear()
        self._report(event="begin", id=item.nodeid)
        result = yield
        failed = [report for report in self._phases if report.failed]
        skipped = [report for report in self._phases if report.skipped]
        if failed:
            text = "\n".join(_format_report(report) for report in failed)
            self._report(event="end", id=item.nodeid, outcome="failed", text=text)
        elif skipped:
            reason = (
                skipped[0].longrepr[2] if isinstance(skipped[0].longrepr, tuple) else skipped[0].longreprtext
            )
            more = {"wasxfail": skipped[0].wasxfail} if hasattr(skipped[0], "wasxfail") else {}
            self._report(event="end", id=item.nodeid, outcome="skipped", text=reason, **more)
        else:
            self._report(event="end", id=item.nodeid, outcome="passed", text="")
        barrier = self._comm.Ibarrier()
        while not barrier.Test():
            time.sleep(0.0005)  # a blocking barrier would occupy a core that a slower rank needs
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Collect the reports of setup, call and teardown."""
        self._phases.append(report)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Exit with status 0 after failed tests, because mpirun would otherwise end the other ranks."""
        if session.exitstatus == pytest.ExitCode.TESTS_FAILED:
            session.exitstatus = pytest.ExitCode.OK

    def _report(self, **event: Any) -> None:
        self._out.write(json.dumps(event) + "\n")
        self._out.flush()

    def _end_with_launcher(self) -> None:
        """End this rank after its launcher was killed."""
        launcher = int(os.environ["MPI_TEST_LAUNCHER"])
        while True:
            time.sleep(2)
            try:
                os.kill(launcher, 0)
            except ProcessLookupError:
                os._exit(1)


def _format_report(report: pytest.TestReport) -> str:
    where = "" if report.when == "call" else f"[in {report.when}]\n"
    return (
        where
        + report.longreprtext
        + "".join(f"\n-- {name} --\n{content}" for name, content in report.sections)
    )
