"""Work of ``wirecodec feed``; ``wirecodec/cli/feed.py`` has its options."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from datetime import datetime, timezone
from itertools import islice

from collectives.feed.archive import Archive, Report
from collectives.feed.layout import FOLDER
from collectives.feed.record import MAX_BODY, Version
from collectives.store.envelope import check_everyone, hash_run
from collectives.store.opening import explained, open_files
from wirecodec.cli.formatting import escape, format_count, format_table

_MOST_READERS = 1000


def run(options: argparse.Namespace) -> int:
    """Read the records of a feed, and print the page; the options are those of ``wirecodec feed``."""
    if options.last < 1:
        raise ValueError(f"--last is {options.last}; it must be 1 or more")
    files = open_files(options.url, options.storage_options)
    name = files.root.rpartition("/")[2]
    archive = Archive(files.below(FOLDER), hash_run(name, b"feed"), check_everyone, MAX_BODY)
    with explained(options.url):
        total = len(set(archive.list_numbers()))
        found = list(islice(archive.iterate_newest(), options.last))[::-1]
        reports = list(islice(archive.iterate_reports(), _MOST_READERS)) if found else []
    if not found:
        raise ValueError(f"{options.url} has no version of a feed; give the folder of a run, URL/RUN")
    print(_to_json(name, found, reports) if options.json else format_feed(name, total, found, reports))
    return 0


def format_feed(name: str, total: int, versions: Sequence[Version], reports: Sequence[Report] = ()) -> str:
    """Format versions as a table, the newest last, and the readers that report theirs as another one."""
    newest = versions[-1]
    title = (
        f"{escape(name)}: version {newest.number}; {newest.nbytes:,} bytes in"
        f" {format_count(newest.tensors, 'tensor', 'tensors')}; {format_count(total, 'version', 'versions')}"
        " in the store; signatures are not checked here"
    )
    header = ("version", "written (UTC)", "changed", "bytes", "of the state", "over more versions", "anchor")
    lines = [title, "", *format_table(header, [_format_row(one) for one in versions], left={1})]
    if reports:
        readers = [
            (one.name, str(one.version), str(newest.number - one.version), _format_time(one.written))
            for one in reports
        ]
        lines += ["", *format_table(("reader", "version", "behind", "since (UTC)"), readers, left={0, 3})]
    return "\n".join(lines)


def _format_time(microseconds: int) -> str:
    """Format a time since 1970, which others have written."""
    try:
        return f"{datetime.fromtimestamp(microseconds / 1e6, timezone.utc):%Y-%m-%d %H:%M:%S}"
    except (ValueError, OverflowError, OSError):  # no time of the calendar
        return "-"


def _format_row(one: Version) -> list[str]:
    """Return the cells of a version."""
    patch, skips, anchor = _divide(one)
    return [
        str(one.number),
        _format_time(one.written),
        f"{one.changed / max(one.elements, 1):.2%}",
        "-" if patch is None else f"{patch:,}",
        "-" if patch is None else f"{patch / max(one.nbytes, 1):.2%}",
        f"{skips:,}" if skips else "-",
        "-" if anchor is None else f"{anchor:,}",
    ]


def _divide(one: Version) -> tuple[int | None, int, int | None]:
    """Return the bytes of the patch from the version before, of further patches, and of the anchor."""
    sizes = {part.base: part.size for part in one.parts}
    patch, anchor = sizes.pop(one.number - 1, None), sizes.pop(None, None)
    return patch, sum(sizes.values()), anchor


def _to_json(name: str, versions: Sequence[Version], reports: Sequence[Report]) -> str:
    newest = versions[-1].number
    rows = []
    for one in versions:
        patch, skips, anchor = _divide(one)
        rows.append(
            {
                "version": one.number,
                "written": one.written / 1e6,
                "changed": one.changed,
                "elements": one.elements,
                "state_bytes": one.nbytes,
                "bytes": patch,
                "skip_bytes": skips,
                "anchor_bytes": anchor,
                "digest": f"{one.digest:016x}",
            }
        )
    readers = [
        {"reader": who, "version": number, "behind": newest - number, "written": written / 1e6}
        for who, number, written in reports
    ]
    return json.dumps({"feed": name, "versions": rows, "readers": readers}, indent=2)
