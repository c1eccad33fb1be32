"""Mutation testing of the C decoder: finds changes to formats/c/wirecodec.h that no golden vector detects.

    python -m tests.fuzz.mutants_c [--later] [--sample N] [--seed N] [--minutes N] [--verdicts FILE] [--write]

A mutant has one operator, constant, condition or refusal of one line changed. It is compiled with the
sanitizers of tests/formats/test_c.py. It is killed if it answers a vector in another way, crashes or hangs.
The vectors that take longest are asked last, and only of mutants that answer the others rightly.

Its options are those of tests/fuzz/mutants.py, and so are the pages. ``--later`` changes the readers of
version 1.1, which include the splitter of streams (wirecodec_stream.h).
"""

from __future__ import annotations

import json
import random
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from formats import conformance
from formats.make_vectors import VECTORS
from formats.streams import CONTAINERS, UNITS, load_streams
from tests.formats.test_c import SANITIZERS, Check, outcome, request
from tests.fuzz import mutant_pages
from tests.fuzz.mutant_pages import Row, Verdict
from tests.fuzz.mutants import parse_options, try_mutants
from tests.golden import vectors

SOURCES = Path(conformance.__file__).resolve().parent / "c"
SECONDS = 30
"""CPU seconds that a program may take. Wall time would count a slow machine as a killed mutant."""
SLOW = 0.004
"""Seconds from which on a vector is asked last."""
SWAPS = (
    *(("<=", "<"), (">=", ">"), ("==", "!="), ("!=", "=="), ("&&", "||"), ("||", "&&")),
    *(("<<", ">>"), (">>", "<<"), (" < ", " <= "), (" > ", " >= "), (" + ", " - "), (" - ", " + ")),
    *((" * ", " + "), (" % ", " * "), (" / ", " * "), (" & ", " | "), (" | ", " & ")),
)
NUMBER = re.compile(r"(?<![\w.])\d+(?=[uUlL]*\b)(?![.\w]*\.)")
REFUSAL = re.compile(r"return wc_(malformed|invalid|limit|unsupported|mismatch|truncated|refuse)\w*\(.*?\);")
CONDITION = re.compile(r"\b(?:if|while) \((.*)\)(?= )")
FUNCTION = re.compile(r"static inline .*?\b(wc_\w+)\(")
DECODER, SPLITTER = "wirecodec.h", "wirecodec_stream.h"
PROGRAMS = {DECODER: "check.c", SPLITTER: "split.c"}
"""The headers, and the programs that read with them."""
LATER = re.compile(
    r"wirecodec\.h: wc_(width|number_width|copy_numbers|raw|record_at|is_known|record_fits|check_types"
    r"|text_at|next_text|check_meta|check_digest|check_semantics|rotate|sha256_\w+|digest_fits|check_sections|read_entry)"
    r"|wirecodec_stream\.h: \w+"
)
"""The functions that read version 1.1."""
SPLITS = [
    *((["4096"], UNITS), (["7"], UNITS), (["-s", "7"], UNITS)),
    *((["1"], CONTAINERS), (["-m", "5"], CONTAINERS)),
]
"""How the stream vectors are split: options of the program, and kind."""
SPLIT_SECONDS = 2
"""CPU seconds for one stream."""


@dataclass(frozen=True)
class Mutant:
    """A line of the header (from 0), its function, its new text, and the change in words."""

    line: int
    function: str
    text: str
    change: str


def list_mutants(lines: Sequence[str]) -> Iterator[Mutant]:
    """Yield every mutant; comments, declarations of constants and preprocessor lines are left alone."""
    comment, function = False, ""
    for at, line in enumerate(lines):
        if begins := FUNCTION.match(line):
            function = begins[1]
        if "/*" in line:
            comment = True
        if comment:
            comment = "*/" not in line
            continue
        if line.lstrip().startswith(("#", "*", '"')) or not line.startswith(" "):
            continue
        for old, new in SWAPS:
            for found in re.finditer(re.escape(old), line):
                if old in ("<=", ">=") and line[found.start() - 1] in "<>":
                    continue
                text = line[: found.start()] + new + line[found.end() :]
                yield Mutant(at, function, text, f"{old.strip()} -> {new.strip()}")
        for found in NUMBER.finditer(line):
            for number in (int(found[0]) + 1, int(found[0]) - 1):
                if number >= 0:
                    text = line[: found.start()] + str(number) + line[found.end() :]
                    yield Mutant(at, function, text, f"{found[0]} -> {number}")
        if refusal := REFUSAL.search(line):
            text = line[: refusal.start()] + ";" + line[refusal.end() :]
            yield Mutant(at, function, text, "no refusal")
        if condition := CONDITION.search(line):
            for value in "01":
                text = line[: condition.start(1)] + value + line[condition.end(1) :]
                yield Mutant(at, function, text, f"condition {value}")


def build(folder: Path, text: str, header: str = DECODER) -> Path | None:
    """Compile the program of a header that has this text; return None if it does not compile."""
    for name in PROGRAMS:
        shutil.copy(SOURCES / name, folder / name)
    (folder / header).write_text(text, encoding="utf-8")
    source = shutil.copy(SOURCES / PROGRAMS[header], folder)
    program = folder / Path(PROGRAMS[header]).stem
    command = ["cc", "-std=c99", "-O0", "-w", *SANITIZERS, "-o", str(program), str(source)]
    return program if subprocess.run(command, capture_output=True, check=False).returncode == 0 else None


def answer(command: Sequence[str | Path], requests: bytes, seconds: int = SECONDS) -> bytes | None:
    """Return the answers to all requests, or None if the program crashes or runs too long."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))

    done = subprocess.run(command, input=requests, capture_output=True, check=False, preexec_fn=limit)
    return done.stdout if done.returncode == 0 else None


def split_requests(program: Path) -> list[tuple[bytes, bytes]]:
    """Return the requests for vectors of 1.1, other fast ones, and slow ones, each with the right answers."""
    parts: list[list[bytes]] = [[], [], []]
    later = {Path(line.split()[1]).stem for line in (VECTORS / "1.1.sha256").read_text().splitlines()}
    running = Check(program)
    for v in vectors():
        start = time.perf_counter()
        outcome(running.decode, v.data, v.limits, v.expected)
        slow = time.perf_counter() - start > SLOW
        parts[2 if slow else 0 if v.id in later else 1].append(request(v.data, v.limits, v.expected))
    running.close()
    found = []
    for part in map(b"".join, parts):
        right = answer([program], part)
        assert right is not None
        found.append((part, right))
    return found


def split_commands() -> list[tuple[list[str], bytes]]:
    """Return the arguments of the splitter and the stream, for each vector and each of ``SPLITS``."""
    return [
        ([*options, json.dumps({"stream": kind, "limits": stream.limits})], stream.data)
        for options, kind in SPLITS
        for stream in load_streams()
    ]


class Judge:
    """The mutants of both headers, compiled in a folder, and the right answers of their programs.

    Args:
        folder: an empty folder.
        headers: names of the headers that are tried.
    """

    def __init__(self, folder: Path, headers: Sequence[str] = (DECODER,)) -> None:
        self.folder = folder
        self.lines = {name: (SOURCES / name).read_text(encoding="utf-8").splitlines() for name in headers}
        self.mutants = {name: list(list_mutants(lines)) for name, lines in self.lines.items()}

    @cached_property
    def parts(self) -> list[tuple[bytes, bytes]]:
        """The requests of ``split_requests``."""
        return split_requests(self._build_unchanged(DECODER))

    @cached_property
    def splits(self) -> list[tuple[list[str], bytes, bytes | None]]:
        """The arguments of the splitter, the stream, and the right answer."""
        program = self._build_unchanged(SPLITTER)
        return [
            (arguments, data, answer([program, *arguments], data, SPLIT_SECONDS))
            for arguments, data in split_commands()
        ]

    def _build_unchanged(self, header: str) -> Path:
        program = build(self.folder, "\n".join(self.lines[header]) + "\n", header)
        assert program is not None
        return program

    def is_killed(self, mutant: Mutant, header: str = DECODER) -> bool | None:
        """Return whether a mutant is detected, or None if it does not compile."""
        lines = self.lines[header]
        rights = self.parts if header == DECODER else self.splits  # made before the header is changed
        assert rights
        changed = [*lines[: mutant.line], mutant.text, *lines[mutant.line + 1 :]]
        program = build(self.folder, "\n".join(changed) + "\n", header)
        if program is None:
            return None
        if header == DECODER:
            return not all(answer([program], asked) == right for asked, right in self.parts)
        return not all(
            answer([program, *arguments], data, SPLIT_SECONDS) == right
            for arguments, data, right in self.splits
        )


def identify_mutants(header: str, lines: Sequence[str], every: Sequence[Mutant]) -> list[Row]:
    """Return the columns that identify each mutant on the page."""
    return mutant_pages.number_rows(
        (f"{header}: {m.function}", f"{m.change} in {mutant_pages.shorten(lines[m.line])}") for m in every
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return what ``try_mutants`` does."""
    options = parse_options("mutants_c", arguments)
    with tempfile.TemporaryDirectory() as name:
        judge = Judge(Path(name), tuple(PROGRAMS))
        every = {
            row: (header, mutant)
            for header, mutants in judge.mutants.items()
            for row, mutant in zip(
                identify_mutants(header, judge.lines[header], mutants), mutants, strict=True
            )
            if not options.later or LATER.fullmatch(row[0])
        }

        def judge_row(row: Row) -> Verdict | None:
            header, mutant = every[row]
            killed = judge.is_killed(mutant, header)
            return None if killed is None else Verdict.KILLED if killed else Verdict.SURVIVES

        rows = random.Random(options.seed).sample(list(every), len(every))
        return try_mutants("c-1.1" if options.later else "c", rows, judge_row, options)


if __name__ == "__main__":
    sys.exit(main())
