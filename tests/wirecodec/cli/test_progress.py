"""Progress of long work, and Ctrl-C."""

from __future__ import annotations

import io
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from wirecodec.cli import main


class Terminal(io.StringIO):
    """A stream that somebody watches."""

    def isatty(self) -> bool:
        return True


def watch(monkeypatch: pytest.MonkeyPatch, bar: bool) -> Terminal:
    """Make standard error a terminal, with a bar of rich or without."""
    monkeypatch.setenv("TERM", "xterm")  # rich draws nothing on a dumb one
    if bar:
        pytest.importorskip("rich")
    else:
        monkeypatch.setitem(sys.modules, "rich.console", None)
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    return terminal


@pytest.mark.parametrize("bar", [True, False])
def test_long_work_shows_how_far_it_got(
    grad: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], bar: bool
) -> None:
    terminal = watch(monkeypatch, bar)
    assert main(["bench", str(grad)]) == 0
    assert "measuring" in terminal.getvalue()
    if not bar:
        line, end = terminal.getvalue().rsplit("\r", 2)[::2]
        assert line.startswith("\rmeasuring …   0 %\rmeasuring … ")
        assert end == ""  # the line was erased
    assert "measuring" not in capsys.readouterr().out


@pytest.mark.parametrize("bar", [True, False])
def test_ctrl_c_during_progress_is_one_line(grad: Path, monkeypatch: pytest.MonkeyPatch, bar: bool) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    terminal = watch(monkeypatch, bar)
    monkeypatch.setattr("wirecodec.cli.bench.measure_medians", interrupt)
    assert main(["bench", str(grad)]) == 130
    assert terminal.getvalue().endswith("wirecodec: interrupted\n")
    assert "Traceback" not in terminal.getvalue()


def test_ctrl_c_ends_the_process_by_its_signal() -> None:
    """A shell then reports 130, and stops its own loop; the interpreter does not wait for its threads."""
    code = (
        "import importlib, threading\n"
        "m = importlib.import_module('wirecodec.cli.main')\n"
        "threading.Thread(target=threading.Event().wait).start()\n"
        "m.main = lambda: 130\n"
        "m.run()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, b"", b"")
