"""Selectors of a plan: thresholds of samples and of the last call, and means."""

from __future__ import annotations

from typing import Any

import numpy as np

import wirecodec as wc
from tests.gpu_emulated.planned import Planned
from tests.gpu_emulated.test_gpu_encode import tensor
from wirecodec.gpu.plan.selectors import _DGC, _TopK
from wirecodec.kernels.cuda.topk import Search


def test_the_threshold_of_a_sample() -> None:
    """The seed determines the sample; fewer than k elements reach its threshold, or more, or too many."""
    x = tensor(np.float32)
    for ratio, given, ways in (
        (0.01, x, {"fewer", "more"}),
        (0.3, np.abs(x) > 0.5, {"more"}),
        (0.01, x != 0, {"too many"}),
        (0.1, 0 * x, {"none"}),
    ):
        planned, found = Planned(x, f"dgc({ratio}) | rice | raw"), set()
        assert isinstance(planned.plan._selector, _DGC)
        for seed in (0, 1, 2, 3, 2**64 - 1):
            planned.check(given.astype(np.float32), seed)
            search = planned.plan._selector.dgc.search
            swept, taken = search._search[8:].tolist()
            more = "more" if taken > search._k else "fewer" if taken else "none"
            found.add("too many" if swept else more)
        assert found == ways
    blobs = {wc.encode(x, "dgc(0.01) | rice | raw", seed=seed).tobytes() for seed in range(4)}
    assert len(blobs) > 1, "the seed changes nothing"


def test_a_mean_is_rounded_as_on_the_cpu(dtype: Any) -> None:
    """The mean exceeds a tie by less than a binary32 can show, which matters for bfloat16 only."""
    above = {"float16": 2**-10, "bfloat16": 0, "float32": 2**-23, "float64": 2**-53 + 2**-36}
    half = {"float16": 2**-11, "bfloat16": 2**-8, "float32": 2**-24, "float64": 2**-53}[dtype.name]
    x = np.ones(4096)
    x[:2] = 2 + 4096 * half, 2**-24
    x[::3] *= -1
    planned = Planned(x.astype(dtype), "adacomp(bin=1) | rice | raw")
    planned.check(x.astype(dtype))
    values = wc.decode(planned.encode(x.astype(dtype), 0)).values.astype(np.float64)
    assert set(np.abs(values).tolist()) == {1 + above[dtype.name]}


def search_of(planned: Planned) -> Search:
    """Return a plan's search."""
    assert isinstance(planned.plan._selector, _TopK)
    return planned.plan._selector.search


def test_the_last_threshold_serves() -> None:
    """A tensor like the last one is read once.

    The first one and dissimilar ones are searched from the start.
    """
    rng = np.random.default_rng(3)
    x = rng.laplace(size=20_011).astype(np.float32)
    planned = Planned(x, "topk(0.01) | rice | raw")
    swept = []
    for factor in (1, 1.01, 1, 30, 1, 0.01):
        planned.check((x * np.float32(factor)).astype(np.float32))
        swept.append(bool(search_of(planned)._search[8]))
    assert swept == [True, False, False, True, True, True]


def test_a_new_plan_has_no_threshold() -> None:
    """No key reaches the initial threshold, so the first sweep writes nothing."""
    planned = Planned(tensor(np.float32), "topk(0.01) | rice | raw")
    assert int(search_of(planned).rule[0]) == 2**64 - 1
