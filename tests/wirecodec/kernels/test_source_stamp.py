"""Tests that the stamp of a kernel's source covers all modules that contribute code."""

from __future__ import annotations

import ast
from pathlib import Path

import wirecodec.kernels
from wirecodec.kernels.compiler import source_stamp
from wirecodec.kernels.compiler.source_stamp import compute_stamp, list_imports

PACKAGE = Path(wirecodec.kernels.__file__).parent


def find_imports(file: Path) -> set[str]:
    """Return the kernel modules that a module imports, by Python's own parser."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            assert not any(name.name.startswith("wirecodec") for name in node.names), file
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("wirecodec.kernels"):
            place = PACKAGE.joinpath(*str(node.module).split(".")[2:])
            found |= {place.with_suffix(".py"), *(place / f"{name.name}.py" for name in node.names)}
    return {str(path) for path in found if path.is_file()}


def test_all_imports_of_kernel_modules_are_found() -> None:
    files = sorted(PACKAGE.rglob("*.py"))
    assert len(files) > 80
    for file in files:
        assert list_imports(str(file), str(PACKAGE)) == find_imports(file), file


def test_a_change_of_a_helper_changes_the_stamps_that_need_it(tmp_path: Path) -> None:
    def stamp_all() -> dict[str, str]:
        for cached in (compute_stamp, list_imports, source_stamp._read, source_stamp._is_module):
            cached.cache_clear()
        return {name: compute_stamp(str(tmp_path / f"{name}.py"), str(tmp_path)) for name in texts}

    texts = {
        "a": "from wirecodec.kernels.b import (\n    f,\n    g,\n)\n",
        "b": "from wirecodec.kernels import c, other\n",
        "c": "from wirecodec.kernels.a import h\n",  # a cycle does no harm
        "d": "from wirecodec.arrays import Array\n",
        "e": "if True:\n    from wirecodec.kernels.c import h\n",
    }
    for name, text in texts.items():
        (tmp_path / f"{name}.py").write_text(text)
    before = stamp_all()
    assert stamp_all() == before
    (tmp_path / "c.py").write_text(texts["c"] + "#")
    after = stamp_all()
    assert [name for name in texts if before[name] != after[name]] == ["a", "b", "c", "e"]
