"""File arguments: a path, or "-" for standard input or output."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Literal, TypeAlias, cast

from wirecodec.errors import EncodeError

STANDARD: Literal["-"] = "-"
"""Argument for standard input or output. A file of this name is ``./-``."""

FileArgument: TypeAlias = Path | Literal["-"]


def parse_file(text: str) -> FileArgument:
    """Parse a file argument.

    Examples:
        >>> parse_file("-"), parse_file("./-").name
        ('-', '-')
    """
    return STANDARD if text == STANDARD else Path(text)


def format_file(file: FileArgument) -> str:
    """Format a file argument that is read, for messages."""
    return str(file) if isinstance(file, Path) else "standard input"


def name_of(file: FileArgument) -> str:
    """Return the last part of a file's path, for titles; "standard input" for "-"."""
    return file.name if isinstance(file, Path) else format_file(file)


@contextmanager
def open_input(file: FileArgument) -> Iterator[BinaryIO]:
    """Open a file, or standard input, for reading from front to back.

    Raises:
        OSError: the file cannot be read.
    """
    if isinstance(file, Path):
        with file.open("rb") as opened:
            yield opened
    else:
        yield find_stream(sys.stdin)


def find_stream(text: object) -> BinaryIO:
    """Return the binary stream of standard input or output.

    Raises:
        OSError: the stream is closed, as in ``wirecodec … <&-``.
    """
    stream = getattr(text, "buffer", None)
    if not isinstance(stream, io.IOBase):
        raise OSError("the standard stream is closed")
    return cast("BinaryIO", stream)


@contextmanager
def name_file(file: FileArgument) -> Iterator[None]:
    """Put the name of a file before the messages of errors that its content causes.

    Raises:
        ValueError: the block raised a ValueError, such as ``EncodeError`` or ``WireError``.
    """
    try:
        yield
    except EncodeError as error:
        if error.tensor == name_of(file):  # the only array of a .npy, whose file is named already
            error = EncodeError(error.reason, position=error.position)
        raise ValueError(f"{format_file(file)}: {error}") from None
    except ValueError as error:
        raise ValueError(f"{format_file(file)}: {error}") from None
