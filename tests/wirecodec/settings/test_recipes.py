"""Tests of the recipes of published systems."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import collectives as co
import wirecodec as wc

GUIDE = Path(__file__).parents[3] / "docs/guides/recipes.md"


def test_every_preset_has_a_recipe_that_takes_steps(rng: np.random.Generator) -> None:
    grad = {"w": rng.laplace(size=5000).astype(np.float32)}
    assert wc.PRESETS.keys() <= RECIPES_WITH_A_SCHEME
    for name in RECIPES_WITH_A_SCHEME:
        settings = wc.recipe(name)
        assert settings.keys() == {"scheme", "feedback", "schedule", "clip", "scope"}
        assert settings["scope"] == ("group" if name == "fft" else "tensor")
        if name in wc.PRESETS and name != "adacomp":
            assert settings["scheme"] == wc.preset(name)
        compressor = wc.Compressor(**settings)
        for _ in range(2):
            compressor.decompress(compressor.compress(grad))
        assert (compressor.residual("w") is None) == (name in WITHOUT_FEEDBACK)


WITHOUT_FEEDBACK = (
    *("qsgd", "qsgd-3-bits", "terngrad", "terngrad-noclip", "fft"),
    *("deepreduce-sparse", "deepreduce-qsgd-bf-p0", "skcompress"),
)


RECIPES_WITH_A_SCHEME = wc.RECIPES.keys() - {"clt-k"}


def test_fft_transforms_the_whole_model(rng: np.random.Generator) -> None:
    """Section 3.1, step 1: the gradients are linearized to one vector."""
    grad = {name: rng.normal(size=n).astype(np.float32) for name, n in (("a", 700), ("b", 300))}
    blob = wc.Compressor(**wc.recipe("fft")).compress(grad)
    (entry,) = wc.inspect(blob).entries
    assert (entry.transform, entry.size, entry.members) == ("rfft", 1000, (("a", 700), ("b", 300)))
    assert entry.nnz == 2 * 75  # 15 % of 501 bins
    bins = np.fft.rfft(np.concatenate([*grad.values()]), norm="ortho")
    sizes = np.abs(bins)
    sizes[1:-1] *= np.sqrt(2)  # these bins represent two frequencies
    bins[np.argsort(-sizes)[75:]] = 0
    wanted = np.fft.irfft(bins, norm="ortho")
    found = np.concatenate([x.to_dense() for x in wc.decode_many(blob).values()])
    assert np.linalg.norm(found - wanted) < 0.01 * np.linalg.norm(wanted)
    blob = wc.Compressor(**wc.recipe("fft", scope="tensor")).compress(grad)
    assert [one.size for one in wc.inspect(blob).entries] == [700, 300]


def test_dgc_is_that_of_the_paper() -> None:
    c = wc.Compressor(**wc.recipe("dgc", ratio=0.001, steps=4, clip=0.25))
    assert c.feedback == wc.MomentumCorrection(0.9, nesterov=False, masking=True)
    assert c.clip == 0.25
    sparsity = [1 - c.scheme("w", step=step).select.ratio for step in range(5)]
    assert sparsity == pytest.approx([0.75, 0.9375, 0.984375, 0.996, 0.999], abs=2e-3)
    own = wc.recipe(
        "dgc", momentum=0.5, masking=False, index="rice", feedback=wc.MomentumCorrection(nesterov=True)
    )
    assert own["feedback"] == wc.MomentumCorrection(0.5, nesterov=True, masking=False)
    assert str(own["scheme"]).split(" | ")[1] == "rice"


def test_adacomp_has_a_bin_per_kind_of_layer(rng: np.random.Generator) -> None:
    """Table 2: 50 for convolutions, 500 for other layers."""
    compressor = wc.Compressor(**wc.recipe("adacomp", factor=3.0))
    shapes = {"conv": (8, 4, 3, 3), "fc": (40, 50), "lstm": (30, 30), "bias": (2000,)}
    bins = {name: compressor.scheme(name, shape).select.bin for name, shape in shapes.items()}
    assert bins == {"conv": 50, "fc": 500, "lstm": 500, "bias": 500}
    assert compressor.scheme("conv", shapes["conv"]) == wc.preset("adacomp", factor=3.0)
    grad = {name: rng.laplace(size=shape).astype(np.float32) for name, shape in shapes.items()}
    assert compressor.decompress(compressor.compress(grad)).keys() == grad.keys()
    with pytest.raises(wc.EncodeError, match="recipe 'adacomp': unknown override 'ratio'"):
        wc.recipe("adacomp", ratio=0.1)


def test_clt_k_has_a_form_of_its_own() -> None:
    settings = wc.recipe("clt-k", ratio=0.1, beta=0.1, steps=1)
    assert settings == {
        "scheme": 0.1,
        "feedback": wc.ErrorFeedback(beta=0.1),
        "schedule": wc.WarmUp(1, hold=True),
    }

    for key, value in (("ratio", 0.1), ("beta", 0.1)):
        with pytest.warns(DeprecationWarning, match=f"the key {key} goes with 0.3.0") as caught:
            assert settings[key] == value
        assert caught[0].filename == __file__
    with pytest.raises(KeyError, match="rate"):
        settings["rate"]
    assert wc.recipe("clt-k", scheme="topk(0.5) | rice | raw")["scheme"] == "topk(0.5) | rice | raw"

    def run(comm: Any) -> list[int]:
        cltk = co.CLTk(**settings)
        grad = np.arange(1, 101, dtype=np.float32)
        return [int(np.count_nonzero(cltk.allreduce(comm, grad))) for _ in range(2)]

    assert co.simulate(2, run)[0] == [100, 10]


def test_faults_name_the_nearest() -> None:
    with pytest.raises(wc.EncodeError, match="unknown recipe 'dcg'; did you mean 'dgc'"):
        wc.recipe("dcg")
    with pytest.raises(wc.EncodeError, match="recipe 'dgc': unknown override 'ratoi'"):
        wc.recipe("dgc", ratoi=0.1)
    for name, value in (("index", "rice"), ("scope", "group")):
        with pytest.raises(wc.EncodeError, match=f"recipe 'clt-k': unknown override '{name}'"):
            wc.recipe("clt-k", **{name: value})


def test_systems_without_a_recipe_here_have_a_hint() -> None:
    for name in ("demo", "DisTrO"):
        with pytest.raises(wc.EncodeError, match="the nearest is 'sparseloco': the block DCT"):
            wc.recipe(name)
    for name in co.LOCAL_RECIPES.keys() - wc.RECIPES.keys() - {"budget", "few-bits"}:
        with pytest.raises(wc.EncodeError, match=rf"co\.local_recipe\('{name}'\)"):
            wc.recipe(name)


def test_the_guide_lists_every_recipe() -> None:
    assert "\n".join(table_rows()) in GUIDE.read_text()


def table_rows() -> list[str]:
    """Return the rows of the guide's table."""

    def text(setting: object) -> str:
        return "-" if setting is None else f"`{setting}`"

    return [
        f"| `{name}` | {text(one.feedback)} | {text(one.schedule)} | {one.optimizer} | {one.source} |"
        for name, one in wc.RECIPES.items()
    ]
