"""Files of weights: a .safetensors, an .npz, or a folder of shards, as one state.

Elements of files of the format safetensors are read where they are, by memory mapping. A file that changes is
written whole: its tensors keep their order and their types, and its header keeps its texts.
"""

from __future__ import annotations

import io
import json
import mmap
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any, BinaryIO, Protocol, TypeAlias

import numpy as np

from wirecodec.arrays import Array, Bytes
from wirecodec.cli.array_files import check_names, is_safetensors, read_arrays, save_npz
from wirecodec.cli.files import FileArgument, format_file, name_file, open_input
from wirecodec.cli.folder_output import refuse_unfinished
from wirecodec.cli.formatting import format_name
from wirecodec.cli.output import is_stream
from wirecodec.cli.safetensors_files import (
    Safetensors,
    make_head,
    make_row,
    view_safetensors,
    write_elements,
)

INDEX_SUFFIX = ".safetensors.index.json"


@dataclass(frozen=True, eq=False)
class Target:
    """Tensors that a file gets.

    Attributes:
        names: of all tensors, those that the file has in their order, and then new ones.
        specs: {name: (shape, dtype)} of those that are new, or replaced by others.
    """

    names: Sequence[str]
    specs: Mapping[str, tuple[tuple[int, ...], np.dtype[Any]]]


Make: TypeAlias = Callable[[str], Array]
"""Function that returns the new tensor of a name; a file asks for each once, when it writes it."""


class Shard(Protocol):
    """File with tensors."""

    @property
    def file(self) -> FileArgument:
        """Return where it is."""

    @property
    def suffix(self) -> str:
        """Return the suffix of its format."""

    @property
    def arrays(self) -> dict[str, Array]:
        """Return {name: array}, in the order of the elements."""

    @property
    def opaque(self) -> Mapping[str, str]:
        """Return {name: type} of tensors whose type containers do not name."""

    def write(self, file: BinaryIO, target: Target, make: Make) -> None:
        """Write the file with other tensors. Raises ValueError if its format cannot hold one."""


@dataclass(frozen=True, eq=False)
class SafetensorsShard:
    """A .safetensors."""

    file: FileArgument
    content: Safetensors
    suffix: str = ".safetensors"

    @property
    def arrays(self) -> dict[str, Array]:
        """Tensors by name."""
        return self.content.arrays

    @property
    def opaque(self) -> Mapping[str, str]:
        """Types that containers do not name."""
        return self.content.opaque

    def write(self, file: BinaryIO, target: Target, make: Make) -> None:
        """Write the file with other tensors; its header stays if names, shapes and types do."""
        head, rows = self.content.head, self.content.rows
        if target.specs or list(target.names) != list(self.arrays):
            kept = set(target.names)
            made = {name: make_row(name, *spec) for name, spec in target.specs.items()}
            rows = {name: row for name, row in rows.items() if name in kept} | made
            head = make_head(rows, target.names, self.content.metadata)
        file.write(head)
        for name in target.names:
            write_elements(file, make(name))


@dataclass(frozen=True, eq=False)
class NpzFile:
    """An .npz, whose arrays are in memory."""

    file: FileArgument
    arrays: dict[str, Array]
    compression: int
    suffix: str = ".npz"
    opaque: Mapping[str, str] = field(default_factory=dict)

    def write(self, file: BinaryIO, target: Target, make: Make) -> None:
        """Write the file with other tensors; those that it has keep the order of their elements."""
        check_names(target.names)
        save_npz(file, ((name, self._order(name, make(name))) for name in target.names), self.compression)

    def _order(self, name: str, array: Array) -> Array:
        """Return an array in the order of elements and bytes that the file has under its name."""
        old = self.arrays.get(name)
        if old is None:
            return array
        if old.dtype.newbyteorder("=") == array.dtype:
            array = array.astype(old.dtype, copy=False)
        is_columnwise = old.flags.f_contiguous and not old.flags.c_contiguous
        return np.asarray(array, order="F") if is_columnwise else array


@dataclass(frozen=True, eq=False)
class StateFiles:
    """State in files.

    Attributes:
        file: the file or the folder.
        shards: its files, in the order of their names.
        index: path and content of the index of a folder; None without one.
        arrays: {name: array} over all shards.
    """

    file: FileArgument
    shards: tuple[Shard, ...]
    index: tuple[Path, Mapping[str, Any]] | None = None
    arrays: dict[str, Array] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "arrays", {n: x for shard in self.shards for n, x in shard.arrays.items()})

    @property
    def is_folder(self) -> bool:
        """Whether the state is in a folder."""
        return isinstance(self.file, Path) and self.file.is_dir()

    @property
    def opaque(self) -> dict[str, str]:
        """{name: type} of tensors whose type containers do not name."""
        return {name: kind for shard in self.shards for name, kind in shard.opaque.items()}

    def make_index(self, targets: Mapping[str, Target], *, always: bool) -> tuple[str, bytes] | None:
        """Make the index of changed shards: its name and bytes, or None if there is none.

        Args:
            targets: {name of the shard's file: its tensors}.
            always: whether an index that stays as it is counts, too.
        """
        if self.index is None:
            return None
        path = self.index[0]
        content, shards = self.index[1], {shard_name(shard): shard for shard in self.shards}
        places = dict(content["weight_map"])
        size = elements = 0
        for file, target in targets.items():
            arrays = shards[file].arrays
            gone = set(arrays) - set(target.names)
            places = {name: place for name, place in places.items() if name not in gone}
            places |= dict.fromkeys(target.names, file)
            old = [arrays[name] for name in arrays if name in gone or name in target.specs]
            new = [np.broadcast_to(np.empty((), dtype), shape) for shape, dtype in target.specs.values()]
            size += sum(x.nbytes for x in new) - sum(x.nbytes for x in old)
            elements += sum(x.size for x in new) - sum(x.size for x in old)
        metadata = dict(content.get("metadata") or {})
        for key, change in (("total_size", size), ("total_parameters", elements)):
            if type(metadata.get(key)) is int:
                metadata[key] += change
        if (places, metadata) == (content["weight_map"], content.get("metadata") or {}):
            return (path.name, path.read_bytes()) if always else None
        changed = {**content, "weight_map": places} | ({"metadata": metadata} if metadata else {})
        return path.name, (json.dumps(changed, indent=2, sort_keys=True) + "\n").encode()


def shard_name(shard: Shard) -> str:
    """Return the name of a shard's file."""
    return shard.file.name if isinstance(shard.file, Path) else ""


def open_state(file: FileArgument) -> StateFiles:
    """Open a .safetensors, an .npz, or a folder of shards.

    Raises:
        ValueError: it is none of them, or is damaged.
        OSError: it cannot be read.
        MemoryError: the arrays of an .npz do not fit into memory.
    """
    if isinstance(file, Path) and file.is_dir():
        return _open_folder(file)
    return StateFiles(file, (_open_shard(file),))


def _open_shard(file: FileArgument) -> Shard:
    """Open a file; its first bytes determine what it is."""
    with name_file(file), open_input(file) as opened:
        source = opened if isinstance(file, Path) and not is_stream(file) else io.BytesIO(opened.read())
        magic = source.read(9)
        source.seek(0)
        if is_safetensors(magic):
            return SafetensorsShard(file, view_safetensors(_map(source)))
        arrays = read_arrays(source)
        if not isinstance(arrays, dict):
            raise ValueError("a .npy has no names; save the arrays as an .npz: numpy.savez(FILE, NAME=array)")
        with zipfile.ZipFile(source) as archive:
            kinds = {member.compress_type for member in archive.infolist()}
        return NpzFile(file, arrays, min(kinds, default=zipfile.ZIP_STORED))


def _map(source: BinaryIO) -> Bytes:
    """Map a file that is not empty into memory; one that is in memory is viewed."""
    if isinstance(source, io.BytesIO):
        return np.frombuffer(source.getbuffer(), np.uint8)
    return np.frombuffer(mmap.mmap(source.fileno(), 0, access=mmap.ACCESS_READ), np.uint8)


def _open_folder(folder: Path) -> StateFiles:
    """Open a folder with an index and its shards, or with a single .safetensors."""
    refuse_unfinished(folder)
    found = sorted(folder.glob(f"*{INDEX_SUFFIX}"))
    if len(found) > 1:
        raise ValueError(f"{folder}: there are {len(found)} indexes, such as {found[0].name}; keep one")
    if found:
        content = _read_index(found[0])
        places: dict[str, set[str]] = {}
        for name, place in content["weight_map"].items():
            places.setdefault(place, set()).add(name)
        # an index without names, as after the removal of all tensors, does not name the files either
        files = [folder / place for place in sorted(places)] or sorted(folder.glob("*.safetensors"))
        if not files:
            raise ValueError(f"{folder}: the folder has no file of the format safetensors; download it again")
        shards = tuple(map(_open_shard, files))
        for shard in shards:
            if odd := sorted(places.get(shard_name(shard), set()) ^ set(shard.arrays)):
                raise ValueError(
                    f"{format_file(shard.file)}: tensor '{format_name(odd[0])}' is either in the file or in"
                    f" {found[0].name}, but not in both; download the folder again"
                )
        return StateFiles(folder, shards, (found[0], content))
    files = sorted(folder.glob("*.safetensors"))
    if len(files) != 1:
        raise ValueError(
            f"{folder}: the folder has {len(files)} files of the format safetensors and no index"
            f" *{INDEX_SUFFIX}; name a file"
        )
    return StateFiles(folder, (_open_shard(files[0]),))


def _read_index(path: Path) -> dict[str, Any]:
    """Read an index. Raises ValueError unless it maps names to files of its folder."""
    with name_file(path):
        try:
            content = json.loads(path.read_bytes())
        except (ValueError, RecursionError) as error:
            raise ValueError(f"the index is damaged: {error}") from None
        places = content.get("weight_map") if isinstance(content, dict) else None
        if not isinstance(places, dict) or not all(map(_is_plain, places.values())):
            raise ValueError("the index is damaged: weight_map does not map names to files of the folder")
        if not isinstance(content.get("metadata") or {}, dict):
            raise ValueError("the index is damaged: metadata is no JSON object")
        return dict(content)


def _is_plain(name: Any) -> bool:
    """Return whether a text is the name of a .safetensors in a folder, not a path."""
    return (
        isinstance(name, str)
        and "\0" not in name
        and PurePath(name).name == name
        and name.endswith(".safetensors")
    )
