"""Canonical scheme strings, by the tables of spec/scheme.md."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "spec" / "scheme.md"
ROW = re.compile(r"^\| `([a-z0-9-]+)` \|(?: `(\w+)`(, positional)?)? \|(?: (\w+))? \|(?: `?([^`|]+?)`?)? \|")


@dataclass(frozen=True)
class Parameter:
    """Parameter of a stage; ``default`` is None for a parameter that must be given."""

    name: str
    kind: str
    default: str | None
    is_positional: bool

    def write(self, literal: str) -> str:
        """Return the canonical form of a literal."""
        if literal == "None":
            return literal
        if self.kind == "integer":
            return str(int(literal))
        return repr(float(literal)) if self.kind == "real" else literal


@cache
def read_tables() -> dict[str, list[Parameter]]:
    """Return the parameters of each stage, in their order."""
    found: dict[str, list[Parameter]] = {}
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if row := ROW.match(line):
            stage, name, positional, kind, default = row.groups()
            own = found.setdefault(stage, [])
            if name:
                given = None if default == "required" else default
                own.append(Parameter(name, kind, given, positional is not None))
    return found


def format_scheme(text: str) -> str:
    """Return the canonical string of a scheme; it must be one of the grammar."""
    return " | ".join(_format_stage(part.strip()) for part in text.split("|"))


def _format_stage(text: str) -> str:
    name, _, arguments = text.rstrip(")").partition("(")
    parameters, given = read_tables()[name.strip()], dict[str, str]()
    for n, argument in enumerate(arguments.split(",") if arguments.strip() else []):
        before, named, after = argument.partition("=")
        given[before.strip() if named else parameters[n].name] = (after if named else before).strip()
    shown = []
    for one in parameters:
        default = None if one.default is None else one.write(one.default)
        literal = one.write(given[one.name]) if one.name in given else default
        if literal != default or (default is None and literal is not None):
            shown.append(str(literal) if one.is_positional else f"{one.name}={literal}")
    return f"{name.strip()}({', '.join(shown)})" if shown else name.strip()
