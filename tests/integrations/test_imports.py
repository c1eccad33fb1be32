"""Tests of the imports of the adapters: with their frameworks, and without."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys

import pytest

FRAMEWORKS = {"flower": "flwr", "nvflare": "nvflare", "torchft": "torchft"}


@pytest.mark.skipif("REQUIRE_INTEGRATIONS" not in os.environ, reason="not in make test-integrations")
@pytest.mark.parametrize("module", FRAMEWORKS)
def test_frameworks_are_installed(module: str) -> None:
    if FRAMEWORKS[module] == "flwr" and sys.version_info < (3, 11):
        pytest.skip("flwr needs Python 3.11")
    importlib.import_module(f"collectives.integrations.{module}")


@pytest.mark.parametrize("module", FRAMEWORKS)
def test_the_error_without_the_framework_says_how_to_install_it(
    module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    framework = FRAMEWORKS[module]
    for name in [name for name in sys.modules if name.partition(".")[0] == framework]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, framework, None)
    monkeypatch.delitem(sys.modules, f"collectives.integrations.{module}", raising=False)
    with pytest.raises(ImportError, match=rf"needs {framework}.*pip install {framework}; .*3\.11"):
        importlib.import_module(f"collectives.integrations.{module}")


def test_collectives_do_not_import_the_adapters() -> None:
    names = ("collectives.integrations", *FRAMEWORKS.values())
    code = f"import sys, collectives; print([name for name in {names} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
