"""Ok-Topk compared with a dense model written from the paper, and with what came in."""

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
from wirecodec.interop import find_members

D, K = 1000, 20
SIZES = {"a": 700, "b": 0, "c": 300}


def split(x: Any) -> dict[str, Any]:
    return {"c": x[700:], "b": x[:0], "a": x[:700].reshape(70, 10)}


def join(tensors: Any) -> Any:
    return np.concatenate([np.asarray(tensors[name]).reshape(-1) for name in SIZES])


class Model:
    """Dense model of all ranks: the mean, the residuals, and the ranges of the next step."""

    def __init__(self, ranks: int) -> None:
        self.n, self.step = ranks, 0
        self.residuals = [np.zeros(D, np.float32) for _ in range(ranks)]
        self.bounds = [D * i // ranks for i in range(ranks + 1)]

    def take(self, gradients: list[Any]) -> Any:
        totals = [g + m for g, m in zip(gradients, self.residuals, strict=True)]
        chosen = [top(x, K) for x in totals]
        marks = np.zeros((self.n, D), bool)
        for rank, indices in enumerate(chosen):
            marks[rank, indices] = True
        mean, counts = np.zeros(D, np.float32), []
        for owner in range(self.n):
            low, high = self.bounds[owner : owner + 2]
            here = marks[:, low:high]
            counts.append(int(here.sum()))
            total = np.zeros(high - low, np.float32)
            for rank in range(self.n):
                total += np.where(here[rank], totals[rank][low:high], np.float32(0))
            union = np.flatnonzero(here.any(axis=0))
            k = (counts[-1] + (owner + self.step) % self.n) // self.n
            order = sorted(union, key=lambda i: (-abs(total[i]), i))[:k]
            mean[low + np.array(order, int)] = total[order] / np.float32(self.n)
            marks[:, low:high] &= np.isin(np.arange(high - low), order)
        for rank in range(self.n):
            self.residuals[rank] = np.where(marks[rank], np.float32(0), totals[rank])
        self.bounds = self.balance(counts)
        self.step += 1
        return mean

    def balance(self, counts: list[int]) -> list[int]:
        """Place the bounds so that each range has the same count, which is evenly spread in the old ones."""
        moved = []
        for i in range(self.n + 1):
            target, before, at = sum(counts) * i // self.n, 0, 0
            while at < self.n - 1 and before + counts[at] <= target:
                before, at = before + counts[at], at + 1
            width = self.bounds[at + 1] - self.bounds[at]
            moved.append(self.bounds[at] + width * (target - before) // max(counts[at], 1))
        return [0, *moved[1:-1], D]


def test_results_and_residuals_are_those_of_the_model(world: World) -> None:
    """All ranks have the model's bits, for tensors that several owners share."""

    def train(comm: Communicator) -> list[Any]:
        method, found = co.OkTopK(K / D), []
        for step in range(5):
            mean = method.allreduce(comm, split(smooth(10 * step + comm.rank, D)))
            assert list(mean) == ["c", "b", "a"]
            assert mean["a"].shape == (70, 10)
            found.append((join(mean), join({name: method.residual(name) for name in SIZES})))
        assert method.step == 5
        return found

    ranks, model = world.run(train), Model(world.n)
    for step in range(5):
        mean = model.take([smooth(10 * step + rank, D) for rank in range(world.n)])
        for rank, found in enumerate(ranks):
            assert np.array_equal(found[step][0], mean)
            assert np.array_equal(found[step][1], model.residuals[rank])


SIZE = 400
SCHEMES: dict[str, tuple[Any, dict[str, Any]]] = {
    "ratio": (0.25, {}),
    "qsgd": ("topk(0.25) | rice | qsgd", {}),
    "sign-scale": ("topk(0.25) | bitmap | sign-scale", {}),
    "budget": ("budget(8) | rice | error-bounded", {"scope": "group"}),
    "bloom": ("topk(0.25) | bloom | raw", {}),
    "momentum": ("topk(0.25) | rice | raw", {"feedback": wc.MomentumCorrection(0.0)}),
    "whole": ("all | raw-index | raw", {}),
    "mixed": ({"a": "topk(0.25) | rice | qsgd", "*": "topk(0.5) | rice | raw"}, {}),
}


def make_gradient(kind: str, rank: int, step: int, n: int, dtype: np.dtype[Any]) -> Any:
    """Make (SIZE,) values: large ones exceed the range of their type when they are added."""
    largest, rng = float(ml_dtypes.finfo(dtype).max), np.random.default_rng([rank, step])
    if kind == "subnormal":
        return (rng.integers(-3, 4, SIZE) * float(ml_dtypes.finfo(dtype).smallest_subnormal)).astype(dtype)
    scale = 1.0 if kind == "usual" else min(largest, float(np.finfo(np.float32).max) / (16 * n))
    return (rng.laplace(size=SIZE) / 8 * scale).clip(-scale, scale).astype(dtype)


def add_exactly(*arrays: Any) -> list[Fraction]:
    rows = zip(*(x.astype(float).tolist() for x in arrays), strict=True)
    return [sum(map(Fraction, row), Fraction(0)) for row in rows]


@pytest.mark.parametrize("kind", ["usual", "large", "subnormal"])
@pytest.mark.parametrize("name", ["ratio", "qsgd"])
def test_every_type_keeps_everything(name: str, kind: str, dtype: np.dtype[Any]) -> None:
    check_mass(name, (1, 1, 1), kind, dtype)


@pytest.mark.parametrize("weights", [(1, 1), (0.5, 2, 1), (1, 0, 1, 3)], ids=str)
@pytest.mark.parametrize("name", SCHEMES)
def test_every_scheme_keeps_everything(name: str, weights: tuple[float, ...]) -> None:
    check_mass(name, weights, "usual", np.dtype(np.float32))


def check_mass(name: str, weights: tuple[float, ...], kind: str, dtype: np.dtype[Any]) -> None:
    """Within rounding, mean and weighted residuals are all that came in; a listener changes nothing."""

    def train(comm: Communicator) -> list[tuple[Any, Any, Any]]:
        scheme, settings = SCHEMES[name]
        method, steps = co.OkTopK(scheme, **settings), []
        wide = np.dtype(np.float64 if dtype.itemsize == 8 else np.float32)

        def kept() -> Any:
            parts = [method.residual(one) for one in "ab"]
            return np.concatenate([np.zeros(SIZE // 2, wide) if x is None else x for x in parts])

        for step in range(3):
            x = make_gradient(kind, comm.rank, step, comm.size, dtype)
            before = kept()
            mean = method.allreduce(
                comm, {"a": x[: SIZE // 2], "b": x[SIZE // 2 :]}, weight=weights[comm.rank]
            )
            if weights[comm.rank] == 0:
                assert np.array_equal(before, kept())
            steps.append((x.astype(wide) + before, join_two(mean), kept()))
        return steps

    factors = [Fraction(weight) for weight in weights]
    for ranks in zip(*co.simulate(len(weights), train), strict=True):
        totals, means, residuals = zip(*ranks, strict=True)
        assert len({bits(mean) for mean in means}) == 1
        assert means[0].dtype == dtype
        taking = [rank for rank, factor in enumerate(factors) if factor]
        unit = Fraction(float(np.finfo(totals[0].dtype).eps)) * 2 * len(weights)
        smallest = Fraction(float(np.finfo(totals[0].dtype).smallest_subnormal)) * 4 * len(weights)
        for at in range(SIZE):
            got = Fraction(float(means[0][at])) * sum(factors)
            got += sum(factors[rank] * Fraction(float(residuals[rank][at])) for rank in taking)
            wanted = [factors[rank] * Fraction(float(totals[rank][at])) for rank in taking]
            largest = sum(map(abs, wanted)) + 4 * max(abs(Fraction(float(x[at]))) for x in residuals)
            assert abs(got - sum(wanted)) <= unit * largest + smallest


def join_two(tensors: Any) -> Any:
    return np.concatenate([tensors["a"], tensors["b"]])


def test_a_filter_keeps_its_share_of_what_did_not_arrive() -> None:
    """m' = (1 - beta) m + beta (x - p) for what was delivered, and (1 - beta) m + beta x for the rest."""
    beta = 0.25

    def train(comm: Communicator) -> list[Any]:
        method, steps = co.OkTopK(0.5, feedback=wc.ErrorFeedback(beta)), []
        for step in range(4):
            x, before = smooth(comm.rank + 7 * step, 40), method.residual()
            mean = method.allreduce(comm, x)
            steps.append((x, np.zeros(40, np.float32) if before is None else before, mean, method.residual()))
        return steps

    for ranks in zip(*co.simulate(3, train), strict=True):
        gradients, before, means, after = map(np.array, zip(*ranks, strict=True))
        arrived = 3 * means[0]
        wanted = (1 - beta) * before.sum(0) + beta * ((gradients + before).sum(0) - arrived)
        assert after.sum(0) == pytest.approx(wanted, abs=1e-5)


def test_without_feedback_nothing_is_kept(several: World) -> None:
    def train(comm: Communicator) -> Any:
        method = co.OkTopK(0.1, feedback=None)
        return [bits(method.allreduce(comm, smooth(comm.rank, 50))) for _ in range(2)], method.residual()

    results = several.run(train)
    assert all(left is None for _, left in results)
    assert len({blob for found, _ in results for blob in found}) <= 2


def test_a_saved_state_continues_with_the_same_bits(several: World) -> None:
    """The bounds of the ranges are a part of the state."""

    def train(comm: Communicator) -> None:
        whole, halves = (co.OkTopK("topk(0.05) | rice | qsgd") for _ in range(2))
        for step in range(6):
            if step == 3:
                saved, halves = halves.state_dict(), co.OkTopK("topk(0.05) | rice | qsgd")
                halves.load_state_dict(saved)
            grad = {"w": smooth(comm.rank + 5 * step, 4000) * np.linspace(0, 1, 4000, dtype=np.float32)}
            found = [bits(each.allreduce(comm, grad)["w"]) for each in (whole, halves)]
            assert found[0] == found[1]
        assert {k: bits(x) for k, x in whole.state_dict().items()} == {
            k: bits(x) for k, x in halves.state_dict().items()
        }

    several.run(train)


@pytest.mark.parametrize(
    ("key", "bounds"),
    [
        ("x", [0, 5]),
        ("0f", [-1, 5]),
        ("0f", [0.5, 1.5]),
        ("0f", [4, 1]),
        ("0f", [[0, 0], [0, 0]]),
        ("0f", [0]),
    ],
)
def test_wrong_bounds_are_no_state(key: str, bounds: Any) -> None:
    method = co.OkTopK(0.5)
    with pytest.raises(ValueError, match=f"bounds/{key}"):
        method.load_state_dict(method.state_dict() | {f"bounds/{key}": np.array(bounds)})


def test_a_rank_that_joins_has_no_bounds(several: World) -> None:
    """All ranks then begin with equal ranges, and have the same bits."""

    def train(comm: Communicator) -> list[bytes]:
        method = co.OkTopK(0.05)
        for step in range(2):
            method.allreduce(comm, smooth(comm.rank + 5 * step, 1000) * np.linspace(0, 1, 1000, dtype="f4"))
        if comm.rank == 1:
            state = {key: x for key, x in method.state_dict().items() if not key.startswith("bounds/")}
            method = co.OkTopK(0.05)
            method.load_state_dict(state)
        return [bits(method.allreduce(comm, smooth(comm.rank + 5 * step, 1000))) for step in (2, 3)]

    assert len(set(map(tuple, several.run(train)))) == 1


def test_bounds_of_another_size_are_not_used(several: World) -> None:
    """Even if all ranks have loaded them: elements beyond the last bound would never be sent."""

    def train(comm: Communicator) -> None:
        method = co.OkTopK(0.1)
        method.allreduce(comm, smooth(comm.rank, 100))
        state = method.state_dict()
        halves = {key: x // 2 for key, x in state.items() if key.startswith("bounds/")}
        method.load_state_dict(state | halves)
        mean = method.allreduce(comm, np.linspace(0, 9, 100, dtype=np.float32))
        assert np.count_nonzero(mean[50:]) > 5

    several.run(train)


def test_other_exchanges_refuse_it(several: World) -> None:
    """They would sum containers that do not have its value codec."""

    def train(comm: Communicator) -> None:
        method = co.OkTopK("topk(0.1) | rice | qsgd")
        with pytest.raises(co.CollectiveError, match="sums its own steps"):
            co.allgather(comm, {"w": smooth(comm.rank, 100)}, method)
        with pytest.raises(TypeError, match="sums its own steps"):
            method.compress({"w": smooth(comm.rank, 100)})
        assert method.step == 0
        method.allreduce(comm, {"w": smooth(comm.rank, 100)})

    several.run(train)


def test_a_compressor_gives_its_settings_and_its_state() -> None:
    def train(comm: Communicator) -> None:
        compressor = wc.Compressor("topk(0.1) | rice | raw", schedule=wc.WarmUp(3, start=0.5), seed=7)
        co.allreduce(comm, {"w": smooth(comm.rank, 100)}, compressor)
        method = co.OkTopK(compressor)
        assert (method.step, method.schedule, str(method.schemes["*"])) == (
            1,
            compressor.schedule,
            str(compressor.schemes["*"]),
        )
        before: Any = compressor.residual("w")
        assert np.array_equal(before, method.residual("w"))
        method.allreduce(comm, {"w": smooth(comm.rank, 100)})
        assert np.array_equal(before, compressor.residual("w"))  # type: ignore[arg-type]
        assert (method.step, compressor.step) == (2, 1)

    co.simulate(2, train)


def test_ratios_by_key_are_schemes() -> None:
    """As for CLT-k; a ratio alone also makes one vector of all tensors."""
    by_key = co.OkTopK({"b": 1, "*": 0.1})
    assert (str(by_key.schemes["b"]), str(by_key.schemes["*"]), by_key.scope) == (
        "topk(1.0) | rice | raw",
        "topk(0.1) | rice | raw",
        "tensor",
    )
    assert co.OkTopK({"*": 0.1}, scope="group").signature == co.OkTopK(0.1).signature
    with pytest.raises(wc.EncodeError, match="ratio is 2"):
        co.OkTopK({"*": 2})


def test_wrong_arguments_raise() -> None:
    for wrong in (0, 1.5, "rfft | topk(0.1) | rice | raw", "topk(0.1)"):
        with pytest.raises(wc.EncodeError):
            co.OkTopK(wrong)
    with pytest.raises(TypeError, match="settings"):
        co.OkTopK(wc.Compressor(), seed=1)


def test_sparse_results_are_the_dense_ones(several: World) -> None:
    def train(comm: Communicator) -> None:
        dense, sparse = co.OkTopK(0.05), co.OkTopK(0.05)
        for step in range(3):
            grad = split(smooth(comm.rank + 5 * step, D))
            want = dense.allreduce(comm, grad)
            got = sparse.allreduce(comm, grad, sparse=True)
            assert {name: bits(x) for name, x in want.items()} == {
                name: bits(x.to_dense()) for name, x in got.items()
            }
            assert sum(x.nnz for x in got.values()) <= 0.05 * D + 1

    several.run(train)


def test_tensors_that_no_rank_uses_are_held() -> None:
    def train(comm: Communicator) -> Any:
        method = co.OkTopK(0.5)
        for used in (1, 0, 1):
            grads = {"a": smooth(comm.rank, 30), "b": smooth(comm.rank, 30) * np.float32(used)}
            before = method.residual("b")
            mean = method.allreduce(comm, grads, hold_zeros=True)
            if not used:
                assert not mean["b"].any()
                assert np.array_equal(before, method.residual("b"))

    co.simulate(3, train)


def test_bytes_do_not_grow_with_the_ranks() -> None:
    """A rank sends at most 2.2 containers, and receives as many; all-gather sends one per rank."""
    d = 1_000_000

    def count(comm: Communicator) -> tuple[int, int]:
        channel, method, sent = co.Channel(comm), co.OkTopK(0.05), []
        grad = smooth(comm.rank, d) + 2 * smooth(1000, d)
        for _ in range(3):
            before = channel.bytes_sent
            method.allreduce(channel, grad)
            sent.append(channel.bytes_sent - before)
        return sent[-1], wc.Compressor("topk(0.05) | rice | raw").prepare({"w": grad}).blob.nbytes

    for n in (4, 24):
        assert max(sent / one for sent, one in co.simulate(n, count)) < 2.2


def test_the_error_is_near_that_of_the_top_of_the_sum() -> None:
    """At most 1.15 times as large at 16 ranks, whose gradients have half of their variance in common."""
    d, n, k = 20_000, 16, 200

    def draw(seed: int) -> Any:
        return np.random.default_rng([3, seed]).laplace(size=d).astype(np.float32)

    grads = [draw(99) + draw(rank) for rank in range(n)]
    total = np.sum(grads, axis=0) / n
    best = total.copy()
    best[top(total, k)] = 0
    mean = co.simulate(n, lambda comm: co.OkTopK(k / d).allreduce(comm, grads[comm.rank]))[0]
    assert np.count_nonzero(mean) <= k
    assert np.linalg.norm(total - mean) < 1.15 * np.linalg.norm(best)


def test_members() -> None:
    rng = np.random.default_rng(1)
    for size in (0, 1, 5, 50):
        members, indices = (np.flatnonzero(rng.integers(0, 2, size)) for _ in range(2))
        assert np.array_equal(find_members(members, indices), np.isin(indices, members))
