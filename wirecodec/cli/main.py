"""Entry point of the command: parsing, exit codes, and errors as one line."""

from __future__ import annotations

import argparse
import io
import os
import signal
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NoReturn

from wirecodec.cli import (
    advise,
    apply,
    bench,
    codecs,
    compare,
    decode,
    diff,
    encode,
    feed,
    inspect,
    presets,
    rounds,
    stats,
    verify,
    warm,
)
from wirecodec.cli.completion import add_completion
from wirecodec.cli.formatting import escape, format_os_error, shorten
from wirecodec.cli.options import Parser, import_modules
from wirecodec.cli.picture import load_classes
from wirecodec.version import __version__

_COMMANDS = (
    encode,
    decode,
    diff,
    apply,
    inspect,
    verify,
    codecs,
    presets,
    stats,
    bench,
    compare,
    advise,
    rounds,
    feed,
    warm,
)
_MAX_MESSAGE_WIDTH = 2000

ERROR = 2
INTERRUPTED = 130  # 128 + SIGINT, like a shell
CLOSED_PIPE = 141  # 128 + SIGPIPE


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one subcommand.

    Args:
        arguments: the words after ``wirecodec``; None for those of this process.

    Returns:
        The exit code: 0 for success; 1 if ``verify`` or ``inspect`` finds a file that is not valid;
        2 for an error, which is one line on standard error; 130 after Ctrl-C; 141 if the reader of standard
        output has closed it.

    Raises:
        SystemExit: with code 0, after ``--help``, ``--version`` or ``--print-completion``.

    Examples:
        >>> main(["decode", "missing.wc", "-o", "grad.npy"])
        2
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # for encodings without "×"
    options = None
    try:
        options = _parse(arguments)
        with _short_warnings():
            status: int = options.run(options)
        _flush_output()
        return status
    except BrokenPipeError:
        return CLOSED_PIPE
    except KeyboardInterrupt:
        return _report("interrupted", INTERRUPTED)
    except MemoryError as error:
        cause = f": {error}" if str(error) else ""
        hint = "; --max-dense limits what is allocated" if hasattr(options, "max_dense") else ""
        return _report(f"not enough memory{cause}{hint}")
    except OSError as error:
        return _report(format_os_error(error))
    except (ValueError, RuntimeError) as error:
        return _report(str(error))
    finally:
        _discard_unwritable_output()


def run() -> NoReturn:
    """Run the command as a process, and end it with the exit code.

    After Ctrl-C the process ends by SIGINT, whose exit code is 130 for a shell. It thus ends at once: the
    usual end of an interpreter waits for threads, and those may be compiling.
    """
    status = main()
    if status == INTERRUPTED:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.raise_signal(signal.SIGINT)
    sys.exit(status)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parse the options of a subcommand, and check what is needed before anything is measured.

    argparse does not take schemes after an option, if others or a file come before it.
    """
    parser = _make_parser()
    options, rest = parser.parse_known_args(arguments)
    if rest and (not hasattr(options, "schemes") or any(word.startswith("-") for word in rest)):
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    if rest:
        options.schemes += rest
    if getattr(options, "png", None) is not None:
        load_classes()
    import_modules(getattr(options, "modules", ()))
    return options


def _make_parser() -> Parser:
    """Make the parser of the command and all its subcommands."""
    parser = Parser(prog="wirecodec", description="Encode sparse gradients as compact bytes.")
    parser.add_argument("--version", action="version", version=f"wirecodec {__version__}")
    add_completion(parser)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for command in _COMMANDS:
        command.add_to(commands)
    return parser


@contextmanager
def _short_warnings() -> Iterator[None]:
    """Print warnings as one line each, without the place in the source."""
    before = warnings.formatwarning

    def format_warning(message: Any, *place: Any, **line: Any) -> str:
        return f"warning: {shorten(escape(' '.join(str(message).split())), _MAX_MESSAGE_WIDTH)}\n"

    warnings.formatwarning = format_warning
    try:
        yield
    finally:
        warnings.formatwarning = before


def _report(message: str, status: int = ERROR) -> int:
    """Print a message as one line on standard error, and return the exit code."""
    print(f"wirecodec: {shorten(escape(message), _MAX_MESSAGE_WIDTH)}", file=sys.stderr)
    return status


def _discard_unwritable_output() -> None:
    """Redirect standard output to the null device if it cannot be written.

    The interpreter flushes it again when it ends, and would print a second error.
    """
    try:
        _flush_output()
    except OSError:
        with suppress(OSError), open(os.devnull, "wb") as null:
            os.dup2(null.fileno(), sys.stdout.fileno())


def _flush_output() -> None:
    """Flush standard output, which is None if it was closed before the start."""
    if sys.stdout is not None:
        sys.stdout.flush()
