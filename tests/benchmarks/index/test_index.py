"""Index benchmark: round trips of coders, sizes, targets, result page and picture."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("matplotlib", reason="benchmarks need the extra [bench]")
pytest.importorskip("rich", reason="benchmarks need the extra [bench]")

import wirecodec as wc
from benchmarks.common.inputs import DENSITIES, list_gradient_files
from benchmarks.common.peers import load_peers
from benchmarks.common.rest import Rest
from benchmarks.index import kept, peers, plot, report
from benchmarks.index.__main__ import main, measure
from benchmarks.index.cases import Case, generate_cases
from benchmarks.index.coders import Codec, build_codecs
from benchmarks.index.measurement import Measurement, measure_coder
from benchmarks.index.supports import draw_layered, draw_rows, draw_runs, draw_uniform
from benchmarks.index.targets import check_targets
from tests.inputs import supports
from wirecodec.registry import index_codecs


@pytest.mark.parametrize("module", sorted(peers.PACKAGES))
def test_peers_round_trip(module: str) -> None:
    """Edge cases of the library's own tests."""
    package = pytest.importorskip(module, reason="a peer of the extra [peers]")
    for peer in peers.PACKAGES[module](package):
        for name, (d, indices) in supports(np.random.default_rng(0)).items():
            code = peer.encode(indices, d)
            found = peer.decode(code, d, indices.size)
            assert found.dtype == np.uint32, (peer.name, name)
            assert np.array_equal(found, indices), (peer.name, name)
            assert 0 <= peer.nbytes(code) <= 8 * indices.size + 1000, (peer.name, name)


def test_every_codec_is_included() -> None:
    names = [coder.name for coder in build_codecs()]
    assert len(set(names)) == len(names)
    assert {name.partition("(")[0] for name in names} == {
        *(cls.name for cls in index_codecs().values()),
        "auto-index",
    }


CASE = Case("uniform", "20,000, 1 %", 0.01, partial(draw_uniform, 20_000, 200))


def test_measurement_of_a_codec() -> None:
    found = measure_coder(Codec(wc.codecs.RawIndex()), CASE, CASE.make(), budget=0.001)
    assert (found.coder, found.peer, found.r, found.bits) == ("raw-index", False, 200, 16)
    assert found.exact
    assert found.ratio == pytest.approx(16 / 8.06, rel=0.01)
    assert min(found.speeds) > 0


def test_wrong_decoding_is_an_error() -> None:
    class Wrong(Codec):
        def decode(self, code: object, d: int, r: int) -> np.ndarray:
            return np.arange(r, dtype=np.uint32)

    with pytest.raises(AssertionError, match="raw-index does not decode to its input: uniform"):
        measure_coder(Wrong(wc.codecs.RawIndex()), CASE, CASE.make(), budget=0.001)


def _measurement(coder: str, bits: float, **given: object) -> Measurement:
    plain = Measurement(
        group="uniform",
        column="26M, 10 %",
        density=0.1,
        kind="uniform",
        d=26_000_000,
        r=2_600_000,
        bound=4.69,
        coder=coder,
        peer=False,
        bits=bits,
        recall=1,
        decoded=1,
        copy_rate=10,
        encode=0.14,
        decode=0.21,
        encode_two=0.27,
        decode_two=0.36,
    )
    return replace(plain, **given)  # type: ignore[arg-type]


def test_targets_use_the_worst_measurement() -> None:
    worse = "2.6M, 10 %"
    found = check_targets(
        [
            _measurement("rice", 4.8),
            _measurement("rice", 4.85, column=worse, encode=0.12, decode=0.3),
            _measurement("auto-index", 4.8),
            _measurement("auto-index", 4.86, column=worse),
            _measurement("zstd-19, gaps", 4.75),
        ]
    )
    results = {result.target: (result.worst, result.case, result.met) for result in found}
    assert results["rice ≤ 1.025 × the bound: uniform, 10 %, r ≥ 2,600"] == (
        "1.0341",
        "uniform, 2.6M, 10 % (1 of 2)",
        False,
    )
    assert results["rice ≤ 1.010 × the bound: uniform, 1 %, r ≥ 2,600"] == ("", "", None)
    assert results["rice: encode ≥ 0.13× copy, one thread, r ≥ 260,000"][2] is False
    assert results["rice: decode ≥ 0.20× copy, one thread, r ≥ 260,000"] == (
        "0.210×",
        "uniform, 26M, 10 %",
        True,
    )
    assert results["rice: encode on two threads ≥ 1.8× one thread, r ≥ 260,000"][2] is True
    assert results["rice: decode on two threads ≥ 1.8× one thread, r ≥ 260,000"][2] is False
    assert results["auto-index ≤ 1.01 × the smallest of rice, bitmap, rle"][2] is True
    assert results["auto-index ≤ zstd-19 on gaps"][2] is False


def test_page_and_picture(tmp_path: Path) -> None:
    """Every kind of support at a small size, with every installed coder."""
    chosen = [
        Case(kind, f"30k, {100 * density:g} %", density, partial(make, 30_000, int(30_000 * density)))
        for kind, make in (
            ("uniform", draw_uniform),
            ("rows", draw_rows),
            ("runs", draw_runs),
            ("layered", draw_layered),
        )
        for density in DENSITIES[:2]
    ]
    coders = [*build_codecs(), *load_peers(peers.PACKAGES)[0]]
    figures = measure(coders, chosen, 0.0005, lambda name: None)
    kept.save(figures[:5], tmp_path)
    kept.save(figures[5:], tmp_path)
    found = kept.load(tmp_path)
    assert [m.coder for m in found] == [m.coder for m in figures]
    assert [m.two_threads for m in found[:9]] == [None] * 9
    rest = Rest("a machine", ["absent"], [], [])
    text = report.format_page(found, rest)
    for expected in (
        "## Targets",
        "not installed: absent.",
        "| layered |",
        "| bound |",
    ):
        assert expected in text
    for coder in coders:
        assert coder.name in text
    plot.draw(tmp_path / "index.png", found)
    assert (tmp_path / "index.png").read_bytes().startswith(b"\x89PNG")


def test_cases_of_gradients(tmp_path: Path) -> None:
    np.save(tmp_path / "sparse.npy", np.array([0, 1, 0, 2, 3, 0, 0, 4, 0, 0], np.float32))
    np.save(tmp_path / "dense.npy", np.arange(1, 21, dtype=np.float32))
    found = [
        (case.group, case.column, case.make().r) for case in generate_cases((), list_gradient_files(tmp_path))
    ]
    assert found[3:] == [
        ("sparse", "top 10 %", 1),
        ("sparse", "top 1 %", 1),
        ("sparse", "top 0.1 %", 1),
        ("sparse", "nonzeros", 4),
    ]
    assert found[0] == ("dense", "top 10 %", 2)


def test_partial_run_is_only_printed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> Path:
        raise AssertionError("written")

    monkeypatch.setattr("benchmarks.index.__main__.write_result", refuse)
    main(["--quick", "--only", "rice; runs"])
    out = capsys.readouterr().out
    assert "`rice`" in out
    assert "bitmap`" not in out
    assert "| uniform, " not in out
    assert "| runs, " in out
