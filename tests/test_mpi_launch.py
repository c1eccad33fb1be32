"""Launcher of MPI tests: a failure names its rank, and a rank that dies or hangs fails only one test."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mpi_processes import find_mpirun, find_orphans, mpi_required

REPOSITORY = Path(__file__).parents[1]
NO_MPIRUN = find_mpirun()[0] is None

CONFTEST = """
from tests import mpi_launch

def pytest_configure(config):
    config.addinivalue_line("markers", "mpi: runs under mpirun")
    config.pluginmanager.register(mpi_launch.make_plugin(), "mpi-launch")
"""

HEAD = """
import os, signal, pytest
if "MPI_TEST_FOLDER" in os.environ:
    from mpi4py import MPI
    comm = MPI.COMM_WORLD
"""

BEFORE_AND_AFTER = """
@pytest.mark.mpi(2)
def test_before(): assert comm.allreduce(1) == 2
{}
@pytest.mark.mpi(2)
def test_after(): assert comm.allreduce(1) == 2
"""


def run(folder: Path, tests: str, conftest: str = CONFTEST, head: str = HEAD, **environment: str) -> str:
    """Run pytest on a file with these tests, and return its output.

    Args:
        folder: an empty folder.
        tests: the file without its first lines.
        conftest: the text of conftest.py.
        head: the file's first lines.
        environment: variables to add.
    """
    (folder / "conftest.py").write_text(conftest)
    (folder / "test_it.py").write_text(head + tests)
    (folder / "pytest.ini").write_text("[pytest]\n")
    clean = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("PYTEST", "MPI_TEST", "REQUIRE"))
    }
    completed = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-rA",
            "--color=no",
            "-p",
            "no:cacheprovider",
            "--rootdir=.",
            "-c",
            "pytest.ini",
        ],
        cwd=folder,
        env=clean | {"PYTHONPATH": str(REPOSITORY), "MPI_TEST_GRACE": "1"} | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    return completed.stdout + completed.stderr


def parse_outcomes(output: str) -> dict[str, str]:
    return {
        name: word
        for word, name in re.findall(r"^(PASSED|FAILED|XFAIL|XPASS) test_it\.py::(\S+)", output, re.MULTILINE)
    }


needs_mpirun = pytest.mark.skipif(NO_MPIRUN and not mpi_required(), reason="no mpirun")


@needs_mpirun
def test_one_item_for_each_rank_count(tmp_path: Path) -> None:
    output = run(
        tmp_path,
        """
def test_alone(): assert "MPI_TEST_FOLDER" not in os.environ
@pytest.mark.mpi(1, 3)
@pytest.mark.parametrize("word", ["a", "b"])
def test_ranks(mpi_ranks, word): assert comm.allreduce(1) == mpi_ranks
@pytest.mark.mpi(3)
def test_three(): assert comm.size == 3
@pytest.mark.mpi(3)
def test_skipped(): pytest.skip("for a reason")
@pytest.mark.mpi(3)
@pytest.mark.xfail(strict=True)
def test_expected(): assert comm.rank < 0
""",
    )
    assert parse_outcomes(output) == {
        "test_alone": "PASSED",
        "test_ranks[n=1-a]": "PASSED",
        "test_ranks[n=1-b]": "PASSED",
        "test_ranks[n=3-a]": "PASSED",
        "test_ranks[n=3-b]": "PASSED",
        "test_three": "PASSED",
        "test_expected": "XFAIL",
    }
    assert "for a reason" in output


@needs_mpirun
def test_failures_name_their_ranks(tmp_path: Path) -> None:
    output = run(
        tmp_path,
        """
@pytest.mark.mpi(3)
def test_one(): assert comm.rank != 1, "not me"
@pytest.mark.mpi(3)
def test_all(): assert comm.rank < 0, "nobody"
@pytest.fixture
def broken(): raise OSError("in a fixture")
@pytest.mark.mpi(3)
def test_fixture(broken): pass
@pytest.mark.mpi(3)
def test_after(): assert comm.allreduce(1) == 3
""",
    )
    assert parse_outcomes(output) == {
        "test_one": "FAILED",
        "test_all": "FAILED",
        "test_fixture": "FAILED",
        "test_after": "PASSED",
    }
    assert "==== rank 1 ====" in output
    assert "not me" in output
    assert "==== ranks 0, 1, 2 ====" in output or "==== rank 2 ====" in output
    assert "OSError: in a fixture" in output


@needs_mpirun
@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("if comm.rank == 1: os.kill(os.getpid(), signal.SIGKILL)\n    comm.Barrier()", "mpirun ended with"),
        ("if comm.rank == 1: os._exit(0)\n    comm.Barrier()", "mpirun ended with"),
        ("if comm.rank == 1: comm.Recv(bytearray(1), 0)", "not finished within 2 s"),
        (
            "if comm.rank == 1: os.kill(os.getpid(), signal.SIGSTOP)\n    comm.Barrier()",
            "not finished within 2 s",
        ),
        (
            "assert comm.rank != 1\n    comm.Barrier()",
            "a rank failed, and others were still running 1 s later",
        ),
    ],
    ids=["killed", "left", "hangs", "stopped", "fails while others wait"],
)
def test_a_lost_rank_fails_one_test(tmp_path: Path, body: str, says: str) -> None:
    test = f"@pytest.mark.mpi(2, timeout=2)\ndef test_it():\n    {body}"
    orphans = find_orphans()
    output = run(tmp_path, BEFORE_AND_AFTER.format(test))
    assert find_orphans() <= orphans
    assert parse_outcomes(output) == {"test_before": "PASSED", "test_it": "FAILED", "test_after": "PASSED"}
    assert says in output
    assert "still in the test: " in output


@needs_mpirun
def test_ranks_that_end_at_once_leave_no_shared_memory(tmp_path: Path) -> None:
    """They end before they report any test, so the launcher does not see them alive."""
    orphans = find_orphans()
    output = run(tmp_path, BEFORE_AND_AFTER.format(""), head=HEAD + "    if comm.rank: os._exit(0)\n")
    assert find_orphans() <= orphans
    assert parse_outcomes(output) == {"test_before": "FAILED", "test_after": "FAILED"}


@needs_mpirun
def test_the_stack_of_a_hanging_rank_is_reported(tmp_path: Path) -> None:
    output = run(
        tmp_path,
        "@pytest.mark.mpi(2, timeout=2)\ndef test_it():\n    if comm.rank: comm.Recv(bytearray(1), 0)",
    )
    assert re.search(r"---- rank 1 is at ----\n.*test_it\.py.*in test_it", output)


@needs_mpirun
def test_ranks_that_cannot_start_fail_all_tests_at_once(tmp_path: Path) -> None:
    """mpirun is not started again for each test."""
    broken = HEAD + "if 'MPI_TEST_FOLDER' in os.environ: raise OSError('broken import')\n"
    output = run(tmp_path, BEFORE_AND_AFTER.format(""), head=broken)
    assert parse_outcomes(output) == {"test_before": "FAILED", "test_after": "FAILED"}
    assert "broken import" in output


MISSING = CONFTEST + "\nmpi_launch.find_mpirun = lambda: (None, 'no mpirun today')\n"


def test_without_mpirun_tests_skip_with_the_reason(tmp_path: Path) -> None:
    output = run(
        tmp_path,
        "def test_alone(): pass\n@pytest.mark.mpi(2)\ndef test_two(): pass",
        MISSING,
        "import pytest\n",
    )
    assert "1 passed, 1 skipped" in output
    assert "no mpirun today" in output


def test_without_mpirun_tests_fail_if_it_is_required(tmp_path: Path) -> None:
    output = run(
        tmp_path, "@pytest.mark.mpi(2)\ndef test_two(): pass", MISSING, "import pytest\n", REQUIRE_MPI="1"
    )
    assert "1 failed" in output
    assert "no mpirun today" in output


def test_a_mark_needs_a_number(tmp_path: Path) -> None:
    assert "needs a number of ranks" in run(
        tmp_path, "@pytest.mark.mpi\ndef test_two(): pass", head="import pytest\n"
    )


def test_make_test_runs_all_tests_of_ranks() -> None:
    """Its second run of pytest collects the folders of ``MPI_TESTS`` alone."""
    found = re.search(r"^MPI_TESTS := (.*)$", (REPOSITORY / "Makefile").read_text(), re.MULTILINE)
    assert found
    folders = [REPOSITORY / name for name in found[1].split()]
    marked = {path for path in (REPOSITORY / "tests").rglob("*.py") if "mark.mpi(" in path.read_text()}
    inside = {path for path in marked if any(path.is_relative_to(folder) for folder in folders)}
    assert marked - inside == {REPOSITORY / "tests/mpi_launch.py"}
