"""Verdicts on mutants, and the page of the readers of version 1.1: counts, survivors and reasons."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

LATER_PAGE = Path(__file__).parent / "MUTANTS_1_1.md"
LATER_HEAD = """\
# Mutants of the readers of version 1.1

Each mutant changes one comparison, operator, constant, condition or refusal in a function that reads
records, element types, joined tensors or streams of version 1.1. It is killed if a golden vector gives
another result, crashes, or takes too long. No probe is run here. The metadata of a vector are compared,
too, although a decoder need not return them.

If not all mutants of a section were tried, those that were are the first in a random order. Reasons were
found by reading the code. A reason of the kind "Equivalent" means that no input shows the change. The share
in the last column leaves these mutants out.
"""
"""Beginning of the page. Each tool replaces its own section after it."""
REASON = re.compile(r"^\| `(.+?)` \| `(.+?)` \| (.+?) \|$")
PATH = "*path*: "
"""Mark of a survivor that changes which functions run."""
UNKNOWN = "not examined"
EQUIVALENT = "Equivalent"
"""Beginning of the reason for a survivor that no input shows."""

Row = tuple[str, str]
"""The columns that identify a mutant: "module: function", and the change."""


def read_reasons(page: Path) -> dict[Row, str]:
    """Read the reasons for survivors from a page."""
    if not page.exists():
        return {}
    rows = map(REASON.match, page.read_text(encoding="utf-8").splitlines())
    return {(row[1], row[2]): row[3].removeprefix(PATH) for row in rows if row}


def number_rows(rows: Iterable[Row]) -> list[Row]:
    """Return the rows, in which repeated ones are numbered."""
    seen: dict[Row, int] = {}
    found = []
    for row in rows:
        seen[row] = seen.get(row, 0) + 1
        found.append(row if seen[row] == 1 else (row[0], f"{row[1]} ({seen[row]})"))
    return found


def shorten(line: str) -> str:
    """Return a line of code as the pages show it."""
    return line.strip().replace("|", "\\|").replace("`", "'")[:70]


@dataclass
class Verdicts:
    """Whether mutants were killed, by row. A file keeps them, so that a later run continues.

    ``paths`` are the survivors for which other functions of the decoder run.
    """

    file: Path | None = None
    killed: dict[Row, bool] = field(default_factory=dict)
    paths: set[Row] = field(default_factory=set)

    def __post_init__(self) -> None:
        if self.file is not None and self.file.exists():
            for line in self.file.read_text(encoding="utf-8").splitlines():
                verdict, *row = line.split("\t")
                self._note((row[0], row[1]), verdict)

    def _note(self, row: Row, verdict: str) -> None:
        self.killed[row] = verdict == "killed"
        (self.paths.add if verdict == "path" else self.paths.discard)(row)

    def add(self, row: Row, *, killed: bool, path: bool = False) -> None:
        """Note a verdict."""
        verdict = "killed" if killed else "path" if path else "survives"
        self._note(row, verdict)
        if self.file is not None:
            with self.file.open("a", encoding="utf-8") as file:
                file.write("\t".join((verdict, *row)) + "\n")


def write_section(title: str, command: str, every: Iterable[Row], verdicts: Verdicts, seed: int) -> None:
    """Replace a section of the page of version 1.1; keep the reasons for its survivors.

    Args:
        title: name of the decoder.
        command: the command that tried the mutants.
        every: the rows of all mutants.
        verdicts: those of the mutants that were tried.
        seed: of the order in which they were tried.
    """
    known = read_reasons(LATER_PAGE)
    text = LATER_PAGE.read_text(encoding="utf-8") if LATER_PAGE.exists() else ""
    sections = dict(re.findall(r"^(## .+)\n\n((?:(?!## ).*\n)*)", text, re.MULTILINE))
    sections[f"## {title}"] = _format_section(title, command, list(every), verdicts, seed, known)
    parts = [f"{name}\n\n{body.rstrip()}\n" for name, body in sections.items()]
    LATER_PAGE.write_text("\n".join([LATER_HEAD, *parts]), encoding="utf-8")


def _format_section(
    title: str, command: str, every: list[Row], verdicts: Verdicts, seed: int, known: Mapping[Row, str]
) -> str:
    tried = [row for row in every if row in verdicts.killed]
    survivors = sorted(row for row in tried if not verdicts.killed[row])
    counted = f"All {len(every)} mutants were tried."
    if len(tried) < len(every):
        counted = f"{len(tried)} of {len(every)} mutants were tried, in random order (seed {seed})"
        counted += ", the splitter first." if title == "C" else "."
    lines = [f"`{command}`", "", counted, ""]
    lines += ["| module | mutants | tried | survivors | killed | killed of those that are not equivalent |"]
    lines += ["|---|---|---|---|---|---|"]
    modules = dict.fromkeys(row[0].partition(":")[0] for row in every)
    for module in [*modules, ""]:
        own = [[row for row in rows if row[0].startswith(f"{module}:" if module else "")]
               for rows in (every, tried, survivors)]  # fmt: skip
        equal = sum(known.get(row, UNKNOWN).startswith(EQUIVALENT) for row in own[2])
        all_, some, left = map(len, own)
        name = f"`{module}`" if module else "all"
        shares = _share(some - left, some), _share(some - left, some - equal)
        lines.append(f"| {name} | {all_} | {some} | {left} | {shares[0]} | {shares[1]} |")
    lines += ["", "| survivor | change | why |", "|---|---|---|"] if survivors else []
    for row in survivors:
        mark = PATH if row in verdicts.paths else ""
        lines.append(f"| `{row[0]}` | `{row[1]}` | {mark}{known.get(row, UNKNOWN)} |")
    return "\n".join(lines)


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "-"
