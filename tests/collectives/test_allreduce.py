"""allreduce is the sum in rank order of what the encodings decode to: the same bits on every rank, and
those of the definition.
"""

from __future__ import annotations

import numpy as np
import pytest

import collectives as co
from tests.collectives.inputs import DTYPES, NAMES, SCHEMES, bits, gradient, ordered_sum


@pytest.mark.parametrize("op", ["mean", "sum"])
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("dtype", DTYPES, ids=NAMES)
def test_bits_of_the_definition(world, dtype, scheme, op):
    tensors = [gradient(rank, (30, 40), dtype) for rank in range(world.n)]
    expected = bits(ordered_sum(tensors, scheme, op))
    results = world.run(lambda comm: bits(co.allreduce(comm, tensors[comm.rank], scheme, op=op)))
    assert results == [expected] * world.n


def test_mean_is_the_default(world):
    tensors = [gradient(rank) for rank in range(world.n)]
    results = world.run(lambda comm: bits(co.allreduce(comm, tensors[comm.rank])))
    assert results == [bits(ordered_sum(tensors, None, "mean"))] * world.n


def test_sums_start_from_plus_zero(world):
    """-0 alone sums to +0: what a rank does not send counts as +0, so a sum must not depend on who sent
    what.
    """
    got = world.run(lambda comm: bits(co.allreduce(comm, np.full(3, -0.0, np.float32), op="sum")))
    assert got == [bits(np.zeros(3, np.float32))] * world.n


def test_half_precision_is_rounded_once(several):
    """1 + n·2^-11: each addition in float16 would round to 1, the sum in float32 does not."""
    n = several.n
    values = [1.0] + [2.0**-11] * (n - 1)
    got = several.run(
        lambda comm: float(co.allreduce(comm, np.array([values[comm.rank]], np.float16), op="sum")[0])
    )
    assert got == [float(np.float16(sum(values)))] * n


def test_named_tensors(world):
    def model(rank):
        return {
            "w": gradient(rank, (20, 30)),
            "b": gradient(rank + 50, (30,), "float64"),
            "h": gradient(rank, 9, "float16"),
        }

    expected = {
        name: bits(ordered_sum([model(r)[name] for r in range(world.n)], None, "mean")) for name in "wbh"
    }
    results = world.run(
        lambda comm: {name: bits(x) for name, x in co.allreduce(comm, model(comm.rank)).items()}
    )
    assert results == [expected] * world.n


@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (200_000,)], ids=str)
def test_any_shape(world, shape):
    tensors = [gradient(rank, shape) for rank in range(world.n)]
    results = world.run(lambda comm: bits(co.allreduce(comm, tensors[comm.rank], op="sum")))
    assert results == [bits(ordered_sum(tensors, None, "sum"))] * world.n


def test_the_result_is_the_callers(world):
    """Writable, and nobody else's: neither the input nor the next result."""

    def check(comm):
        x = gradient(comm.rank, (4, 5))
        before = bits(x)
        first = co.allreduce(comm, x)
        kept = bits(first)
        first[...] = 7
        assert bits(x) == before
        return bits(co.allreduce(comm, x)) == kept

    assert all(world.run(check))


@pytest.mark.parametrize(
    ("arguments", "choices"),
    [({"algorithm": "ring"}, "'auto', 'allgather'"), ({"op": "max"}, "'sum', 'mean'")],
)
def test_unknown_choices_name_the_known(arguments, choices):
    with pytest.raises(ValueError, match=f"the choices are .*{choices}"):
        co.simulate(1, lambda comm: co.allreduce(comm, gradient(0), **arguments))
