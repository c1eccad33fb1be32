"""Equal bits and equal errors: against containers, and against a scan of all ratios."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import wirecodec as wc
from wirecodec.cli.main import main

X = np.random.default_rng(0).standard_t(3, size=40_000).astype(np.float32)
MODEL = {"a": X[:9000], "b": X[9000:]}


def measure(x: np.ndarray, scheme: str) -> tuple[float, float]:
    blob = wc.encode(x, scheme)
    lost = wc.decode(blob).to_dense().astype(np.float64) - x
    return 8 * len(blob) / x.size, float(np.linalg.norm(lost) / np.linalg.norm(x))


@pytest.mark.parametrize(
    "scheme", ["budget(0.1) | rice | error-bounded", "topk(0.3)|rice|raw", "dgc(sample=1.0)"]
)
def test_each_way_takes_the_bits_or_has_the_error(scheme: str) -> None:
    for wanted in ({"bits": 1.5}, {"error": 0.7}):
        rows = wc.compare(MODEL, [scheme], seconds=0, **wanted)
        assert [row.together for row in rows] == [False, True]
        for row in rows:
            reached = row.bits if "bits" in wanted else row.relative_error
            assert abs(reached / next(iter(wanted.values())) - 1) <= 0.01
        # The row's scheme reproduces it; a budget alone counts some bytes of the header otherwise.
        exact = "budget" not in scheme
        found = rows[1].bits, rows[1].relative_error
        np.testing.assert_allclose(measure(X, rows[1].scheme), found, rtol=1e-6 if exact else 0.05)


def test_of_two_rates_with_one_error_the_one_of_fewer_bits_is_taken() -> None:
    scan = [measure(X, f"topk({k / 200}) | rice | sign-scale") for k in range(1, 201)]
    errors = [error for _, error in scan]
    lowest = int(np.argmin(errors))
    assert 0 < lowest < 199  # the error falls and rises again
    wanted = min(errors) + 0.3 * (errors[-1] - min(errors))
    assert wanted < errors[0]
    oracle = min(bits for bits, error in scan if error <= wanted)
    (row,) = wc.compare(X, ["topk(0.5) | rice | sign-scale"], error=wanted, seconds=0)
    assert abs(row.relative_error / wanted - 1) <= 0.01
    assert row.bits <= 1.1 * oracle < scan[lowest][0]


@pytest.mark.parametrize(
    ("scheme", "wanted", "says"),
    [
        ("qsgd", {"bits": 0.5}, "neither ratio nor budget; takes 4."),
        ("terngrad", {"error": 0.5}, "neither ratio nor budget; has an error of"),
        ("topk(0.01) | bitmap | raw", {"bits": 0.5}, "cannot go below 1."),
        ("topk(0.01) | rice | raw", {"bits": 60}, "cannot go above 3"),
        ("topk(0.01) | rice | sign-scale", {"error": 0.01}, "cannot go below an error of 0."),
    ],
)
def test_a_goal_out_of_reach_is_a_sentence(scheme: str, wanted: dict[str, float], says: str) -> None:
    table = wc.compare(X, ["budget(1.0) | rice | error-bounded", scheme], seconds=0, **wanted)
    assert says in table[1].refusal
    assert f"{scheme}: not measured: {table[1].refusal}" in str(table)


def test_steps_between_rates_are_not_called_reached() -> None:
    (row,) = wc.compare(np.arange(1, 5, dtype=np.float32), ["topk(0.5) | rice | raw"], error=0.6, seconds=0)
    assert row.refusal.startswith("comes no nearer than an error of ")


@pytest.mark.parametrize("wanted", [{"bits": 0}, {"error": float("nan")}, {"bits": 1, "error": 0.5}])
def test_wrong_goals(wanted: dict[str, float]) -> None:
    with pytest.raises(wc.EncodeError, match=r"bits|error"):
        wc.compare(X, ["dgc"], **wanted)


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "g.npy")
    np.save(path, X)
    own = ["topk(0.1) | rice | raw", "budget(0.1) | rice | error-bounded"]
    assert main(["compare", path, *own, "--bits", "1", "--seconds", "0", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["name"] for row in rows] == own[::-1]  # by error, because the bits are equal
    assert all(abs(row["bits"] - 1) <= 0.01 for row in rows)
    assert main(["compare", path, *own, "--error", "0.5", "--seconds", "0"]) == 0
    assert "at an error of 0.5 each, within 1 %" in capsys.readouterr().out
    for wrong in (["--bits", "1", "--error", "1"], ["--bits", "1", "--ratio", "0.1"], ["--bits", "0"]):
        assert main(["compare", path, *wrong]) == 2
