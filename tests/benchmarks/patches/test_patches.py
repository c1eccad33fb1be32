"""Benchmark of patches: other formats make the new state, the bound, training, the page and the picture."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

pytest.importorskip("matplotlib", reason="benchmarks need the extra [bench]")
pytest.importorskip("rich", reason="benchmarks need the extra [bench]")
pytest.importorskip("zstandard", reason="other formats need it")

from benchmarks.patches import plot, report
from benchmarks.patches.bound import compute_bound
from benchmarks.patches.cases import Case, bits, make_table, plan_folder, quantize
from benchmarks.patches.measurement import describe_case, measure_case, measure_tensor
from benchmarks.patches.peers import FORMATS, Format
from benchmarks.patches.targets import check_targets

RNG = np.random.default_rng(0)


def make_case(dtype: str = "bfloat16", share: float = 0.02) -> Case:
    """Make tensors of several shapes of which a share of the elements changes by one unit."""
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    shapes = {"matrix": (300, 500), "long": (1, 90_000), "norm": (40,), "equal": (7, 9), "last": (400, 3)}
    old = {name: RNG.normal(0, 0.02, shape).astype(kind) for name, shape in shapes.items()}
    new = {name: x.copy() for name, x in old.items()}
    for name, x in new.items():
        if name != "equal":
            changed = RNG.random(x.size) < share
            changed[-1] = True
            bits(x)[changed] ^= 1
    return Case("1 step at 1e-6", old, new)


@pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.name)
@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "float32"])
@pytest.mark.parametrize("threads", [1, 2])
def test_formats_make_the_new_state(form: Format, dtype: str, threads: int) -> None:
    for share in (0.0, 0.02, 0.9):
        case = make_case(dtype, share)
        state = {name: x.copy() for name, x in case.old.items()}
        form.apply(form.encode(case.old, case.new, threads), state, threads)
        assert not [name for name, x in state.items() if (bits(x) != bits(case.new[name])).any()]


def test_a_format_that_fails_is_not_measured() -> None:
    broken = Format("none", "", lambda old, new, threads: b"", lambda *_: None, reads_base=False)
    with pytest.raises(AssertionError, match="none"):
        measure_case(make_case(), [broken], 1, lambda name: None, is_timed=False)


def test_bound_of_known_changes() -> None:
    """All exponents are equal, so positions cost H(1/4) per element, and one step costs no bit."""
    old = np.full(4096, 1.0, np.float32)
    new = old.copy()
    bits(new)[::4] += 1
    expected = 4 * -(0.25 * math.log2(0.25) + 0.75 * math.log2(0.75))
    assert compute_bound(Case("", {"x": old}, {"x": new})) == pytest.approx(expected)
    bits(new)[::8] += 1  # two differences, equally often
    assert compute_bound(Case("", {"x": old}, {"x": new})) == pytest.approx(expected + 1)


def test_blocks_of_codes_have_their_largest_at_the_end_of_the_range() -> None:
    x = RNG.normal(size=(200, 130)).astype(ml_dtypes.bfloat16)
    found = quantize({"layer": x, "embedding": x, "norm": x[0]})
    assert sorted(found) == ["layer", "layer_scale"]
    assert found["layer_scale"].shape == (2, 2)
    whole = found["layer"].astype(np.float32) * np.kron(found["layer_scale"], np.ones((128, 128)))[:200, :130]
    np.testing.assert_allclose(whole, x.astype(np.float32), rtol=0.07, atol=1e-3)
    assert np.abs(found["layer"][:128, :128].astype(np.float32)).max() == 448


def test_pairs_of_a_folder(tmp_path: Path) -> None:
    case = make_case()
    words: list[dict[str, Any]] = [
        {name: bits(x).view(np.int16) for name, x in s.items()} for s in (case.old, case.new)
    ]
    np.savez(tmp_path / "run_030.npz", **words[0])
    changes: dict[str, Any] = {name: x ^ words[1][name] for name, x in words[0].items()}
    np.savez(tmp_path / "run_031_xor_030.npz", **changes)
    (make,) = plan_folder(tmp_path).values()
    found = make()
    assert found.name == "run, 30 to 31"
    assert found.count_changed() == case.count_changed()


def test_page_and_picture(tmp_path: Path) -> None:
    cases = [make_case(), make_table(2_000)]
    pairs = [describe_case(case) for case in cases]
    cells = [cell for case in cases for cell in measure_case(case, FORMATS, 2, lambda name: None)]
    sizes = measure_tensor(cases[0], "matrix", {"stored": lambda old, new: new})
    results = check_targets(pairs, cells)
    text = report.format_page(results, pairs, cells, ("matrix", sizes), ["bsdiff4"], 2)
    assert text.startswith("After 1 step at 1e-6, 2.0 % of the elements differ. `wc.diff` takes ")
    assert all(text.count(f"| {form.name} |") >= 3 for form in FORMATS)
    assert "*stored*" in text
    assert "left out: bsdiff4" in text
    plot.draw(tmp_path / "patches.png", pairs, cells)
    assert (tmp_path / "patches.png").stat().st_size > 10_000


def test_training_changes_few_weights() -> None:
    pytest.importorskip("torch", reason="the states are those of a training with torch")
    from benchmarks.patches.training import Plan, fine_tune, pretrain, reinforce

    plan = Plan(width=32, blocks=1, heads=2, window=32, batch=2, pretraining=3, prompts=1, completion=4)
    masters = pretrain(plan, lambda name: None)
    states = [reinforce(masters, plan, 1e-6, (1, 2), lambda name: None) for _ in range(2)]
    case = Case("", states[0][1], states[0][2])
    assert 0 < case.count_changed() < 0.1 * case.elements
    assert not Case("", states[0][2], states[1][2]).count_changed()  # the seeds are fixed
    tuned = fine_tune(masters, plan, 1e-4, 2, lambda name: None)
    assert Case("", states[0][1], tuned).count_changed() > 0.5 * case.elements
