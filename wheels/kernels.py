"""Kernels of a wheel: ``python wheels/kernels.py build FOLDER SECONDS``, for the modules on PYTHONPATH.

The schemes of the README run on small tensors, compiled for the best level of this machine. For the other
levels, the same kernels are compiled by their signatures, so this machine need not be able to run them. With
a further argument, ``aarch64``, the levels are those of other processors. What is ready when the time ends is
written.
"""

from __future__ import annotations

import importlib
import os
import pickle
import pkgutil
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wirecodec.compilation.processes import count_cores
from wirecodec.kernels.compiler.built import LEVELS, Level, describe_environment, write_built
from wirecodec.kernels.compiler.notice import QUIET

SCHEMES = (
    "budget(0.25) | rice | error-bounded",
    "topk(0.01) | rice | raw(bfloat16)",
    "topk(0.01) | rice | qsgd(bits=4)",
    "topk(0.01) | rice | sign-scale",
    "nonzero | auto-index | raw",
)
"""Schemes of the README."""

LOCAL_SCHEMES = "all | raw-index | raw", "chunk-topk(0.015625, 4096) | rice | error-bounded(0.15)"
"""Further ones of the guide of local updates."""

DTYPES = ("float32",), ("bfloat16", "float16", "float64")
"""Element types in two parts: what most users need is ready for all levels before the rest begins."""


def run_schemes(part: str, listed: str) -> None:
    """Call the kernels of a part's types, and write the list of their signatures."""
    import wirecodec as wc
    from wirecodec.kernels.compiler import jit

    for dtype in DTYPES[int(part)]:
        for scheme in (*SCHEMES, *(LOCAL_SCHEMES if part == "0" else ())):
            wc.warm(scheme, dtype, feedback=True)
            wc.warm(wc.Compressor(scheme, scope="group"), dtype)
        _encode_zeros(dtype)
        _make_patches(dtype)
    Path(listed).write_bytes(
        pickle.dumps({name: list(kernel.overloads) for name, kernel in jit.kernels.items()})
    )


def _encode_zeros(name: str) -> None:
    """Encode tensors with zeros at positions that differ in what codec of indices is the shortest."""
    import numpy as np

    import wirecodec as wc
    from wirecodec.element_types import dtype_named

    rng = np.random.default_rng(0)
    masks = (
        rng.random(100) < 0.02,
        np.repeat(rng.random(13) < 0.5, 8),
        np.arange(1000) // 500 > 0,
        np.repeat(rng.random(2000) < 0.2, 8),
        rng.random(70_001) < 0.1,
    )
    for mask in masks:
        x = mask.astype(dtype_named(name))
        wc.decode(wc.encode(x, "nonzero | auto-index | raw")).to_dense()


def _make_patches(name: str) -> None:
    """Make and apply patches of weights: few changes, many, regular, in runs, of small weights, or all."""
    import numpy as np

    import wirecodec as wc
    from wirecodec.element_types import dtype_named

    rng = np.random.default_rng(0)
    old = {"large": rng.normal(size=70_001), "small": rng.normal(size=99)}
    old["repeated"] = np.resize(old["small"], old["large"].size)
    old = {key: x.astype(dtype_named(name)) for key, x in old.items()}
    size = old["large"].size
    at = np.arange(size)
    runs = np.repeat(rng.random(size // 64 + 1) < 0.02, 64)[:size]
    few, many = (rng.random(size) < share for share in (0.01, 0.5))
    small = many & (np.abs(old["large"].astype(np.float64)) < 0.2)
    for changed in (few, many, at % 50 == 0, runs, at % 9000 < 900, small, at >= 0):
        new = {key: np.where(changed[: x.size], x * x.dtype.type(1.5), x) for key, x in old.items()}
        for base in ("read", "unread"):
            wc.apply(wc.diff(old, new, base=base), {key: x.copy() for key, x in old.items()})


def compile_signatures(listed: str, number: str, count: str) -> None:
    """Compile every ``count``-th kernel of a list, from ``number`` on.

    One process compiles all signatures of a kernel, because it rewrites the kernel's index.
    """
    kernels = _make_all_kernels()
    for name, signatures in sorted(pickle.loads(Path(listed).read_bytes()).items())[
        int(number) :: int(count)
    ]:
        for signature in signatures:
            kernels[name].compile(signature)


def write_level(name: str, path: str) -> None:
    """Write the file of a level from the cache folder."""
    (level,) = (level for level in LEVELS if level.name == name)
    contents: dict[str, bytes] = {}
    triple = ""
    for kernel in _make_all_kernels().values():
        triple = kernel.targetctx.codegen().magic_tuple()[0]
        contents |= dict(kernel._cache.export(kernel.targetctx))
    if contents:
        write_built(Path(path), describe_environment(level, triple), contents)
        size = Path(path).stat().st_size / 1e6
        print(f"wirecodec: built {len(contents)} kernels for {name}, {size:.1f} MB", flush=True)


def _make_all_kernels() -> dict[str, Any]:
    """Return all kernels by name, of families all members."""
    from wirecodec.kernels import cpu
    from wirecodec.kernels.compiler import jit
    from wirecodec.kernels.compiler.family import Family

    for found in pkgutil.walk_packages(cpu.__path__, f"{cpu.__name__}."):
        for value in list(vars(importlib.import_module(found.name)).values()):
            if isinstance(value, Family):
                for form in value.names:
                    _ = value[form]
    return jit.kernels


@dataclass(frozen=True)
class Build:
    """Processes that fill a cache folder, and write files from it.

    Attributes:
        cache: the cache folder.
        end: time.monotonic() when all processes are ended.
    """

    cache: Path
    end: float

    def start(self, level: Level | None, call: str, *arguments: object) -> subprocess.Popen[bytes]:
        """Start one of CALLS in a process that compiles for a level; for this processor if it is None."""
        name, machine = (level.name, level.machine) if level else ("here", platform.machine())
        kept = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
        settings = {"NUMBA_CACHE_DIR": str(self.cache / name), QUIET: "1"}
        settings["NUMBA_NUM_THREADS"] = str(max(2, count_cores()))  # one thread divides no work
        command = [sys.executable, "-W", "ignore", __file__, "for", machine, call, *map(str, arguments)]
        return subprocess.Popen(command, env={**kept, **settings, **(level.variables if level else {})})

    def wait(self, processes: Sequence[subprocess.Popen[bytes]]) -> None:
        """Wait until processes have ended, or end them in time."""
        for process in processes:
            try:
                process.wait(max(0.0, self.end - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.terminate()
                process.wait()

    @property
    def is_over(self) -> bool:
        """Whether all processes are ended."""
        return time.monotonic() >= self.end


def build(folder: str, seconds: str, machine: str = platform.machine()) -> None:
    """Build the files of all levels of a kind of processors.

    Args:
        folder: of the files; it is made.
        seconds: after which nothing more is compiled.
        machine: the kind, as ``platform.machine()`` returns it there.

    Raises:
        RuntimeError: there is no level for this machine, or a file could not be written.
    """
    from llvmlite import binding

    features = {name for name, has in binding.get_host_cpu_features().items() if has}
    levels = [level for level in LEVELS if level.machine == machine]
    is_foreign = machine != platform.machine()
    best = None if is_foreign else next((level for level in levels if level.features <= features), None)
    if not levels or (best is None and not is_foreign):
        raise RuntimeError("this machine has no level")
    with tempfile.TemporaryDirectory() as scratch:
        work = Build(Path(scratch), time.monotonic() + float(seconds))
        for part in range(len(DTYPES)):
            listed = Path(scratch, f"signatures-{part}")
            work.wait([work.start(best, "run", part, listed)])
            for level in levels:
                if level != best and listed.exists() and not work.is_over:
                    count = count_cores()
                    work.wait([work.start(level, "compile", listed, i, count) for i in range(count)])
        files = {level: Path(scratch, level.file_name) for level in levels}
        writers = [work.start(level, "write", level.name, path) for level, path in files.items()]
        codes = [writer.wait() for writer in writers]
        if any(codes) or not any(path.exists() for path in files.values()):
            raise RuntimeError("nothing was compiled, or a file could not be written")
        Path(folder).mkdir(parents=True, exist_ok=True)
        for path in files.values():  # in place at the end: processes above would load them
            if path.exists():
                shutil.move(path, Path(folder, path.name))


def compile_for(machine: str, call: str, *arguments: str) -> None:
    """Call one of CALLS, where Numba compiles for a kind of processors.

    For another one than this machine's, LLVM gets the names of that. The kernels cannot be called then.
    """
    if machine != platform.machine():
        from llvmlite import binding

        binding.initialize_all_targets()
        binding.initialize_all_asmprinters()
        triple = binding.get_process_triple().replace(platform.machine(), machine)
        target = binding.Target.from_triple(triple)
        binding.get_process_triple = lambda: triple
        binding.Target.from_default_triple = lambda: target
    CALLS[call](*arguments)


CALLS: dict[str, Callable[..., None]] = {
    "for": compile_for,
    "build": build,
    "run": run_schemes,
    "compile": compile_signatures,
    "write": write_level,
}

if __name__ == "__main__":
    CALLS[sys.argv[1]](*sys.argv[2:])
