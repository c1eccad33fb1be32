"""Verdicts on mutants, and the page of the readers of version 1.1: counts, survivors and reasons."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path


@dataclass(frozen=True)
class Page:
    """A page of mutants: its file, and what comes before the sections, one per decoder."""

    file: Path
    head: str


_COMMON = """\
Each mutant changes one comparison, operator, constant, condition or refusal in one function. It is killed
if a golden vector gives another result, crashes, or takes too long. The library reads each vector through
every public function (`ways.py`); the C decoder is compiled with sanitizers. The metadata of a vector are
compared, too, although a decoder need not return them.
"""
_REASONS = """\
If not all mutants of a section were tried, those that were are the first in a random order. Reasons were
found by reading the code. A reason of the kind "Equivalent" means that no input shows the change. The share
in the last column leaves these mutants out. *Path* means that all results are right, but other functions of
the decoder run.
"""
WHOLE = Page(
    Path(__file__).parent / "MUTANTS.md",
    f"""\
# Mutants of the decoders

{_COMMON}
The Python around the library's kernels is changed, not the kernels. Probes (`probes.py`) cover what vectors
cannot: streams, and codecs of experimental ids. Only mutants of the library that no vector notices meet them.
[MUTANTS_1_1.md](MUTANTS_1_1.md) has the readers of version 1.1, by vectors alone.

{_REASONS}""",
)
LATER = Page(
    Path(__file__).parent / "MUTANTS_1_1.md",
    f"""\
# Mutants of the readers of version 1.1

{_COMMON}
Only functions that read records, element types, joined tensors or streams of version 1.1 are changed. No
probe is run here. [MUTANTS.md](MUTANTS.md) has the other readers.

{_REASONS}""",
)
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


class Verdict(str, Enum):
    """What a mutant changes: a vector's result, only a probe's, only which functions run, or nothing."""

    KILLED = "killed"
    PROBE = "probe"
    PATH = "path"
    SURVIVES = "survives"

    @property
    def is_noticed(self) -> bool:
        """Whether a result differs."""
        return self in (Verdict.KILLED, Verdict.PROBE)


@dataclass
class Verdicts:
    """Verdicts on mutants, by row. A file keeps them, so that a later run continues."""

    file: Path | None = None
    found: dict[Row, Verdict] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.file is not None and self.file.exists():
            for line in self.file.read_text(encoding="utf-8").splitlines():
                verdict, *row = line.split("\t")
                self.found[row[0], row[1]] = Verdict(verdict)

    def needs_trial(self, row: Row) -> bool:
        """Return whether a mutant was not tried, or survived."""
        return row not in self.found or not self.found[row].is_noticed

    def add(self, row: Row, verdict: Verdict) -> None:
        """Note a verdict."""
        self.found[row] = verdict
        if self.file is not None:
            with self.file.open("a", encoding="utf-8") as file:
                file.write("\t".join((verdict, *row)) + "\n")


def write_section(
    page: Page, title: str, command: str, every: Iterable[Row], verdicts: Verdicts, seed: int
) -> None:
    """Replace a section of a page; keep the reasons for its survivors.

    Args:
        page: the page.
        title: name of the decoder.
        command: the command that tried the mutants.
        every: the rows of all mutants.
        verdicts: those of the mutants that were tried.
        seed: of the order in which they were tried.
    """
    known = read_reasons(LATER.file) | read_reasons(WHOLE.file) | read_reasons(page.file)
    text = page.file.read_text(encoding="utf-8") if page.file.exists() else ""
    sections = dict(re.findall(r"^(## .+)\n\n((?:(?!## ).*\n)*)", text, re.MULTILINE))
    sections[f"## {title}"] = _format_section(command, list(every), verdicts, seed, known)
    parts = [f"{name}\n\n{body.rstrip()}\n" for name, body in sections.items()]
    page.file.write_text("\n".join([page.head, *parts]), encoding="utf-8")


def _format_section(
    command: str, every: list[Row], verdicts: Verdicts, seed: int, known: Mapping[Row, str]
) -> str:
    tried = [row for row in every if row in verdicts.found]
    survivors = sorted(row for row in tried if not verdicts.found[row].is_noticed)
    counted = f"All {len(every)} mutants were tried."
    if len(tried) < len(every):
        counted = f"{len(tried)} of {len(every)} mutants were tried, in random order (seed {seed})"

    if probed := sum(verdicts.found[row] == Verdict.PROBE for row in tried):
        counted += f" Of these, only a probe notices {probed}; vectors alone notice "
        counted += f"{_share(len(tried) - len(survivors) - probed, len(tried))}."
    lines = [f"`{command}`", "", counted, ""]
    lines += ["| module | mutants | tried | survivors | killed | killed of those that are not equivalent |"]
    lines += ["|---|---|---|---|---|---|"]
    modules = sorted({row[0].partition(":")[0] for row in every})
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
        mark = PATH if verdicts.found[row] == Verdict.PATH else ""
        lines.append(f"| `{row[0]}` | `{row[1]}` | {mark}{known.get(row, UNKNOWN)} |")
    return "\n".join(lines)


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "-"
