"""NumPy's files: the .npy and .npz that the command line reads and writes.

The arrays of an .npz are members of a zip archive: the tensor ``a/b`` is the member ``a/b.npy``. Zip
archives and ``numpy.load`` confuse some names, and programs that unpack archives use names as paths.
``check_names`` defines the names that are allowed, both for reading and for writing.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from wirecodec.arrays import Array
from wirecodec.cli.formatting import shown

__all__ = ["MAX_NAME_BYTES", "check_names", "load_arrays", "save_npz"]

MAX_NAME_BYTES = 65_531
"""UTF-8 bytes of a name: a zip archive gives a member's name 65,535, of which ``.npy`` takes 4."""

_DRIVE = re.compile(r"[A-Za-z]:/")


def load_arrays(path: Path) -> dict[str, Any] | Array:
    """Read the array of a .npy, or the arrays of an .npz by name.

    Args:
        path: the file, whose first bytes tell which of the two it is.

    Returns:
        The array of a .npy, or {name: array}.

    Raises:
        ValueError: the file is neither of the two, is damaged, or has two arrays of one name.
        OSError: it cannot be read.
        MemoryError: its arrays do not fit into memory.
    """
    with path.open("rb") as file:
        magic = file.read(6)
    if not magic.startswith((b"\x93NUMPY", b"PK")):
        raise ValueError(f"{path} is neither a .npy nor an .npz")
    try:
        if magic.startswith(b"PK"):
            return _load_npz(path)
        array: Array = np.load(path, allow_pickle=False)
        return array
    except (OSError, MemoryError):
        raise
    except Exception as error:  # NumPy and zipfile raise any type of exception for damaged files
        raise ValueError(f"{path}: {error}") from None


def _load_npz(path: Path) -> dict[str, Any]:
    """Read the members one by one: ``numpy.load`` returns one array for two members of one name."""
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        names = [member.orig_filename.removesuffix(".npy") for member in members]
        check_names(names)
        arrays = {}
        for name, member in zip(names, members, strict=True):
            with archive.open(member) as file:
                arrays[name] = np.lib.format.read_array(file, allow_pickle=False)
    return arrays


def save_npz(file: BinaryIO, arrays: Iterable[tuple[str, Array]]) -> None:
    """Write arrays as an .npz, like ``numpy.savez``, which takes no name such as "file".

    Args:
        file: where to write.
        arrays: (name, array), with names that passed ``check_names``.
    """
    with zipfile.ZipFile(file, "w") as archive:
        for name, array in arrays:
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asarray(array), allow_pickle=False)


def check_names(names: Collection[str]) -> None:
    """Check that names can be members of an .npz.

    A name is a relative path with "/" between its parts. No part is "..", and no character is NUL or a
    backslash. It has at most 65,531 bytes of UTF-8. All names are different, with and without ".npy" at
    their end: ``numpy.load`` takes ``a`` and ``a.npy`` for the same array.

    Args:
        names: of all arrays of one file.

    Raises:
        ValueError: a name is not allowed; the message shows it.
    """
    found: set[str] = set()
    for name in names:
        if reason := _reason(name):
            raise ValueError(f"tensor '{shown(name)}' cannot be a member of an .npz: its name {reason}")
        if name in found:
            raise ValueError(f"two arrays of the .npz are called '{shown(name)}'")
        found.add(name)
    for name in found:
        if f"{name}.npy" in found:
            both = f"'{shown(name)}' and '{shown(f'{name}.npy')}'"
            raise ValueError(f"{both} cannot be in one .npz: numpy.load takes them for the same array")


def _reason(name: str) -> str:
    """Say why a name is not allowed; "" if it is."""
    if "\0" in name:
        return "contains NUL"
    if "\\" in name:
        return "contains a backslash"
    if name.startswith("/") or _DRIVE.match(name):
        return "is an absolute path"
    if ".." in name.split("/"):
        return "contains '..' as a part of a path"
    if len(name.encode(errors="surrogatepass")) > MAX_NAME_BYTES:
        return f"has more than {MAX_NAME_BYTES:,} bytes"
    return ""
