"""The notice of compilation: when it appears, where, and that it harms no program."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from wirecodec.kernels.compiler import notice
from wirecodec.kernels.compiler.notice import tell_of_compilation

ROOT = Path(__file__).parents[3]
LINE = "wirecodec: compiling kernels, once; cached in FOLDER\n"


class Terminal(io.StringIO):
    """A stream that somebody watches."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def stream(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """Standard error of a process that has compiled nothing, and whose notice is due at once."""
    for name in (notice.QUIET, *notice._LOCAL_RANKS):
        monkeypatch.delenv(name, raising=False)
    for name in ("_told", "_bar", "_ended"):
        monkeypatch.setattr(notice, name, threading.Lock())
    monkeypatch.setattr(notice, "_spent", [])
    monkeypatch.setattr(notice, "_running", [])
    monkeypatch.setattr(notice, "DELAY_SECONDS", 0.01)
    monkeypatch.setattr(notice.atexit, "register", lambda *_: None)
    return watch(monkeypatch, io.StringIO())


def watch(monkeypatch: pytest.MonkeyPatch, stream: Any) -> Any:
    """Make a stream the standard error of the notice; pytest replaces that of the process."""
    monkeypatch.setattr(notice, "sys", SimpleNamespace(stderr=stream, __stderr__=None))
    return stream


def compile_kernel(folder: str | None = "FOLDER", seconds: float = 0.2) -> None:
    with tell_of_compilation(lambda: folder):
        time.sleep(seconds)


def test_one_line_per_process(stream: io.StringIO) -> None:
    threads = [threading.Thread(target=compile_kernel) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    compile_kernel()
    assert stream.getvalue() == LINE


def test_seconds_of_several_threads_count_once(stream: io.StringIO) -> None:
    threads = [threading.Thread(target=compile_kernel) for _ in range(6)]
    start = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(notice._spent) == 6
    assert 0.2 <= sum(notice._spent) <= time.monotonic() - start


def test_a_second_line_has_the_seconds(stream: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notice, "IDLE_SECONDS", 0.5)
    start = time.monotonic()
    compile_kernel(seconds=0.7)
    compile_kernel(seconds=0.1)
    most = time.monotonic() - start
    assert stream.getvalue() == LINE
    deadline = time.monotonic() + 30
    while stream.getvalue().count("\n") < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    number, seconds = re.fullmatch(
        rf"{LINE}wirecodec: compiled (\d) kernels in (.*) s\n", stream.getvalue()
    ).groups()
    assert number == "2"
    assert 0.8 <= float(seconds) <= most + 0.05  # it is rounded
    compile_kernel()
    assert stream.getvalue().count("\n") == 2


def test_short_compilations_count_together(stream: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notice, "DELAY_SECONDS", 5.0)
    compile_kernel()
    assert stream.getvalue() == ""
    monkeypatch.setattr(notice, "_spent", [3.0, 1.99])
    compile_kernel()
    assert stream.getvalue() == LINE


def test_without_a_cache_there_is_a_warning_in_its_place(stream: io.StringIO) -> None:
    compile_kernel(folder=None)
    assert stream.getvalue() == ""


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("WIRECODEC_QUIET", "1", False),
        ("WIRECODEC_QUIET", "0", True),
        ("LOCAL_RANK", "1", False),
        ("LOCAL_RANK", "0", True),
        ("OMPI_COMM_WORLD_LOCAL_RANK", "3", False),
    ],
)
def test_settings(
    stream: io.StringIO, monkeypatch: pytest.MonkeyPatch, name: str, value: str, told: bool
) -> None:
    monkeypatch.setenv(name, value)
    compile_kernel()
    assert stream.getvalue() == (LINE if told else "")


def test_an_error_and_an_interrupt_pass(stream: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notice, "DELAY_SECONDS", 60.0)  # the thread of the second line comes with the first
    before = set(threading.enumerate())
    for error in (ValueError, KeyboardInterrupt):
        with pytest.raises(error), tell_of_compilation(lambda: "FOLDER"):
            raise error
    assert set(threading.enumerate()) <= before


@pytest.mark.parametrize("broken", ["closed", "write", "isatty"])
def test_a_broken_stream_harms_nothing(monkeypatch: pytest.MonkeyPatch, broken: str, stream: object) -> None:
    class Broken(io.StringIO):
        def write(self, _: str) -> int:
            raise OSError("broken")

        def isatty(self) -> bool:
            raise ValueError("broken")

    file = Broken() if broken != "closed" else io.StringIO()
    if broken == "closed":
        file.close()
    watch(monkeypatch, file)
    compile_kernel()
    watch(monkeypatch, None)
    compile_kernel()


@pytest.mark.parametrize("bar", [True, False])
def test_a_terminal_gets_a_bar_for_each_kernel(
    stream: object, monkeypatch: pytest.MonkeyPatch, bar: bool
) -> None:
    if bar:
        pytest.importorskip("rich")
    else:
        monkeypatch.setitem(sys.modules, "rich.console", None)
    monkeypatch.setenv("TERM", "xterm")
    terminal = watch(monkeypatch, Terminal())
    for _ in range(2):
        compile_kernel(seconds=0.5)
    text = terminal.getvalue()
    assert text.startswith(LINE)
    assert text.count("cached in") == 1
    assert all((f"compiling kernel {number}" in text) == bar for number in (1, 2))


SLOW = """
import threading, time
from wirecodec.kernels.compiler.jit import kernel

@kernel
def double(x):
    return 2 * x

plain = double._compiler.compile
def compile(*args):
    time.sleep(0.8)
    return plain(*args)
double._compiler.compile = compile
threads = [threading.Thread(target=double, args=(x,)) for x in (1, 1.5)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print("done")
"""


def run(tmp_path: Path, redirection: str = "", **env: str) -> subprocess.CompletedProcess[str]:
    """Run a program that compiles for a second, with standard error redirected by a shell."""
    source = tmp_path / "slow.py"
    source.write_text(SLOW)
    known = {name: value for name, value in os.environ.items() if name not in (notice.QUIET,)}
    return subprocess.run(
        ["bash", "-c", f'"{sys.executable}" -W error "{source}" {redirection}'],
        env={**known, "PYTHONPATH": str(ROOT), "NUMBA_CACHE_DIR": str(tmp_path / "cache"), **env},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )


def test_the_first_run_tells_and_the_second_is_quiet(tmp_path: Path) -> None:
    for expected in (f"wirecodec: compiling kernels, once; cached in {tmp_path / 'cache'}", ""):
        done = run(tmp_path)
        assert (done.returncode, done.stdout) == (0, "done\n")
        assert done.stderr.startswith(expected)
        assert done.stderr.count("\n") == 2 * bool(expected)
        assert ("compiled 2 kernels in" in done.stderr) == bool(expected)


@pytest.mark.parametrize("redirection", ["2>&-", "2> >(exec 0<&-)", "2>/dev/full"])
def test_closed_standard_error(tmp_path: Path, redirection: str) -> None:
    """The exit code is 120 if anything that cannot be written remains in the buffer of standard error."""
    done = run(tmp_path, redirection)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


def test_quiet_process(tmp_path: Path) -> None:
    assert run(tmp_path, WIRECODEC_QUIET="1").stderr == ""
