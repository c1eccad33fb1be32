"""Replacement of several files of a folder: of all, or of none.

    new files beside the old ones -> journal -> renames -> no journal

The journal names the files that are ready. A run that is killed before it leaves the old files, and the next
run makes the renames of one that is killed after it.
"""

from __future__ import annotations

import json
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path, PurePath
from typing import Any, BinaryIO, TypeAlias

from wirecodec.cli.files import name_file
from wirecodec.cli.output import name_temporary, open_output, sync, sync_folder

JOURNAL = ".wirecodec-apply.json"
Writers: TypeAlias = Mapping[str, Callable[[BinaryIO], object]]
"""{name of a file in a folder: function that writes its content}."""


def replace_files(folder: Path, writers: Writers) -> None:
    """Write files, and replace the old ones when all of them are on the disk.

    An existing file keeps its mode. A symbolic link is replaced by a file; what it points to stays.

    Raises:
        OSError: a file cannot be written; nothing has changed, or ``complete`` makes the remaining renames.
    """
    renames: dict[str, str] = {}
    try:
        for name, write in writers.items():
            target = folder / name
            temporary = name_temporary(target)
            renames[temporary.name] = name
            with _naming(target), temporary.open("xb") as file:
                write(file)
                sync(file)
            if target.exists():
                temporary.chmod(stat.S_IMODE(target.stat().st_mode))
        with open_output(folder / JOURNAL, durable=True) as file:
            file.write(json.dumps(renames).encode())
    except BaseException:  # KeyboardInterrupt, too, must not leave temporary files
        if not is_unfinished(folder):
            for name in renames:
                (folder / name).unlink(missing_ok=True)
        raise
    complete(folder)


def is_unfinished(folder: Path) -> bool:
    """Return whether a run was killed after its new files were ready, and before all were renamed."""
    return (folder / JOURNAL).exists()


def complete(folder: Path) -> None:
    """Make the renames of the journal that are not made yet, and remove it.

    Raises:
        ValueError: the journal is damaged.
        OSError: a file cannot be renamed.
    """
    for temporary, name in _read_journal(folder / JOURNAL).items():
        with suppress(FileNotFoundError):  # it is renamed already
            (folder / temporary).replace(folder / name)
    sync_folder(folder)
    (folder / JOURNAL).unlink()
    sync_folder(folder)


def _read_journal(path: Path) -> dict[str, str]:
    with name_file(path):
        try:
            content = json.loads(path.read_bytes())
        except (ValueError, RecursionError) as error:
            raise ValueError(f"the journal is damaged: {error}; load a whole state") from None
        names = [*content, *content.values()] if isinstance(content, dict) else [None]
        if not all(map(_is_plain, names)):
            raise ValueError("the journal is damaged: it does not name files; load a whole state")
        return dict(content)


def _is_plain(name: Any) -> bool:
    return isinstance(name, str) and "\0" not in name and PurePath(name).name == name


def write_folder(folder: Path, writers: Writers) -> None:
    """Write files into a new folder, which appears when all are on the disk.

    Raises:
        OSError: a file cannot be written, or the folder exists and is not empty.
    """
    temporary = name_temporary(folder.absolute())
    try:
        with _naming(folder):
            temporary.mkdir()
            for name, write in writers.items():
                with (temporary / name).open("xb") as file:
                    write(file)
                    sync(file)
            sync_folder(temporary)
            temporary.replace(folder)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    sync_folder(folder.absolute().parent)


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Put a path into the errors of the operating system, in place of that of a temporary file."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None
