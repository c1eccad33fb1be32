"""Content-based names of cached kernels: the name of a data file is a hash of everything its code depends on.

Numba numbers the data files of a function, and its index maps signatures to numbers. While one process
rewrites index and data, another can read a number of the new index and load old code: code of another
signature, or of an older source file.

A name that is a hash of the source stamp, Numba's version and the key (signature, processor, byte code) never
changes its meaning. Its file is either absent, and the kernel is compiled, or correct. Processes that write
an index at the same time can lose entries, which costs only a later compilation.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from pathlib import Path
from typing import Any

from numba.core.caching import IndexDataCacheFile

from wirecodec.kernels.cpu.compile_log import warn_without_cache
from wirecodec.kernels.cpu.source_stamp import compute_stamp

__all__ = ["is_cached", "name_by_contents"]

_PACKAGE = str(Path(__file__).parents[1])
"""Folder of ``wirecodec.kernels``."""


class _ContentNamed(IndexDataCacheFile):  # type: ignore[misc]
    """Index and data files of one function; Numba's own code loads them."""

    def save(self, key: Any, data: Any) -> None:
        """Write the code of a key, then the index; without space or permission, warn instead."""
        try:
            self._save(key, data)
        except OSError as error:
            warn_without_cache(f"the cache cannot be written ({error})")

    def _save(self, key: Any, data: Any) -> None:
        """Write the code of a key, then the index; delete data files that the index no longer names."""
        overloads = self._load_index()
        contents = self._dump((self._version, self._source_stamp, key))
        base = self._index_name.removesuffix("nbi")
        overloads[key] = name = f"{base}{hashlib.sha256(contents).hexdigest()[:32]}.nbc"
        self._save_data(name, data)
        self._save_index(overloads)
        kept = set(overloads.values())
        for path in Path(self._cache_path).glob(f"{base}*.nbc"):
            if path.name not in kept:
                with contextlib.suppress(OSError):
                    path.unlink()

    def has(self, key: Any) -> bool:
        """Return whether there is code for a key."""
        name = self._load_index().get(key)
        return name is not None and os.path.exists(self._data_path(name))


def name_by_contents(cache: Any, source: str) -> None:
    """Make a dispatcher's cache name its files by their contents; ``source`` is the path of its module."""
    numbered = cache._cache_file
    base = numbered._index_name.removesuffix(".nbi")
    try:
        stamp: Any = compute_stamp(source, _PACKAGE)
    except OSError:
        stamp = numbered._source_stamp
    cache._cache_file = _ContentNamed(numbered._cache_path, base, stamp)


def is_cached(dispatcher: Any, signature: Any) -> bool:
    """Return whether the code of a dispatcher's signature can be loaded; False without a cache."""
    cache = dispatcher._cache
    files = getattr(cache, "_cache_file", None)
    if not isinstance(files, _ContentNamed):
        return False
    try:
        return files.has(cache._index_key(signature, dispatcher.targetctx.codegen()))
    except (OSError, EOFError):
        return False
