"""Compile the kernels' sources, and cache the results on disk.

The name of a cached file is a hash of everything that determines its content: the source, all headers, the
options, the architecture and the compiler's version. Files appear by an atomic rename, so processes that
start together may write the same one.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from functools import cache
from importlib.resources import files
from pathlib import Path

from wirecodec.kernels.cuda import nvrtc

FLAGS = ("--std=c++17", "--fmad=false", "--ftz=false", "--prec-div=true", "--prec-sqrt=true")
"""Options that round each operation once, denormals included, as on a CPU."""


@cache
def source_names() -> tuple[str, ...]:
    """Return the names of the sources, without ".cu"."""
    folder = files(__package__)
    return tuple(sorted(each.name[:-3] for each in folder.iterdir() if each.name.endswith(".cu")))


def read_source(name: str) -> str:
    """Return the text of a source."""
    return files(__package__).joinpath(f"{name}.cu").read_text(encoding="utf-8")


@cache
def read_headers() -> dict[str, str]:
    """Return {name: text} of the headers that sources include."""
    found = [each for each in files(__package__).iterdir() if each.name.endswith(".cuh")]
    return {each.name: each.read_text(encoding="utf-8") for each in sorted(found, key=lambda each: each.name)}


def compile_source(name: str, target: str) -> nvrtc.Compiled:
    """Compile a source for sm_NN or compute_NN. Raises DeviceError if this fails."""
    options = (*FLAGS, f"--gpu-architecture={target}")
    return nvrtc.compile_source(read_source(name), f"{name}.cu", read_headers(), options)


def choose_architecture(capability: int) -> tuple[int, bool]:
    """Choose the architecture to compile for; return it, and whether the result is a cubin.

    For a device that is newer than the compiler, the result is PTX of the newest known architecture.
    """
    known = nvrtc.architectures()
    if capability in known:
        return capability, True
    return max(each for each in known if each < capability), False


def build_image(name: str, capability: int) -> Path:
    """Return a file that a device of this compute capability can load; compile it if it is not cached.

    Raises DeviceError if it cannot be compiled.
    """
    architecture, binary = choose_architecture(capability)
    target = f"{'sm' if binary else 'compute'}_{architecture}"
    included = (part for item in read_headers().items() for part in item)
    parts = [read_source(name), *included, *FLAGS, target, str(nvrtc.version())]
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]
    path = _folder() / f"{name}-{target}-{digest}.{'cubin' if binary else 'ptx'}"
    if not path.exists():
        compiled = compile_source(name, target)
        _write(path, compiled.binary if binary else compiled.ptx)
    return path


@cache
def _folder() -> Path:
    """Return the folder of the cache: the user's, or a new temporary folder if that is not writable."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    folder = Path(base) / "wirecodec" / "cuda"
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        if os.access(folder, os.W_OK | os.X_OK):
            return folder
    return Path(tempfile.mkdtemp(prefix="wirecodec-cuda-"))


def _write(path: Path, content: bytes) -> None:
    """Write a file atomically."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise
