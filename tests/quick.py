"""The tests of some modules: those that changed, or those that are named.

    python -m tests.quick                        tests of the files that differ from HEAD
    python -m tests.quick rice collectives/sums  tests of modules with this name, or in this folder
    python -m tests.quick --list rice            the names of the tests alone

The tests of a module are the test files of its name, and those with the shortest way of imports to it. So
each module has some. ``make quick`` checks the style of the changed files, too.
"""

from __future__ import annotations

import argparse
import ast
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("wirecodec", "collectives", "formats", "benchmarks", "docs")
MAX_TESTS = 4
"""Test files of one module that are run."""


def main(arguments: list[str] | None = None) -> int:
    """Run the tests of changed or named modules, and return pytest's exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.quick", description=__doc__)
    parser.add_argument("names", nargs="*", help="modules, folders or parts of their names")
    parser.add_argument("--list", action="store_true", help="print the test files in place of running them")
    options = parser.parse_args(arguments)
    tests = find_tests(find_named(options.names) if options.names else list_changed())
    if options.list or not tests:
        print("\n".join(tests) or "no module changed")
        return 0
    marks = "not mpi and not sweep and not nightly and not bounds"
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-m", marks, *tests]
    return subprocess.run(command, cwd=ROOT, check=False).returncode


def list_changed() -> list[str]:
    """Return the Python files that differ from HEAD, relative to the root."""
    listed = ""
    for command in (["diff", "--name-only", "HEAD"], ["ls-files", "--others", "--exclude-standard"]):
        done = subprocess.run(["git", *command], cwd=ROOT, capture_output=True, text=True, check=True)
        listed += done.stdout
    return [name for name in listed.splitlines() if name.endswith(".py") and (ROOT / name).exists()]


def find_named(names: Iterable[str]) -> list[str]:
    """Return the modules and tests with a name, in a folder, or at a path.

    Raises SystemExit if there is none.
    """
    found = []
    for name in names:
        wanted = name.removesuffix(".py").strip("/")
        matches = [
            path
            for path in list_modules() | list_test_files()
            if wanted in (path.removesuffix(".py"), Path(path).stem) or path.startswith(f"{wanted}/")
        ]
        if not matches:
            raise SystemExit(f"no module is named {name!r}")
        found += matches
    return found


def find_tests(modules: Iterable[str]) -> list[str]:
    """Return the test files of modules and tests, in order."""
    found = set()
    for module in modules:
        if module in list_test_files():
            found.add(module)
        elif module in list_modules():
            found |= set(list_tests(module))
    return sorted(found)


def list_tests(module: str) -> list[str]:
    """Return the test files of a module: those of its name, or those with the shortest way of imports.

    Args:
        module: path relative to the root.
    """
    path = Path(module)
    stem = path.parent.name if path.stem in ("__init__", "__main__") else path.stem
    named = [
        test
        for test in list_test_files()
        if Path(test).stem == f"test_{stem}" and _count_common(test, module) >= len(path.parts) - 2
    ]
    return sorted(named) or _find_nearest(module)


def _find_nearest(module: str) -> list[str]:
    """Return the test files with the shortest way of imports to a module, the nearest folders first."""
    importers, seen, front = find_importers(), {module}, [module]
    while front:
        front = sorted({name for one in front for name in importers.get(one, ())} - seen)
        seen.update(front)
        if tests := [name for name in front if name in list_test_files()]:
            return sorted(tests, key=lambda test: (-_count_common(test, module), test))[:MAX_TESTS]
    return []


def _count_common(test: str, module: str) -> int:
    """Return how many folders of a module's path a test's path has, too."""
    return len(set(Path(test).parts[:-1]) & set(Path(module).parts[:-1]))


@cache
def list_modules() -> frozenset[str]:
    """Return the modules of the packages, as paths relative to the root."""
    return frozenset(
        str(path.relative_to(ROOT)) for folder in PACKAGES for path in (ROOT / folder).rglob("*.py")
    )


@cache
def list_test_files() -> frozenset[str]:
    """Return the files with tests, as paths relative to the root."""
    return frozenset(str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("test_*.py"))


@cache
def find_importers() -> Mapping[str, set[str]]:
    """Return {module: the modules and tests that import it}, as paths relative to the root."""
    importers: defaultdict[str, set[str]] = defaultdict(set)
    helpers = {str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("*.py")}
    known = {_name_of(path): path for path in list_modules() | helpers}
    for path in list_modules() | helpers:
        for node in ast.walk(ast.parse((ROOT / path).read_text())):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module:
                names = [f"{node.module}.{alias.name}" for alias in node.names] + [node.module]
            for name in names:
                if name in known:
                    importers[known[name]].add(path)
    return importers


def _name_of(path: str) -> str:
    """Return the dotted name of a module."""
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


if __name__ == "__main__":
    sys.exit(main())
