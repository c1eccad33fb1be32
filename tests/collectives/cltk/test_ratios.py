"""Tests of ScaleCom's rule: the rates of its Table 2, from the shapes of three networks."""

from __future__ import annotations

import pytest

import collectives as co
from tests.collectives.cltk.layers import NETWORKS, compute_rate


def test_table_2_comes_out() -> None:
    networks = [NETWORKS[name] for name in ("ResNet-18", "ResNet-50", "MobileNetV2", "ResNet-34")]
    assert [sum(n for n, _ in layers.values()) for layers in networks] == [
        11_678_912,
        25_502_912,
        3_469_760,
        21_779_648,
    ]
    assert [round(compute_rate(layers)) for layers in networks] == [116, 97, 166, 93]
    for published, layers in zip((112, 96, 155, 92), networks, strict=True):
        assert abs(compute_rate(layers) / published - 1) < 0.08
    assert round(compute_rate(NETWORKS["ResNet-34 on 32 × 32 pixels"])) == 203


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
