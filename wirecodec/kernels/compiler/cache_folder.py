"""The folder of cached kernels: ``NUMBA_CACHE_DIR``, or one beside an installed library, or Numba's choice.

If Numba cannot write in ``NUMBA_CACHE_DIR``, it uses another folder and reports nothing.
"""

from __future__ import annotations

import contextlib
import functools
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import CompileResultCacheImpl, FunctionCache, IndexDataCacheFile

BESIDE = ".wirecodec-kernels"
"""Folder of an installed library's kernels, in site-packages.

Numba would write into the package's own folders. There pip would leave the files when it removes the library,
and Python would take what is left for a package.
"""

NOWHERE = os.devnull
"""In place of a folder, if none is writable: it has no files."""


class FolderlessCache(FunctionCache):  # type: ignore[misc]
    """Numba's cache without a folder: code that comes with the package is loaded in its way.

    Args:
        fn: function of a kernel.
    """

    def __init__(self, fn: Any) -> None:
        self._name, self._py_func = repr(fn), fn
        self._impl = CompileResultCacheImpl.__new__(CompileResultCacheImpl)  # its constructor needs a folder
        self._cache_file = IndexDataCacheFile(NOWHERE, fn.__qualname__, None)
        self.enable()


@contextlib.contextmanager
def prefer_folder_beside(source: str) -> Iterator[None]:
    """Let Numba open the cache of a module in the folder beside its installed package.

    Nothing changes for a source tree, and where the user has chosen folders.

    Args:
        source: path of the module.
    """
    chosen = numba.config.CACHE_DIR
    sites = [part for part in Path(source).parents if part.name in ("site-packages", "dist-packages")]
    if sites and not (chosen or getattr(numba.config, "CACHE_LOCATOR_CLASSES", "")):
        numba.config.CACHE_DIR = str(sites[0] / BESIDE)
    try:
        yield
    finally:
        numba.config.CACHE_DIR = chosen


@functools.cache
def explain_other_folder(folder: str, wanted: str) -> str | None:
    """Return why Numba does not use the folder of NUMBA_CACHE_DIR, as a clause; None if it does.

    Args:
        folder: cache folder that Numba chose for a kernel.
        wanted: folder of NUMBA_CACHE_DIR; empty if none is set.
    """
    if not wanted or os.path.join(wanted, os.path.basename(folder)) == folder:
        return None
    if getattr(numba.config, "CACHE_LOCATOR_CLASSES", ""):
        return None  # the user sets the order of folders
    try:
        os.makedirs(wanted, exist_ok=True)
        tempfile.TemporaryFile(dir=wanted).close()
    except OSError as error:
        return f"that folder cannot be written ({error})"
    return "a folder inside cannot be written"
