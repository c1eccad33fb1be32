"""``wirecodec diff``, ``apply`` and ``inspect`` of patches: files come back, and facts are shown."""

from __future__ import annotations

import io
import itertools
import json
import re
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
    State,
    contents,
    formats,
    make_pair,
    run,
    save_file,
    save_pair,
    without,
)
from tests.wirecodec.cli.test_element_types import row, write
from tests.wirecodec.patch.weights import is_equal
from wirecodec import cli
from wirecodec.cli.state_files import open_state
from wirecodec.element_types import FLOAT4_X2

README = (Path(cli.__file__).parent / "README.md").read_text(encoding="utf-8")


@formats
@pytest.mark.parametrize("base", ["read", "unread", "slices"])
def test_files_come_back_byte_for_byte(kind: str, base: str, tmp_path: Path, capsys: Any) -> None:
    old, new, patch = save_pair(tmp_path, kind, *make_pair(FORMATS[kind][2]))
    before, after, made = contents(old), contents(new), tmp_path / f"made{old.suffix}"
    for source, target in ((old, new), (new, old)):
        assert run("diff", source, target, "--base", base, "-o", patch) == 0
        assert run("apply", patch, source, "-o", made.with_stem(f"made-{source.stem}")) == 0
    assert contents(made.with_stem("made-old")) == after
    assert contents(made.with_stem("made-new")) == contents(old) == before
    assert run("apply", patch, new) == 0
    assert contents(new) == before
    times = {p: (p.stat().st_mtime_ns, p.stat().st_ino) for p in tmp_path.rglob("*")}
    capsys.readouterr()
    assert run("apply", patch, new) == 0
    assert capsys.readouterr().out == f"{new}: it has these changes already; nothing has changed\n"
    assert {p: (p.stat().st_mtime_ns, p.stat().st_ino) for p in tmp_path.rglob("*")} == times


def test_files_of_the_package_safetensors_come_back(tmp_path: Path) -> None:
    package = pytest.importorskip("safetensors.numpy")
    pair = make_pair(without("complex128", "complex64", FLOAT4_X2))  # NumPy has no name for the last one
    old, new, patch = (tmp_path / name for name in ("old.safetensors", "new.safetensors", "p.wc"))
    for path, state in zip((old, new), pair, strict=True):
        package.save_file(state, path, metadata={"step": "é"})  # the package shuffles several texts
    assert run("diff", old, new, "-o", patch, "-q") == 0
    assert run("apply", patch, old) == 0
    assert old.read_bytes() == new.read_bytes()
    assert is_equal(open_state(old).arrays, pair[1])  # the package does not read all types that it writes


def test_arrays_of_an_npz_keep_their_order_of_bytes_and_their_dimensions(tmp_path: Path) -> None:
    old_state = {"big": np.arange(9, dtype=">f4"), "matrix": np.ones((3, 4), order="F")}
    new_state = {"big": old_state["big"][::-1].copy(), "matrix": np.array(2.0)}
    old, new, patch = save_pair(tmp_path, "npz", old_state, new_state)
    assert run("diff", old, new, "-o", patch) == 0
    assert run("apply", patch, old) == 0
    assert contents(old) == contents(new)


@formats
def test_tensors_are_added_removed_and_replaced(kind: str, tmp_path: Path) -> None:
    old_state, new_state = make_pair(FORMATS[kind][2])
    del new_state["int8.w"], new_state["same"]
    new_state["uint8.w"] = np.arange(7, dtype="f4")
    new_state |= {
        "head": new_state["head"].reshape(20, 20),
        "added": np.ones((2, 2), "i4"),
        "a": np.ones(3, "f4"),
    }
    old, new, patch = save_pair(tmp_path, kind, old_state, new_state)
    assert run("diff", old, new, "-o", patch) == 0
    assert run("apply", patch, old) == 0
    assert is_equal(open_state(old).arrays, new_state)
    if kind == "folder":
        index = json.loads((old / INDEX).read_text())
        assert index["metadata"]["total_size"] == sum(x.nbytes for x in new_state.values())
        assert index["weight_map"]["added"] == "model-00002-of-00002.safetensors"
        assert set(index["weight_map"]) == set(new_state)
    assert run("diff", old, new, "-o", patch, "-q") == 0
    info = wc.inspect(patch.read_bytes())
    assert info.patch is not None
    assert (info.entries, info.patch.removed) == ((), {})


def save_folder_of_one(path: Path, state: State) -> None:
    """Write a folder without an index."""
    path.mkdir()
    save_file(path / "model.safetensors", state)


@pytest.mark.parametrize("has_output", [False, True])
@pytest.mark.parametrize("kind", [*FORMATS, "folder of one"])
def test_all_tensors_are_removed_and_come_back(
    kind: str, has_output: bool, tmp_path: Path, capsys: Any
) -> None:
    suffix, save, _ = {**FORMATS, "folder of one": ("", save_folder_of_one, ())}[kind]
    full, empty, patch = tmp_path / f"full{suffix}", tmp_path / f"empty{suffix}", tmp_path / "p.wc"
    state, _ = make_pair(("float32",))
    save(full, state)
    np.savez(tmp_path / "nothing.npz")
    assert run("diff", full, tmp_path / "nothing.npz", "-o", patch) == 0
    assert run("apply", patch, full, "-o", empty) == 0
    assert open_state(empty).arrays == {}
    assert run("apply", patch, empty, *(["-o", tmp_path / f"copy{suffix}"] if has_output else [])) == 0
    assert "it has these changes already" in capsys.readouterr().out
    assert run("diff", empty, full, "-o", patch) == 0
    made = tmp_path / f"made{suffix}" if has_output else empty
    assert run("apply", patch, empty, *(["-o", made] if has_output else [])) == 0
    assert is_equal(open_state(made).arrays, state)
    if kind == "folder":
        assert json.loads((made / INDEX).read_text())["metadata"] == {
            "total_size": sum(x.nbytes for x in state.values())
        }


def test_a_folder_of_no_files_is_named(tmp_path: Path, capsys: Any) -> None:
    (tmp_path / INDEX).write_text('{"weight_map": {}}')
    assert run("diff", tmp_path, tmp_path, "-o", tmp_path / "p.wc") == 2
    assert "the folder has no file of the format safetensors" in capsys.readouterr().err


@pytest.mark.parametrize("command", [["decode"], ["verify"], ["verify", "--json"]], ids=" ".join)
@pytest.mark.parametrize("base", ["read", "unread"])
def test_commands_that_decode_name_the_one_that_applies(
    command: list[str], base: str, tmp_path: Path, capsys: Any
) -> None:
    patch = tmp_path / "p.wc"
    patch.write_bytes(wc.diff({"w": np.zeros(9, "f4")}, {"w": np.arange(9, dtype="f4")}, base=base).tobytes())
    output = ["-o", tmp_path / "x.npz"] if command == ["decode"] else []
    assert run(*command, patch, *output) == (1 if command[0] == "verify" else 2)
    printed = capsys.readouterr()
    assert "wirecodec apply PATCH BASE" in printed.out + printed.err
    patch.write_bytes(wc.encode(np.ones(3, "f4")).tobytes())
    np.savez(tmp_path / "base.npz", w=np.ones(3, "f4"))
    assert run("apply", patch, tmp_path / "base.npz") == 2
    assert "the command wirecodec decode" in capsys.readouterr().err


def test_shards_without_changes_are_not_written(tmp_path: Path) -> None:
    old_state, _ = make_pair(IN_SAFETENSORS)
    new_state = {**old_state, "head": old_state["head"][::-1]}
    old, new, patch = save_pair(tmp_path, "folder", old_state, new_state)
    (old / "config.json").write_text("{}")
    inodes = {path.name: path.stat().st_ino for path in old.iterdir()}
    assert run("diff", old, new, "-o", patch) == 0
    assert run("apply", patch, old) == 0
    (changed,) = [path.name for path in old.iterdir() if path.stat().st_ino != inodes[path.name]]
    assert changed == json.loads((old / INDEX).read_text())["weight_map"]["head"]


def test_types_without_a_name_in_containers_are_bytes(tmp_path: Path, capsys: Any) -> None:
    def save(name: str, kind: str, scales: bytes) -> Path:
        rows = {"s": row(kind, [4], 0, 4), "f": row("F4", [2, 4], 4, 8)}
        return write(tmp_path / name, rows, scales + bytes(scales[0:1] * 4))

    old = save("old.safetensors", "F8_E4M3FNUZ", b"\1\2\3\4")
    new = save("new.safetensors", "F8_E4M3FNUZ", b"\1\2\7\4")
    other = save("other.safetensors", "U8", b"\1\2\7\4")
    patch = tmp_path / "p.wc"
    assert run("diff", old, new, "-o", patch) == 0
    assert run("apply", patch, old) == 0
    assert old.read_bytes() == new.read_bytes()
    for one, two in ((old, other), (other, old)):
        assert run("diff", one, two, "-o", tmp_path / "q.wc") == 2
        assert "F8_E4M3FNUZ of shape [4]" in capsys.readouterr().err
    assert not (tmp_path / "q.wc").exists()


def test_folders_without_an_index(tmp_path: Path, capsys: Any) -> None:
    old, new, patch = tmp_path / "old", tmp_path / "new", tmp_path / "p.wc"
    for path, value in ((old, 1), (new, 2)):
        path.mkdir()
        save_file(path / "model.safetensors", {"w": np.full(3, value, "f4")})
    assert run("diff", old, new, "-o", patch) == 0
    assert run("apply", patch, old) == 0
    assert contents(old) == contents(new)
    save_file(old / "other.safetensors", {"v": np.ones(3, "f4")})
    assert run("diff", old, new, "-o", patch) == 2
    assert "2 files of the format safetensors and no index" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("output", "says"),
    [("x.npz", "must end in .safetensors"), ("-", "standard output is a terminal")],
)
def test_outputs_are_of_the_format_of_the_base(
    output: str, says: str, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    old, new, patch = save_pair(tmp_path, "safetensors", *make_pair(("float32",)))
    assert run("diff", old, new, "-o", patch) == 0
    if output == "-":
        monkeypatch.setattr("sys.stdout", Terminal(io.BytesIO()))
    assert run("apply", patch, old, "-o", output) == 2
    assert says in capsys.readouterr().err


class Terminal(io.TextIOWrapper):
    """Standard output of a person."""

    def __init__(self, buffer: io.BytesIO) -> None:
        buffer.isatty = lambda: True
        super().__init__(buffer)


def test_patches_pass_through_pipes(tmp_path: Path) -> None:
    old, new, patch = save_pair(tmp_path, "safetensors", *make_pair(("float32",)))
    call = [sys.executable, "-m", "wirecodec"]
    diff = subprocess.run(
        [*call, "diff", "-", new, "-o", "-"], input=old.read_bytes(), capture_output=True, check=True
    )
    patch.write_bytes(diff.stdout)
    made = subprocess.run(
        [*call, "apply", patch, "-", "-o", "-"], input=old.read_bytes(), capture_output=True, check=True
    )
    assert made.stdout == new.read_bytes()
    assert run("diff", "-", "-", "-o", patch) == run("apply", patch, "-") == 2


def test_several_patches_are_applied_in_sequence(tmp_path: Path, capsys: Any) -> None:
    old, new, patch = save_pair(tmp_path, "safetensors", *make_pair(("float32",)))
    third = tmp_path / "third.safetensors"
    save_file(third, {**make_pair(("float32",))[1], "head": np.ones(3, "f4")})
    blobs = []
    for source, target in ((old, new), (new, third)):
        assert run("diff", source, target, "-o", patch, "-q") == 0
        blobs.append(patch.read_bytes())
    patch.write_bytes(b"".join(blobs))
    assert run("inspect", "--json", patch) == 0
    first, second = (part["patch"] for part in json.loads(capsys.readouterr().out))
    assert first["target"] == second["base"] != first["base"]
    assert run("apply", patch, old) == 0
    assert open_state(old).arrays["head"].tolist() == [1, 1, 1]
    assert run("apply", patch, old) == 0
    assert "nothing has changed" in capsys.readouterr().out


@pytest.mark.parametrize("base", ["read", "unread"])
def test_inspect_shows_what_a_patch_changes(base: str, tmp_path: Path, capsys: Any) -> None:
    old_state = {"w": np.zeros(1000, "f4"), "gone": np.ones(2, "f4"), "kept": np.ones(5, "f4")}
    new_state = {"w": old_state["w"].copy(), "added\x1b": np.ones(4, "f4"), "kept": old_state["kept"]}
    new_state["w"][[3, 500]] = -0.0, 1
    blob = wc.diff(old_state, new_state, base=base)
    info = wc.inspect(blob)
    assert info.patch is not None
    assert (info.patch.added, list(info.patch.before), list(info.patch.removed)) == (
        ("added\x1b",),
        ["w"],
        ["gone"],
    )
    assert (info.patch.touched, info.patch.unchanged) == (base == "unread", int(base == "read"))
    assert {codec for entry in info.entries for codec in entry.value.split("+")} == {"steps", "zstd"}
    patch = tmp_path / "p.wc"
    patch.write_bytes(blob.tobytes())
    for verified in ([], ["--verify"]):
        assert run("inspect", patch, *verified) == 0
        text = capsys.readouterr().out
        assert "2 of 1,000 elements of changed tensors (0.2 %)" in text
        assert "new: added\\x1b\nremoved: gone\n" in text
        assert "wirecodec apply checks them" in text
        assert ("touched" in text) is (base == "unread")
    assert run("inspect", "--json", patch) == 0
    (part,) = json.loads(capsys.readouterr().out)
    assert bool(part["patch"]["base"]) is (base == "read")


def fields_of(command: str) -> list[str]:
    """Return the names in the table of a command's fields."""
    rows = README.partition(f"| field of `{command}` | content |\n|---|---|\n")[2].partition("\n\n")[0]
    return [name for row in rows.splitlines() for name in re.findall(r"`(\w+)`", row.split(" | ")[0])]


DIFF_FIELDS = fields_of("diff")


*FILES, FIRST_SHARED, LAST_SHARED = fields_of("apply")


SHARED = DIFF_FIELDS[DIFF_FIELDS.index(FIRST_SHARED) : DIFF_FIELDS.index(LAST_SHARED) + 1]


@formats
@pytest.mark.parametrize("base", ["read", "unread"])
def test_sizes_and_digests_as_json(kind: str, base: str, tmp_path: Path, capsys: Any) -> None:
    old_state, new_state = make_pair(FORMATS[kind][2])
    old_state["z"], new_state["z"] = np.zeros(3, "c8"), np.array([0, 1 + 1j, 1j], "c8")
    old_state["reshaped"], new_state["reshaped"] = np.ones(6, "f4"), np.ones((2, 3), "f4")
    del new_state["same"]
    old, new, patch = save_pair(tmp_path, kind, old_state, {**new_state, "added": np.ones(4, "f4")})
    assert run("diff", old, new, "--base", base, "--json", "-o", patch) == 0
    sizes = json.loads(capsys.readouterr().out)
    assert list(sizes) == DIFF_FIELDS
    changed = sum(
        int((old_state[name].reshape(-1, 1).view("u1") != x.reshape(-1, 1).view("u1")).any(1).sum())
        for name, x in new_state.items()
        if x.ndim and x.size and name != "reshaped"
    )
    changed += 1 + 6 + 4  # of step, reshaped and added
    assert sizes["changed_elements"] == changed
    assert (sizes["new_tensors"], sizes["removed_tensors"]) == (1, 1)
    assert sizes["bytes"] == patch.stat().st_size
    assert sizes["bits_per_changed_element"] == 8 * sizes["bytes"] / changed
    assert sizes["dense_bytes"] == 16 + sum(x.nbytes for x in new_state.values())
    assert sizes["elements"] == 4 + sum(x.size for x in new_state.values())
    assert run("inspect", "--json", patch) == 0
    (shown,) = json.loads(capsys.readouterr().out)
    digests = sizes["base_digest"], sizes["target_digest"]
    assert digests == (shown["patch"]["base"], shown["patch"]["target"])
    assert bool(digests[0]) is (base == "read")
    made = tmp_path / f"made{old.suffix}"
    for output in ([], ["-o", made]):
        assert run("apply", patch, old, "--json", *output) == 0
        done = json.loads(capsys.readouterr().out)
        assert list(done) == FILES + SHARED
        assert (done["patch"], done["base"], done["output"]) == (
            str(patch),
            str(old),
            str(made) if output else None,
        )
        if not output:
            assert {name: done[name] for name in SHARED} == {name: sizes[name] for name in SHARED}
            continue
        assert (done["changed_elements"], done["bits_per_changed_element"]) == (0, None)
        assert (done["changed_tensors"], done["new_tensors"], done["removed_tensors"]) == (0, 0, 0)
        assert (done["base_digest"], done["target_digest"]) == digests


def test_json_of_several_patches_has_both_ends(tmp_path: Path, capsys: Any) -> None:
    states = [{"w": np.full(9, number, "f4")} for number in range(3)]
    patches = [wc.diff(*pair) for pair in itertools.pairwise(states)]
    patch, base = tmp_path / "p.wc", tmp_path / "base.npz"
    patch.write_bytes(wc.merge(patches).tobytes())
    np.savez(base, **states[0])
    assert run("inspect", "--json", patch) == 0
    first, last = (part["patch"] for part in json.loads(capsys.readouterr().out))
    assert run("apply", patch, base, "--json") == 0
    done = json.loads(capsys.readouterr().out)
    assert (done["bytes"], done["changed_elements"]) == (patch.stat().st_size, 9)
    assert (done["base_digest"], done["target_digest"]) == (first["base"], last["target"])


def test_codecs_of_patches_without_their_record_are_refused_by_inspect() -> None:
    blob = np.array(wc.diff({"w": np.zeros(9, "f4")}, {"w": np.arange(9, dtype="f4")}))
    assert wc.inspect(blob).patch is not None
    plain = wc.encode(np.arange(9, dtype="f4"))
    assert wc.inspect(plain).patch is None
    from formats.reference import Row, assemble

    with pytest.raises(wc.Unsupported, match="value"):
        wc.inspect(assemble([Row(0, 0, 9, 9, 1, 1, 16, b"", b"1234")]))
