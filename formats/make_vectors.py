"""Writes the golden vectors under vectors/ from cases/ (vectors/README.md says what the files hold).

    python formats/make_vectors.py             writes new vectors; refuses where an existing one would change
    python formats/make_vectors.py --update    writes changed ones, too, and removes those no longer made

Running it again changes nothing. No test runs it: its diff is reviewed.
"""

from __future__ import annotations

import argparse
import json
import sys
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
VECTORS = HERE / "vectors"
COLUMNS = 110
HEX_COLUMNS = 96
HEX = ("hex", "values", "tag", "repeat")


def render_all() -> dict[str, str]:
    """Every vector's text by its path under vectors/."""
    from formats import cases

    texts: dict[str, str] = {}
    ids = set()
    for module in cases.MODULES:
        for case in module.cases():
            path = f"{case.folder}/{case.id}.json"
            if case.id in ids:
                raise AssertionError(f"two cases are called {case.id}")
            ids.add(case.id)
            texts[path] = "\n".join(_render(case.fields, "")) + "\n"
    return texts


def _render(value: Any, indent: str, field: str | None = None) -> Iterator[str]:
    """JSON in lines of readable length."""
    if field in HEX and isinstance(value, str) and len(value) > HEX_COLUMNS:
        value = [value[i : i + HEX_COLUMNS] for i in range(0, len(value), HEX_COLUMNS)]
    text = json.dumps(value)
    if len(indent) + len(text) < COLUMNS or isinstance(value, str) or not value:
        yield indent + text
        return
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    yield indent + opening
    if isinstance(value, list) and isinstance(value[0], int):
        yield from textwrap.wrap(
            text[1:-1], COLUMNS, initial_indent=indent + " ", subsequent_indent=indent + " "
        )
    else:
        items = value.items() if isinstance(value, dict) else ((None, item) for item in value)
        for n, (key, item) in enumerate(items):
            lines = list(_render(item, indent + " ", key))
            if key is not None:
                lines[0] = f"{indent} {json.dumps(key)}: {lines[0].lstrip()}"
            if n + 1 < len(value):
                lines[-1] += ","
            yield from lines
    yield indent + closing


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; 0 where the vectors are up to date afterwards."""
    parser = argparse.ArgumentParser(prog="make_vectors.py", description="Write the golden vectors.")
    parser.add_argument("--update", action="store_true", help="change and remove existing vectors")
    update = parser.parse_args(arguments).update
    texts = render_all()
    present = {
        f"{p.parent.name}/{p.name}": p
        for folder in ("valid", "bad")
        for p in (VECTORS / folder).glob("*.json")
    }
    changed = [name for name, p in present.items() if texts.get(name) != p.read_text(encoding="utf-8")]
    if changed and not update:
        for name in changed:
            print(f"would {'change' if name in texts else 'remove'} {name}")
        print("nothing written: --update changes existing vectors")
        return 1
    for name in changed:
        if name not in texts:
            present[name].unlink()
            print(f"removed {name}")
    for name, text in texts.items():
        if name not in present or name in changed:
            path = VECTORS / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="\n")
            print(f"wrote {name}")
    valid = sum(name.startswith("valid/") for name in texts)
    print(f"{valid} valid vectors, {len(texts) - valid} bad ones")
    return 0


if __name__ == "__main__":
    sys.path.insert(0, str(HERE.parent))
    sys.exit(main())
