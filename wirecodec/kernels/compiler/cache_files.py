"""Disk cache of a kernel: the name of a data file is a hash of all that its code depends on.

Numba numbers the data files of a function, and its index maps signatures to numbers. While one process
rewrites index and data, another can read a number of the new index and load old code: code of another
signature, or of an older source file.

A name that is a hash of the source stamp, Numba's version and the key (signature, processor, byte code) never
changes its meaning. Its file is absent or correct, or its checksum shows that it is damaged
(``checked_files``). If it is not correct, the kernel is compiled and the file is replaced. Processes that
write an index at the same time can lose entries, which costs only a later compilation.
"""

from __future__ import annotations

import contextlib
import hashlib
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from numba.core.caching import IndexDataCacheFile

from wirecodec.kernels.compiler.built import FOLDER, name_entry, read_built
from wirecodec.kernels.compiler.cache_folder import NOWHERE
from wirecodec.kernels.compiler.cached_only import CompilationNeeded, is_compilation_allowed
from wirecodec.kernels.compiler.checked_files import read_checked, write_checked
from wirecodec.kernels.compiler.compile_log import warn_without_cache
from wirecodec.kernels.compiler.source_stamp import compute_stamp

_PACKAGE = str(Path(__file__).parents[1])
"""Folder of ``wirecodec.kernels``."""

_FORM = "v2"
"""Form of the files, in their names: files of another form are not read, and thus not reported as damaged."""


class _ContentNamed(IndexDataCacheFile):  # type: ignore[misc]
    """Index and data files of one function.

    Args:
        is_kernel: whether the package may have its code, too; the stamp is then that of ``read_built``.

    Attributes:
        built: keys whose code came with the package.
        damage: folder and name of the first damaged or unreadable file, with the reason; None without damage.
    """

    def __init__(
        self, cache_path: str, filename_base: str, source_stamp: Any, is_kernel: bool = False
    ) -> None:
        super().__init__(cache_path, filename_base, source_stamp)
        self._is_kernel = is_kernel
        self.damage: tuple[str, str] | None = None
        self.built: set[Any] = set()
        self._ready: dict[Any, bytes] = {}
        self._rejected: set[Any] = set()
        self._rejected_built: set[Any] = set()

    def load(self, key: Any) -> Any:
        """Return the code of a key, or None if there is none or it is damaged."""
        contents = self._ready.pop(key, None) or self._find(key)
        return None if contents is None else pickle.loads(contents)

    def save(self, key: Any, data: Any) -> None:
        """Write the code of a key, then the index; without space or permission, warn instead."""
        try:
            self._save(key, data)
        except OSError as error:
            warn_without_cache(f"the cache cannot be written ({error})")

    def has(self, key: Any) -> bool:
        """Return whether there is intact code for a key; it is kept in memory for ``load`` or ``release``."""
        if key not in self._ready:
            contents = self._find(key)
            if contents is None:
                return False
            self._ready[key] = contents
        return True

    def release(self) -> None:
        """Release the memory of code that was not loaded."""
        self._ready.clear()

    def reject(self, key: Any, error: Exception) -> None:
        """Note that the code of a key cannot be used, until it is saved again."""
        if key in self.built:
            self._note_damage(str(FOLDER), "a kernel", error)
            self._rejected_built.add(key)
            self.built.discard(key)
            return
        self._note_damage(self._cache_path, self._load_index().get(key, self._index_name), error)
        self._rejected.add(key)

    def _find(self, key: Any) -> bytes | None:
        """Return the pickled code of a key, or None; that of the package comes first."""
        if self._is_kernel and key not in self._rejected_built:
            contents = read_built(self._source_stamp, key, self._note_damage)
            if contents is not None:
                self.built.add(key)
                return contents
        name = None if key in self._rejected else self._load_index().get(key)
        return None if name is None else self._read(name)

    def _read(self, name: str) -> bytes | None:
        """Return the contents of a file; None if it is absent or damaged."""
        try:
            return read_checked(self._data_path(name))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except Exception as error:
            self._note_damage(self._cache_path, name, error)
            return None

    def _note_damage(self, folder: str, name: str, error: Exception) -> None:
        self.damage = self.damage or (folder, f"{name}: {str(error) or type(error).__name__}")

    def _save(self, key: Any, data: Any) -> None:
        """Write the code of a key, then the index; delete data files that the index no longer names."""
        overloads = self._load_index()
        contents = self._dump((self._version, self._source_stamp, key))
        base = self._index_name.removesuffix("nbi")
        overloads[key] = name = f"{base}{hashlib.sha256(contents).hexdigest()[:32]}.nbc"
        self._save_data(name, data)
        self._save_index(overloads)
        self._rejected.discard(key)
        kept = set(overloads.values())
        for path in Path(self._cache_path).glob(f"{base}*.nbc"):
            if path.name not in kept:
                with contextlib.suppress(OSError):
                    path.unlink()

    def _load_index(self) -> dict[Any, str]:
        """Return {key: name of a data file}; empty if the index is absent, damaged or of another source."""
        contents = self._read(self._index_name)
        if contents is None:
            return {}
        try:
            # Keys of another version of Numba need not be readable, so they are a pickle inside a pickle.
            version, stamp, overloads = pickle.loads(contents)
            same = version == self._version and stamp == self._source_stamp
            return pickle.loads(overloads) if same else {}
        except Exception as error:
            self._note_damage(self._cache_path, self._index_name, error)
            return {}

    def _save_index(self, overloads: dict[Any, str]) -> None:
        contents = self._dump((self._version, self._source_stamp, self._dump(overloads)))
        write_checked(self._index_path, contents)

    def _save_data(self, name: str, data: Any) -> None:
        write_checked(self._data_path(name), self._dump(data))


class KernelCache:
    """Disk cache of one kernel in front of Numba's, with its methods: what cannot be loaded is compiled.

    Args:
        cache: Numba's.
        name: module and name of the kernel.
        source: path of its module.
    """

    def __init__(self, cache: Any, name: str, source: str) -> None:
        numbered = cache._cache_file
        base = numbered._index_name.removesuffix("nbi") + _FORM
        try:
            stamp: Any = compute_stamp(source, _PACKAGE)
        except OSError:
            stamp = numbered._source_stamp
        self._name = name
        self._cache = cache
        self._files = cache._cache_file = _ContentNamed(
            numbered._cache_path, base, (name, stamp), is_kernel=True
        )

    @property
    def cache_path(self) -> str | None:
        """Folder of the files; None if no folder is writable."""
        folder: str = self._files._cache_path
        return None if folder == NOWHERE else folder

    @property
    def damage(self) -> tuple[str, str] | None:
        """Folder and name of the first damaged or unreadable file, with the reason; None without damage."""
        return self._files.damage

    def export(self, context: Any) -> Iterator[tuple[str, bytes]]:
        """Yield name of the entry in ``built``, and pickled code, of all signatures stored for a target."""
        for key in self._files._load_index():
            if key[1] == context.codegen().magic_tuple():
                contents = self._files._find(key)
                if contents is not None:
                    yield name_entry(self._files._source_stamp, key[0]), contents

    def has(self, signature: Any, context: Any) -> bool:
        """Return whether the code of a signature can be loaded."""
        return self._files.has(self._cache._index_key(signature, context.codegen()))

    def is_built(self, signature: Any, context: Any) -> bool:
        """Return whether the code that ``has`` found came with the package."""
        return self._cache._index_key(signature, context.codegen()) in self._files.built

    def release(self) -> None:
        """Release the memory of code that was not loaded."""
        self._files.release()

    def enable(self) -> None:
        """Load and save from now on."""
        self._cache.enable()

    def disable(self) -> None:
        """Neither load nor save from now on."""
        self._cache.disable()

    def flush(self) -> None:
        """Empty the index."""
        self._cache.flush()

    def load_overload(self, signature: Any, context: Any) -> Any:
        """Return the code of a signature, or None if it must be compiled.

        Raises:
            CompilationNeeded: it must be, inside ``cached_kernels_only``.
        """
        found = None
        for _ in range(2):  # the user's code, if that of the package is of no use
            try:
                found = self._cache.load_overload(signature, context)
                break
            except Exception as error:  # intact, but this process cannot use it
                self._files.reject(self._cache._index_key(signature, context.codegen()), error)
        if found is None and not is_compilation_allowed():
            raise CompilationNeeded(self._name)
        return found

    def save_overload(self, signature: Any, result: Any) -> None:
        """Store the code of a signature; without space or permission, warn instead."""
        if self.cache_path is None:
            return
        try:
            self._cache.save_overload(signature, result)
        except OSError as error:
            warn_without_cache(f"the cache cannot be written ({error})")
