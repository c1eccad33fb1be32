"""CLT-k of tensors that are computed past the caches, in memory that lasts: the definition's bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import collectives as co
from collectives.communicator import Communicator
from tests.collectives.inputs import bits, smooth, top
from tests.oracles import Array, rank_ordered_sum

SIZE = 150_001


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_steps_are_those_of_the_definition(dtype: Any) -> None:
    """Also of a step that failed, and with means in memory of any alignment."""
    ranks, ratio = 2, 0.01
    grads = [[smooth(rank + 10 * step, SIZE, dtype) for rank in range(ranks)] for step in range(5)]
    wide = np.float64 if dtype == "float64" else np.float32
    residuals = [np.zeros(SIZE, wide) for _ in range(ranks)]
    expected = []
    for step, each in enumerate(grads):
        sums = [x.astype(wide) + m for x, m in zip(each, residuals, strict=True)]
        chosen = top(sums[step % ranks], int(ratio * SIZE))
        sent = [x[chosen].astype(dtype) for x in sums]
        mean = np.zeros(SIZE, dtype)
        mean[chosen] = rank_ordered_sum([x.astype(wide) for x in sent]) / wide(ranks)
        for x, values in zip(sums, sent, strict=True):
            x[chosen] -= values.astype(wide)
        residuals = sums
        expected.append(bits(mean))
    left = [bits(x) for x in residuals]

    def train(comm: Communicator) -> bool:
        cltk = co.CLTk(ratio)
        memory = np.empty(SIZE + 5, dtype)
        same = True
        for step, each in enumerate(grads):
            if step in (2, 3):
                wrong = each[comm.rank].copy()
                wrong[7] = np.inf if comm.rank == 1 else 0
                with pytest.raises(co.CollectiveError):
                    cltk.allreduce(comm, wrong, out=wrong)
            out: Array | None = None if step == 0 else memory[step : step + SIZE]
            same &= bits(cltk.allreduce(comm, each[comm.rank], out=out)) == expected[step]
        residual = cltk.residual()
        assert residual is not None
        return same and bits(residual) == left[comm.rank]

    assert all(co.simulate(ranks, train))


def test_a_step_allocates_no_array_of_the_tensors_size() -> None:
    import tracemalloc

    x = smooth(0, 2_000_000)
    peaks: list[int] = []

    def train(comm: Communicator) -> None:
        cltk = co.CLTk(0.001)
        out = np.empty_like(x)
        for step in range(6):
            if step == 4:
                tracemalloc.start()
            cltk.allreduce(comm, x, out=out)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()

    co.simulate(1, train)
    assert peaks[0] < x.nbytes / 2
