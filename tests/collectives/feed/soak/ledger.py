"""Ledger: what every process of the soak has seen, and the promises that it must keep."""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

State = dict[str, Any]


def digest_of(state: State) -> str:
    """Return a digest of all names, types, shapes and bits, which owes nothing to the library."""
    found = hashlib.sha256()
    for name in sorted(state):
        found.update(f"{name} {state[name].dtype} {state[name].shape}\n".encode())
        found.update(state[name].tobytes())
    return found.hexdigest()[:16]


@dataclass(frozen=True)
class Ledger:
    """File to which all processes append lines.

    Attributes:
        path: of the file.
        who: writes.
    """

    path: Path
    who: str

    def write(self, kind: str, **fields: Any) -> None:
        """Append a line, whole or not at all."""
        line = json.dumps({"who": self.who, "kind": kind, **fields}) + "\n"
        opened = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            os.write(opened, line.encode())
        finally:
            os.close(opened)


@dataclass
class Findings:
    """What the lines of a ledger say.

    Attributes:
        versions: {number: digest} that anybody has reported.
        newest: {reader: newest version that it has reported}.
        kinds: number of lines of each kind.
        last: {reader: digest of its last report}.
    """

    versions: dict[int, str] = field(default_factory=dict)
    newest: dict[str, int] = field(default_factory=dict)
    kinds: Counter[str] = field(default_factory=Counter)
    last: dict[str, str] = field(default_factory=dict)


def check(path: Path) -> Findings:
    """Check the promises on all lines of a ledger.

    - A version has one state, which a writer meant to publish before: versions never fork.
    - What a reader reports is the state of that version, and never an older version than before.
    - After an error, a reader has the state of a version, or the one that somebody had changed.

    A reader of slices writes the digest of its part, which belongs to one whole state.
    """
    found, intended, wholes = Findings(), set[str](), dict[str, str]()
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        who, kind = line["who"], line["kind"]
        if "digest" in line:
            line["digest"] = wholes.get(line["digest"], line["digest"])
        found.kinds[kind if kind != "error" else f"error {line['reason']}"] += 1
        if kind == "intends":
            intended.add(line["digest"])
            wholes[line["part"]] = line["digest"]
        elif kind in ("published", "has"):
            assert line["digest"] in intended, f"nobody has published this state: {line}"
            known = found.versions.setdefault(line["version"], line["digest"])
            assert known == line["digest"], f"the version has two states: {line}, and {known}"
        if kind == "has":
            before = found.newest.get(who, -1)
            assert line["version"] >= before, f"back from version {before}: {line}"
            found.newest[who], found.last[who] = line["version"], line["digest"]
        if kind == "error" and not line["changed"]:
            assert line["digest"] in intended, f"an error left another state: {line}"
    return found
