"""Mutation testing of the C decoder: finds changes to formats/c/wirecodec.h that no golden vector detects.

    python -m tests.fuzz.mutants_c [--sample N] [--seed N]

A mutant has one operator, constant, condition or refusal of one line changed. It is compiled with the
sanitizers of tests/formats/test_c.py. It is killed if it answers a vector in another way, crashes or hangs.
The vectors that take longest are asked last, and only of mutants that answer the others rightly.
"""

from __future__ import annotations

import argparse
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
from pathlib import Path

from formats import conformance
from tests.formats.test_c import SANITIZERS, Check, outcome, request
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


@dataclass(frozen=True)
class Mutant:
    """A line of the header (from 0), its new text, and the change in words."""

    line: int
    text: str
    change: str


def list_mutants(lines: Sequence[str]) -> Iterator[Mutant]:
    """Yield every mutant; comments, declarations of constants and preprocessor lines are left alone."""
    comment = False
    for at, line in enumerate(lines):
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
                yield Mutant(at, text, f"{old.strip()} -> {new.strip()}")
        for found in NUMBER.finditer(line):
            for number in (int(found[0]) + 1, int(found[0]) - 1):
                if number >= 0:
                    text = line[: found.start()] + str(number) + line[found.end() :]
                    yield Mutant(at, text, f"{found[0]} -> {number}")
        if refusal := REFUSAL.search(line):
            yield Mutant(at, line[: refusal.start()] + ";" + line[refusal.end() :], "no refusal")
        if condition := CONDITION.search(line):
            for value in "01":
                text = line[: condition.start(1)] + value + line[condition.end(1) :]
                yield Mutant(at, text, f"condition {value}")


def build(folder: Path, text: str) -> Path | None:
    """Compile the check program with this header; return None if it does not compile."""
    (folder / "wirecodec.h").write_text(text, encoding="utf-8")
    shutil.copy(SOURCES / "check.c", folder / "check.c")
    program = folder / "check"
    command = ["cc", "-std=c99", "-O0", "-w", *SANITIZERS, "-o", str(program), str(folder / "check.c")]
    return program if subprocess.run(command, capture_output=True, check=False).returncode == 0 else None


def answer(program: Path, requests: bytes) -> bytes | None:
    """Return the answers to all requests, or None if the program crashes or runs too long."""
    done = subprocess.run([program], input=requests, capture_output=True, check=False, preexec_fn=_limit_time)
    return done.stdout if done.returncode == 0 else None


def _limit_time() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))


def split_requests(program: Path) -> list[tuple[bytes, bytes]]:
    """Return the requests for the fast vectors and for the slow ones, each with the right answers."""
    parts: list[list[bytes]] = [[], []]
    running = Check(program)
    for v in vectors():
        start = time.perf_counter()
        outcome(running.decode, v.data, v.limits, v.expected)
        parts[time.perf_counter() - start > SLOW].append(request(v.data, v.limits, v.expected))
    running.close()
    found = []
    for part in map(b"".join, parts):
        right = answer(program, part)
        assert right is not None
        found.append((part, right))
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return 0 if at least nine of ten mutants are killed."""
    parser = argparse.ArgumentParser(prog="mutants_c", description="Mutation testing of the C decoder.")
    parser.add_argument("--sample", type=int, default=200, help="number of mutants; 0 for all")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    lines = (SOURCES / "wirecodec.h").read_text(encoding="utf-8").splitlines()
    every = list(list_mutants(lines))
    selected = random.Random(options.seed).sample(every, min(options.sample or len(every), len(every)))
    survivors = compiled = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program = build(folder, "\n".join(lines) + "\n")
        assert program is not None
        parts = split_requests(program)
        for mutant in selected:
            changed = [*lines[: mutant.line], mutant.text, *lines[mutant.line + 1 :]]
            program = build(folder, "\n".join(changed) + "\n")
            compiled += program is not None
            if program is not None and all(answer(program, asked) == right for asked, right in parts):
                survivors += 1
                print(f"{mutant.line + 1}: {mutant.change} in {mutant.text.strip()}", flush=True)
    killed = compiled - survivors
    print(f"{compiled} of {len(every)} mutants compiled and were tried (seed {options.seed}); ", end="")
    print(f"{killed} were killed, {100 * killed / max(compiled, 1):.1f} %.")
    return int(10 * survivors > compiled)


if __name__ == "__main__":
    sys.exit(main())
