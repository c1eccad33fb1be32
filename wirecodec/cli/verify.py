"""``wirecodec verify``: check whether files are valid containers."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from wirecodec.cli.formatting import escape, format_count
from wirecodec.cli.options import add_command, add_limit_options, get_limits
from wirecodec.container.stream import iter_blobs
from wirecodec.errors import Truncated, WireError
from wirecodec.limits import DEFAULT_LIMITS, DecodeLimits
from wirecodec.pipeline import decode_many

__all__ = ["add_to"]


def add_to(commands: Any) -> None:
    """Add the subcommand."""
    command = add_command(
        commands,
        "verify",
        _run,
        "Check whether files are valid containers",
        "Every container is decoded. The exit code is 1 if a file is not valid.",
    )
    command.add_argument("files", type=Path, nargs="+", metavar="file", help="containers one after the other")
    command.add_argument("--json", action="store_true", help="print one JSON object per file and line")
    add_limit_options(command, DEFAULT_LIMITS)


def _run(options: argparse.Namespace) -> int:
    limits = get_limits(options)
    reports = [_check(path, limits) for path in options.files]
    for report in reports:
        print(json.dumps(report) if options.json else _format_report(report))
    return int(any("code" in report for report in reports))


def _check(path: Path, limits: DecodeLimits) -> dict[str, Any]:
    """Decode all containers of a file.

    Returns:
        ``file``, and the number of valid ``containers`` and their ``bytes``. If the file is not valid, also
        the error's ``kind``, ``code`` and ``message``, the number of the ``container``, its ``entry``, and
        the ``offset`` in the file. Numbers count from 0; unknown ones are None.

    Raises:
        OSError: the file cannot be read.
    """
    report: dict[str, Any] = {"file": str(path), "containers": 0, "bytes": 0}
    try:
        with path.open("rb") as file:
            for blob in iter_blobs(file, limits=limits):
                decode_many(blob, limits=limits)
                report["containers"] += 1
                report["bytes"] += blob.size
        if not report["containers"]:
            raise Truncated("prefix", "the file is empty")
    except WireError as error:
        offset = None if error.offset is None else report["bytes"] + error.offset
        report |= {"kind": type(error).__name__, "code": error.code, "message": error.message}
        report |= {"container": report["containers"], "offset": offset, "entry": error.entry}
    return report


def _format_report(report: Mapping[str, Any]) -> str:
    """Format a report as one line."""
    file = escape(report["file"])
    count = format_count(report["containers"], "container", "containers")
    if "code" not in report:
        return f"{file}: valid, {count}, {report['bytes']:,} bytes"
    places = [f"{name} {report[name]}" for name in ("container", "entry") if report[name] is not None]
    places += [f"byte {report['offset']}"] if report["offset"] is not None else []
    return f"{file}: {report['kind']} {report['code']}: {escape(report['message'])} ({', '.join(places)})"
