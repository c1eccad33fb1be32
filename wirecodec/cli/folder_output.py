"""Replacement of several files of a folder: of all, or of none.

    new files beside the old ones -> journal -> renames -> no journal

The journal names the files that are ready. A run that is killed before it leaves the old files, and the next
run makes the renames of one that is killed after it. It makes none if a file is neither the old nor the new
one, as after a download of the folder: the journal is stale then.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path, PurePath
from typing import Any, BinaryIO, TypeAlias

from wirecodec.cli.files import name_file
from wirecodec.cli.output import (
    check_writable,
    name_output,
    name_temporary,
    open_output,
    sync,
    sync_folder,
)

JOURNAL = ".wirecodec-apply.json"
Writers: TypeAlias = Mapping[str, Callable[[BinaryIO], object]]
"""{name of a file in a folder: function that writes its content}."""
Version: TypeAlias = Sequence[int]
"""Size of a file, and when it was changed, in nanoseconds; nothing if there is no such file."""
_REMEDY = "load a whole state, and remove the folder's files .wirecodec-*"


@dataclass(frozen=True)
class _Rename:
    """Rename of a journal.

    Attributes:
        temporary: name of the new file.
        name: the name that it gets.
        old: version of the file that has the name before.
        new: version of the new file.
    """

    temporary: str
    name: str
    old: Version
    new: Version


def replace_files(folder: Path, writers: Writers) -> None:
    """Write files, and replace the old ones when all of them are on the disk.

    An existing file keeps its mode. A symbolic link is replaced by a file; what it points to stays.

    Raises:
        OSError: a file cannot be written, or is read-only; nothing has changed, or ``complete`` makes the
            remaining renames.
    """
    temporaries = {name: name_temporary(folder / name) for name in writers}
    renames: list[_Rename] = []
    try:
        for target in (folder / name for name in writers):
            with name_output(str(target)):
                if target.exists():
                    check_writable(target)
        for name, write in writers.items():
            target, temporary = folder / name, temporaries[name]
            with name_output(str(target)):
                with temporary.open("xb") as file:
                    write(file)
                    sync(file)
                if target.exists():
                    temporary.chmod(stat.S_IMODE(target.stat().st_mode))
                renames.append(_Rename(temporary.name, name, _read_version(target), _read_version(temporary)))
        with open_output(folder / JOURNAL, durable=True) as file:
            file.write(json.dumps([asdict(rename) for rename in renames]).encode())
    except BaseException:  # KeyboardInterrupt, too, must not leave temporary files
        with suppress(OSError):
            _remove_unless_ready(folder, temporaries.values())
        raise
    _rename(folder, renames)


def _remove_unless_ready(folder: Path, temporaries: Iterable[Path]) -> None:
    """Remove new files, unless a journal names them."""
    if is_unfinished(folder):
        return
    for temporary in temporaries:
        with suppress(OSError):
            temporary.unlink()


def is_unfinished(folder: Path) -> bool:
    """Return whether a run was killed after its new files were ready, and before all were renamed."""
    return (folder / JOURNAL).exists()


def refuse_unfinished(folder: Path) -> None:
    """Raise ValueError if a run was killed while it replaced files."""
    if is_unfinished(folder):
        raise ValueError(f"{folder}: an apply was killed while it replaced files; run it again, without -o")


def complete(folder: Path) -> None:
    """Make the renames of the journal that are not made yet, and remove it.

    Raises:
        ValueError: the journal is damaged, or a file is not one that it was written for; nothing has changed.
        OSError: a file cannot be renamed.
    """
    renames = _read_journal(folder / JOURNAL)
    for rename in renames:
        expected = rename.old if (folder / rename.temporary).exists() else rename.new
        if _read_version(folder / rename.name) != expected:
            raise ValueError(
                f"{folder / rename.name}: it has changed after an apply was killed while it replaced files;"
                f" {_REMEDY}"
            )
    _rename(folder, renames)


def _rename(folder: Path, renames: Iterable[_Rename]) -> None:
    """Make the renames that are not made yet, and remove the journal."""
    for rename in renames:
        with suppress(FileNotFoundError), name_output(str(folder / rename.name)):  # it is renamed already
            (folder / rename.temporary).replace(folder / rename.name)
    sync_folder(folder)
    (folder / JOURNAL).unlink()
    sync_folder(folder)


def _read_version(path: Path) -> Version:
    """Return the version of a file; that of a symbolic link is that of its target."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return []
    return [status.st_size, status.st_mtime_ns]


def _read_journal(path: Path) -> list[_Rename]:
    with name_file(path):
        try:
            renames = [_Rename(**row) for row in json.loads(path.read_bytes())]
        except (ValueError, RecursionError) as error:
            raise ValueError(f"the journal is damaged: {error}; {_REMEDY}") from None
        except TypeError:
            raise ValueError(f"the journal is damaged: it has other fields; {_REMEDY}") from None
        if not all(_is_plain(name) for rename in renames for name in (rename.temporary, rename.name)):
            raise ValueError(f"the journal is damaged: it does not name files; {_REMEDY}")
        return renames


def _is_plain(name: Any) -> bool:
    return isinstance(name, str) and "\0" not in name and PurePath(name).name == name


def write_folder(folder: Path, writers: Writers) -> None:
    """Write files into a new folder, which appears when all are on the disk.

    A symbolic link keeps pointing to its target, which may be absent or empty.

    Raises:
        OSError: a file cannot be written, or the folder exists and is not empty.
    """
    target = Path(os.path.realpath(folder))
    temporary = name_temporary(target)
    try:
        with name_output(str(folder)):
            temporary.mkdir()
            for name, write in writers.items():
                with (temporary / name).open("xb") as file:
                    write(file)
                    sync(file)
            sync_folder(temporary)
            temporary.replace(target)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    sync_folder(target.parent)
