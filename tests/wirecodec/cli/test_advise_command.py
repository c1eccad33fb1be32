"""The subcommand advise, with its real measurements."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.wirecodec.cli.inputs import AT_1_GBIT
from wirecodec.cli import main


def test_advise(grad: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Over a slow network the smaller of two encodings is the faster, whatever this machine is doing."""
    picture = tmp_path / "picture.png"
    schemes = ["--scheme", "all | raw-index | raw", "--scheme", "topk(0.05) | rice | raw"]
    network = ["--bandwidth", "1kbit", "--ranks", "4", "--latency", "0"]
    assert main(["advise", str(grad), *network, *schemes, "--png", str(picture)]) == 0
    page = capsys.readouterr().out
    assert page.startswith(
        "grad.npy: 1,000 elements; 4 ranks at 1 kbit/s, 0 µs per message; exchanges alone, "
    )
    pick, pays, _, header, first, second = page.splitlines()[1:7]
    dense = page.splitlines()[12]
    assert header.split()[:3] == ["scheme", "error", "ratio"]
    assert first.startswith("*  topk(0.05) | rice | raw ")
    assert " allgather " in first
    assert second.startswith("   all | raw-index | raw ")
    assert " narrow " in second
    assert dense.startswith("dense all-reduce of 4,000 bytes: 48 s, 48 s of it sending")
    assert pick.startswith("* is the fastest with an error of at most 0.95: topk(0.05) | rice | raw, ")
    assert pays.startswith("1 of 2 schemes pays.")
    assert "\nallgather: all-gather of the encodings; every rank decodes and sums them\nnarrow: " in page
    assert "\ndecoded: " not in page
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert main(["advise", str(grad), *network, *schemes, "--max-error", "0"]) == 0
    assert capsys.readouterr().out.splitlines()[5].startswith("*  all | raw-index | raw ")


def test_a_limit_of_bytes_is_compared_with_the_default_schemes(
    grad: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("collectives.advise.prediction.COMMON", ("topk(0.1) | bitmap | raw",))
    assert main(["advise", str(grad), *AT_1_GBIT, "--bytes-per-step", "250"]) == 0
    page = capsys.readouterr().out
    row = next(line.split() for line in page.splitlines() if "bytes_per_step=250" in line)
    assert 4000 / 250 <= float(row[row.index("bytes_per_step=250") + 2]) < 1.3 * 4000 / 250
    assert "topk(0.1) | bitmap | raw" in page
    assert 'scope="group"' in page


def test_advise_without_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    scheme = ["--scheme", "topk(0.05) | rice | raw"]
    assert main(["advise", "--elements", "2k", *AT_1_GBIT, *scheme]) == 0
    page = capsys.readouterr().out
    assert page.startswith("synthetic gradient (Laplace, float32): 2,000 elements; 4 ranks")
    assert main(["advise", "--elements", "25M", *AT_1_GBIT, *scheme]) == 0
    page = capsys.readouterr().out
    assert page.startswith(
        "synthetic gradient (Laplace, float32, scaled from 4,194,304): 25,000,000 elements"
    )
    assert "dense all-reduce of 100,000,000 bytes" in page


def test_advise_knows_of_other_numbers_of_ranks(grad: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """So slow a network that 1 % of the elements, gathered from 128 ranks, takes as long as all summed up."""
    assert main(["advise", "--bandwidth", "1kbit", str(grad), "--scheme", "topk(0.01) | rice | raw"]) == 0
    page = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert page[0][2:6] == ["elements;", "8", "ranks", "at"]
    at = page.index(["ranks", "schemes", "that", "pay", "speed-up", "fastest", "within", "the", "bound"])
    rows = page[at + 1 : at + 8]
    assert [row[0] for row in rows] == ["2", "4", "8", "16", "32", "64", "128"]
    assert [row[1] for row in rows] == ["1", "1", "1", "1", "1", "0", "0"]
    gains = [float(row[2]) for row in rows]
    assert gains == sorted(gains, reverse=True)


def test_advise_tries_schemes_of_its_own(
    grad: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        "collectives.advise.prediction.COMMON", ("topk(0.1) | bitmap | raw", "dgc(index=rice)")
    )
    assert main(["advise", str(grad), *AT_1_GBIT]) == 0
    page = capsys.readouterr().out
    assert "topk(0.1) | bitmap | raw" in page
    assert "dgc(0.001) | rice | raw" in page
