"""Fixtures that several folders share, and hooks: what runs by default, and the lines that a run prints."""

from __future__ import annotations

import copy
import os
import signal
from collections.abc import Generator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, settings

from tests import mpi_launch
from tests.gpu_required import gpu_required, missing_gpu
from tests.sampling import is_in_part, mark_sweeps
from tests.skips import summarize_skips
from tests.slow import mark_slow
from wirecodec import registry

DATA = Path(__file__).parent / "data"
DTYPES = [np.dtype(np.float32), np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16), np.dtype(np.float64)]

OWN_DEPRECATIONS = ",".join(
    f"error:{package}.:DeprecationWarning" for package in ("wirecodec", "collectives")
)
"""Filters that make our own deprecations errors in programs that tests start, too; their texts begin so."""

# On a machine with other load, no test may depend on the time that its examples take.
settings.register_profile("any load", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any load")

WITHOUT_GPU = pytest.StashKey[int]()
"""The number of tests left out because there is no GPU."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--part",
        metavar="[MARKER=]I/N",
        action="append",
        default=[],
        help="run only part I of N parts of the selected tests, or of those with a marker",
    )


def pytest_configure(config: pytest.Config) -> None:
    os.environ.setdefault("WIRECODEC_QUIET", "1")  # tests of programs compare all that they print
    os.environ.setdefault("PYTHONWARNINGS", OWN_DEPRECATIONS)
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # by a shell that runs pytest in the background
        signal.signal(signal.SIGINT, signal.default_int_handler)  # programs that tests start inherit it
    config.pluginmanager.register(mpi_launch.make_plugin(), "mpi-launch")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark sampled and slow tests before ``-m`` is applied. Without a GPU, deselect its tests."""
    mark_sweeps(items)
    mark_slow(items)
    of_gpu = [item for item in items if item.get_closest_marker("gpu")]
    if of_gpu and not gpu_required() and missing_gpu():
        config.stash[WITHOUT_GPU] = len(of_gpu)
        config.hook.pytest_deselected(items=of_gpu)
        items[:] = [item for item in items if not item.get_closest_marker("gpu")]
    for given in config.getoption("--part"):
        marker, _, part = given.rpartition("=")
        parted = [item for item in items if not marker or item.get_closest_marker(marker)]
        others = [item for item in parted if not is_in_part(item.nodeid, part)]
        config.hook.pytest_deselected(items=others)
        left_out = set(others)
        items[:] = [item for item in items if item not in left_out]


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Send the number of tests left out to the process that prints the summary; a part may have no tests."""
    if session.config.getoption("--part") and session.exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
        session.exitstatus = pytest.ExitCode.OK
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["without_gpu"] = session.config.stash.get(WITHOUT_GPU, 0)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Receive the number of tests left out from a worker of pytest-xdist."""
    node.config.stash[WITHOUT_GPU] = getattr(node, "workeroutput", {}).get("without_gpu", 0)


@pytest.hookimpl(wrapper=True)
def pytest_report_teststatus(
    report: pytest.TestReport,
) -> Generator[None, tuple[str, str, Any], tuple[str, str, Any]]:
    """Print the name of a failing test at once, in place of a letter that the end of the run explains."""
    category, letter, word = yield
    return category, f"\n{letter} {report.nodeid}\n" if report.failed else letter, word


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print one line about skipped tests and one about the GPU, in place of a line per skip."""
    if line := summarize_skips(terminalreporter.stats.get("skipped", [])):
        terminalreporter.write_line(line)
    if count := config.stash.get(WITHOUT_GPU, 0):
        terminalreporter.write_line(f"left out: {count} tests of a GPU ({missing_gpu()})")


@pytest.fixture
def rng() -> np.random.Generator:
    """A fresh generator for each test."""
    return np.random.default_rng(20)


@pytest.fixture
def own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy of the registry for one test: what it registers is removed afterwards."""
    for state in ("_index", "_value", "_stages"):
        monkeypatch.setattr(registry, state, copy.deepcopy(getattr(registry, state)))


@pytest.fixture(params=DTYPES, ids=str)
def dtype(request: pytest.FixtureRequest) -> np.dtype[Any]:
    """Each element type of the wire format."""
    found: np.dtype[Any] = request.param
    return found


@pytest.fixture(params=sorted(path.stem for path in DATA.glob("*.npy")))
def gradient(request: pytest.FixtureRequest) -> npt.NDArray[np.float32]:
    """Each real gradient in tests/data."""
    found: npt.NDArray[np.float32] = np.load(DATA / f"{request.param}.npy")
    return found
