"""``pytest`` alone runs the tests marked ``mpi``: one mpirun a rank count, in which every rank runs them.

    @pytest.mark.mpi(4)                         runs on 4 ranks
    @pytest.mark.mpi(1, 2, 4)                   one item for each rank count
    @pytest.mark.mpi(3, timeout=10)             with a deadline of its own, in seconds

This file is both sides. The *launcher*, in the pytest that a person started, starts a *group* of ranks
(mpi_group.py) when it comes to the first test of a rank count, and reports each test as soon as all ranks
have. A *rank* is a pytest of its own that runs the same tests in the same order, writes down what happened,
and meets the others after each test. A group that dies or hangs fails the test it was in; a new group runs
the rest. Ranks write one file each, in a folder that the group made; there is no other channel.

Test modules must not import mpi4py.MPI at their top: the launcher imports them, too, and would become a
rank of an MPI job of its own.

Environment: REQUIRE_MPI=1 makes a missing mpirun a failure instead of a skip. In seconds, MPI_TEST_TIMEOUT is
the deadline of a test (60), MPI_TEST_STARTUP that of starting a group (120), MPI_TEST_GRACE how long ranks
may stay in a test that another has failed (5).
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
from tests.mpi_processes import FOLDER, find_mpirun, mpi_required

__all__ = ["Launcher", "Rank", "plugin"]


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
            reason = f"{self._missing} (REQUIRE_MPI=1 makes this a failure)"
            return ("failed" if mpi_required() else "skipped"), reason, {}
        if self._group is None or self._group.ranks != ranks or not self._group.will_run(item.nodeid):
            if self._group is not None:
                self._group.end()
            items = item.session.items
            rest = [other for other in items[items.index(item) :] if rank_count(other) == ranks]
            self._group = Group(self._prefix, ranks, rest)
        return self._group.result(item)


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
