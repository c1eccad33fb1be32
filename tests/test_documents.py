"""Tests of the documents: their code prints the output that they show, and their links exist.

The blocks of a document run in its order, in one folder, which has the repository's `formats` in it:

- `python` runs in this process; the blocks of a document share their names. `# -> text` is printed output.
- `python title="name.py"` is written to that file, and so is `text title="name.toml"`.
- `console`: lines after `$ ` run in a shell; the lines below show their output. `…` matches any text.

Blocks that need torch, JAX or a trainer run by themselves: those that import it, and commands that start
such a file.
Commands run in a shell, but for two kinds that would import torch or NumPy again. ``wirecodec`` without pipes
runs in this process, and ``torchrun`` of guides runs in forks of a process that has imported torch.
Blocks that need mpirun, a C compiler, node or its packages are left out if one is missing, and the test then
reports a skip.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wirecodec as wc
from docs import pages, reference
from tests.collectives.torch.processes import run_program
from tests.integrations.superlink import superlink
from tests.mpi_processes import find_mpirun, mpi_required, rank_environment
from wirecodec.cli import main

ROOT = Path(__file__).parents[1]
FOLDERS = ("benchmarks", "collectives", "docs", "formats", "tests", "wirecodec")
DOCUMENTS = sorted(
    p.relative_to(ROOT).as_posix()
    for p in (*ROOT.glob("*.md"), *(p for folder in FOLDERS for p in ROOT.glob(f"{folder}/**/*.md")))
)
FRAMEWORKS = (
    *("flwr", "nvflare", "lightning", "accelerate", "transformers", "jax", "tensorboard", "wandb"),
    "torch",
)
"""Frameworks of blocks; torch comes last, because others need it."""
ALSO_NEEDED = {"flwr": "ray"}  # of its simulation
TORCHRUN = ["torchrun", "--standalone", "--nproc-per-node"]
BLOCK = re.compile(r"^```(\w*)(?: title=\"([\w.-]+)\")?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A fenced block of a document."""

    kind: str
    title: str
    code: str

    def imports(self) -> str | None:
        """Return the optional framework that this block imports, or None."""
        modules = re.findall(r"^(?:import|from) ([\w.]+)", self.code, re.MULTILINE)
        found = {part for module in modules for part in module.split(".")}
        return next((name for name in FRAMEWORKS if name in found), None)

    def missing(self) -> str | None:
        """Return the tool that this block needs and this machine lacks, or None."""
        if re.search(r"^\$ .*\bmpirun\b", self.code, re.MULTILINE):
            return None if mpi_required() or find_mpirun()[0] else "mpirun"
        if re.search(r"^\$ cc\b", self.code, re.MULTILINE):
            return None if shutil.which("cc") else "a C compiler"
        return None


def missing_in_node(block: Block, name: str) -> str | None:
    """Return what a document's command needs and this machine lacks: node, or packages of its program."""
    if block.kind != "console" or not re.search(r"^\$ node ", block.code, re.MULTILINE):
        return None
    if not shutil.which("node"):
        return "node"
    programs = "".join(other.code for other in blocks(name) if other.title and other.title in block.code)
    packages = re.findall(r'require\("([a-z-]+)"\)', programs)
    found = subprocess.run(
        ["node", "-e", "process.argv.slice(1).map(require.resolve)", *packages],
        check=False,
        stderr=subprocess.DEVNULL,
    )
    return "packages of node" if found.returncode else None


def blocks(name: str) -> list[Block]:
    return [Block(*found) for found in BLOCK.findall((ROOT / name).read_text(encoding="utf-8"))]


def framework_of(block: Block, name: str) -> str | None:
    """Return the optional framework that a block of a document needs, or None."""
    if block.kind != "console":
        return block.imports()
    if (command := re.search(r"^\$ (\w+) ", block.code, re.MULTILINE)) and command[1] in FRAMEWORKS:
        return command[1]
    files = [other for other in blocks(name) if other.title and other.title in block.code]
    return next((other.imports() for other in files if other.imports()), None)


def frameworks(name: str) -> set[str]:
    return {needed for block in blocks(name) if (needed := framework_of(block, name))}


RUNNABLE = [name for name in DOCUMENTS if {block.kind for block in blocks(name)} & {"python", "console"}]


def test_documents_that_run() -> None:
    """Check the kinds of blocks; a misspelt kind would not run."""
    guides = {path for path in DOCUMENTS if path.startswith("docs/guides/")}
    assert {"README.md", "SECURITY.md", "collectives/README.md", *guides} <= set(RUNNABLE)
    assert len(guides) >= 3
    assert {block.kind for name in RUNNABLE for block in blocks(name)} <= {"python", "console", "text"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_registry: None) -> Path:
    """A folder to run a document in; the codecs that the document registers are removed afterwards."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "formats").symlink_to(ROOT / "formats")
    x = np.random.default_rng(0).laplace(size=1_000_000).astype(np.float32)
    np.save(tmp_path / "grad.npy", x)
    return tmp_path


@pytest.mark.parametrize("name", RUNNABLE)
def test_blocks_run(name: str, folder: Path) -> None:
    names: dict[str, Any] = {"__name__": "document"}
    left_out = set()
    for block in blocks(name):
        missing = block.missing() or missing_in_node(block, name)
        if missing:
            left_out.add(missing)
        elif framework_of(block, name):
            continue
        elif block.title:
            (folder / block.title).write_text(block.code, encoding="utf-8")
        elif block.kind == "python":
            run_python(block.code, names, name)
        elif block.kind == "console":
            run_console(block.code, folder)
    if left_out:
        pytest.skip(f"blocks of {name} left out, because this machine lacks {', '.join(sorted(left_out))}")


@pytest.mark.parametrize(
    ("name", "framework"), [(name, needed) for name in RUNNABLE for needed in sorted(frameworks(name))]
)
def test_blocks_that_need_a_framework_run(
    name: str, framework: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for needed in filter(None, (framework, ALSO_NEEDED.get(framework))):
        pytest.importorskip(needed, reason=f"{needed} is not installed")
    with contextlib.ExitStack() as stack:
        environment = stack.enter_context(superlink(folder)) if framework == "flwr" else {}
        for variable, value in environment.items():
            monkeypatch.setenv(variable, value)
        for block in blocks(name):
            if framework_of(block, name) not in (framework, None if block.title else framework):
                continue
            if block.title:
                (folder / block.title).write_text(block.code, encoding="utf-8")
            elif block.kind == "console" and not block.missing():
                run_console(block.code, folder, from_shell=name == "README.md")


def run_python(code: str, names: dict[str, Any], document: str) -> None:
    expected = re.findall(r"# -> (.*)$", code, re.MULTILINE)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, document, "exec", dont_inherit=True), names)
    assert printed.getvalue().splitlines() == [line.rstrip() for line in expected]


def run_console(text: str, folder: Path, *, from_shell: bool = False) -> None:
    scripts = Path(sys.executable).parent
    env = rank_environment(folder) | {
        "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
        "GLOO_SOCKET_IFNAME": "lo",
        "TERM": "dumb",
        "PYTHONUNBUFFERED": "",  # processes that share a pipe must write whole lines
    }
    for command, output in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", text, re.MULTILINE):
        words = shlex.split(command)
        if words[:3] == TORCHRUN and not from_shell:
            printed = "".join(run_forks(words[3:], folder))
        elif words[0] == "wirecodec" and words[1] != "warm" and not {"|", "<", ">"} & set(words):
            printed = run_command(words[1:])
        else:
            done = subprocess.run(
                command,
                shell=True,
                cwd=folder,
                env=env,
                capture_output=True,
                text=True,
                timeout=240,
                check=False,
            )
            printed = done.stdout + done.stderr if done.returncode else done.stdout
        printed = re.sub(r"\x1b\[[\d;]*m", "", printed).strip()  # some versions of mpirun reset colours
        lines = output.strip().replace("…\n", "…")  # ranks that print at once may share a line
        pattern = ".*".join(map(re.escape, lines.split("…")))
        assert re.fullmatch(pattern, printed, re.DOTALL), f"$ {command}\n{printed}"


def run_command(words: list[str]) -> str:
    """Return what ``wirecodec`` prints in this process."""
    streams = [io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2)]
    with contextlib.redirect_stdout(streams[0]), contextlib.redirect_stderr(streams[1]):
        status = main(words)
    for stream in streams:
        stream.seek(0)
    out, error = (stream.read() for stream in streams)
    return out + error if status else out


def run_forks(words: list[str], folder: Path) -> list[str]:
    """Return what the processes of a ``torchrun`` print."""
    size, path, *arguments = words
    return run_program(int(size), (folder / path).read_text(), arguments, cwd=folder)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_links_exist(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    paths = re.findall(r"\]\(([^)#:]+)[)#]", text)
    paths += [
        path for path in re.findall(rf"`((?:{'|'.join(FOLDERS)})/[\w./-]+)`", text) if "mine" not in path
    ]
    here = (ROOT / name).parent
    assert [path for path in paths if not (ROOT / path).exists() and not (here / path).exists()] == []


def test_bits_in_the_readme() -> None:
    """The table of schemes has the sizes of the first block's gradient."""
    gradient = np.random.default_rng(0).laplace(size=1_000_000).astype(np.float32)
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| .* \| `(.*)` \| ([\d.]+) \|", text, re.MULTILINE)
    assert len(rows) >= 5
    for scheme, bits in rows:
        blob = wc.encode(gradient, scheme.replace("\\|", "|"))
        assert f"{8 * blob.nbytes / gradient.size:.2f}" == bits, scheme


def test_times_in_the_comparison() -> None:
    """The guide has the times of the benchmark: communication alone, and the whole call."""
    guide = (ROOT / "docs/guides/comparison.md").read_text(encoding="utf-8")
    results = (ROOT / "benchmarks/results/collectives.md").read_text(encoding="utf-8")
    sections = re.findall(r"^### Open MPI, 100 Mbit, n = 4;.*?(?=^##)", results, re.MULTILINE | re.DOTALL)
    rows = [[line.strip("| ").split(" | ") for line in text.splitlines()] for text in sections]
    alone, whole = ({cells[0]: cells[1:] for cells in section} for section in rows)
    for times, row, column in (
        (alone, "native dense", 0),
        (alone, "native allgather, pairs", 1),
        (alone, "allgather", 1),
        (whole, "allreduce allgather", 0),
    ):
        assert f"{float(times[row][column].split()[0]):,g} ms" in guide, row


def test_time_of_a_compilation() -> None:
    """The README and the guide to a first training give the same time."""
    found = [
        re.findall(r"(\d+ to \d+ s) on 2 cores", (ROOT / name).read_text(encoding="utf-8"))
        for name in ("README.md", "docs/guides/train.md")
    ]
    assert len(found[0]) == 1
    assert found[0] == found[1]


def test_only_the_readme_answers_when_it_pays() -> None:
    """Its figures are those of two pages of results, and no guide has an answer of its own."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    answer = readme.partition("## When does it pay?")[2].partition("\n## ")[0].partition("-->")[2]
    scale, links = (
        (ROOT / "benchmarks/results" / page).read_text(encoding="utf-8")
        for page in ("scale.md", "training_links.md")
    )
    first_table = scale.partition("\n### transformer")[0]  # of ResNet-50; its first column has 4 ranks
    predicted = dict(re.findall(r"^\| (\S+ .bit/s) \| \S+ ([\d.]+)×", first_table, re.MULTILINE))
    row = r"^\| (\S+ .bit), budget 0.25, after .*\| ([\d.]+) × as long"
    measured = {f"{link}/s": ratio for link, ratio in re.findall(row, links, re.MULTILINE)}
    for text, figures in zip(answer.split("Trainings gain less"), (predicted, measured), strict=True):
        found = re.findall(r"([\d.]+)×[^×]*?\sat\s(\S+ .bit/s)", text)
        assert len(found) >= 2
        assert found == [(figures[link], link) for _, link in found]
    first_dense = next(link for link, ratio in predicted.items() if ratio == "1.00")
    assert re.search(rf"From\s{first_dense}\son, send dense", answer)
    guides = [name for name in DOCUMENTS if name.startswith("docs/guides/")]
    with_links = {name for name in guides if "Gbit/s" in (ROOT / name).read_text(encoding="utf-8")}
    assert with_links <= {"docs/guides/comparison.md"}


def test_every_document_is_on_the_site() -> None:
    on_site = {path for section in pages.find_pages().values() for path in section}
    assert [name for name in DOCUMENTS if name not in on_site and not name.startswith("tests/")] == []


def test_links_to_other_files_lead_to_the_projects_home() -> None:
    text = (
        "[a](../README.md) [b](../wirecodec/errors.py#L3) [c](../formats) [d](https://e.org) [f](missing.md)"
    )
    assert pages.repository_links(text, "docs/x.md", {"README.md"}.__contains__) == (
        f"[a](../README.md) [b]({pages.HOME}/blob/main/wirecodec/errors.py#L3) "
        f"[c]({pages.HOME}/tree/main/formats) [d](https://e.org) [f](missing.md)"
    )


@pytest.mark.parametrize("package", reference.PACKAGES)
def test_every_public_name_has_an_entry(package: str) -> None:
    module = importlib.import_module(package)
    entries = [name for page in reference.api_pages() for name in page.names]
    assert sorted(module.__all__) == sorted(
        name.rpartition(".")[2] for name in entries if name.rpartition(".")[0] == package
    )
    assert reference.missing_names(set(entries) - {f"{package}.{module.__all__[0]}"}) == [
        f"{package}.{module.__all__[0]}"
    ]


def test_every_name_has_one_entry() -> None:
    """A module's members are those without an entry of their own."""
    found = reference.api_pages()
    names = [name for page in found for name in page.names]
    assert len(names) == len(set(names))
    assert {name: members for page in found for name, members in page.members.items() if members} == {
        "wirecodec.rules": ("usual",)
    }
    assert "Other names" not in {page.title for page in found}, (
        "a module belongs to a group of docs/reference.py"
    )


def test_names_link_to_their_entries() -> None:
    text = reference.link_names("`wc.encode` `wc.none` `co.Channel` `wc.codecs.Rice` `wc.codecs`")
    assert text == (
        "[`wc.encode`][wirecodec.encode] `wc.none` [`co.Channel`][collectives.Channel]"
        " [`wc.codecs.Rice`][wirecodec.codecs.Rice] [`wc.codecs`][wirecodec.codecs]"
    )


def test_guides_are_in_the_order_of_the_menu() -> None:
    guides = [path for path in pages.find_pages()["Guides"] if path.startswith("docs/guides/")]
    assert (guides[0], guides[-1]) == ("docs/guides/where.md", "docs/guides/codec.md")
    assert [name for name in pages.GUIDES if name != "*" and f"docs/guides/{name}.md" not in guides] == []


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 150
