"""Options that several subcommands share: schemes, limits, and the way to add a subcommand."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import PurePath
from typing import Any, NoReturn

from wirecodec.cli.files import parse_file
from wirecodec.errors import EncodeError, LimitExceeded
from wirecodec.limits import UNLIMITED, DecodeLimits
from wirecodec.registry import stages_of, suggestion
from wirecodec.settings.presets import PRESETS, preset
from wirecodec.settings.scheme import LOSSLESS, Scheme

NO_LIMIT = UNLIMITED.max_dense
_LIMITS = {
    "max_bytes": "bytes of a container",
    "max_entries": "tensors and chunks of a container",
    "max_elements": "stored elements",
    "max_dense": "elements of all tensors, stored or not",
    "max_work": "steps of index codecs",
    "max_expansion": "stored elements per byte of the container",
}


class Parser(argparse.ArgumentParser):
    """Parser that reports a mistake in one line."""

    def error(self, message: str) -> NoReturn:
        """Raise ValueError instead of printing the usage."""
        raise ValueError(f"{message} (see {self.prog} --help)")


def add_command(
    commands: Any, name: str, run: Callable[[argparse.Namespace], int], summary: str, details: str = ""
) -> Any:
    """Add a subcommand.

    Args:
        commands: what ``ArgumentParser.add_subparsers`` returned.
        name: the word after ``wirecodec``.
        run: takes the parsed options and returns the exit code.
        summary: one sentence without its full stop, for the list of subcommands.
        details: further sentences for the subcommand's own help.

    Returns:
        The subcommand's parser, to add options to.
    """
    command = commands.add_parser(name, help=summary, description=f"{summary}. {details}".strip())
    command.set_defaults(run=run)
    return command


def add_file(command: Any, meaning: str, *, name: str = "file", **settings: Any) -> None:
    """Add an argument for a file that is read; "-" is standard input."""
    command.add_argument(name, type=parse_file, help=f"{meaning}; - is standard input", **settings)


def add_picture(command: Any, content: str) -> None:
    """Add ``--png``. If it is "-", the page goes to standard error."""
    command.add_argument(
        "--png",
        metavar="FILE",
        type=parse_file,
        help=f"draw {content}; needs Matplotlib; - is standard output",
    )


def add_imports(command: Any) -> None:
    """Add ``--import``, for modules that register codecs and selectors."""
    command.add_argument(
        "--import",
        metavar="MODULE",
        dest="modules",
        action="append",
        default=[],
        help="import a Python module first, which registers codecs or selectors of one's own; the current "
        "folder is searched, too; may be repeated",
    )


def import_modules(names: Sequence[str]) -> None:
    """Import the modules that ``--import`` names, also from the current folder.

    Raises:
        ValueError: a module is not found, or raises an error, or the name is that of a file.
    """
    if names and "" not in sys.path:
        sys.path.insert(0, "")  # as for `python -m`
    for name in names:
        if name.endswith(".py"):
            module = PurePath(name).stem
            raise ValueError(
                f"--import {name}: it takes the name of a module, not of a file: --import {module}, in the "
                "folder of the file"
            )
        try:
            import_module(name)
        except Exception as error:
            raise ValueError(f"--import {name}: {type(error).__name__}: {error}") from None


def add_scheme_options(command: Any) -> None:
    """Add ``--scheme`` and ``--preset``, which exclude each other."""
    group = command.add_mutually_exclusive_group()
    group.add_argument(
        "--scheme",
        help="selector | index codec | value codec, as in 'topk(0.01) | rice | qsgd', or a preset with "
        "overrides, as in 'dgc(ratio=0.01)' (default: lossless); wirecodec codecs and presets list all",
    )
    group.add_argument("--preset", help="a preset with overrides; the same as --scheme, but presets only")


def get_scheme(options: argparse.Namespace) -> Scheme:
    """Return the scheme that ``--scheme`` or ``--preset`` gives; the lossless one if neither is given.

    Raises:
        EncodeError: the scheme or preset is unknown.
    """
    if options.preset is not None:
        return preset(options.preset)
    return LOSSLESS if options.scheme is None else parse_scheme(options.scheme)


def parse_scheme(text: str) -> Scheme:
    """Parse a scheme, or a preset with its overrides.

    Text with "|" is a scheme. Text without it is a preset, even if a codec has the same name.

    Args:
        text: such as "topk(0.01) | rice | qsgd" or "dgc(ratio=0.01)".

    Raises:
        EncodeError: the text is neither.

    Examples:
        >>> str(parse_scheme("dgc(ratio=0.01, index=rice)"))
        'dgc(0.01) | rice | raw'
    """
    name = text.partition("(")[0].strip()
    if "|" not in text and name in PRESETS:
        return preset(text)
    if "|" in text or stages_of(name):
        return Scheme.parse(text)
    raise EncodeError(
        f"{text!r} is neither a preset nor a scheme such as 'topk(0.01) | rice | qsgd'"
        f"{suggestion(name, PRESETS)}"
    )


def add_limit_options(command: Any, defaults: DecodeLimits) -> None:
    """Add one option per field of ``DecodeLimits``, with these defaults."""
    group = command.add_argument_group(
        "limits", "A container above a limit is refused. N is an integer, or 'none' for no limit."
    )
    for name, meaning in _LIMITS.items():
        default = getattr(defaults, name)
        shown = "none" if default == NO_LIMIT else f"{default:,}"
        option = f"--{name.replace('_', '-')}"
        group.add_argument(
            option, metavar="N", type=_parse_limit, default=default, help=f"{meaning} (default: {shown})"
        )


def get_limits(options: argparse.Namespace) -> DecodeLimits:
    """Return the limits that the options of ``add_limit_options`` give."""
    return DecodeLimits(**{name: getattr(options, name) for name in _LIMITS})


@contextmanager
def name_limit_options() -> Iterator[None]:
    """Add the option that sets a limit to the message of ``LimitExceeded``."""
    try:
        yield
    except LimitExceeded as error:
        message = f"{error.message}; --{error.code} sets this limit"
        raise LimitExceeded(error.code, message, offset=error.offset, entry=error.entry) from None


def _parse_limit(text: str) -> int:
    """Parse a limit: an integer from 0 on, or "none"."""
    if text == "none":
        return NO_LIMIT
    if not text.isdecimal() or len(text) > 19:
        raise argparse.ArgumentTypeError(f"{text!r} is not an integer from 0 on, nor 'none'")
    return int(text)


def add_newest(command: Any, what: str) -> None:
    """Add the options of a page about what is in an object store.

    Args:
        command: the subcommand.
        what: names what the page lists, such as "rounds".
    """
    command.add_argument(
        "--last",
        metavar="N",
        type=int,
        default=20,
        help=f"newest {what} to read (default: %(default)s)",
    )
    command.add_argument(
        "--storage-options", metavar="JSON", help='of the file system: \'{"endpoint_url": "http://…"}\''
    )
