"""``wirecodec verify``: check whether files are valid containers."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from typing import Any

from wirecodec.cli.files import FileArgument, format_file, open_input
from wirecodec.cli.formatting import escape, format_count, format_os_error
from wirecodec.cli.options import add_command, add_file, add_imports, add_limit_options, get_limits
from wirecodec.container.stream import Unit, iter_stream
from wirecodec.errors import Truncated, WireError
from wirecodec.limits import DEFAULT_LIMITS, DecodeLimits
from wirecodec.pipeline import decode_many

VALID, INVALID, UNREADABLE = range(3)
"""Exit codes; that of several files is the highest of theirs."""


def add_to(commands: Any) -> None:
    """Add the subcommand."""
    command = add_command(
        commands,
        "verify",
        _run,
        "Check whether files are valid containers",
        "Every container is decoded, and every file is reported. The exit code is 2 if a file cannot be "
        "read, else 1 if a file is not valid, else 0.",
    )
    add_file(command, "containers one after the other", name="files", nargs="+", metavar="file")
    add_imports(command)
    command.add_argument("--json", action="store_true", help="print one JSON object per file and line")
    add_limit_options(command, DEFAULT_LIMITS)


def _run(options: argparse.Namespace) -> int:
    limits = get_limits(options)
    worst = VALID
    for file in options.files:
        report = _check(file, limits)
        if options.json:
            print(json.dumps(report))
        elif "code" in report or "kind" not in report:
            print(_format_report(report, format_file(file)))
        else:
            sys.stdout.flush()  # keeps the order of both streams if they are one terminal
            print(f"wirecodec: {escape(report['message'])}", file=sys.stderr)
        worst = max(worst, _grade(report))
    return worst


def _grade(report: Mapping[str, Any]) -> int:
    """Return the exit code of one file."""
    if "kind" not in report:
        return VALID
    return INVALID if "code" in report else UNREADABLE


def _check(file: FileArgument, limits: DecodeLimits) -> dict[str, Any]:
    """Decode all containers of a file.

    Returns:
        ``file``, and the number of valid ``containers`` and their ``bytes``. If the file is not valid, also
        the error's ``kind``, ``code`` and ``message``, the number of the ``container``, its ``entry``, and
        the ``offset`` in the file. Numbers count from 0; unknown ones are None. If the file cannot be read,
        only ``kind`` and ``message`` are added.
    """
    report: dict[str, Any] = {"file": str(file), "containers": 0, "bytes": 0}
    try:
        with open_input(file) as opened:
            for part in iter_stream(opened, limits=limits):
                if not isinstance(part, Unit):
                    decode_many(part, limits=limits)
                    report["containers"] += 1
                report["bytes"] += part.nbytes
        if not report["containers"]:
            raise Truncated("prefix", "the file is empty")
    except WireError as error:
        offset = None if error.offset is None else report["bytes"] + error.offset
        report |= {"kind": type(error).__name__, "code": error.code, "message": error.message}
        report |= {"container": report["containers"], "offset": offset, "entry": error.entry}
    except OSError as error:
        report |= {"kind": type(error).__name__, "message": format_os_error(error)}
    return report


def _format_report(report: Mapping[str, Any], name: str) -> str:
    """Format a report as one line."""
    if "code" not in report:
        count = format_count(report["containers"], "container", "containers")
        return f"{escape(name)}: valid, {count}, {report['bytes']:,} bytes"
    places = [f"{key} {report[key]}" for key in ("container", "entry") if report[key] is not None]
    places += [f"byte {report['offset']}"] if report["offset"] is not None else []
    error = f"{report['kind']} {report['code']}: {escape(report['message'])}"
    return f"{escape(name)}: {error} ({', '.join(places)})"
