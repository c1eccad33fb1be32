"""``wirecodec apply`` that fails, is killed or meets links: files stay, or the next run completes them."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wirecodec as wc
from tests.wirecodec.cli.patch_files import (
    FORMATS,
    IN_SAFETENSORS,
    INDEX,
    JOURNAL,
    contents,
    formats,
    make_pair,
    read,
    run,
    save_file,
    save_folder,
    save_pair,
)
from tests.wirecodec.cli.test_files import full_disk
from tests.wirecodec.patch.weights import is_equal
from wirecodec.cli.state_files import open_state


@formats
@pytest.mark.parametrize("fault", ["base", "damage", "cut", "disk", "container"])
def test_what_fails_leaves_all_files(kind: str, fault: str, tmp_path: Path, capsys: Any) -> None:
    old_state, new_state = make_pair(FORMATS[kind][2])
    big = {name: np.tile(x, 40) for name, x in old_state.items() if x.ndim}
    old, new, patch = save_pair(tmp_path, kind, big, {**big, **{n: np.tile(new_state[n], 40) for n in big}})
    assert run("diff", old, new, "-o", patch) == 0
    assert run("apply", patch, old, "-o", tmp_path / f"made{old.suffix}") == 0  # kernels are compiled
    if fault == "base":
        assert run("diff", new, old, "-o", patch) == 0
        FORMATS[kind][1](tmp_path / f"third{old.suffix}", {**big, "head": big["head"][::-1]})
        old = tmp_path / f"third{old.suffix}"
    elif fault == "container":
        patch.write_bytes(wc.encode(np.ones(3, "f4")).tobytes())
    elif fault != "disk":
        data = bytearray(patch.read_bytes())
        data[-9] ^= 64
        patch.write_bytes(data if fault == "damage" else data[:-8])
    before = read(tmp_path)
    capsys.readouterr()
    if fault == "disk":
        with full_disk():
            assert run("apply", patch, old) == 2
    else:
        assert run("apply", patch, old) == 2
    assert read(tmp_path) == before
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert error.startswith("wirecodec: ")


KILL = """
import os, sys
from pathlib import Path
from wirecodec import cli
from wirecodec.cli import main
rename, left = Path.replace, int(sys.argv[1])
def replace(self, target):
    global left
    if not left:
        os._exit(9)
    left -= 1
    return rename(self, target)
Path.replace = replace
sys.exit(main(["apply", *sys.argv[2:]]))
"""


@pytest.mark.parametrize(
    ("kind", "renames"), [("safetensors", 0), ("folder", 0), ("folder", 1), ("folder", 2)]
)
def test_a_killed_run_leaves_the_old_state_or_the_next_completes_it(
    kind: str, renames: int, tmp_path: Path, capsys: Any
) -> None:
    old_state, new_state = make_pair(IN_SAFETENSORS)
    old, new, patch = save_pair(tmp_path, kind, old_state, new_state)
    assert run("diff", old, new, "-o", patch) == 0
    program = [sys.executable, "-c", KILL, str(renames), str(patch), str(old)]
    assert subprocess.run(program, check=False, timeout=300).returncode == 9
    if renames == 0:
        assert is_equal(open_state(old).arrays, old_state)
    else:
        capsys.readouterr()
        for command in (["diff", old, new], ["apply", patch, old]):
            assert run(*command, "-o", tmp_path / "other") == 2
            assert capsys.readouterr().err == (
                f"wirecodec: {old}: an apply was killed while it replaced files; run it again, without -o\n"
            )
    assert run("apply", patch, old) == 0
    assert is_equal(open_state(old).arrays, new_state)
    if renames:
        assert contents(old) == contents(new)
        assert "a run that was killed is complete now" in capsys.readouterr().err


def test_an_interrupt_between_renames_is_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new, patch = save_pair(tmp_path, "folder", *make_pair(IN_SAFETENSORS))
    assert run("diff", old, new, "-o", patch) == 0
    interrupt_apply(patch, old, 2, monkeypatch)
    assert run("apply", patch, old) == 0
    assert contents(old) == contents(new)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("{", "the index is damaged"),
        ('{"weight_map": {"w": "../x.safetensors"}}', "does not map names to files of the folder"),
        ('{"weight_map": {"w": 3}}', "does not map names to files of the folder"),
        ('{"weight_map": {}}', "is either in the file or in"),
        ('{"weight_map": {"v": "model.safetensors"}}', "is either in the file or in"),
        ('{"weight_map": {"w": "model.safetensors"}, "metadata": 3}', "metadata is no JSON object"),
        ('{"weight_map": {"w": "absent.safetensors"}}', "No such file"),
    ],
)
def test_a_damaged_index_is_named(content: str, says: str, tmp_path: Path, capsys: Any) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    save_file(folder / "model.safetensors", {"w": np.ones(3, "f4")})
    (folder / INDEX).write_text(content)
    assert run("diff", folder, folder, "-o", tmp_path / "p.wc") == 2
    error = capsys.readouterr().err
    assert says in error
    assert error.count("\n") == 1


REMEDY = "load a whole state, and remove the folder's files .wirecodec-*"


@pytest.mark.parametrize(
    ("journal", "says"),
    [
        ("[", "Expecting value"),
        ("3", "it has other fields"),
        ('{"../p.wc": "x"}', "it has other fields"),
        ('[{"temporary": "x", "name": "y", "old": []}]', "it has other fields"),
        ('[{"temporary": "../p.wc", "name": "x", "old": [], "new": []}]', "it does not name files"),
        ('[{"temporary": "x", "name": 3, "old": [], "new": []}]', "it does not name files"),
    ],
)
def test_a_damaged_journal_renames_nothing(journal: str, says: str, tmp_path: Path, capsys: Any) -> None:
    old, new, patch = save_pair(tmp_path, "folder", *make_pair(("float32",)))
    assert run("diff", old, new, "-o", patch) == 0
    (old / JOURNAL).write_text(journal)
    before = read(tmp_path)
    assert run("apply", patch, old) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"wirecodec: {old / JOURNAL}: the journal is damaged: {says}")
    assert error.endswith(f"; {REMEDY}\n")
    assert read(tmp_path) == before


@pytest.mark.parametrize("how", ["content", "time", "gone"])
@pytest.mark.parametrize("changed", range(3))
@pytest.mark.parametrize("renames", range(1, 4))
def test_a_stale_journal_renames_nothing(
    renames: int, changed: int, how: str, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file, whether it was renamed or not, is another one when the next run begins."""
    old_state, new_state = make_pair(("float32",))
    old, new, patch = save_pair(tmp_path, "folder", old_state, {**new_state, "added": np.ones(3, "f4")})
    assert run("diff", old, new, "-o", patch) == 0
    targets = sorted(old.iterdir(), key=lambda path: path.name == INDEX)
    interrupt_apply(patch, old, renames, monkeypatch)
    path = targets[changed]
    data, times = path.read_bytes(), path.stat()
    if how == "gone":
        path.unlink()
    else:
        path.write_bytes(data[:-1] if how == "content" else data)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns + (how == "time")))
    before = read(tmp_path)
    capsys.readouterr()
    for _ in range(2):
        assert run("apply", patch, old) == 2
        assert capsys.readouterr().err == (
            f"wirecodec: {path}: it has changed after an apply was killed while it replaced files; {REMEDY}\n"
        )
    assert read(tmp_path) == before
    for path in old.iterdir():
        path.unlink()
    old.rmdir()
    save_folder(old, old_state)
    assert run("apply", patch, old) == 0
    assert is_equal(open_state(old).arrays, open_state(new).arrays)


def interrupt_apply(patch: Path, base: Path, renames: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Interrupt an apply after some renames, the first of which is that of the journal."""
    rename, made = Path.replace, 0

    def replace(path: Path, target: Path) -> Path:
        nonlocal made
        if made == renames:
            raise KeyboardInterrupt
        made += 1
        return rename(path, target)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", replace)
        assert run("apply", patch, base) == 130


@formats
@pytest.mark.parametrize("has_output", [False, True])
def test_links_are_replaced_in_place_and_followed_as_outputs(
    kind: str, has_output: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name of a file that a link points to may be the hash of its content."""
    old_state, new_state = make_pair(("float32",))
    old, new, patch = save_pair(tmp_path, kind, old_state, {**new_state, "added": np.ones(3, "f4")})
    assert run("diff", old, new, "-o", patch) == 0
    blobs = tmp_path / "blobs"
    blobs.mkdir()
    for number, path in enumerate(sorted(old.iterdir()) if old.is_dir() else [old]):
        blob = blobs / f"{number}"
        path.replace(blob)
        blob.chmod(0o640)
        path.symlink_to(blob)
    before = read(blobs)
    monkeypatch.chdir(tmp_path)
    if not has_output:
        assert run("apply", patch, old.name) == 0
        files = list(old.iterdir()) if old.is_dir() else [old]
        assert not any(path.is_symlink() for path in files)
        assert {path.stat().st_mode & 0o777 for path in files} == {0o640}
    else:
        link, target = Path(f"link{old.suffix}"), Path("blobs", f"made{old.suffix}")
        link.symlink_to(target)
        if kind == "folder":
            target.mkdir()
        else:
            target.write_bytes(b"old")
        assert run("apply", patch, old.name, "-o", link) == 0
        assert link.is_symlink()
        assert is_equal(open_state(target).arrays, open_state(new).arrays)
        shutil.rmtree(target) if kind == "folder" else target.unlink()
        assert run("apply", patch, old.name, "-o", link) == 0
        assert is_equal(open_state(target).arrays, open_state(new).arrays)
        shutil.rmtree(target) if kind == "folder" else target.unlink()
    assert read(blobs) == before
    if not has_output:
        assert is_equal(open_state(old).arrays, open_state(new).arrays)


def test_standard_input_is_not_replaced(tmp_path: Path) -> None:
    old, new, patch = save_pair(tmp_path, "safetensors", *make_pair(("float32",)))
    assert run("diff", old, new, "-o", patch) == 0
    link, before = tmp_path / "stdin", read(tmp_path)
    link.symlink_to("/dev/stdin")
    with old.open("rb") as file:
        done = subprocess.run(
            [sys.executable, "-m", "wirecodec", "apply", patch, link],
            stdin=file,
            capture_output=True,
            check=False,
        )
    assert done.returncode == 2
    assert done.stderr.endswith(b"stdin: it cannot be replaced; name the output by -o\n")
    assert link.is_symlink()
    link.unlink()
    assert read(tmp_path) == before


@formats
@pytest.mark.parametrize("number", [0, -1])
def test_files_that_are_read_only_are_refused(
    kind: str, number: int, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    old_state, new_state = make_pair(("float32",))
    old, new, patch = save_pair(tmp_path, kind, old_state, {**new_state, "added": np.ones(3, "f4")})
    assert run("diff", old, new, "-o", patch) == 0
    path = sorted(old.iterdir())[number] if old.is_dir() else old
    path.chmod(0o440)
    before = read(tmp_path)
    capsys.readouterr()
    with monkeypatch.context() as patched:
        patched.setattr(Path, "open", open_as_a_user)
        assert run("apply", patch, old) == 2
    assert capsys.readouterr().err == f"wirecodec: {path}: Permission denied\n"
    assert read(tmp_path) == before
    assert run("apply", patch, old, "-o", tmp_path / f"made{old.suffix}") == 0


open_file = Path.open


def open_as_a_user(path: Path, mode: str = "r", *arguments: Any, **named: Any) -> Any:
    """Open a file as somebody who is not root."""
    if "+" in mode and not path.stat().st_mode & 0o200:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
    return open_file(path, mode, *arguments, **named)


@formats
def test_the_first_error_is_told_if_cleaning_up_fails(
    kind: str, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    old_state = {"w": np.random.default_rng(0).random(2000), "v": np.ones(3, "f4")}
    old, new, patch = save_pair(tmp_path, kind, old_state, {**old_state, "w": old_state["w"][::-1]})
    assert run("diff", old, new, "-o", patch) == 0
    assert run("apply", patch, old, "-o", tmp_path / f"made{old.suffix}") == 0  # kernels are compiled

    def unlink(path: Path, missing_ok: bool = False) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    capsys.readouterr()
    with full_disk(), monkeypatch.context() as patched:
        patched.setattr(Path, "unlink", unlink)
        assert run("apply", patch, old) == 2
    assert "File too large" in capsys.readouterr().err


def test_a_folder_is_not_written_over_another(tmp_path: Path, capsys: Any) -> None:
    old, new, patch = save_pair(tmp_path, "folder", *make_pair(("float32",)))
    assert run("diff", old, new, "-o", patch) == 0
    before = read(tmp_path)
    for output in (new, patch):
        assert run("apply", patch, old, "-o", output) == 2
        assert "name a folder that does not exist" in capsys.readouterr().err
    assert read(tmp_path) == before
