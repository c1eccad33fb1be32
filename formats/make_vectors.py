"""Write the golden vectors under vectors/ from the cases in vector_cases/ (files: vectors/README.md).

    python formats/make_vectors.py             write new vectors, move misplaced ones; fail if one changes
    python formats/make_vectors.py --update    also write changed vectors and remove those without a case
    python formats/make_vectors.py --release 1.1   also list the hashes of new vectors in vectors/1.1.sha256
    python formats/make_vectors.py --release peers   the same for those of rounds, headers and schemes

A second run changes nothing. No test runs this script; its diff is reviewed. Released vectors, listed in a
.sha256 file, are never changed or removed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from formats.vector_cases.case import Case

HERE = Path(__file__).resolve().parent
VECTORS = HERE / "vectors"
COLUMNS = 110
HEX_COLUMNS = 96
HEX_FIELDS = ("hex", "values", "tag", "repeat")
PAGES = sorted({page.stem for page in (HERE / "spec").glob("*/*.md")}, key=len, reverse=True)
"""Names of the codec and transform pages, longest first."""
CONTAINER = "container"
"""Folder of the vectors that no single page covers."""
STREAMS = "streams"
"""Folder of the streams, which are not among the vectors of a decoder of containers."""
PATCHES = "patches"
"""Folder of the patches of weights, which need a reader that is given a state."""
PEERS = ("rounds", "agreement", "scheme")
"""Folders of what peers and ranks exchange beside containers, by pages with versions of their own."""
PEERS_LIST = "peers"
"""Name of the list of their hashes, which belong to no version of the container."""
INDEXES = "indexes"
"""Folder of the closed streams, which need a reader of indexes."""


def folder_of(id: str) -> str:
    """Return the folder of a vector: the page its id begins with, ``packed`` for maps, else ``container``."""
    if id.startswith("map-"):
        return "packed"
    return next((page for page in PAGES if f"{id}-".startswith(f"{page}-")), CONTAINER)


def render_all() -> dict[str, str]:
    """Render every case; return the files' texts by path under vectors/.

    Raises:
        AssertionError: if two cases have the same id.
    """
    from formats import vector_cases

    texts: dict[str, str] = {}
    ids = set()
    for module in vector_cases.MODULES:
        for case in module.cases():
            if case.id in ids:
                raise AssertionError(f"two cases have the id {case.id}")
            ids.add(case.id)
            texts[f"{_folder_of_case(case)}/{case.id}.json"] = render(case)
    return texts


def render(case: Case) -> str:
    """Render the text of a case's file."""
    return "\n".join(_render(case.fields, "")) + "\n"


def _folder_of_case(case: Case) -> str:
    """Return the folder of a case under vectors/."""
    for field, folder in (("parts", STREAMS), ("state", PATCHES), ("index", INDEXES)):
        if field in case.fields:
            return folder
    for folder in PEERS:
        if case.id.startswith(f"{folder}-"):
            return folder
    return f"{case.verdict}/{folder_of(case.id)}"


def _render(value: Any, indent: str, field: str | None = None) -> Iterator[str]:
    """Yield the lines of a JSON value, broken to a readable length."""
    if field in HEX_FIELDS and not isinstance(value, dict):
        value = _break_hex(value)
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


def _break_hex(value: str | list[Any]) -> Any:
    """Break long hex into a list of strings; parts that are abbreviated stay as they are."""
    if isinstance(value, str) and len(value) <= HEX_COLUMNS:
        return value
    parts = [value] if isinstance(value, str) else value
    return [
        piece
        for part in parts
        for piece in (
            [part[i : i + HEX_COLUMNS] for i in range(0, len(part), HEX_COLUMNS)]
            if isinstance(part, str)
            else [part]
        )
    ]


def move_misplaced(texts: dict[str, str]) -> None:
    """Move each vector that is in another folder than its case's; its content stays as it is.

    Args:
        texts: the rendered files by path under vectors/.
    """
    right = {Path(path).stem: VECTORS / path for path in texts}
    for path in sorted(VECTORS.rglob("*.json")):
        target = right.get(path.stem, path)
        if path != target and not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            path.rename(target)
            print(f"moved {path.relative_to(VECTORS)} to {target.relative_to(VECTORS)}")


def is_of_peers(name: str) -> bool:
    """Return whether a file under vectors/ is in one of the folders ``PEERS``."""
    return name.partition("/")[0] in PEERS


def hash_of(text: str) -> str:
    """Return the SHA-256 of a file's text, as hexadecimal digits."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def read_released() -> dict[str, str]:
    """Return the hash of each released vector by its path under vectors/."""
    lines = [line for file in sorted(VECTORS.glob("*.sha256")) for line in file.read_text().splitlines()]
    return {path: digest for digest, path in (line.split("  ") for line in lines)}


def release(version: str, texts: dict[str, str]) -> None:
    """List the hashes of the vectors that no earlier version lists, as ``sha256sum`` does.

    Those of ``PEERS`` belong to no version of the container: ``PEERS_LIST`` has them.

    Raises:
        FileExistsError: this version has a list.
    """
    earlier, of_peers = read_released(), version.startswith(PEERS_LIST)
    new = [name for name in sorted(texts) if name not in earlier and is_of_peers(name) == of_peers]
    lines = [f"{hash_of(texts[name])}  {name}\n" for name in new]
    with (VECTORS / f"{version}.sha256").open("x", encoding="utf-8", newline="\n") as file:
        file.writelines(lines)
    print(f"{len(lines)} vectors are released as {version}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return 0 if the vectors are up to date afterwards."""
    parser = argparse.ArgumentParser(prog="make_vectors.py", description="Write the golden vectors.")
    parser.add_argument("--update", action="store_true", help="change and remove existing vectors")
    parser.add_argument("--release", metavar="VERSION", help="list the hashes of all new vectors")
    options = parser.parse_args(arguments)
    update = options.update
    texts = render_all()
    frozen = [name for name, digest in read_released().items() if hash_of(texts.get(name, "")) != digest]
    if frozen:
        for name in frozen:
            print(f"{name} is released and would {'change' if name in texts else 'be removed'}")
        return 1
    move_misplaced(texts)
    present = {p.relative_to(VECTORS).as_posix(): p for p in VECTORS.rglob("*.json")}
    changed = [name for name, p in present.items() if texts.get(name) != p.read_text(encoding="utf-8")]
    if changed and not update:
        for name in changed:
            print(f"would {'change' if name in texts else 'remove'} {name}")
        print("nothing written; pass --update to change existing vectors")
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
    if options.release:
        release(options.release, texts)
    folders = [name.partition("/")[0] for name in texts]
    counts = {verdict: folders.count(verdict) for verdict in ("valid", "bad", STREAMS, PATCHES, *PEERS)}
    print(
        f"{counts['valid']} valid vectors, {counts['bad']} bad ones, {counts[STREAMS]} streams,"
        f" {counts[PATCHES]} patches, {sum(counts[one] for one in PEERS)} of rounds, headers and schemes"
    )
    return 0


if __name__ == "__main__":
    sys.path.insert(0, str(HERE.parent))
    sys.exit(main())
