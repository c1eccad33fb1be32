"""NVIDIA's runtime compiler, called through ctypes: CUDA C to PTX or to a cubin.

CuPy's ``RawModule`` also compiles, but flushes denormals to zero (-ftz=true), so that floats differ from a
CPU's. The library is that of the ``nvidia-cuda-nvrtc`` wheels, or the system's. It needs neither a GPU nor a
driver.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from wirecodec.errors import DeviceError

_WHEELS = ("nvidia.cuda_nvrtc", "nvidia.cu13")
_SYSTEM = ("libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so")
_OLDEST = (12, 0)
_SUCCESS = 0


@dataclass(frozen=True)
class Compiled:
    """Compiled source.

    Attributes:
        ptx: text for any device of the architecture or a newer one.
        binary: the cubin; empty if the target was virtual, compute_NN.
    """

    ptx: bytes
    binary: bytes


def compile_source(source: str, name: str, headers: Mapping[str, str], options: Sequence[str]) -> Compiled:
    """Compile a source for the architecture that the options name.

    Args:
        source: CUDA C.
        name: of the source, for messages.
        headers: {name: text} that it may include.
        options: of the compiler.

    Raises DeviceError, with the compiler's messages, if it fails or the compiler is missing.
    """
    library = _library()
    program = ctypes.c_void_p()
    texts = (ctypes.c_char_p * len(headers))(*(text.encode() for text in headers.values()))
    names = (ctypes.c_char_p * len(headers))(*(each.encode() for each in headers))
    _check(
        library.nvrtcCreateProgram(
            ctypes.byref(program), source.encode(), name.encode(), len(headers), texts, names
        ),
        f"creating a program of {name}",
    )
    try:
        arguments = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
        if library.nvrtcCompileProgram(program, len(options), arguments) != _SUCCESS:
            log = _fetch(program, library.nvrtcGetProgramLogSize, library.nvrtcGetProgramLog)
            raise DeviceError(f"{name} does not compile: {log.rstrip(bytes(1)).decode(errors='replace')}")
        ptx = _fetch(program, library.nvrtcGetPTXSize, library.nvrtcGetPTX)
        return Compiled(
            ptx.rstrip(bytes(1)), _fetch(program, library.nvrtcGetCUBINSize, library.nvrtcGetCUBIN)
        )
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))


def _fetch(program: ctypes.c_void_p, size: Any, get: Any) -> bytes:
    """Fetch a result by a pair of NVRTC's functions."""
    length = ctypes.c_size_t()
    _check(size(program, ctypes.byref(length)), "asking for the length of a result")
    buffer = ctypes.create_string_buffer(max(length.value, 1))
    _check(get(program, buffer), "asking for a result")
    return buffer.raw[: length.value]


def version() -> tuple[int, int]:
    """Return the compiler's version, such as (12, 9). Raises DeviceError if it is missing."""
    return _version_of(_library())


def architectures() -> tuple[int, ...]:
    """Return the architectures that the compiler knows, ascending; 75 means compute capability 7.5."""
    library, count = _library(), ctypes.c_int()
    _check(library.nvrtcGetNumSupportedArchs(ctypes.byref(count)), "counting architectures")
    found = (ctypes.c_int * count.value)()
    _check(library.nvrtcGetSupportedArchs(found), "asking for architectures")
    return tuple(sorted(found))


def _version_of(library: Any) -> tuple[int, int]:
    major, minor = ctypes.c_int(), ctypes.c_int()
    _check(library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)), "asking for the version")
    return major.value, minor.value


def _check(code: int, doing: str) -> None:
    if code != _SUCCESS:
        raise DeviceError(f"NVRTC failed in {doing}: {_library().nvrtcGetErrorString(code).decode()}")


@cache
def _library() -> Any:
    """Load the first library that is recent enough. Raises DeviceError if there is none."""
    reasons = []
    for place in _places():
        try:
            for needed in Path(place).parent.glob("libnvrtc-builtins.so.*") if "/" in place else ():
                ctypes.CDLL(str(needed))  # which CUDA 13's NVRTC opens by name only
            library: Any = ctypes.CDLL(place)
        except OSError as error:
            reasons.append(str(error))
            continue
        library.nvrtcGetErrorString.restype = ctypes.c_char_p
        if _version_of(library) >= _OLDEST:
            return library
        reasons.append(f"{place} is version {'.'.join(map(str, _version_of(library)))}")
    raise DeviceError(
        "NVRTC, which compiles the kernels, is missing: pip install nvidia-cuda-nvrtc-cu12, or the "
        f"toolkit of CUDA 12 or newer ({'; '.join(reasons)})"
    )


def _places() -> Iterator[str]:
    """Yield possible paths of the library: the wheels' folders, newest first, then the system's names."""
    for package in _WHEELS:
        for folder in _folders(package):
            yield from sorted(map(str, folder.glob("lib/libnvrtc.so.*")), reverse=True)
    yield from _SYSTEM
    if (found := ctypes.util.find_library("nvrtc")) is not None:
        yield found


def _folders(package: str) -> list[Path]:
    try:
        spec = importlib.util.find_spec(package)
    except ModuleNotFoundError:
        return []
    return [Path(each) for each in (spec.submodule_search_locations or ())] if spec is not None else []
