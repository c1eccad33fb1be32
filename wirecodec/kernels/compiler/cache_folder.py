"""Check of ``NUMBA_CACHE_DIR``: if Numba cannot write there, it uses another folder and reports nothing."""

from __future__ import annotations

import functools
import os
import tempfile

import numba


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
