"""The kernels' sources, how they are compiled, and a cache of the results on disk.

A cached file is named by a hash of all that its content depends on: the source and every header, the
options, the architecture, the compiler's version. It appears under that name at once and complete, so that
processes that start together may all write it.
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

__all__ = ["FLAGS", "architecture_for", "compiled", "headers", "image", "names", "source"]

FLAGS = ("--std=c++17", "--fmad=false", "--ftz=false", "--prec-div=true", "--prec-sqrt=true")
"""Every operation is rounded once, denormals included, as on a CPU."""


@cache
def names() -> tuple[str, ...]:
    """The sources, without their ".cu"."""
    folder = files(__package__)
    return tuple(sorted(each.name[:-3] for each in folder.iterdir() if each.name.endswith(".cu")))


def source(name: str) -> str:
    """The text of a source."""
    return files(__package__).joinpath(f"{name}.cu").read_text(encoding="utf-8")


@cache
def headers() -> dict[str, str]:
    """{name: text} of what sources include."""
    found = [each for each in files(__package__).iterdir() if each.name.endswith(".cuh")]
    return {each.name: each.read_text(encoding="utf-8") for each in sorted(found, key=lambda each: each.name)}


def compiled(name: str, target: str) -> nvrtc.Compiled:
    """A source for sm_NN, or for compute_NN. DeviceError where it does not compile, or cannot be."""
    options = (*FLAGS, f"--gpu-architecture={target}")
    return nvrtc.compiled(source(name), f"{name}.cu", headers(), options)


def architecture_for(capability: int) -> tuple[int, bool]:
    """What to compile for on a device of this capability, and whether it is the device's own code.

    It is PTX of the newest architecture that the compiler knows where the device is newer than that.
    """
    known = nvrtc.architectures()
    if capability in known:
        return capability, True
    return max(each for each in known if each < capability), False


def image(name: str, capability: int) -> Path:
    """A file that a device of this capability can load: compiled, or found in the cache.

    DeviceError where it does not compile, or cannot be.
    """
    architecture, binary = architecture_for(capability)
    target = f"{'sm' if binary else 'compute'}_{architecture}"
    included = (part for item in headers().items() for part in item)
    parts = [source(name), *included, *FLAGS, target, str(nvrtc.version())]
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]
    path = _folder() / f"{name}-{target}-{digest}.{'cubin' if binary else 'ptx'}"
    if not path.exists():
        made = compiled(name, target)
        _write(path, made.binary if binary else made.ptx)
    return path


@cache
def _folder() -> Path:
    """Where compiled kernels are kept: the user's cache, or a new folder where that cannot be written."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    folder = Path(base) / "wirecodec" / "cuda"
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        if os.access(folder, os.W_OK | os.X_OK):
            return folder
    return Path(tempfile.mkdtemp(prefix="wirecodec-cuda-"))


def _write(path: Path, content: bytes) -> None:
    """A whole file under its name, or none."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise
