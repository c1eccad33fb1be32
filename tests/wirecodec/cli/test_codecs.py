"""``wirecodec codecs``: the registry is its only source."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import wirecodec as wc
from wirecodec import registry
from wirecodec.cli import main
from wirecodec.cli.codec_table import Description, describe_all
from wirecodec.cli.codecs import measure

ROOT = Path(__file__).parents[3]
ALL = {(one.stage, one.name): one for one in describe_all()}


def test_everything_that_is_registered_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    listed = describe_all()
    registered = [(stage, name) for stage, classes in registry.stages().items() for name in classes]
    assert [(one.stage, one.name) for one in listed] == registered
    assert main(["codecs"]) == 0
    lines = capsys.readouterr().out.splitlines()
    for one in listed:
        (line,) = (line for line in lines if line.startswith(f"{one.call} ") and one.summary in line)
        assert ", ".join(map(str, one.wire_ids)) in line


def test_one_long_row_does_not_widen_the_others(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["codecs"]) == 0
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith(("dgc(", "nonzero "))]
    assert len(rows) == 2
    assert all(re.fullmatch(r"\S.{,62}  \S.*", row) for row in rows)


@pytest.mark.parametrize("one", ALL.values(), ids=lambda one: one.name)
def test_descriptions_are_complete(one: Description) -> None:
    assert one.summary
    assert all(parameter.meaning for parameter in one.parameters)
    assert one.example is not None
    assert wc.Scheme.parse(str(one.example)) == one.example
    on_the_wire = one.stage != "selector" and not one.name.startswith("auto-")
    assert (one.page is not None) == bool(one.wire_ids) == on_the_wire
    assert one.page is None or (ROOT / one.page).is_file()


@pytest.mark.parametrize("stage_and_name", [("index codec", "raw-index"), ("value codec", "raw")])
def test_measured_bits(stage_and_name: tuple[str, str]) -> None:
    found = measure(ALL[stage_and_name])
    assert found is not None
    assert (found.index_bits if stage_and_name[0] == "index codec" else found.value_bits) == 32
    assert found.density == pytest.approx(0.01, rel=1e-3)


def test_page_of_one_codec(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["codecs", "qsgd", "--measure"]) == 0
    page = capsys.readouterr().out
    assert page.startswith(
        "qsgd(bits=4, bucket=512, norm=max): value codec\n\nQuantized SGD (QSGD) value codec."
    )
    for text in (
        "bits per value, 2 to 8.",
        "default 512",
        "example: topk(0.01) | rice | qsgd\n",
        "4.10 bits of value",
        "wire id: 4\n",
        "page: formats/spec/value/qsgd.md",
    ):
        assert text in page
    assert main(["codecs", "raw", "--json"]) == 0
    (one,) = json.loads(capsys.readouterr().out)
    assert (one["wire_ids"], one["example"]) == ([1, 2, 3], "topk(0.01) | rice | raw")
    assert one["parameters"][0]["default"] is None


@pytest.mark.usefixtures("own_registry")
def test_codecs_of_a_program_are_described(capsys: pytest.CaptureFixture[str]) -> None:
    @wc.register
    @dataclasses.dataclass(frozen=True)
    class First:
        name: ClassVar[str] = "first-one"
        word: str

        def select(self, x: Any, *, gradient: Any = None, state: Any = None, seed: int = 0) -> wc.Selection:
            return wc.Selection(np.arange(1, dtype=np.int32))

    First.__doc__ = None  # dataclasses write one
    assert main(["codecs", "first-one", "--measure"]) == 0
    assert capsys.readouterr().out.startswith("first-one(word): selector\n")
