"""NVIDIA's runtime compiler, called through ctypes: CUDA C to PTX or to a device's own code.

CuPy's ``RawModule`` compiles, too, but lets denormals become zero (-ftz=true), and with that floats differ
from those of a CPU. The library is that of the ``nvidia-cuda-nvrtc`` wheels, or the system's. No GPU is
needed, and no driver.
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

__all__ = ["Compiled", "architectures", "compiled", "version"]

_WHEELS = ("nvidia.cuda_nvrtc", "nvidia.cu13")
_SYSTEM = ("libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so")
_OLDEST = (12, 0)
_SUCCESS = 0


@dataclass(frozen=True)
class Compiled:
    """What a source became.

    Attributes:
        ptx: text for any device of the architecture or a newer one.
        binary: the architecture's own code; empty where the target was virtual, compute_NN.
    """

    ptx: bytes
    binary: bytes


def compiled(source: str, name: str, headers: Mapping[str, str], options: Sequence[str]) -> Compiled:
    """A source for the architecture that the options name.

    Args:
        source: CUDA C.
        name: what messages call it.
        headers: {name: text} that it may include.
        options: of the compiler.

    DeviceError with the compiler's own messages where it refuses, or is missing.
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
        words = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
        if library.nvrtcCompileProgram(program, len(options), words) != _SUCCESS:
            log = _made(program, library.nvrtcGetProgramLogSize, library.nvrtcGetProgramLog)
            raise DeviceError(f"{name} does not compile: {log.rstrip(bytes(1)).decode(errors='replace')}")
        ptx = _made(program, library.nvrtcGetPTXSize, library.nvrtcGetPTX)
        return Compiled(
            ptx.rstrip(bytes(1)), _made(program, library.nvrtcGetCUBINSize, library.nvrtcGetCUBIN)
        )
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))


def _made(program: ctypes.c_void_p, size: Any, get: Any) -> bytes:
    """What a pair of NVRTC's functions hands out."""
    length = ctypes.c_size_t()
    _check(size(program, ctypes.byref(length)), "asking for the length of a result")
    room = ctypes.create_string_buffer(max(length.value, 1))
    _check(get(program, room), "asking for a result")
    return room.raw[: length.value]


def version() -> tuple[int, int]:
    """The compiler's, as (12, 9). DeviceError where there is none."""
    return _version_of(_library())


def architectures() -> tuple[int, ...]:
    """Those that the compiler knows, ascending: 75 stands for compute capability 7.5."""
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
    """The first library that loads and is recent enough; DeviceError where none does."""
    why = []
    for place in _places():
        try:
            library: Any = ctypes.CDLL(place)
        except OSError as error:
            why.append(str(error))
            continue
        library.nvrtcGetErrorString.restype = ctypes.c_char_p
        if _version_of(library) >= _OLDEST:
            return library
        why.append(f"{place} is version {'.'.join(map(str, _version_of(library)))}")
    raise DeviceError(
        "NVRTC, which compiles the kernels, is missing: pip install nvidia-cuda-nvrtc-cu12, or "
        f"'wirecodec[cuda12]' or 'wirecodec[cuda13]' ({'; '.join(why)})"
    )


def _places() -> Iterator[str]:
    """Where the library may be: the wheels' folders, newest first, then wherever the system looks."""
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
