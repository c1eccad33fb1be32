"""Guard against compilation."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from wirecodec.interop import CompilationNeeded, cached_kernels_only

SOURCE = """
from wirecodec.kernels.compiler.jit import kernel

@kernel
def double(x):
    return 2 * x
"""


def load(path: Path) -> Any:
    """Execute a module as a new process would: without compiled kernels in memory."""
    spec = importlib.util.spec_from_file_location("doubling", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_only_kernels_that_are_ready_run_under_the_guard(tmp_path: Path) -> None:
    """A kernel is ready in memory, or in the cache on disk, for each signature by itself."""
    assert not issubclass(CompilationNeeded, Exception)  # a codec may catch all of those
    path = tmp_path / "doubling.py"
    path.write_text(SOURCE)
    cold = load(path)
    with pytest.raises(CompilationNeeded, match="double"), cached_kernels_only():
        cold.double(1)
    assert cold.double(1) == 2
    for module in (cold, load(path)):
        with cached_kernels_only():
            assert module.double(1) == 2
        with pytest.raises(CompilationNeeded), cached_kernels_only():
            module.double(1.5)
