"""Programs in any language: their text forms are tested, and their input may arrive in pieces."""

from __future__ import annotations

import json
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from formats import conformance, make_vectors, program, texts
from formats.reference import text_form
from tests.golden import vectors

RFFT, REFUSED_HEADER, REFUSED_PAYLOAD = "rfft-n5", "names-order", "map-padding"
TEXT = f"{sys.executable} -m formats.reference.text_form"
DECODER = f"{sys.executable} -m formats.reference"
FIRST_PIECE = f"""{sys.executable} -c "
import json, os, sys
from formats import conformance, program
print(json.dumps(program.answer(conformance.reference, os.read(0, 65536), sys.argv[-1])))"
"""


@pytest.fixture
def copy(tmp_path: Path) -> Callable[..., str]:
    """Return a function that copies vectors into a folder, and returns the folder."""

    def copy_into_folder(*ids: str) -> str:
        for id in ids:
            (path,) = make_vectors.VECTORS.rglob(f"{id}.json")
            target = tmp_path / path.relative_to(make_vectors.VECTORS)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)
        return str(tmp_path)

    return copy_into_folder


def test_the_reference_as_a_program_prints_the_text_form(
    copy: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    """A text form knows no schema. Without it, this bad vector has elements, and no tolerance for them."""
    ids = "names", RFFT, "meta-names", "schema-dtype-transformed", REFUSED_HEADER, REFUSED_PAYLOAD
    folder = copy(*ids, "stream-parts", "stream-prefix")
    assert conformance.main(["--vectors", folder, "--text", TEXT]) == 0
    assert "8 of 8 vectors pass" in capsys.readouterr().out
    show = program.run_text([*TEXT.split(), "--unknown"])
    found = texts.check_text(show, texts.Sample("empty", b""))
    assert str(found).startswith("--verify: failed: RuntimeError: exit status 2: usage")


Change = Callable[[list[Any]], Any]


def change_entry(**fields: Any) -> Change:
    return lambda parts: [parts[0] | {"entries": [parts[0]["entries"][0] | fields]}]


def move_elements(distance: float) -> Change:
    """Return a change of the first element by so many times the tolerance of its vector."""

    def change(parts: list[Any]) -> list[Any]:
        for tensor in parts[0].get("tensors", ()):
            (number,) = struct.unpack_from("<f", bytes.fromhex(tensor["values"]))
            (within,) = next(v.within for v in vectors() if v.id == RFFT)
            tensor["values"] = struct.pack("<f", number + distance * within).hex() + tensor["values"][8:]
        return parts

    return change


FAULTS: list[tuple[str, Change, int, str | None]] = [
    (RFFT, list, 0, None),
    (RFFT, move_elements(0.5), 0, None),
    (RFFT, move_elements(2), 0, "--values: [0].tensors[0].values is "),
    (RFFT, change_entry(nnz="3"), 0, '--verify: [0].entries[0].nnz is "3", not 6'),
    (RFFT, change_entry(nnz=True), 0, "--verify: [0].entries[0].nnz is true, not 6"),
    (RFFT, lambda parts: [dict(reversed(parts[0].items()))], 0, '--verify: [0] has the fields ["payload"'),
    (RFFT, lambda parts: parts[0], 0, '--verify: the text is {"version"'),
    (RFFT, lambda parts: parts * 2, 0, "--verify: the array has 2 items, not 1"),
    (REFUSED_PAYLOAD, list, 0, "--verify: exit status 0, not 1"),
    (REFUSED_PAYLOAD, lambda parts: [parts[0] | {"payload": "Malformed map-padding: …"}], 1, None),
    (
        REFUSED_PAYLOAD,
        lambda parts: [parts[0] | {"payload": "Malformed map-padding"}],
        1,
        '--verify: [0].payload is "Malformed map-padding", not "Malformed map-padding: "',
    ),
    (REFUSED_HEADER, lambda parts: [parts[0] | {"nbytes": None}], 1, "--verify: [0].nbytes is null, not 136"),
]
"""A vector, a change of its text, the exit status, and the beginning of the failure's description."""


@pytest.mark.parametrize(("id", "change", "status", "message"), FAULTS)
def test_a_wrong_text_fails(
    copy: Callable[..., str], id: str, change: Change, status: int, message: str | None
) -> None:
    def show(data: bytes, options: Sequence[str]) -> tuple[int, str]:
        if not options:
            return int(id == REFUSED_HEADER), json.dumps(text_of(data))
        return status, json.dumps(change(text_of(data, decoded=True, values="--values" in options)))

    failures = texts.run_texts(show, Path(copy(id)))
    assert [failure.id for failure in failures] == [id] * (message is not None)
    assert all(failure.message.startswith(str(message)) for failure in failures), failures


def text_of(data: bytes, **options: bool) -> Any:
    return text_form.to_plain(list(text_form.describe_stream(data, **options)))


def test_metadata_have_no_order() -> None:
    wanted = [{"tensor_meta": {"w": {"a": "1", "b": "2"}}}]
    assert texts.find_difference([{"tensor_meta": {"w": {"b": "2", "a": "1"}}}], wanted) is None
    found = texts.find_difference([{"tensor_meta": {"w": {"b": "2", "a": 1}}}], wanted)
    assert found == '[0].tensor_meta.w.a is 1, not "1"'


def test_programs_get_their_input_in_pieces(
    copy: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--vectors", copy("names", RFFT, REFUSED_PAYLOAD, "stream-parts"), "--pieces"]
    assert conformance.main([*arguments, "1", "--program", DECODER]) == 0
    assert conformance.main([*arguments, "7", "--streams", "units", "--program", DECODER]) == 0
    assert conformance.main([*arguments, "4096", "--program", FIRST_PIECE]) == 0
    capsys.readouterr()
    assert conformance.main([*arguments, "100", "--program", FIRST_PIECE]) == 1
    assert "names: refused: Truncated container" in capsys.readouterr().out


def test_a_program_need_not_read_all_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    hasty = [sys.executable, "-c", "import os; print(len(os.read(0, 9)))"]
    assert program.ask(hasty, bytes(10_000), {}, 5) == 5
    monkeypatch.setattr(program, "SECONDS", 0.5)
    with pytest.raises(subprocess.TimeoutExpired):
        program.ask([sys.executable, "-c", "import time; time.sleep(60)"], bytes(10), {}, 5)


@pytest.mark.parametrize(
    "arguments",
    [
        "--pieces 1",
        "--pieces 0 --program x",
        "--pieces 4097 --program x",
        "--text x --program x",
        "--text x --streams units",
    ],
)
def test_options_that_do_not_go_together(arguments: str) -> None:
    with pytest.raises(SystemExit) as ended:
        conformance.main(arguments.split())
    assert ended.value.code == 2
