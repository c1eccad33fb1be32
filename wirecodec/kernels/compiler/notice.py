"""Notice of compilation: lines on standard error for who waits for the first call of a program.

The first line appears once per process, after half a second of compilation. On a terminal, a bar follows
while kernels are compiled, if rich is installed. Nobody knows how many kernels will follow: calls find them
one by one. So the second line, with the seconds, appears when no kernel was compiled for a while, or when the
program ends. Of the ranks on one machine, only the first one prints.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import TextIO

from wirecodec.kernels.uninterrupted import Latch

QUIET = "WIRECODEC_QUIET"
"""Environment variable: any value but 0 and the empty one turns the notice off."""

DELAY_SECONDS = 0.5
IDLE_SECONDS = 3.0
"""Seconds without a compilation after which the second line appears."""

_LOCAL_RANKS = ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID")
"""Environment variables in which torchrun, Open MPI, MPICH and Slurm number the processes of a machine."""

_spent: list[float] = []
"""Seconds of each compilation of this process, waits for other processes included."""
_running: list[None] = []
"""An element per compilation that is not finished."""
_told = threading.Lock()
"""Held from the first line on."""
_ended = threading.Lock()
"""Held from the second line on."""
_bar = threading.Lock()
"""Held while a bar is shown, because a terminal has room for one."""


@contextlib.contextmanager
def tell_of_compilation(find_folder: Callable[[], str | None]) -> Iterator[None]:
    """Print the notice if compilation in this block and those before it takes half a second in all.

    Args:
        find_folder: returns the cache folder, or None if kernels are not cached.
    """
    stream = sys.stderr
    if stream is None or not _is_wanted(stream):
        yield
        return
    start, done = time.perf_counter(), Latch()
    watcher = threading.Thread(target=_watch, args=(done, find_folder, stream), daemon=True)
    started = False
    if not _told.locked() or _is_terminal(stream):
        with contextlib.suppress(RuntimeError):  # the system has no thread left, or the interpreter ends
            watcher.start()
            started = True
    _running.append(None)
    try:
        yield
    finally:
        _spent.append(time.perf_counter() - start)
        _running.pop()
        done.set()
        if started:
            watcher.join()


def _is_wanted(stream: TextIO) -> bool:
    """Return whether this process may print, and has a place for it."""
    if os.environ.get(QUIET, "0") not in ("", "0") or getattr(stream, "closed", False):
        return False
    return all(os.environ.get(name, "0") == "0" for name in _LOCAL_RANKS)


def _watch(done: Latch, find_folder: Callable[[], str | None], stream: TextIO) -> None:
    """Print the line when it is due, and show a bar until ``done``; whatever fails is left out."""
    if done.wait_for(DELAY_SECONDS - sum(_spent)):
        return
    with contextlib.suppress(Exception):
        if _told.acquire(blocking=False):
            folder = find_folder()
            if folder is None:
                return  # a warning has said so
            _write(stream, f"wirecodec: compiling kernels, once; cached in {folder}\n")
            atexit.register(_tell_end, stream, os.getpid())
            threading.Thread(target=_await_end, args=(stream,), daemon=True).start()
        if _is_terminal(stream) and _bar.acquire(blocking=False):
            try:
                _show_bar(done, stream)
            finally:
                _bar.release()


def _await_end(stream: TextIO) -> None:
    """Print the second line when no kernel was compiled for a while."""
    count = -1
    while _running or len(_spent) != count:
        count = len(_spent)
        time.sleep(IDLE_SECONDS)
    _tell_end(stream, os.getpid())


def _tell_end(stream: TextIO, process: int) -> None:
    """Print the second line, once, unless this is a fork of the process that printed the first one."""
    with contextlib.suppress(Exception):
        if os.getpid() == process and _ended.acquire(blocking=False):
            kernels = f"{len(_spent)} kernel{'' if len(_spent) == 1 else 's'}"
            _write(stream, f"wirecodec: compiled {kernels} in {sum(_spent):.1f} s\n")


def _write(stream: TextIO, line: str) -> None:
    """Write a line.

    A line that cannot be written must not remain in the interpreter's buffer, because the interpreter would
    end with an error. The process's own standard error is therefore written without the buffer.
    """
    if stream is sys.__stderr__:
        os.write(stream.fileno(), line.encode(stream.encoding, "backslashreplace"))
    else:
        stream.write(line)
        stream.flush()


def _is_terminal(stream: TextIO) -> bool:
    """Return whether a stream is a terminal."""
    try:
        return bool(stream.isatty())
    except (AttributeError, ValueError):
        return False


def _show_bar(done: Latch, stream: TextIO) -> None:
    """Show a bar for the present kernel until ``done``, if rich is installed."""
    try:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
    except ImportError:
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(
        *columns,
        console=Console(file=stream),
        transient=True,
        refresh_per_second=4,
        redirect_stdout=False,
        redirect_stderr=False,
    ) as progress:
        progress.add_task(f"compiling kernel {len(_spent) + 1}", total=None)
        done.wait()
