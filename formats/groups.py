"""Run one program over all golden vectors, group after group (contract: vectors/README.md).

    python formats/groups.py "COMMAND"                        every group
    python formats/groups.py --without patches "COMMAND"      not the patches of weights
    python formats/groups.py --without zstd "COMMAND"         nothing that names this codec
    python formats/groups.py --only streams "COMMAND"         one group
    python formats/groups.py --text "COMMAND"                 also the text form, which this program prints

The program is started once for each vector, and its argument tells what is asked. In the archive that
``make dist`` builds, this is run.py. It needs Python and nothing else.
"""

from __future__ import annotations

import argparse
import importlib
import os
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
if __name__ == "__main__":
    sys.path[:0] = [str(HERE.parent)]

from formats import conformance, indexes, patches, peers, program, streams, texts  # noqa: E402
from formats.zstd import find_decompressor  # noqa: E402

TEXT = "text"
"""The group that a program of its own passes."""
SHOWN = 300
"""Number of characters of a failure that are shown."""

Check = Callable[[Any], str | None]
"""Checks a vector; returns the description of a failure, or None."""


@dataclass(frozen=True)
class Group:
    """Vectors of one kind, and how a program is asked about one of them."""

    load: Callable[[], Iterable[Any]]
    ask: Callable[[Sequence[str]], Check]


def list_groups(vectors: Path) -> dict[str, Group]:
    """Return the groups by name, in the order in which they run."""
    groups = {
        "containers": Group(
            partial(conformance.load_all, vectors),
            lambda command: partial(conformance.check, program.run_program(command)),
        ),
        "streams": Group(
            partial(streams.load_streams, vectors),
            lambda command: partial(
                _check_stream, program.run_splitter(command, streams.UNITS), streams.UNITS
            ),
        ),
        "streams-skipping": Group(
            partial(streams.load_streams, vectors),
            lambda command: partial(
                _check_stream, program.run_splitter(command, streams.CONTAINERS), streams.CONTAINERS
            ),
        ),
        "indexes": Group(
            partial(indexes.load_indexes, vectors),
            lambda command: partial(indexes.check_index, program.run_indexer(command)),
        ),
        "patches": Group(
            partial(patches.load_patches, vectors),
            lambda command: partial(patches.check_patch, program.run_patcher(command)),
        ),
    }
    for folder in peers.PEERS:
        groups[folder] = Group(
            partial(peers.load_questions, folder, vectors),
            lambda command: partial(peers.check_answers, program.run_peer(command)),
        )
    groups[TEXT] = Group(
        partial(texts.load_samples, vectors),
        lambda command: partial(texts.check_text, program.run_text(command)),
    )
    return groups


def _check_stream(split: streams.Split, kind: str, stream: streams.Stream) -> str | None:
    return streams.check_stream(split, stream, kind)


def _select(samples: Iterable[Any], without: Mapping[str, set[int]]) -> Iterator[Any]:
    """Yield the vectors that use none of these ids. What peers are asked is no container."""
    for sample in samples:
        if not conformance.uses(getattr(sample, "data", b""), without):
            yield sample


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    names = list(list_groups(conformance.DEFAULT_DIR))
    parser = argparse.ArgumentParser(prog="run.py", description="Run a program over all golden vectors.")
    parser.add_argument(
        "program", nargs="?", help="command of a program; FILE in it is the path of its input"
    )
    parser.add_argument("--text", metavar="COMMAND", help="a program that prints the text form")
    parser.add_argument("--only", metavar="GROUP", action="append", choices=names, help=", ".join(names))
    parser.add_argument(
        "--without", metavar="NAME", action="append", default=[], help="a group, or a name of registry.toml"
    )
    parser.add_argument("--core", action="store_true", help="containers of the core profile alone")
    parser.add_argument("--version", help="containers in the lists of this version alone, such as 1.0")
    parser.add_argument("--vectors", type=Path, default=conformance.DEFAULT_DIR, help="another folder")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="programs that run at once")
    options = parser.parse_args(arguments)
    if not (options.program or options.text):
        parser.error("the command of a program is missing")
    asked = [name for name in options.only or names if name not in options.without]
    options.names = [name for name in asked if (options.text if name == TEXT else options.program)]
    try:
        options.ids = conformance.find_ids({name for name in options.without if name not in names})
    except ValueError as error:
        parser.error(str(error))
    if TEXT in options.names and find_decompressor() is None and "zstd" not in options.without:
        parser.error("the texts of zstd need Python 3.14 or the package zstandard: --without zstd")
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return 0 if all vectors pass, else 1."""
    options = _parse(arguments)
    groups, failed = list_groups(options.vectors), False
    which = {"core": options.core, "version": options.version}
    groups["containers"] = Group(
        partial(conformance.load_all, options.vectors, **which), groups["containers"].ask
    )
    with ThreadPoolExecutor(options.jobs) as pool:
        for name in options.names:
            samples = list(_select(groups[name].load(), options.ids))
            check = groups[name].ask(shlex.split(options.text if name == TEXT else options.program))
            messages = list(pool.map(check, samples))
            for sample, message in zip(samples, messages, strict=True):
                if message is not None:
                    print(f"{sample.id}: {message[:SHOWN]}")
            passed = messages.count(None)
            failed |= passed < len(samples) or not samples
            print(f"{name}: {passed} of {len(samples)} vectors pass", flush=True)
    return int(failed or not options.names)


if __name__ == "__main__":
    sys.exit(importlib.import_module("formats.groups").main())
