"""A ``Device`` that is the CPU: the kernels' own sources, compiled as C++ with simt.hpp, in NumPy's memory.

Launches are checked more strictly than on a GPU. Arguments must have the widths of the kernel's parameters,
as NVRTC declares them in PTX. Writes outside an array and threads that wait forever are errors. New arrays
are filled with an implausible bit pattern.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import re
import shutil
import subprocess
import tempfile
import threading
import weakref
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from tests.inputs import Array
from wirecodec.errors import DeviceError
from wirecodec.kernels.cuda import build
from wirecodec.kernels.cuda.device import THREADS

__all__ = ["Emulator", "library_of", "parameters_of", "why_not"]

HERE = Path(__file__).parent
KERNELS = Path(build.__file__).parent
FLAGS = (
    "-std=c++17",
    "-O1",
    "-fPIC",
    "-shared",
    "-ffp-contract=off",
    "-fno-strict-aliasing",
    "-U_FORTIFY_SOURCE",  # which reports jumps between stacks as an error
    "-Wall",
    "-Wextra",
    "-Werror",
    "-Wno-unknown-pragmas",
)
GUARD = 256
POISON = 0xA5
GUARDS = bytes([POISON]) * GUARD
MAX_TURNS = 50_000_000
_ALONE = threading.RLock()  # the scheduler of simt.cpp has one state
_STUCK = {1: "its threads wait for each other forever", 2: "it does not end"}


@cache
def why_not() -> str | None:
    """Return why this machine's CPU cannot run kernels; None if it can."""
    if platform.system() != "Linux" or platform.machine() not in ("x86_64", "aarch64"):
        return f"simt.hpp needs Linux on x86-64 or AArch64; this is {platform.system()} {platform.machine()}"
    return None if _compiler() else "there is no C++ compiler: neither g++ nor clang++, nor CXX"


def _compiler() -> str | None:
    return shutil.which(os.environ.get("CXX", "")) or shutil.which("g++") or shutil.which("clang++")


@cache
def library_of(path: Path) -> Any:
    """Compile a source's kernels once.

    They are kept in the temporary folder. Raises AssertionError if it fails.
    """
    compiler = _compiler()
    assert compiler is not None
    parts = [HERE / "simt.hpp", HERE / "simt.cpp"]
    texts = [*build.read_headers().values(), *(part.read_text() for part in (path, *parts)), *FLAGS]
    digest = hashlib.sha256("\0".join([compiler, *texts]).encode()).hexdigest()[:24]
    folder = Path(tempfile.gettempdir()) / f"wirecodec-simt-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    target = folder / f"{path.stem}-{digest}.so"
    if not target.exists():
        handle, made = tempfile.mkstemp(dir=folder, suffix=".so")
        os.close(handle)
        command = [compiler, *FLAGS, "-x", "c++", "-include", str(parts[0]), f"-I{KERNELS}"]
        done = subprocess.run(
            [*command, str(parts[1]), str(path), "-o", made], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        os.replace(made, target)
    return ctypes.CDLL(str(target))


@cache
def parameters_of(source: str) -> dict[str, tuple[int, ...]] | None:
    """Return the bytes of each parameter of each kernel, according to NVRTC; None if it is missing."""
    try:
        text = build.compile_source(source, "compute_75").ptx.decode()
    except DeviceError as error:
        if "is missing" not in str(error):
            raise
        return None
    found = {}
    for name, inside in re.findall(r"\.entry (\w+)\((.*?)\)", text, re.S):
        widths = re.findall(r"\.param\s+(?:\.align \d+ )?\.[ubfs](\d+)", inside)
        found[name] = tuple(int(width) // 8 for width in widths)
    return found


class Emulator:
    """Emulated device (``wirecodec.kernels.cuda.device.Device``).

    Each launch runs its blocks in another order.
    """

    def __init__(self, seed: int = 1, resident: int = 4) -> None:
        self.seed = seed
        self.resident = resident
        self.launched: list[str] = []
        self._buffers: list[weakref.ref[Array]] = []

    def empty(self, size: int, dtype: Any) -> Array:
        """Allocate an array between guards."""
        nbytes = size * np.dtype(dtype).itemsize
        buffer = self.allocate(nbytes + 2 * GUARD)
        buffer[:] = POISON
        with _ALONE:
            self._buffers.append(weakref.ref(buffer))
        made: Array = buffer[GUARD : GUARD + nbytes].view(dtype)
        return made

    def allocate(self, nbytes: int) -> Array:
        """Allocate bytes, not initialised."""
        return np.empty(nbytes, np.uint8)

    def buffers(self) -> list[Array]:
        """Return the bytes of every array in use, guards included."""
        found = [(each, each()) for each in self._buffers]
        self._buffers = [each for each, buffer in found if buffer is not None]
        return [buffer for _, buffer in found if buffer is not None]

    def clear(self, array: Array) -> None:
        """Set all bytes to 0."""
        array.view(np.uint8)[:] = 0

    def copy(self, source: Array, target: Array) -> None:
        """Copy bytes."""
        assert source.nbytes == target.nbytes
        target.view(np.uint8)[:] = source.view(np.uint8)

    def put(self, array: Array) -> Array:
        """Copy an array to memory between guards."""
        made = self.empty(array.size, array.dtype)
        made[:] = array
        return made

    def write(self, array: Array, target: Array) -> None:
        """Copy bytes from outside."""
        assert array.nbytes == target.nbytes
        target.view(np.uint8)[:] = array.reshape(-1).view(np.uint8)

    def get(self, array: Array) -> Array:
        """Copy an array."""
        found: Array = array.copy()
        return found

    def address(self, array: Array) -> int:
        """Return the address of an array."""
        return int(array.ctypes.data)

    def launch(self, source: str, kernel: str, blocks: int, *arguments: Any) -> None:
        """Run a kernel to its end."""
        widths = parameters_of(source)
        given = tuple(each.itemsize if isinstance(each, np.generic) else 8 for each in arguments)
        assert widths is None or widths[kernel] == given, f"{kernel} has parameters {widths[kernel]}: {given}"
        self.run(KERNELS / f"{source}.cu", kernel, blocks, *arguments)

    def run(self, path: Path, kernel: str, blocks: int, *arguments: Any) -> None:
        """Run a kernel of any source, while other threads wait."""
        with _ALONE:
            self._run(path, kernel, blocks, *arguments)

    def _run(self, path: Path, kernel: str, blocks: int, *arguments: Any) -> None:
        self.launched.append(kernel)
        words = [_word(each) for each in arguments]
        library = library_of(path)
        self.seed += 1
        code = library.simt_launch(
            ctypes.cast(getattr(library, kernel), ctypes.c_void_p),
            ctypes.c_uint(blocks),
            ctypes.c_uint(THREADS),
            ctypes.c_uint(self.resident),
            ctypes.c_ulonglong(self.seed),
            ctypes.c_ulonglong(MAX_TURNS),
            (ctypes.c_ulonglong * len(words))(*words),
            ctypes.c_uint(len(words)),
        )
        assert code == 0, f"{kernel}: {_STUCK[code]}"
        self.check_guards(kernel)

    def check_guards(self, kernel: str) -> None:
        """Raise AssertionError if a kernel wrote outside an array."""
        for buffer in self.buffers():
            beside = buffer[:GUARD].tobytes(), buffer[-GUARD:].tobytes()
            assert beside == (GUARDS, GUARDS), f"{kernel} wrote outside an array"


def _word(argument: Any) -> int:
    """Convert an argument to the word that is passed."""
    if argument is None:
        return 0
    if isinstance(argument, np.integer):
        return int(argument) % 2**64
    assert isinstance(argument, np.ndarray), "numbers are passed as NumPy's integers, floats as their bits"
    assert argument.flags.c_contiguous
    if argument.size == 0:  # as CuPy does
        return 0
    return int(argument.ctypes.data)
