"""Verdicts on mutants, the survivors with their reasons, and the page that counts them.

``survivors/`` has a table per decoder, of tab-separated columns: a survivor's place, its change, whether
other functions run, and the reason. ``survivors/counts.tsv`` has a row per module. Both make MUTANTS.md.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

FOLDER = Path(__file__).parent / "survivors"
PAGE = Path(__file__).parent / "MUTANTS.md"
UNKNOWN = "not examined"
EQUIVALENT = "Equivalent"
"""Beginning of the reason for a survivor that no input shows."""

Row = tuple[str, str]
"""The columns that identify a mutant: "module: function", and the change."""

_SURVIVOR = ("place", "change", "path", "reason")
_COUNTS = ("decoder", "module", "mutants", "tried", "probed", "survivors", "equivalent")
_HEAD = """\
# Mutants of the decoders

Each mutant changes one comparison, operator, constant, condition or refusal in one function. It is killed
if a golden vector gives another result, crashes, or takes too long. The library reads each vector through
every public function (`ways.py`); the C decoder is compiled with sanitizers. The metadata of a vector are
compared, too, although a decoder need not return them. The Python around the library's kernels is changed,
not the kernels, except those that read patches of weights (`mutants_kernels.py`).

Probes (`probes.py`) cover what vectors cannot: streams, and codecs of experimental ids. Only mutants of the
library that no vector notices meet them. Rows of version 1.1 are mutants of the functions that read its
records, types, joined tensors and streams, by vectors alone. Rows of patches are mutants of the readers of
patches of weights, by their vectors alone.

"""
_TAIL = """
If not all mutants of a decoder were tried, those that were are the first in a random order. The tables in
`survivors/` give the reason why each survivor was not killed, found by reading the code. A reason of the kind
"Equivalent" means that no input shows the change; the last column leaves these out. The column `path` marks
survivors with which all results are right, but other functions of the decoder run.
"""


def read_survivors(decoder: str, folder: Path = FOLDER) -> dict[Row, str]:
    """Return {survivor: reason} of a decoder."""
    return {(row["place"], row["change"]): row["reason"] for row in _read(folder / f"{decoder}.tsv")}


def read_counts(folder: Path = FOLDER) -> list[dict[str, str]]:
    """Return the rows of counts, one per decoder and module."""
    return _read(folder / "counts.tsv")


def number_rows(rows: Iterable[Row]) -> list[Row]:
    """Return the rows, in which repeated ones are numbered."""
    seen: dict[Row, int] = {}
    found = []
    for row in rows:
        seen[row] = seen.get(row, 0) + 1
        found.append(row if seen[row] == 1 else (row[0], f"{row[1]} ({seen[row]})"))
    return found


def shorten(line: str) -> str:
    """Return a line of code as the tables show it."""
    return line.strip()[:70]


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


def write_decoder(decoder: str, every: Sequence[Row], verdicts: Verdicts, folder: Path = FOLDER) -> None:
    """Replace the tables of a decoder; keep the reasons for its survivors.

    Args:
        decoder: name of its table.
        every: the rows of all mutants.
        verdicts: those of the mutants that were tried.
        folder: of the tables.
    """
    known = {
        row: reason for file in folder.glob("*.tsv") for row, reason in _read_reasons(file).items()
    } | _read_reasons(folder / f"{decoder}.tsv")
    tried = [row for row in every if row in verdicts.found]
    survivors = sorted(row for row in tried if not verdicts.found[row].is_noticed)
    rows = [
        (*row, "path" if verdicts.found[row] == Verdict.PATH else "", known.get(row, UNKNOWN))
        for row in survivors
    ]
    _write(folder / f"{decoder}.tsv", _SURVIVOR, rows)
    counts = [
        tuple(row[name] for name in _COUNTS) for row in read_counts(folder) if row["decoder"] != decoder
    ]
    for module in sorted({place.partition(":")[0] for place, _ in every}):
        own = [row for row in tried if row[0].startswith(f"{module}:")]
        left = [row for row in survivors if row[0].startswith(f"{module}:")]
        numbers = (
            sum(row[0].startswith(f"{module}:") for row in every),
            len(own),
            sum(verdicts.found[row] == Verdict.PROBE for row in own),
            len(left),
            sum(known.get(row, UNKNOWN).startswith(EQUIVALENT) for row in left),
        )
        counts.append((decoder, module, *map(str, numbers)))
    _write(folder / "counts.tsv", _COUNTS, sorted(counts))


def make_page(counts: Iterable[Mapping[str, str]]) -> str:
    """Return the text of MUTANTS.md."""
    lines = ["| decoder | mutants | tried | killed | by vectors alone | of those that are not equivalent |"]
    lines += ["|---|---:|---:|---:|---:|---:|"]
    rows = list(counts)
    for decoder in sorted({row["decoder"] for row in rows}):
        mutants, tried, probed, survivors, equivalent = (
            sum(int(row[name]) for row in rows if row["decoder"] == decoder) for name in _COUNTS[2:]
        )
        killed = tried - survivors
        shares = (
            f"{100 * part / whole:.1f} %"
            for part, whole in ((killed, tried), (killed - probed, tried), (killed, tried - equivalent))
        )
        lines.append(f"| [{decoder}](survivors/{decoder}.tsv) | {mutants} | {tried} | {' | '.join(shares)} |")
    return "\n".join([_HEAD + lines[0], *lines[1:], _TAIL])


def _read_reasons(file: Path) -> dict[Row, str]:
    if file.name == "counts.tsv":
        return {}
    return {
        row: reason for row, reason in read_survivors(file.stem, file.parent).items() if reason != UNKNOWN
    }


def _read(file: Path) -> list[dict[str, str]]:
    if not file.exists():
        return []
    with file.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))


def _write(file: Path, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    text = "".join("\t".join(row) + "\n" for row in (columns, *rows))
    file.write_text(text, encoding="utf-8")
