"""Kernels that come with the package: they are loaded if they fit, and otherwise compiled.

A start is a module that is executed again, with an empty cache folder.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
import platform
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import pytest
from numba.core.compiler import CompileResult
from numba.core.dispatcher import Dispatcher

from tests.wirecodec.kernels.test_cache_damage import SOURCE, call, flip, start
from wirecodec.interop import cached_kernels_only
from wirecodec.kernels.compiler import built, cache_files, compile_log

LEVEL = built.Level("this machine", platform.machine(), "a processor", frozenset())


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of a level with the kernel ``double`` of SOURCE, beside an empty cache folder."""
    source = tmp_path / "tiny.py"
    source.write_text(SOURCE)
    path = tmp_path / LEVEL.file_name
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "first"))
    double = start(source).double
    assert double(1) == 2
    triple = double.targetctx.codegen().magic_tuple()[0]
    environment = built.describe_environment(LEVEL, triple)
    built.write_built(path, environment, dict(double._cache.export(double.targetctx)))
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "second"))
    monkeypatch.setattr(built, "LEVELS", (LEVEL,))
    for module in (built, cache_files):
        monkeypatch.setattr(module, "FOLDER", tmp_path)
    monkeypatch.setattr(built, "_foreign", [])
    monkeypatch.setattr(compile_log, "_once", {topic: threading.Lock() for topic in compile_log._once})
    monkeypatch.setitem(sys.modules, "tiny", None)
    built._open.cache_clear()
    return path


def change_head(path: Path, field: str, value: Any) -> None:
    """Change what a file says of itself, with the right checksum."""
    _, line, rest = path.read_bytes().split(b"\n", 2)
    head = json.loads(line)
    head["environment"][field] = value
    line = json.dumps(head).encode() + b"\n"
    path.write_bytes(hashlib.sha256(line).hexdigest().encode() + b"\n" + line + rest)


def test_what_the_package_has_is_loaded_and_the_rest_is_compiled(package: Path) -> None:
    module = start(package.parent / "tiny.py")
    with cached_kernels_only():
        assert call(module.double, 1) == (2, False, [])
    assert call(module.double, 1.5) == (3.0, True, [])
    assert call(module.triple, 1) == (3, True, [])
    assert not list((package.parent / "second").rglob("tiny.double*.nbc"))[1:]


def test_no_folder_needs_to_be_writable(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Any) -> None:
        raise RuntimeError("cannot cache function: no locator available")

    monkeypatch.setattr(Dispatcher, "enable_caching", refuse)
    module = start(package.parent / "tiny.py")
    assert call(module.double, 1) == (2, False, [])
    result, compiled, messages = call(module.triple, 1)
    assert (result, compiled, len(messages)) == (3, True, 1)


DAMAGES: dict[str, Callable[[Path], object]] = {
    "emptied": lambda path: path.write_bytes(b""),
    "cut in the head": lambda path: path.write_bytes(path.read_bytes()[:200]),
    "last byte cut": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    "head flipped": flip(0.005),
    "code flipped": flip(0.9),
    "other bytes": lambda path: path.write_bytes(bytes(range(256)) * 40),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_file_is_not_used(package: Path, damage: Callable[[Path], object]) -> None:
    damage(package)
    result, compiled, messages = call(start(package.parent / "tiny.py").double, 1)
    assert (result, compiled, len(messages)) == (2, True, 1), messages
    assert LEVEL.file_name in messages[0]
    assert repr(str(package.parent)) in messages[0]
    assert call(start(package.parent / "tiny.py").double, 1) == (2, False, [])  # from the cache folder


@pytest.mark.parametrize(
    ("field", "value"),
    [("Numba", "0.1"), ("llvmlite", "0.1"), ("Python", "cpython-39"), ("settings", []), ("target", "arm64")],
)
def test_a_file_of_another_environment_is_not_used(package: Path, field: str, value: Any) -> None:
    change_head(package, field, value)
    assert call(start(package.parent / "tiny.py").double, 1) == (2, True, [])
    assert built.explain_other_environment() == f"; those of the package are for {field} {value}"


def test_settings_and_sources_are_those_of_the_code(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(numba.config, "BOUNDSCHECK", 1)
        assert call(start(package.parent / "tiny.py").double, 1)[1]
    built._open.cache_clear()
    source = package.parent / "other" / "tiny.py"
    source.parent.mkdir()
    source.write_text(SOURCE.replace("2 * x", "4 * x"))
    assert call(start(source).double, 1) == (4, True, [])


def test_a_level_above_the_processor_is_not_used(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    level = dataclasses.replace(LEVEL, features=frozenset({"a feature of tomorrow"}))
    monkeypatch.setattr(built, "LEVELS", (level,))
    change_head(package, "processor", [level.processor, *level.features])
    assert call(start(package.parent / "tiny.py").double, 1) == (2, True, [])


def test_a_level_of_another_machine_is_not_used(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(built, "LEVELS", (dataclasses.replace(LEVEL, machine="riscv64"),))
    assert call(start(package.parent / "tiny.py").double, 1) == (2, True, [])


def test_code_that_cannot_be_used_is_compiled_once(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is intact, but fails late. Later starts take the user's."""
    rebuild = CompileResult._rebuild

    def fail_once(*args: Any) -> Any:
        monkeypatch.setattr(CompileResult, "_rebuild", rebuild)
        raise AttributeError("a name that is no more")

    for compiled in (True, False):
        monkeypatch.setattr(CompileResult, "_rebuild", fail_once)
        assert call(start(package.parent / "tiny.py").double, 1)[:2] == (2, compiled)


def test_levels_are_ordered() -> None:
    """A level that is tried first has all features of those of its machine after it."""
    for first, second in itertools.pairwise(built.LEVELS):
        assert first.features > second.features or first.machine != second.machine
