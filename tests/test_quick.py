"""Tests of the map from modules to their tests, which `make quick` uses."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.quick import find_named, find_tests, list_modules, list_tests

LOADED_BY_NAME = {"collectives/advise/command.py", "formats/c/program.py", "formats/reader/setup.py"}
FACES = ("__init__", "__main__")
PACKAGES = ("wirecodec", "collectives", "formats")


def test_every_module_has_tests() -> None:
    modules = [m for m in list_modules() if Path(m).stem not in FACES and m.startswith(PACKAGES)]
    assert [m for m in sorted(modules) if m not in LOADED_BY_NAME and not list_tests(m)] == []


@pytest.mark.parametrize(
    ("name", "test"),
    [
        ("wirecodec/index/rice.py", "tests/wirecodec/index/test_rice.py"),
        ("collectives/sums/dense", "tests/collectives/test_algorithms.py"),  # no test has its name
        ("tests/test_quick.py", "tests/test_quick.py"),
    ],
)
def test_find_tests(name: str, test: str) -> None:
    assert test in find_tests(find_named([name]))


def test_names_that_are_none() -> None:
    with pytest.raises(SystemExit, match="no module is named 'rise'"):
        find_named(["rise"])
