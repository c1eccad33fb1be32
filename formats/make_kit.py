"""Build the conformance kit: one archive of vectors, expectations and a runner for any program.

    python formats/make_kit.py FOLDER

writes FOLDER/wirecodec-conformance-VERSION.tar.gz. It has the pages, the vectors, the reference, and run.py,
which is groups.py. Python's standard library runs it. The same files give the same bytes.
"""

from __future__ import annotations

import gzip
import io
import re
import sys
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
LEFT_OUT = ("c", "reader", "make_kit.py", "make_vectors.py")
"""What readers of other languages do not need."""
RUN = '''"""Run a program over all golden vectors: README.md."""

import sys

from formats.groups import main

if __name__ == "__main__":
    sys.exit(main())
'''
README = """# Conformance kit of the wirecodec format, {version}

`formats/SPEC.md` and `formats/spec` are the pages, and `formats/vectors` the vectors with their
expectations. `formats/vectors/README.md` defines what a program is given, and what it prints. Python 3.10 or
later runs

    python run.py "COMMAND"

which starts the command once for each vector. The last argument of the program is a JSON object, and its
standard input is the bytes. If a word of the command is `FILE`, it is replaced by the path of a file with the
bytes. The groups are {groups}.
A program that lacks a group, or a codec, is run without it:

    python run.py --without patches --without rounds --without zstd "node decode.js"
    python run.py --only containers --core --version 1.0 "./decode FILE"
    python run.py --text "node text.js"

`python -m formats.reference`, in this folder, is a program that passes all groups. Without Python 3.14 or the
package `zstandard`, it passes them with `--without zstd --without steps-zstd`.
"""


def read_version() -> str:
    """Return the version of the reader, which is that of the standard's text."""
    text = (HERE / "reader" / "pyproject.toml").read_text(encoding="utf-8")
    found = re.search(r'^version = "([^"]+)"', text, re.MULTILINE)
    assert found is not None
    return found[1]


def list_files() -> Iterator[tuple[str, bytes]]:
    """Yield the path in the archive, and the bytes, of each file."""
    from formats.conformance import DEFAULT_DIR
    from formats.groups import list_groups

    groups = ", ".join(f"`{name}`" for name in list_groups(DEFAULT_DIR))
    yield "LICENSE", (HERE.parent / "LICENSE").read_bytes()
    yield "README.md", README.format(version=read_version(), groups=groups).encode("utf-8")
    yield "run.py", RUN.encode("utf-8")
    for path in sorted(HERE.rglob("*")):
        name = path.relative_to(HERE)
        if path.is_file() and name.parts[0] not in LEFT_OUT and path.suffix not in (".pyc", ".pyo"):
            yield f"formats/{name.as_posix()}", path.read_bytes()


def build(folder: Path) -> Path:
    """Write the archive into a folder, and return its path."""
    name = f"wirecodec-conformance-{read_version()}"
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"{name}.tar.gz"
    with (
        target.open("wb") as file,
        gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for path, data in list_files():
            one = tarfile.TarInfo(f"{name}/{path}")
            one.size = len(data)
            archive.addfile(one, io.BytesIO(data))
    return target


def main(arguments: Sequence[str]) -> int:
    """Run the command line."""
    if len(arguments) != 1:
        print("python formats/make_kit.py FOLDER")
        return 2
    print(build(Path(arguments[0])))
    return 0


if __name__ == "__main__":
    sys.path.insert(0, str(HERE.parent))
    sys.exit(main(sys.argv[1:]))
