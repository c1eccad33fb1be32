"""``wc.compare`` and its command: sizes and errors against the containers themselves."""

from __future__ import annotations

import csv
import io
import json
import math
import sys
from pathlib import Path

import numpy as np
import pytest

import wirecodec as wc
from wirecodec.cli.main import main

RNG = np.random.default_rng(0)
MODEL = {
    "a": RNG.laplace(size=(60, 100)).astype(np.float32),
    "b": (10 * RNG.laplace(size=3000)).astype(np.float32),
}


def test_bits_and_errors_are_those_of_the_containers() -> None:
    scheme = "topk(0.02) | rice | qsgd(bits=4)"
    alone, joined = wc.compare(MODEL, [scheme], seconds=0)
    assert (alone.together, joined.together) == (False, True)
    assert math.isnan(alone.encode)
    vector = np.concatenate([x.ravel() for x in MODEL.values()])
    for row, given in ((alone, MODEL), (joined, {"": vector})):
        blob = wc.encode_many(given, scheme) if len(given) > 1 else wc.encode(vector, scheme)
        arrived = wc.decode_many(blob)
        lost = sum(
            np.square(x - y.to_dense(), dtype=np.float64).sum()
            for x, y in zip(given.values(), arrived.values(), strict=True)
        )
        assert row.bits == 8 * len(blob) / vector.size
        np.testing.assert_allclose(row.error, lost / np.square(vector, dtype=np.float64).sum(), rtol=1e-6)
        np.testing.assert_allclose(row.relative_error**2, row.error)
        assert row.density == sum(tensor.nnz for tensor in arrived.values()) / vector.size
    assert joined.error < alone.error  # the larger tensor has most of the largest elements


def test_the_table_shows_the_scheme_and_marks_the_best_rows() -> None:
    table = wc.compare(MODEL["a"], ["dgc(ratio=0.01)", "topk(0.01)|rice|qsgd", "fft"], seconds=0)
    dgc, own, fft = (line.split() for line in str(table).splitlines()[1:4])
    assert dgc[:3] == ["dgc(ratio=0.01)", "dgc(0.01)", "|"]
    assert own[:7] == ["*", "topk(0.01)", "|", "rice", "|", "qsgd", "1"]
    assert fft[-4:] == ["15", "%", f"{table[2].bits:.3g}", f"{table[2].relative_error:.3g}"]
    assert [row.name for row in table[1:]] == ["topk(0.01)|rice|qsgd", "fft"]


def test_at_equal_bits_the_least_error_has_the_mark() -> None:
    """Their bits agree within 1 % only, so the worst scheme may have the fewest."""
    schemes = ["randomk(0.1) | rice | raw", "topk(0.01) | rice | raw", "topk(0.01) | rice | qsgd"]
    for goal in ({"bits": 0.5}, {"error": 0.8}):
        table = wc.compare(MODEL["a"], schemes, seconds=0, **goal)
        marks = [line.startswith("*") for line in str(table[:]).splitlines()[1 : 1 + len(table)]]
        values = [row.relative_error if "bits" in goal else row.bits for row in table]
        assert marks == [value == min(values) for value in values]


def test_csv_has_the_fields_of_json(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", MODEL["a"])
    given = ["compare", str(tmp_path / "x.npy"), "topk(0.01) | rice | raw", "terngrad", "--seconds", "0"]
    assert main([*given, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert main([*given, "--csv"]) == 0
    found = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert found == [{key: "" if x is None else str(x) for key, x in row.items()} for row in rows]


def test_every_preset_takes_part_or_says_why() -> None:
    rows = wc.compare(MODEL["a"], seconds=0.001)
    assert {row.name for row in rows} > set(wc.PRESETS)
    for row in rows:
        assert row.refusal or (row.bits > 0 and row.encode > 0 and row.decode > 0)
    refused = wc.compare(np.array([1.0, np.nan], np.float32), ["terngrad"], seconds=0)[0]
    assert "nan" in refused.refusal.lower()
    assert math.isnan(refused.bits)


@pytest.mark.parametrize(
    ("name", "meaning"),
    [
        ("powersgd", "no codec"),
        ("Streaming-DiLoCo", "co.local_recipe"),
        ("ok-topk", "co.OkTopK"),
        ("clt-k", "co.CLTk"),
        ("gtop-k", "co.GTopK"),
        ("dcg", "did you mean 'dgc'"),
    ],
)
def test_systems_that_are_no_schemes_are_named_as_what_they_are(name: str, meaning: str) -> None:
    with pytest.raises(wc.EncodeError, match=meaning):
        wc.compare(MODEL, [name])


def test_the_known_names_are_those_that_take_part() -> None:
    with pytest.raises(wc.EncodeError, match="known: ") as raised:
        wc.compare(MODEL, ["zzzz"])
    known = str(raised.value).partition("known: ")[2].split(", ")
    assert {*known} == {*wc.PRESETS, "sparseloco"}
    assert not wc.compare(MODEL["a"], known[-1:], seconds=0)[0].refusal


def test_the_others_are_compared_if_some_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(tmp_path / "g.npz")
    np.savez(file, **MODEL)
    assert main(["compare", file, "powersgd", "terngrad", "dcg", "--seconds", "0"]) == 0
    *_, other, first, second = capsys.readouterr().out.splitlines()
    assert not other.startswith("terngrad: ")
    assert first.startswith("powersgd: not measured: 'powersgd' sends two dense factors")
    assert second == "dcg: not measured: unknown preset 'dcg'; did you mean 'dgc'?"
    assert main(["compare", file, "powersgd", "dcg", "--seconds", "0"]) == 2
    error = capsys.readouterr().err
    assert "two dense factors" in error
    assert "did you mean 'dgc'" in error
    assert main(["compare", file, "qsgd", "--bits", "1", "--seconds", "0"]) == 1
    assert "qsgd: not measured: " in capsys.readouterr().out


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, picture = tmp_path / "model.npz", tmp_path / "model.png"
    np.savez(file, **MODEL)
    schemes = ["terngrad", "dgc(ratio=0.01)"]
    assert main(["compare", str(file), *schemes, "--seconds", "0", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["name"] for row in rows] == ["dgc(ratio=0.01)"] * 2 + ["terngrad"] * 2
    assert all(math.isclose(row["error"], row["relative_error"] ** 2) for row in rows)
    assert rows[0]["encode"] is None
    assert main(["compare", str(file), *schemes, "--seconds", "0"]) == 0
    page = capsys.readouterr().out
    assert "9,000 elements in 2 tensors" in page
    assert "as one" in page
    assert "each alone" in page
    pytest.importorskip("matplotlib")
    assert main(["compare", str(file), *schemes, "--seconds", "0", "--png", str(picture)]) == 0
    assert picture.read_bytes().startswith(b"\x89PNG")
    capsys.readouterr()
    assert main(["compare", str(file), "powersgd"]) == 2
    assert "model.npz" not in capsys.readouterr().err
    assert main(["compare", str(file), "--seconds", "-1"]) == 2


def test_a_line_of_the_picture_leads_through_the_ratios_of_one_scheme(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("matplotlib")
    from wirecodec.cli import compare_picture

    ratios = (0.1, 0.001, 0.01)
    schemes = [*(f"topk({ratio}) | rice | raw" for ratio in ratios), "terngrad"]
    rows = wc.compare(MODEL, schemes, seconds=0)
    figures = []
    monkeypatch.setattr(compare_picture, "save_png", lambda figure, file: figures.append(figure))
    compare_picture.draw("title", rows, Path("unused.png"))
    (axes,) = figures[0].axes
    solid = [line for line in axes.lines if line.get_linestyle() == "-" and len(line.get_xdata())]
    together = {row.name: row for row in rows if row.together}
    through = [together[f"topk({ratio}) | rice | raw"] for ratio in sorted(ratios)]
    assert [line.get_xydata().tolist() for line in solid] == [
        [[row.bits, row.relative_error] for row in through]
    ]
    legends = [
        text.get_text() for legend in figures[0].findobj(type(axes.get_legend())) for text in legend.texts
    ]
    assert "one scheme at several rates" in legends
    assert "same scheme, each tensor alone (dots: all as one)" in legends
    numbers = [text for text in axes.texts if text.get_text().isdecimal()]
    assert len(numbers) == len(schemes)
    assert all(text.get_fontsize() >= 10 for text in numbers)


def test_schemes_may_follow_options(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "x.npy"
    np.save(file, np.arange(1, 99, dtype=np.float32))
    assert main(["compare", str(file), "terngrad", "--seconds", "0", "--json", "qsgd"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert {row["name"] for row in rows} == {"terngrad", "qsgd"}
    for wrong in (["compare", str(file), "--second-best"], ["verify", str(file), "--json", "more"]):
        assert main(wrong) == 2
        assert "unrecognized arguments" in capsys.readouterr().err


def test_a_picture_without_matplotlib_fails_before_anything_is_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    for command in ("compare", "stats"):
        assert main([command, "missing.npy", "--png", "x.png"]) == 2
        assert "pip install matplotlib\n" in capsys.readouterr().err


def test_names_of_files_are_no_gradients() -> None:
    with pytest.raises(TypeError, match="wirecodec compare FILE"):
        wc.compare("gradients.npz", ["terngrad"])


def test_a_selector_with_a_state_is_compared_as_in_a_training() -> None:
    """The printed controller of SIDCo begins with one stage, which keeps nothing of a normal distribution."""
    x = np.random.default_rng(2).standard_normal(200_000).astype(np.float32)
    first = wc.decode(wc.encode(x, wc.preset("sidco"))).nnz / x.size
    settled = wc.compare(x, ["sidco"], seconds=0)[0].density
    with_zeros = wc.compare({"frozen": np.zeros(9, np.float32), "x": x}, ["sidco"], seconds=0)[0].density
    compressor = wc.Compressor(wc.preset("sidco"), feedback=None)
    for _ in range(51):
        blob = compressor.compress({"": x})
    assert first == 0
    assert abs(settled / 0.001 - 1) <= 0.2
    assert abs(with_zeros / settled - 1) <= 0.001
    assert settled == wc.decode_many(blob)[""].nnz / x.size


def test_what_a_scheme_warns_of_is_below_the_table() -> None:
    tensors = {"small": np.ones(3, np.float32), "large": MODEL["a"]}
    table = wc.compare(tensors, ["budget(0.3) | rice | error-bounded"], seconds=0)
    alone, joined = table
    assert "'small'" in alone.note
    assert not joined.note
    assert f"each alone: {alone.note}" in str(table)


def test_a_count_that_is_not_the_one_asked_for_is_noted() -> None:
    """On a heavy tail, one stage of SIDCo keeps too much, and the printed controller does not add one."""
    heavy = np.random.default_rng(3).standard_t(3, size=200_000).astype(np.float32)
    selector, state = wc.selectors.SIDCo(0.001, mode="faithful"), None
    for _ in range(51):
        selection = selector.select(heavy, state=state)
        state = selection.state
    assert state[0] == 1
    times = selection.indices.size / 200
    assert times > 4
    schemes = ["sidco", "topk(0.001) | bloom(policy=p0, fpr=0.01) | raw", "fft", "sidco(mode=retargeted)"]
    table = wc.compare(heavy, schemes, seconds=0)
    assert table[0].note == f"selected {times:.3g} times what was asked"
    assert not any(row.note for row in table[1:])  # bloom filters store more than was selected
    assert table[1].density > 0.002
    assert f"sidco, each alone: {table[0].note}" in str(table)
    zeros = np.r_[np.ones(10), np.zeros(990)].astype(np.float32)
    few = wc.compare(zeros, ["sidco(ratio=0.1)"], seconds=0)[0]
    assert few.note == "selected 0.1 times what was asked"


@pytest.mark.parametrize(
    ("scheme", "says"),
    [
        ("DGC", "did you mean 'dgc'"),
        ("SIDCo", "did you mean 'sidco'"),
        ("dgc | rice | raw", r"dgc needs ratio, as in dgc\(ratio=…\)"),
        ("sparseloco(chunks=3)", "chunk"),
    ],
)
def test_a_name_in_other_letters_and_a_missing_argument(scheme: str, says: str) -> None:
    with pytest.raises(wc.EncodeError, match=says):
        wc.compare(MODEL["a"], [scheme], seconds=0)


def test_recipes_with_one_scheme_take_part() -> None:
    one, other = wc.compare(MODEL["a"], ["sparseloco", "sparseloco(chunk=1000)"], seconds=0)
    assert one.scheme == str(wc.RECIPES["sparseloco"].scheme)
    assert "chunk=1000" in other.scheme


def test_one_ratio_for_all_that_have_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "g.npy", MODEL["a"])
    path = str(tmp_path / "g.npy")
    assert main(["compare", path, "--ratio", "0.02", "--seconds", "0", "--json"]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)["rows"]}
    schemes = {name.partition("(")[0]: row["scheme"] for name, row in rows.items() if row["scheme"]}
    for name, one in wc.PRESETS.items():
        assert ("0.02" in schemes[name]) == hasattr(one.scheme.select, "ratio")
    assert "topk(0.02) | rice | sign-scale" in rows
    assert main(["compare", path, "dgc", "--ratio", "0.02"]) == 2
    assert "write the ratio in each" in capsys.readouterr().err
