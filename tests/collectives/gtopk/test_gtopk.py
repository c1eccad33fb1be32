"""gTop-k compared with a merge written from the paper, and with what came in."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import collectives as co
import wirecodec as wc
from collectives.communicator import Communicator
from tests.collectives.conftest import World
from tests.collectives.inputs import bits, smooth, top

RATIO, D = 0.02, 1000
K = 20


def merge_tree(parts: list[Any]) -> Any:
    """Merge dense vectors of k elements as the tree does: pairs at distance 1, 2, 4, …; k remain."""
    parts, step = [part.copy() for part in parts], 1
    while step < len(parts):
        for left in range(0, len(parts) - step, 2 * step):
            total = parts[left] + parts[left + step]
            parts[left] = np.zeros_like(total)
            best = top(total, K)
            parts[left][best] = total[best]
        step *= 2
    return parts[0]


def sparsify(x: Any) -> Any:
    found = np.zeros_like(x)
    best = top(x, K)
    found[best] = x[best]
    return found


def test_results_are_the_merged_top(world: World) -> None:
    """All ranks have the same bits, and results and residuals have what came in."""

    def train(comm: Communicator) -> Any:
        gtopk, found = co.GTopK(RATIO), []
        for step in range(4):
            before = gtopk.residual()
            mean = gtopk.allreduce(comm, smooth(10 * step + comm.rank, D))
            found.append((before, mean, gtopk.residual()))
        assert gtopk.step == 4
        return found

    ranks = world.run(train)
    for step in range(4):
        inputs = []
        for rank, found in enumerate(ranks):
            before, mean, _ = found[step]
            assert bits(mean) == bits(ranks[0][step][1])
            inputs.append(smooth(10 * step + rank, D) + (0 if before is None else before))
        mean = ranks[0][step][1]
        assert np.array_equal(mean, merge_tree([sparsify(x) for x in inputs]) / np.float32(world.n))
        kept = sum(found[step][2].astype(float) for found in ranks)
        assert kept + world.n * mean.astype(float) == pytest.approx(
            sum(x.astype(float) for x in inputs), abs=1e-5
        )


def test_named_tensors_and_state(several: World) -> None:
    def train(comm: Communicator) -> tuple[bytes, bytes]:
        grads = [{"a": smooth(step + comm.rank, (20, 5)), "b": smooth(comm.rank, 0)} for step in range(3)]
        one, two = co.GTopK(0.1), co.GTopK(0.1)
        one.allreduce(comm, grads[0])
        two.load_state_dict(one.state_dict())
        found = [bits(each.allreduce(comm, grads[1])["a"]) for each in (one, two)]
        with pytest.raises(ValueError, match="GTopK"):
            two.load_state_dict({"step": np.array(1), "other": np.zeros(1)})
        return found[0], found[1]

    results = several.run(train)
    assert len({blob for pair in results for blob in pair}) == 1


def test_every_rank_raises_for_one_nan(several: World) -> None:
    def train(comm: Communicator) -> str:
        gtopk, x = co.GTopK(RATIO), smooth(comm.rank, D)
        gtopk.allreduce(comm, x)
        before: Any = gtopk.residual()
        bad = x.copy()
        if comm.rank == 1:
            bad[7] = np.nan
        with pytest.raises(co.CollectiveError, match="rank 1") as caught:
            gtopk.allreduce(comm, bad)
        assert gtopk.step == 1
        assert np.array_equal(before, gtopk.residual())  # type: ignore[arg-type]
        gtopk.allreduce(comm, x)  # the communicator is usable
        return str(caught.value)

    assert len(set(several.run(train))) == 1


def make_gradient(kind: str, rank: int, step: int, n: int, dtype: np.dtype[Any]) -> Any:
    """Make (8,) values: large ones exceed the range of their type when steps or ranks are added."""
    largest = float(ml_dtypes.finfo(dtype).max)
    rng = np.random.default_rng([rank, step])
    if kind == "largest":
        return (np.array([1, -1, 0.75, -0.5, 0.25, 0, 0, 1e-3]) * largest).astype(dtype)
    if kind == "subnormal":
        return (rng.integers(-3, 4, 8) * float(ml_dtypes.finfo(dtype).smallest_subnormal)).astype(dtype)
    scale = 1.0 if kind == "usual" else min(largest, float(np.finfo(np.float32).max) / (16 * n))
    return (rng.uniform(-1, 1, 8) * scale).astype(dtype)


def add_exactly(*arrays: Any) -> list[Fraction]:
    rows = zip(*(x.astype(float).tolist() for x in arrays), strict=True)
    return [sum(map(Fraction, row), Fraction(0)) for row in rows]


@pytest.mark.parametrize("kind", ["usual", "large", "largest", "subnormal"])
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_results_and_residuals_have_everything(n: int, kind: str, dtype: np.dtype[Any]) -> None:
    """Within the rounding of a sum, n times the mean as delivered and the residuals are all that came in."""

    def train(comm: Communicator) -> list[tuple[Any, Any, Any]]:
        gtopk, steps, wide = co.GTopK(0.25), [], np.dtype(np.float64 if dtype.itemsize == 8 else np.float32)
        largest = np.finfo(wide).max
        for step in range(6):
            x = make_gradient(kind, comm.rank, step, comm.size, dtype)
            before = np.zeros(8, wide) if step == 0 else gtopk.residual()
            with np.errstate(over="ignore"):
                total = np.clip(x.astype(wide) + before, -largest, largest)
            mean = gtopk.allreduce(comm, x)
            steps.append((total, mean, gtopk.residual()))
        return steps

    for ranks in zip(*co.simulate(n, train), strict=True):
        totals, means, residuals = zip(*ranks, strict=True)
        assert means[0].dtype == dtype
        assert np.isfinite([*means, *residuals]).all()
        wanted = add_exactly(*totals)
        got = add_exactly(*residuals, *[means[0]] * n)
        unit = Fraction(float(np.finfo(totals[0].dtype).eps)) * n
        for at in range(8):
            assert abs(got[at] - wanted[at]) <= unit * sum(abs(Fraction(float(x[at]))) for x in totals)


def test_residuals_stay_finite_at_the_end_of_their_range(dtype: np.dtype[Any]) -> None:
    """One rank drops the sums of others, and keeps the excess of its own values."""
    largest = ml_dtypes.finfo(dtype).max

    def train(comm: Communicator) -> Any:
        gtopk, x = co.GTopK(0.25), np.zeros(8, dtype)
        x[[0, 1 + comm.rank]] = largest
        return [(gtopk.allreduce(comm, x), gtopk.residual()) for _ in range(4)]

    assert np.isfinite(
        [x.astype(float) for rank in co.simulate(4, train) for pair in rank for x in pair]
    ).all()


def test_results_are_in_the_order_of_the_tensors() -> None:
    names = ["b", "a", "ä", "c"]

    def average(comm: Communicator) -> list[str]:
        order = names if comm.rank else names[::-1]  # ranks may differ
        return list(co.GTopK(0.5).allreduce(comm, {name: smooth(0, 10) for name in order}))

    assert co.simulate(2, average) == [names[::-1], names]


def test_traffic_grows_with_the_logarithm() -> None:
    def count(comm: Communicator) -> int:
        channel = co.Channel(comm)
        co.GTopK(0.01).allreduce(channel, smooth(comm.rank, 100_000))
        return channel.bytes_sent

    total = {n: sum(co.simulate(n, count)) / n for n in (2, 8, 16)}
    assert total[16] < 2.2 * total[2]


def test_wrong_ratios_raise() -> None:
    with pytest.raises(wc.EncodeError):
        co.GTopK(0)
