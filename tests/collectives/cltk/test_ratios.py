"""Tests of ScaleCom's rule: the rates of its Table 2, from the shapes of three networks."""

from __future__ import annotations

import pytest

import collectives as co

Layers = dict[str, tuple[int, int]]
"""{weight: (elements, positions at which each is used)}."""


def resnet(blocks: tuple[int, ...], *, bottleneck: bool) -> Layers:
    """ResNet on 224 x 224 pixels (He et al., 2016, Table 1)."""
    layers: Layers = {"conv1": (3 * 64 * 49, 112**2)}
    channels = 64
    for stage, count in enumerate(blocks):
        width, side = 64 * 2**stage, 56 // 2**stage
        out = 4 * width if bottleneck else width
        for block in range(count):
            name, before = f"{stage}.{block}", 2 * side if stage and not block else side
            if bottleneck:
                layers[f"{name}.1"] = (channels * width, before**2)
                layers[f"{name}.2"] = (9 * width * width, side**2)
                layers[f"{name}.3"] = (width * out, side**2)
            else:
                layers[f"{name}.1"] = (9 * channels * width, side**2)
                layers[f"{name}.2"] = (9 * width * width, side**2)
            if channels != out:
                layers[f"{name}.skip"] = (channels * out, side**2)
            channels = out
    return {**layers, "fc": (1000 * channels, 1)}


def mobilenet() -> Layers:
    """MobileNetV2 on 224 x 224 pixels (Sandler et al., 2018, Table 2)."""
    layers: Layers = {"conv1": (3 * 32 * 9, 112**2)}
    channels, side = 32, 112
    rows = [
        (1, 16, 1, 1),
        (6, 24, 2, 2),
        (6, 32, 3, 2),
        (6, 64, 4, 2),
        (6, 96, 3, 1),
        (6, 160, 3, 2),
        (6, 320, 1, 1),
    ]
    for row, (expansion, out, count, stride) in enumerate(rows):
        for block in range(count):
            wide, before = expansion * channels, side
            side //= stride if block == 0 else 1
            if expansion > 1:
                layers[f"{row}.{block}.expand"] = (channels * wide, before**2)
            layers[f"{row}.{block}.depthwise"] = (9 * wide, side**2)
            layers[f"{row}.{block}.project"] = (wide * out, side**2)
            channels = out
    return {**layers, "head": (channels * 1280, side**2), "fc": (1280 * 1000, 1)}


def rate(layers: Layers) -> float:
    """Return how many times fewer elements are sent."""
    ratios = co.ratios_by_flops({name: float(positions) for name, (_, positions) in layers.items()})
    return sum(n for n, _ in layers.values()) / sum(n * ratios[name] for name, (n, _) in layers.items())


def test_table_2_comes_out() -> None:
    networks = {
        112: resnet((2, 2, 2, 2), bottleneck=False),
        96: resnet((3, 4, 6, 3), bottleneck=True),
        155: mobilenet(),
    }
    assert [sum(n for n, _ in layers.values()) for layers in networks.values()] == [
        11_678_912,
        25_502_912,
        3_469_760,
    ]
    assert [round(rate(layers)) for layers in networks.values()] == [116, 97, 166]
    for published, layers in networks.items():
        assert abs(rate(layers) / published - 1) < 0.08


def test_the_bounds_of_the_rule() -> None:
    counts = {"first": 9.0, "a": 9.0, "b": 128.0, "c": 129.0, "d": 196.0, "e": 196.1}
    assert co.ratios_by_flops(counts) == {
        **{"first": 1, "a": 1 / 400, "b": 1 / 400},
        **{"c": 1 / 50, "d": 1 / 50, "e": 1 / 25},
    }
    assert co.ratios_by_flops(counts, dense_first=False)["first"] == 1 / 400
    assert co.ratios_by_flops({}) == {}


def test_rates_follow_the_batch_as_in_tables_2_and_3() -> None:
    """Speech: 4 workers with 128 in all at 400x, 12 with 1536 at 100x; language: 4,500 tokens per worker."""
    lstm = {"lstm": 21.0}
    rates = [1 / co.ratios_by_flops(lstm, dense_first=False, batch=n)["lstm"] for n in (128 / 4, 1536 / 12)]
    assert rates == pytest.approx([400, 100])
    language = [co.ratios_by_flops({"a": 200.0, "b": 1.0}, batch=b, reference=4500) for b in (4500, 9e5)]
    assert language == [{"a": 1, "b": 1 / 400}, {"a": 1, "b": 0.5}]
    assert co.ratios_by_flops({"a": 200.0}, dense_first=False, batch=4096) == {"a": 1}
    with pytest.raises(ValueError, match="batch is 0"):
        co.ratios_by_flops(lstm, batch=0)
