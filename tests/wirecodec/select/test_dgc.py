"""dgc: at most k elements, all of the top; no position sampled twice."""

from __future__ import annotations

from typing import Any

import wirecodec as wc
from tests import oracles
from tests.wirecodec.select.choices import chosen


# What the baselines promise, beyond their definitions.
def test_dgc_keeps_at_most_k_and_only_of_the_top(gradient: Any) -> None:
    for ratio in (0.1, 0.01, 0.001):
        found = chosen(wc.selectors.DGC(ratio), gradient)
        k = oracles.selected_count(str(ratio), gradient.size)
        assert 0 < len(found) <= k
        assert ratio < 0.01 or len(found) > k / 2  # 0.1 % of a 1 % sample are two elements here
        assert set(found) <= set(chosen(wc.selectors.TopK(k=k), gradient))


def test_no_sample_is_drawn_twice() -> None:
    from wirecodec.select.papers.dgc import draw_positions

    for size, n in ((10, 1), (10, 10), (1001, 10), (1_000_003, 777)):
        found = draw_positions(n, size, 0x123456789ABCDEF)
        edges = [q * size // n for q in range(n + 1)]
        assert all(a <= p < b for p, a, b in zip(found.tolist(), edges, edges[1:], strict=False))
