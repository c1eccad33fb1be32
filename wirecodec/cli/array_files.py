"""Files of arrays: the command line reads and writes .npy, .npz and .safetensors.

NumPy writes bfloat16 and most types of float8 as bytes without a meaning, and reads them as such. Of 2 bytes
they are bfloat16, as for ``jax.numpy.load``. Of 1 byte they may be of several types, and are refused.

The arrays of an .npz are members of a zip archive: the tensor ``a/b`` is the member ``a/b.npy``. Zip
archives and ``numpy.load`` confuse some names, and programs that unpack archives use names as paths.
``check_names`` defines the names that are allowed, both for reading and for writing.
"""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Collection, Iterable
from pathlib import PurePosixPath
from typing import Any, BinaryIO, cast

import numpy as np

from wirecodec.arrays import Array
from wirecodec.cli.files import FileArgument, name_file, name_of, open_input
from wirecodec.cli.formatting import format_name
from wirecodec.cli.safetensors_files import load_safetensors
from wirecodec.container.writer import MAGIC
from wirecodec.element_types import BFLOAT16
from wirecodec.errors import EncodeError
from wirecodec.tensors import as_flat

MAX_NAME_BYTES = 65_531
"""UTF-8 bytes of a name: a zip archive allows 65,535 for a member's name, and ``.npy`` takes 4."""

NAME_RULE = (
    "The arrays of an .npz have the names of the tensors. A name is a relative path without '..', backslash "
    f"and NUL, of at most {MAX_NAME_BYTES:,} bytes. It must not equal another name followed by '.npy'. "
    "Other names are refused."
)
"""The rule of ``check_names``, for ``--help``."""

_NPY, _ZIP = b"\x93NUMPY", b"PK"
_SAFETENSORS = b"{"
"""Ninth byte: the first eight are the length of a header, which is a JSON object."""
_PICKLE = b"\x80"
"""First byte of pickles, such as the files of torch before version 1.6; later ones are zip archives."""
_SAVED_BY_TORCH = "a file of torch.save"
_SAVE_AS_NPZ = (
    "save the tensors as an .npz: "
    "numpy.savez(FILE, **{name: x.float().numpy(force=True) for name, x in tensors.items()})"
)
_SAVED_BY_SCIPY = {"format", "shape", "data"}
"""Names of arrays that each file of ``scipy.sparse.save_npz`` has."""
_FLOAT8 = (
    "the elements are one byte each without a type: NumPy does not name float8. Save the tensors as a"
    " .safetensors, which names it, or as floats, as in array.astype(numpy.float32)"
)
_DRIVE = re.compile(r"[A-Za-z]:/")


def load_arrays(file: FileArgument) -> dict[str, Any] | Array:
    """Read the array of a .npy, or the arrays of an .npz or a .safetensors by name.

    Args:
        file: its first bytes determine which of them it is.

    Returns:
        The array of a .npy, or {name: array}.

    Raises:
        ValueError: the file is none of them, is damaged, or has a name that is not allowed.
        OSError: it cannot be read.
        MemoryError: its arrays do not fit into memory.
    """
    with name_file(file), open_input(file) as stream:
        return read_arrays(stream if stream.seekable() else io.BytesIO(stream.read()))


def read_arrays(stream: BinaryIO) -> dict[str, Any] | Array:
    """Read the array of a .npy, or the arrays of an .npz or a .safetensors, from a file that can seek.

    Raises:
        ValueError, OSError, MemoryError: as ``load_arrays``.
    """
    magic = stream.read(9)
    stream.seek(-len(magic), io.SEEK_CUR)
    if magic.startswith(_PICKLE) and magic[8:] != _SAFETENSORS:
        raise ValueError(f"this is {_SAVED_BY_TORCH}, or another pickle; {_SAVE_AS_NPZ}")
    if magic.startswith(MAGIC):
        raise ValueError("this is a container; wirecodec decode converts it to a .npy or .npz")
    if not magic.startswith((_NPY, _ZIP)) and magic[8:] != _SAFETENSORS:
        raise ValueError("the file is no .npy, .npz or .safetensors")
    try:
        if is_safetensors(magic):
            return load_safetensors(stream)
        return _load_npz(stream) if magic.startswith(_ZIP) else _load_npy(stream)
    except (OSError, MemoryError, ValueError):
        raise
    except Exception as error:  # NumPy and zipfile raise any type of exception for damaged files
        raise ValueError(f"the file is damaged: {type(error).__name__}: {error}") from None


def is_safetensors(magic: bytes) -> bool:
    """Return whether the first 9 bytes of a file are those of a .safetensors."""
    return magic[8:9] == _SAFETENSORS and not magic.startswith((_NPY, _ZIP))


def load_tensors(file: FileArgument) -> dict[str, Any]:
    """Read the arrays of an .npz or a .safetensors by name, or that of a .npy by the name of its file.

    Raises:
        ValueError, OSError, MemoryError: as ``load_arrays``.
    """
    arrays = load_arrays(file)
    return {name_of(file): arrays} if isinstance(arrays, np.ndarray) else arrays


def load_gradient(file: FileArgument) -> dict[str, Any]:
    """Read tensors as ``load_tensors``, and check that they can be measured.

    Raises:
        ValueError: the file has no elements, has an array of a type that containers cannot hold, or cannot
            be read.
        OSError, MemoryError: as ``load_arrays``.
    """
    tensors = load_tensors(file)
    with name_file(file):
        for name, tensor in tensors.items():
            try:
                as_flat(tensor)
            except EncodeError as error:
                raise error.of(name) from None
        if not any(tensor.size for tensor in tensors.values()):
            raise ValueError("the file holds no elements; there is nothing to measure")
    return tensors


def _load_npy(file: BinaryIO) -> Array:
    """Read one .npy; raise ValueError if it holds Python objects, or bytes without a meaning."""
    try:
        array: Array = np.lib.format.read_array(file, allow_pickle=False)
    except ValueError as error:
        if "'<f1'" in str(error):
            raise ValueError(_FLOAT8) from None
        if "allow_pickle" in str(error):
            raise ValueError(
                "the array holds Python objects; save it as floats, as in array.astype(numpy.float32)"
            ) from None
        raise
    if array.dtype == "V1":
        raise ValueError(_FLOAT8)
    return array.view(BFLOAT16) if array.dtype == "V2" else array


def _load_npz(file: BinaryIO) -> dict[str, Any]:
    """Read all members of an .npz.

    ``numpy.load`` is not used: for two members of one name it returns one array, without an error.
    """
    with zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        names = [member.orig_filename.removesuffix(".npy") for member in members]
        if any(PurePosixPath(member.orig_filename).name == "data.pkl" for member in members):
            raise ValueError(f"this is {_SAVED_BY_TORCH}; {_SAVE_AS_NPZ}")
        check_names(names)
        if set(names) >= _SAVED_BY_SCIPY:
            raise ValueError(
                "this is a file of scipy.sparse.save_npz, whose arrays are parts of one matrix; encode it in"
                " Python: wirecodec.encode(scipy.sparse.load_npz(FILE))"
            )
        return {
            name: _load_member(archive, member, name) for name, member in zip(names, members, strict=True)
        }


def _load_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, name: str) -> Array:
    """Read one array of an .npz; its errors name it."""
    with archive.open(member) as stream:
        try:
            return _load_npy(cast("BinaryIO", stream))
        except ValueError as error:
            raise ValueError(f"tensor '{format_name(name)}': {error}") from None


def save_npz(
    file: BinaryIO, arrays: Iterable[tuple[str, Array]], compression: int = zipfile.ZIP_STORED
) -> None:
    """Write arrays as an .npz.

    ``numpy.savez`` is not used: names such as "file" are its own parameters.

    Args:
        file: a binary file, open for writing.
        arrays: (name, array), with names that passed ``check_names``.
        compression: method of the archive, as ``zipfile`` numbers it.
    """
    with zipfile.ZipFile(file, "w", compression) as archive:
        for name, array in arrays:
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asarray(array), allow_pickle=False)


def check_names(names: Collection[str]) -> None:
    """Check that names can be members of an .npz.

    A name is a relative path with "/" between its parts. No part is "..", and no character is NUL or a
    backslash. It has at most 65,531 bytes of UTF-8. No name equals another one, or another one followed by
    ".npy": ``numpy.load`` confuses ``a`` and ``a.npy``.

    Args:
        names: of all arrays of one file.

    Raises:
        ValueError: a name is not allowed; the message shows it.

    Examples:
        >>> check_names(["layer/weight", "layer/bias"])
    """
    seen: set[str] = set()
    for name in names:
        if reason := _reason(name):
            raise ValueError(f"tensor '{format_name(name)}' cannot be a member of an .npz: its name {reason}")
        if name in seen:
            raise ValueError(f"two arrays of the .npz are called '{format_name(name)}'")
        seen.add(name)
    for name in seen:
        if f"{name}.npy" in seen:
            both = f"'{format_name(name)}' and '{format_name(f'{name}.npy')}'"
            raise ValueError(f"{both} cannot be in one .npz: numpy.load confuses them")


def _reason(name: str) -> str:
    """Return the reason why a name is not allowed; "" if it is allowed."""
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
