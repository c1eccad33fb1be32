"""Documents run: every Python and shell block of the pages in ``RUNNABLE``, with the outputs printed
there; every link leads somewhere.

In a Python block, a comment `# -> text` after a `print` is what it prints; blocks of a document share their
names. In a `console` block, lines after `$ ` are run, and what follows them is their output, where `…` stands
for anything. A `py` block needs a GPU; tests/gpu_emulated/test_plan_door.py runs it without one.
"""

from __future__ import annotations

import contextlib
import copy
import io
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from wirecodec import registry

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted(str(p.relative_to(ROOT)) for p in (*ROOT.glob("*.md"), *ROOT.glob("[bftw]*/**/*.md")))
RUNNABLE = ["CONTRIBUTING.md", "README.md", "SECURITY.md", "wirecodec/cli/README.md"]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(name: str) -> list[tuple[str, str]]:
    return BLOCK.findall((ROOT / name).read_text())


def test_readme_has_blocks_of_each_kind() -> None:
    assert {kind for kind, _ in blocks("README.md")} == {"python", "console", "text", "py"}


def test_no_other_document_has_blocks_that_should_run() -> None:
    kinds = {name: {kind for kind, _ in blocks(name)} for name in DOCUMENTS}
    assert [name for name in DOCUMENTS if kinds[name] & {"python", "console"}] == RUNNABLE


@pytest.mark.parametrize("name", RUNNABLE)
def test_python_blocks(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for state in ("_index", "_value", "_stages"):  # what a document registers is gone with it
        monkeypatch.setattr(registry, state, copy.deepcopy(getattr(registry, state)))
    names: dict[str, Any] = {"__name__": "document"}
    for kind, code in blocks(name):
        if kind != "python":
            continue
        expected = re.findall(r"# -> (.*)$", code, re.MULTILINE)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, name, "exec", dont_inherit=True), names)
        assert printed.getvalue().splitlines() == [line.rstrip() for line in expected]


@pytest.mark.parametrize("name", RUNNABLE)
def test_console_blocks(name: str, tmp_path: Path) -> None:
    x = np.random.default_rng(0).laplace(size=1_000_000).astype(np.float32)
    np.save(tmp_path / "grad.npy", x)
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    for kind, text in blocks(name):
        if kind != "console":
            continue
        for command, output in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", text, re.MULTILINE):
            done = subprocess.run(
                command,
                shell=True,
                cwd=tmp_path,
                env=env,
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
            )
            pattern = ".*".join(map(re.escape, output.strip().split("…")))
            assert re.fullmatch(pattern, (done.stdout + done.stderr).strip(), re.DOTALL), (
                done.stdout + done.stderr
            )


@pytest.mark.parametrize("name", DOCUMENTS)
def test_links_lead_somewhere(name: str) -> None:
    text = (ROOT / name).read_text()
    paths = re.findall(r"\]\(([^)#:]+)\)", text)
    paths += [
        p
        for p in re.findall(r"`((?:formats|tests|benchmarks|wirecodec|collectives)/[\w./-]+)`", text)
        if "mine" not in p
    ]
    assert [
        p for p in paths if not (ROOT / p).exists() and not (ROOT / name).parent.joinpath(p).exists()
    ] == []
