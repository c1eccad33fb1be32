"""Damaged files of the kernel cache: kernels are compiled again, with one warning; the next start is quiet.

A start is a module that is executed again: its kernels have no code in memory.
"""

from __future__ import annotations

import importlib.util
import inspect
import itertools
import os
import re
import shutil
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numba
import pytest
from numba.core.compiler import CompileResult

from tests.child import run
from wirecodec.interop import CompilationNeeded, cached_kernels_only
from wirecodec.kernels.compiler import cache_folder, checked_files, compile_log
from wirecodec.kernels.compiler.cache_files import _ContentNamed

ROOT = Path(__file__).parents[3]

SOURCE = """
from wirecodec.kernels.compiler.jit import kernel

@kernel
def double(x):
    return 2 * x

@kernel
def triple(x):
    return 3 * x
"""


def start(path: Any) -> Any:
    """Execute a module as a new process would: without compiled kernels in memory."""
    spec: Any = importlib.util.spec_from_file_location("tiny", path)
    sys.modules["tiny"] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


START = f"from __future__ import annotations\nimport importlib.util, sys\n{inspect.getsource(start)}"
"""The same for a process of its own."""


@dataclass(frozen=True)
class Cache:
    """Kernels of SOURCE and their cache, of which each test has a copy.

    Attributes:
        source: path of the module.
        folder: the cache folder.
    """

    source: Path
    folder: Path

    def start(self) -> Any:
        """Execute the module."""
        return start(self.source)

    def find(self, kernel: str, kind: str, type_name: str = "int64") -> Path:
        """Return the index or the data file of a kernel."""
        if kind == "index":
            (path,) = self.folder.rglob(f"tiny.{kernel}-*.nbi")
            return path
        cache = getattr(self.start(), kernel)._cache
        names = {str(key[0]): name for key, name in cache._files._load_index().items()}
        return Path(cache.cache_path) / names[f"({type_name},)"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Cache:
    """The cache of two kernels, one of them with two signatures; no test may change it."""
    folder = tmp_path_factory.mktemp("kernels")
    cache = Cache(folder / "tiny.py", folder / "whole")
    cache.source.write_text(SOURCE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(numba.config, "CACHE_DIR", str(cache.folder))
        module = cache.start()
        assert (module.double(1), module.double(1.5), module.triple(1)) == (2, 3.0, 3)
    return cache


@pytest.fixture
def cache(whole: Cache, tmp_path: Path, new_process: None, monkeypatch: pytest.MonkeyPatch) -> Cache:
    """A copy of the cache, which kernels use during a test."""
    copy = Cache(whole.source, tmp_path / "cache")
    shutil.copytree(whole.folder, copy.folder)
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(copy.folder))
    return copy


@pytest.fixture
def new_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget the warnings of this process: a new one has given none."""
    monkeypatch.setattr(compile_log, "_once", {topic: threading.Lock() for topic in compile_log._once})
    monkeypatch.setitem(sys.modules, "tiny", None)
    cache_folder.explain_other_folder.cache_clear()


def call(kernel: Any, x: Any) -> tuple[Any, bool, list[str]]:
    """Call a kernel that is not in memory; return its result, whether it was compiled, and the warnings."""
    before = len(compile_log.log)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        result = kernel(x)
    (entry,) = compile_log.log[before:]
    return result, entry.compiled, [str(each.message) for each in seen]


def flip(place: float) -> Callable[[Path], object]:
    """Make a damage: flip one bit at a part of the file's length."""

    def damage(path: Path) -> None:
        data = bytearray(path.read_bytes())
        data[int(place * (len(data) - 1))] ^= 0x10
        path.write_bytes(data)

    return damage


def cut(length: int) -> Callable[[Path], object]:
    """Make a damage: keep the first bytes of the file, or leave out the last."""
    return lambda path: path.write_bytes(path.read_bytes()[:length])


def put_folder(path: Path, *contents: str) -> None:
    path.unlink()
    path.mkdir()
    for name in contents:
        (path / name).write_text("")


def put_loop(path: Path) -> None:
    """Replace a file by a link that cannot be followed, which not even root can open."""
    path.unlink()
    path.symlink_to(path.name)


def put_other_bytes(path: Path) -> None:
    path.write_bytes(bytes(range(256)) * 40)


def put_sealed(path: Path) -> None:
    """Replace the contents by others with the right checksum, which are no pickle."""
    checked_files.write_checked(str(path), b"no pickle")


def copy_to(path: Path, source: Path) -> None:
    path.write_bytes(source.read_bytes())


def swap(one: Path, other: Path) -> None:
    held = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(held)


DAMAGES: dict[str, Callable[[Path], object]] = {
    "emptied": lambda path: path.write_bytes(b""),
    "cut in the checksum": cut(checked_files.CHECKSUM_BYTES - 1),
    "cut after the checksum": cut(checked_files.CHECKSUM_BYTES),
    "cut in the middle": lambda path: cut(path.stat().st_size // 2)(path),
    "last byte cut": cut(-1),
    "longer": lambda path: path.write_bytes(path.read_bytes() + b"\0"),
    "first byte flipped": flip(0.0),
    "a bit in the middle flipped": flip(0.5),
    "last byte flipped": flip(1.0),
    "other bytes": put_other_bytes,
    "an empty folder": put_folder,
    "a folder": lambda path: put_folder(path, "a", "b"),
    "a link to itself": put_loop,
    "no permission": lambda path: path.chmod(0),
}

MIXED: dict[str, Callable[[Cache], object]] = {
    "indexes swapped": lambda c: swap(c.find("double", "index"), c.find("triple", "index")),
    "data swapped": lambda c: swap(c.find("double", "data"), c.find("triple", "data")),
    "signatures swapped": lambda c: swap(c.find("double", "data"), c.find("double", "data", "float64")),
    "index and data swapped": lambda c: swap(c.find("double", "index"), c.find("double", "data")),
    "index of another": lambda c: copy_to(c.find("double", "index"), c.find("triple", "index")),
    "data of another": lambda c: copy_to(c.find("double", "data"), c.find("triple", "data")),
}
"""Files of another kernel, or of another signature, under the right name."""


def check_recovery(cache: Cache) -> None:
    """Check that ``double`` is compiled again, with one warning, and that the next start is quiet."""
    module = cache.start()
    with pytest.raises(CompilationNeeded, match="double"), cached_kernels_only():
        module.double(1)
    result, compiled, messages = call(module.double, 1)
    assert (result, compiled, len(messages)) == (2, True, 1), messages
    assert messages[0].startswith("wirecodec compiles kernels again")
    assert repr(str(cache.find("double", "index").parent)) in messages[0]
    for kernel, x in (("triple", 1), ("double", 1.5)):  # no second warning, damaged or not
        assert call(getattr(module, kernel), x)[::2] == ((3 if kernel == "triple" else 2) * x, [])
    module = cache.start()
    with cached_kernels_only():
        for kernel, x in (("double", 1), ("double", 1.5), ("triple", 1)):
            assert call(getattr(module, kernel), x)[1:] == (False, []), (kernel, x)


@pytest.mark.parametrize("kind", ["index", "data"])
@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_file_is_replaced(cache: Cache, damage: Callable[[Path], object], kind: str) -> None:
    path = cache.find("double", kind)
    damage(path)
    if path.is_file() and path.stat().st_mode & 0o777 == 0 and os.access(path, os.R_OK):
        pytest.skip("root may read a file without permission")
    check_recovery(cache)


@pytest.mark.parametrize("mix", MIXED.values(), ids=MIXED)
def test_a_file_under_a_wrong_name_is_replaced(cache: Cache, mix: Callable[[Cache], object]) -> None:
    mix(cache)
    check_recovery(cache)


def test_a_flipped_bit_or_a_cut_makes_a_file_invalid(cache: Cache) -> None:
    module = cache.start()
    signature, context = (numba.types.int64,), module.double.targetctx
    for kind, step in (("index", 7), ("data", 101)):
        path = cache.find("double", kind)
        intact = path.read_bytes()
        flips = (
            intact[:at] + bytes([intact[at] ^ 1 << at % 8]) + intact[at + 1 :]
            for at in range(0, len(intact), step)
        )
        cuts = (intact[:at] for at in range(0, len(intact), step))
        for damaged in itertools.chain(flips, cuts):
            path.write_bytes(damaged)
            assert not module.double._cache.has(signature, context)
        path.write_bytes(intact)
        assert module.double._cache.has(signature, context)
        module.double._cache.release()


def reject_rebuilding(cache: Cache, patch: pytest.MonkeyPatch) -> None:
    """Let an intact file fail late: after its machine code has been loaded."""
    rebuild = CompileResult._rebuild

    def fail_once(*args: Any) -> Any:
        patch.setattr(CompileResult, "_rebuild", rebuild)
        rebuild(*args)
        raise AttributeError("a name that is no more")

    patch.setattr(CompileResult, "_rebuild", fail_once)


LATE: dict[str, Callable[[Cache, pytest.MonkeyPatch], object]] = {
    "index": lambda c, patch: put_sealed(c.find("double", "index")),
    "data": lambda c, patch: put_sealed(c.find("double", "data")),
    "code": reject_rebuilding,
}


@pytest.mark.parametrize("spoil", LATE.values(), ids=LATE)
def test_an_intact_file_that_cannot_be_used_is_replaced(
    cache: Cache, spoil: Callable[[Cache, pytest.MonkeyPatch], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its code may be that of another environment. The failure comes after the check of the checksum."""
    spoil(cache, monkeypatch)
    check_recovery(cache)


def test_a_warning_that_is_an_error_leaves_the_kernel_ready(cache: Cache) -> None:
    cache.find("double", "data").write_bytes(b"")
    module = cache.start()
    with pytest.raises(RuntimeWarning, match="are damaged"):
        module.double(1)
    assert module.double(1) == 2
    assert call(cache.start().double, 1) == (2, False, [])


def test_threads_that_meet_a_damaged_file_compile_once(cache: Cache) -> None:
    cache.find("double", "data").write_bytes(b"")
    module = cache.start()
    before = len(compile_log.log)
    with warnings.catch_warnings(record=True) as seen, ThreadPoolExecutor(4) as pool:
        warnings.simplefilter("always")
        assert list(pool.map(module.double, [1] * 8)) == [2] * 8
    assert len(seen) == 1
    assert [entry.compiled for entry in compile_log.log[before:]] == [True]


@pytest.mark.parametrize("kind", ["index", "data"])
def test_an_absent_file_is_no_damage(cache: Cache, kind: str) -> None:
    cache.find("double", kind).unlink()
    assert call(cache.start().double, 1) == (2, True, [])
    assert call(cache.start().double, 1) == (2, False, [])


def test_a_file_of_another_source_is_no_damage(cache: Cache, tmp_path: Path) -> None:
    """An upgrade leaves files of the same name, which are intact."""
    path = cache.find("double", "index")
    name, stamp = cache.start().double._cache._files._source_stamp
    old = _ContentNamed(str(path.parent), path.name.removesuffix(".nbi"), (name, f"not {stamp}"))
    old.save("key", "old code")
    assert call(cache.start().double, 1) == (2, True, [])
    assert call(cache.start().double, 1) == (2, False, [])


def test_a_cache_that_disappears_is_no_error(cache: Cache) -> None:
    module = cache.start()
    shutil.rmtree(cache.folder)
    cache.folder.write_text("")
    result, compiled, messages = call(module.double, 1)
    assert (result, compiled, len(messages)) == (2, True, 1), messages
    assert "the cache cannot be written" in messages[0]
    assert call(module.double, 1.5) == (3.0, True, [])


def test_a_lock_that_cannot_be_opened_is_not_needed(cache: Cache) -> None:
    cache.find("double", "index").unlink()
    (lock,) = cache.folder.rglob("tiny.double.lock")
    put_folder(lock)
    assert call(cache.start().double, 1) == (2, True, [])
    assert call(cache.start().double, 1) == (2, False, [])


READ = """
for _ in range(int(sys.argv[2])):
    module = start(sys.argv[1])
    assert (module.double(1), module.double(1.5), module.triple(1)) == (2, 3.0, 3)
"""


def test_files_may_be_damaged_while_processes_load_them(cache: Cache) -> None:
    paths = [path for path in cache.folder.rglob("*") if path.suffix in {".nbi", ".nbc"}]
    intact = {path: path.read_bytes() for path in paths}
    env = {**os.environ, "NUMBA_CACHE_DIR": str(cache.folder), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-W", "ignore", "-c", START + READ, str(cache.source), "3"]
    readers = [subprocess.Popen(command, env=env) for _ in range(2)]
    for step, path in enumerate(itertools.cycle(paths)):
        if all(reader.poll() is not None for reader in readers):
            break
        path.write_bytes(intact[path][: step % 7 * len(intact[path]) // 6])  # emptied, cut or intact
        time.sleep(0.002)
    assert [reader.wait() for reader in readers] == [0, 0]


def test_the_command_repairs_the_cache(tmp_path: Path) -> None:
    env = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(ROOT)}
    env["WIRECODEC_COMPILE_PROCESSES"] = "1"  # the numbers are those of one process

    def warm() -> tuple[int, str]:
        command = [sys.executable, "-m", "wirecodec", "warm", "all | raw-index | raw"]
        done = subprocess.run(command, env=env, check=True, timeout=240, capture_output=True, text=True)
        return int(re.search(r": (\d+) kernels compiled", done.stdout)[1]), done.stderr

    assert warm()[0] > 5
    damaged = list(tmp_path.rglob("support.copy_slices-*.nb?")) + list(tmp_path.rglob("support.add_at-*.nbc"))
    assert len(damaged) == 3
    for path in damaged:
        path.write_bytes(b"")
    count, page = warm()
    assert (count, page.count("wirecodec compiles kernels again")) == (2, 1), page
    assert warm() == (0, "")


def block_folder(folder: Path) -> str:
    folder.write_text("")
    return str(folder)


def block_parent(folder: Path) -> str:
    folder.write_text("")
    return str(folder / "below")


def take_system_folder(folder: Path) -> str:
    """Return a folder in which not even root can write."""
    if not os.path.isdir("/proc/self"):
        pytest.skip("there is no /proc")
    return "/proc/self"


def block_inside(folder: Path) -> str:
    """Make a writable folder, in which the place of the kernels is not writable."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(numba.config, "CACHE_DIR", str(folder))
        start(folder.parent / "tiny.py")
    (place,) = folder.iterdir()
    place.rmdir()
    place.write_text("")
    return str(folder)


OBSTACLES = [block_folder, block_parent, take_system_folder, block_inside]


@pytest.fixture
def source(tmp_path: Path, new_process: None) -> Path:
    """A module of kernels, with a writable folder beside it."""
    path = tmp_path / "tiny.py"
    path.write_text(SOURCE)
    return path


@pytest.mark.parametrize("block", OBSTACLES)
def test_another_folder_than_the_wanted_one_is_reported_once(
    source: Path, monkeypatch: pytest.MonkeyPatch, block: Callable[[Path], str]
) -> None:
    wanted = block(source.parent / "wanted")
    monkeypatch.setattr(numba.config, "CACHE_DIR", wanted)
    for compiled in (True, False):  # a process that only loads kernels warns, too
        module = start(source)
        result, found, messages = call(module.double, 1)
        assert (result, found, len(messages)) == (2, compiled, 1), messages
        assert messages[0].startswith(f"NUMBA_CACHE_DIR is {wanted!r}, but ")
        assert "cannot be written" in messages[0]
        assert messages[0].endswith(" instead")
        assert call(module.triple, 1) == (3, compiled, [])
        monkeypatch.setattr(compile_log, "_once", {topic: threading.Lock() for topic in compile_log._once})
    assert list((source.parent / "__pycache__").glob("tiny.double-*.nbc"))


def test_the_wanted_folder_is_not_reported(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for wanted in (source.parent / "a" / "b", f"{source.parent}/c//", ""):
        monkeypatch.setattr(numba.config, "CACHE_DIR", str(wanted))
        assert call(start(source).double, 1) == (2, True, [])


UNWRITABLE = """
import os, warnings
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    for _ in range(2):
        module = start(os.environ["SOURCE"])
        assert (module.double(1), module.triple(1)) == (2, 3)
(message,) = [str(each.message) for each in seen]
assert message.startswith(f"NUMBA_CACHE_DIR is {os.environ['NUMBA_CACHE_DIR']!r}, but "), message
"""


def test_an_unwritable_setting_is_reported_by_a_process_of_its_own(source: Path) -> None:
    run(START + UNWRITABLE, NUMBA_CACHE_DIR=block_parent(source.parent / "wanted"), SOURCE=str(source))


WITHOUT_COMPILER = """
import numpy as np, wirecodec as wc
for _ in range(2):  # the first error leaves nothing half imported
    for work in (lambda: wc.encode(np.ones(9, np.float32), "topk(0.5) | rice | raw"), wc.warm):
        try:
            work()
        except RuntimeError as error:
            assert "NUMBA_DISABLE_JIT" in str(error) and str(error).startswith("wirecodec cannot run"), error
        else:
            raise AssertionError("no error")
"""


def test_without_the_compiler_the_error_names_the_setting() -> None:
    run(WITHOUT_COMPILER, NUMBA_DISABLE_JIT="1")
