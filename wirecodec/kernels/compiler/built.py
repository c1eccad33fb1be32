"""Kernels that were compiled when the package was built: a file for each level of processors.

A wheel has these files in ``wirecodec/kernels/built``; a source tree has none. The code of a level runs on
each processor of its kind with its features, and all levels give the same results. A kernel is taken from the
best level that has it.

A file begins with a line, the checksum of the second one. The second line is JSON: on what the code depends,
and where the code of each kernel is, with its checksum. The rest is code, as Numba's disk cache stores it.
"""

from __future__ import annotations

import functools
import hashlib
import json
import platform
import sysconfig
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import llvmlite
import numba

FOLDER = Path(__file__).parents[1] / "built"
"""Folder of the files."""

_OPTIONS = (
    "OPT",
    "LOOP_VECTORIZE",
    "SLP_VECTORIZE",
    "BOUNDSCHECK",
    "DEBUGINFO_DEFAULT",
    "ENABLE_PROFILING",
    "LLVM_REFPRUNE_PASS",
    "USING_SVML",
)
"""Settings of Numba that change code."""


@dataclass(frozen=True)
class Level:
    """Level of processors.

    Attributes:
        name: of its file.
        machine: the kind of its processors, with which LLVM's triples begin.
        processor: LLVM's name of the processor for which it compiles.
        features: LLVM's names of the features that code of this level may use, beside those of each processor
            of this kind.
    """

    name: str
    machine: str
    processor: str
    features: frozenset[str]

    @property
    def file_name(self) -> str:
        """Name of the file of this level."""
        return f"{self.name}.kernels"

    @property
    def variables(self) -> dict[str, str]:
        """Environment variables with which Numba compiles for this level."""
        features = ",".join(f"+{feature}" for feature in sorted(self.features))
        return {"NUMBA_CPU_NAME": self.processor, "NUMBA_CPU_FEATURES": features}


_V1 = frozenset({"cmov", "cx8", "fxsr", "mmx", "sse", "sse2"})
_V2 = _V1 | {"crc32", "cx16", "popcnt", "sahf", "sse3", "sse4.1", "sse4.2", "ssse3"}
_V3 = _V2 | {"avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "pclmul", "xsave"}
_V4 = _V3 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl", "avx512vbmi2", "vpclmulqdq"}
"""AVX-512 with what kernels use of later processors: those of Intel from 2019 on, and of AMD from 2022 on."""

LEVELS = (
    Level("x86-64-v4", "x86_64", "x86-64-v4", _V4),
    Level("x86-64-v3", "x86_64", "x86-64-v3", _V3),
    Level("aarch64", "aarch64", "generic", frozenset()),
)
"""All levels, of each kind of processors the best one first."""

Note = Callable[[str, str, Exception], None]
"""Function that is told of damage: folder, file, error."""


def read_built(kernel: tuple[str, Any], key: Any, note: Note) -> bytes | None:
    """Return the pickled code of a kernel, or None if no file has it for this process.

    Args:
        kernel: its name, and the stamp of its source.
        key: of Numba's disk cache: signature, target, hashes.
        note: called for each damaged file.
    """
    signature, (triple, _, features), _ = key
    available, machine = set(features.split(",")), triple.partition("-")[0]
    for level in LEVELS:
        if level.machine == machine and available.issuperset(f"+{feature}" for feature in level.features):
            try:
                contents = _open(FOLDER / level.file_name, level, triple).read(name_entry(kernel, signature))
            except Exception as error:
                note(str(FOLDER), level.file_name, error)
            else:
                if contents is not None:
                    return contents
    return None


def explain_other_environment() -> str:
    """Return what the files of this package are for, as a clause, if it is not this process; or nothing."""
    return f"; those of the package are for {_foreign[0]}" if _foreign else ""


_foreign: list[str] = []
"""What files that are intact were made for, where it differs."""


class _File:
    """File of a level.

    Args:
        path: of an existing file.

    Raises:
        OSError: it cannot be read.
        ValueError: it is damaged.
    """

    def __init__(self, path: Path) -> None:
        with path.open("rb") as file:
            checksum, line = file.readline(), file.readline()
            self._start = file.tell()
        if checksum.decode("ascii").strip() != hashlib.sha256(line).hexdigest():
            raise ValueError("its checksum does not match its contents")
        self._path = path
        head = json.loads(line)
        self.environment: dict[str, Any] = head["environment"]
        self.entries: dict[str, tuple[int, int, str]] = head["kernels"]

    def read(self, name: str) -> bytes | None:
        """Return the contents of an entry, or None without such an entry.

        Raises:
            OSError: the file cannot be read.
            ValueError: it is damaged.
        """
        if name not in self.entries:
            return None
        start, size, checksum = self.entries[name]
        with self._path.open("rb") as file:  # opened each time: forks share no position
            file.seek(self._start + start)
            contents = file.read(size)
        if _compute_checksum(name, contents) != checksum:
            raise ValueError("the checksum of a kernel does not match its code")
        return contents


class _NoFile:
    """Stand-in for a file that is absent, or of another environment."""

    def read(self, name: str) -> bytes | None:
        """Return None."""
        return None


@functools.cache
def _open(path: Path, level: Level, triple: str) -> _File | _NoFile:
    """Open a file; errors are not remembered."""
    if not path.exists():
        return _NoFile()
    file, wanted = _File(path), describe_environment(level, triple)
    if file.environment == wanted:
        return file
    made = {name: value for name, value in file.environment.items() if value != wanted.get(name)}
    _foreign.append(", ".join(f"{name} {value}" for name, value in made.items()) or "another environment")
    return _NoFile()


def name_entry(kernel: tuple[str, Any], signature: Any) -> str:
    """Return the name of an entry: kernel, stamp of its source, and types of its arguments."""
    name, stamp = kernel
    return f"{name} {stamp} {signature}"


def describe_environment(level: Level, triple: str) -> dict[str, Any]:
    """Return all that code depends on beside its source, in JSON's types.

    Args:
        level: of the processor.
        triple: LLVM's name of the machine and the system.
    """
    return {
        "Python": sysconfig.get_config_var("SOABI").replace(platform.machine(), level.machine),
        "Numba": numba.__version__,
        "llvmlite": llvmlite.__version__,
        "target": triple,
        "processor": [level.processor, *sorted(level.features)],
        "settings": [str(getattr(numba.config, option, None)) for option in _OPTIONS],
    }


def write_built(path: Path, environment: Mapping[str, Any], kernels: Mapping[str, bytes]) -> None:
    """Write the file of a level.

    Args:
        path: of the file.
        environment: from ``describe_environment``.
        kernels: {name of an entry: pickled code}.

    Raises:
        OSError: it cannot be written.
    """
    entries = dict(_place(kernels))
    line = json.dumps({"environment": environment, "kernels": entries}).encode() + b"\n"
    with path.open("wb") as file:
        file.write(hashlib.sha256(line).hexdigest().encode() + b"\n" + line)
        file.writelines(kernels.values())


def _place(kernels: Mapping[str, bytes]) -> Iterator[tuple[str, tuple[int, int, str]]]:
    """Yield name, and (start, size, checksum) of each entry."""
    start = 0
    for name, contents in kernels.items():
        yield name, (start, len(contents), _compute_checksum(name, contents))
        start += len(contents)


def _compute_checksum(name: str, contents: bytes) -> str:
    """Return the SHA-256 of an entry's name and contents, as hexadecimal digits."""
    return hashlib.sha256(name.encode() + b"\0" + contents).hexdigest()
