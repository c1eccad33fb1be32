"""Stamps of kernels' sources: one hash of a module's text and of all kernel modules that it imports.

Numba's stamp is the time and the size of the kernel's own file. Code that another module contributed would
stay in the cache after that module had changed; after an upgrade too, if an installer sets all times alike.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re

_PACKAGE = "wirecodec.kernels"
_IMPORT = re.compile(rf"^ *from {_PACKAGE}([\w.]*) import (\([^)]*\)|.*)$", re.MULTILINE)


@functools.cache
def compute_stamp(file: str, package: str) -> str:
    """Return the stamp of a module, as hexadecimal digits.

    Args:
        file: path of its source.
        package: path of the folder of ``wirecodec.kernels``.

    Raises:
        OSError: a source cannot be read.
    """
    waiting, found = [file], {file}
    while waiting:
        imports = list_imports(waiting.pop(), package) - found
        found |= imports
        waiting += imports
    total = hashlib.sha256()
    for source in sorted(found):
        total.update(_read(source)[1])
    return total.hexdigest()[:32]


@functools.cache
def list_imports(file: str, package: str) -> frozenset[str]:
    """Return the paths of the kernel modules that a module imports itself, anywhere in its text."""
    found = set()
    for name, names in _IMPORT.findall(_read(file)[0]):
        place = package + name.replace(".", os.sep)
        if _is_module(place):
            found.add(f"{place}.py")
        else:
            found |= {
                f"{path}.py"
                for word in re.findall(r"\w+", names)
                if _is_module(path := os.path.join(place, word))
            }
    return frozenset(found)


@functools.cache
def _is_module(place: str) -> bool:
    """Return whether there is a source with this path, but for its ending."""
    return os.path.isfile(f"{place}.py")


@functools.cache
def _read(file: str) -> tuple[str, bytes]:
    """Return the text of a source, and its hash."""
    with open(file, "rb") as stream:
        data = stream.read()
    return data.decode().replace("\r\n", "\n"), hashlib.sha256(data).digest()
