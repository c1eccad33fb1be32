"""LocalUpdates: checkpoints, failed exchanges, ranks that join, and arguments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import collectives as co
import wirecodec as wc
from collectives.communicator import Communicator
from tests.collectives.local_updates.test_any_request_fails import Requests, connect
from tests.oracles import Array

DENSE = "all | raw-index | raw"
SCHEME = "topk(0.25) | rice | qsgd(bits=2)"
OWN = {"inner_step", "own_digest"}
"""Keys of the worker's own steps, which change without an exchange."""


class Worker:
    """Worker whose own step adds whole numbers, drawn from the step and the rank."""

    def __init__(self, comm: Communicator, scheme: Any = SCHEME, start: float = 0, **settings: Any) -> None:
        self.w, self.rank, self.steps = np.full(32, start, np.float64), comm.rank, 0
        self.compressor = scheme if isinstance(scheme, co.CLTk | wc.Compressor) else wc.Compressor(scheme)
        settings = {"every": 3, "rate": 0.5, "momentum": 0.5} | settings
        self.local = co.LocalUpdates(self, {"w": self.w}, self.compressor, comm, **settings)

    def move(self, step: int) -> Array:
        return np.random.default_rng([self.rank, step]).integers(-9, 9, 32).astype("f8")

    def step(self) -> None:
        self.w += self.move(self.steps)
        self.steps += 1

    def train(self, steps: int) -> Worker:
        for _ in range(steps):
            self.local.step()
        return self


@pytest.mark.parametrize("method", ["compressor", "clt-k"])
def test_a_checkpoint_between_two_exchanges_resumes_bit_for_bit(method: str) -> None:
    def make(comm: Communicator) -> Worker:
        return Worker(comm, SCHEME if method == "compressor" else co.CLTk(0.25))

    def train(comm: Communicator) -> bool:
        first = make(comm).train(8)
        state, w = first.local.state_dict(), first.w.copy()
        first.train(7)
        second = make(comm)
        second.w[:], second.steps = w, 8
        second.local.load_state_dict(state)
        second.train(7)
        got, want = second.local.state_dict(), first.local.state_dict()
        assert second.local.round == 5
        assert {key: x.tobytes() for key, x in got.items()} == {key: x.tobytes() for key, x in want.items()}
        return bool(np.array_equal(first.w, second.w))

    assert co.simulate(2, train) == [True, True]


class Failing(wc.Compressor):
    """Compressor that fails in its second step on rank 1."""

    attempts = 0

    def prepare(
        self, gradients: Any, *, rank: int = 0, ranks: int = 1, hold_zeros: bool = False
    ) -> wc.Prepared:
        self.attempts += 1
        if self.attempts == 2 and rank == 1:
            raise wc.EncodeError("no")
        return super().prepare(gradients, rank=rank, hold_zeros=hold_zeros)


def test_after_a_failed_exchange_the_next_one_carries_the_whole_movement() -> None:
    """All that the workers moved is in the parameters or in a residual, with rate 1 and whole numbers."""

    def train(comm: Communicator) -> tuple[Array, Array, Array]:
        worker = Worker(comm, rate=1, momentum=0)
        worker.compressor = Failing("topk(0.25) | rice | raw")
        worker.local = co.LocalUpdates(worker, {"w": worker.w}, worker.compressor, comm, every=3)
        for step in range(1, 13):
            if step == 6:
                before = worker.local.state_dict()
                with pytest.raises(co.CollectiveError, match="rank 1"):
                    worker.local.step()
                after = worker.local.state_dict()
                assert all(np.array_equal(before[key], after[key]) for key in before if key not in OWN)
            else:
                assert worker.local.step() == (step % 3 == 0)
        residual = worker.compressor.residual("w")
        assert residual is not None
        return worker.w, residual, sum((worker.move(step) for step in range(12)), np.zeros(32))

    results = co.simulate(2, train)
    np.testing.assert_array_equal(results[0][0], results[1][0])
    kept = sum((residual for _, residual, _ in results), np.zeros(32))
    came_in = sum((moved for _, _, moved in results), np.zeros(32))
    np.testing.assert_array_equal(2 * results[0][0] - kept, came_in)


@pytest.mark.parametrize("commit", [True, False], ids=["committed", "open"])
@pytest.mark.parametrize(
    ("make", "divide", "over_sites"),
    [
        (lambda: wc.Compressor("topk(0.25) | rice | raw"), "ranks", False),
        (lambda: wc.Compressor("topk(0.25) | rice | raw"), "ranks", True),
        (lambda: wc.Compressor("topk(0.25) | rice | raw"), "senders", False),
        (lambda: co.CLTk(0.25), "ranks", False),
        (lambda: co.CLTk(0.25), "ranks", True),
        (lambda: co.OkTopK(0.25), "ranks", False),
    ],
    ids=["ranks", "sites", "senders", "clt-k", "clt-k-sites", "ok-topk"],
)
def test_a_mean_that_overflows_leaves_everything_as_it_was(
    make: Any, divide: Any, over_sites: bool, commit: bool
) -> None:
    """Each rank's movement is finite, and all ranks send the element."""

    def train(comm: Communicator) -> str:
        w = np.arange(32.0)
        alone = co.simulate(1, lambda other: other)[0]
        ends: Any = co.Sites(alone, comm) if over_sites else comm
        local = co.LocalUpdates(None, {"w": w}, make(), ends, every=1, divide=divide)
        for _ in range(2):
            w *= 1 + comm.rank
            local.step()
        before = local.state_dict()
        w[7] = -1.5e308
        with pytest.raises(co.CollectiveError, match=r"not finite|cannot carry inf") as info:
            local.step() if commit else local.exchange(commit=False)
        after = local.state_dict()
        assert {key for key in before if not np.array_equal(before[key], after[key])} <= OWN
        return info.value.reason

    assert co.simulate(2, train) == ["value"] * 2


@pytest.mark.parametrize("delay", [0, 1])
@pytest.mark.parametrize(
    ("over_sites", "make", "settings"),
    [
        *((sites, lambda: wc.Compressor(DENSE), {}) for sites in (False, True)),
        *((sites, lambda: wc.Compressor("topk(0.25) | rice | raw"), {}) for sites in (False, True)),
        *((sites, lambda: co.CLTk(0.25), {}) for sites in (False, True)),
        *((sites, lambda: co.OkTopK("topk(0.25) | rice | raw"), {}) for sites in (False, True)),
        (False, lambda: wc.Compressor(DENSE), {"nesterov": True}),
        (False, lambda: wc.Compressor(DENSE), {"divide": "senders"}),
    ],
)
def test_a_step_that_overflows_leaves_everything_as_it_was(
    over_sites: bool, make: Any, settings: dict[str, Any], delay: int
) -> None:
    """The movements and their mean are finite; over two sites, in the range of one rank of each."""

    def train(comm: Communicator) -> tuple[list[float], bool]:
        w = np.zeros(8)
        ends = connect(comm, Requests(), sites=over_sites)
        local = co.LocalUpdates(
            None, {"w": w}, make(), ends, 2, rate=1e30, momentum=0.5, delay=delay, **settings
        )
        w[7] = 1.0 + comm.rank
        for _ in range(2 + delay):
            local.step()
        local.exchange()
        before, moved = local.state_dict(), np.zeros(8)
        moved[7] = 1e290
        w += moved
        errors = []
        for _ in range(2 + delay):
            try:
                local.step()
            except co.CollectiveError as error:
                errors.append(error)
        after = local.state_dict()
        assert {key for key in before if not np.array_equal(before[key], after[key])} <= OWN
        assert [error.reason for error in errors] == ["value"]
        assert "the step of the outer optimizer is beyond float64" in str(errors[0])
        local.revert()
        w += 1
        local.exchange()
        return w.tolist(), local._outer.ledger.in_doubt is None

    results = co.simulate(4, train)
    assert results == [results[0]] * 4
    assert np.isfinite(results[0][0]).all()
    assert results[0][1]


@pytest.mark.parametrize("alpha", [0.0, 0.5])
def test_inf_of_a_worker_with_16_bits_stays_inf(alpha: float) -> None:
    """Its own parameters, of which a share stays, are not those of the common state."""

    def train(comm: Communicator) -> list[str]:
        w, reasons = np.zeros(2, np.float16), []
        local = co.LocalUpdates(None, {"w": w}, wc.Compressor(DENSE), comm, every=2, delay=1, alpha=alpha)
        for step in range(1, 6):
            if step == 3 and comm.rank == 0:
                w[:] = np.inf
            try:
                local.step()
            except co.CollectiveError as error:
                reasons.append(error.reason)
        return reasons

    assert co.simulate(2, train) == [["value"] if alpha else []] * 2


def test_a_parameter_that_cannot_hold_the_state_gets_its_type_s_largest_value() -> None:
    """The state goes on, and a rank whose own step overflows can revert."""

    def train(comm: Communicator) -> list[float]:
        w = np.full(2, 65000, np.float16)
        local = co.LocalUpdates(None, {"w": w}, wc.Compressor(DENSE), comm, every=1, rate=4.0)
        w += np.float16(256)
        with pytest.raises(RuntimeWarning, match="'w' got the largest value of its type, float16"):
            local.step()  # the warning is an error here, and all the same the step is complete
        assert local.state_dict()["parameter/w"][0] == 66016
        held = float(w[0])
        w[:] = np.inf
        with pytest.raises(co.CollectiveError, match="not finite"):
            local.exchange()
        local.revert()
        w -= np.float16(512)
        local.exchange()
        return [held, float(local.state_dict()["parameter/w"][0])]

    assert co.simulate(1, train) == [[65504.0, 66016.0 - 4 * 512]]


def test_a_saved_mean_whose_step_overflows_is_refused() -> None:
    """It was accepted under another rate."""

    def train(comm: Communicator) -> None:
        w = np.zeros(2, np.float32)
        settings: dict[str, Any] = {"every": 2, "delay": 1}
        local = co.LocalUpdates(None, {"w": w}, wc.Compressor(DENSE), comm, **settings)
        w += np.float32(1e38)
        local.step()
        local.step()
        state = local.state_dict()
        other = co.LocalUpdates(None, {"w": w}, wc.Compressor(DENSE), comm, rate=4.0, **settings)
        with pytest.raises(ValueError, match="delayed_mean: tensor 'w': the step of the outer optimizer"):
            other.load_state_dict(state)
        local.load_state_dict(state)

    co.simulate(2, train)


def test_a_rank_that_diverged_reverts() -> None:
    def train(comm: Communicator) -> Array:
        worker = Worker(comm).train(5)
        if comm.rank:
            worker.w[3] = np.nan
        with pytest.raises(co.CollectiveError) as info:
            worker.local.step()
        assert info.value.reason == "value"
        if comm.rank:
            worker.local.revert()
        return worker.train(3).w

    results = co.simulate(2, train)
    assert np.isfinite(results[0]).all()
    np.testing.assert_array_equal(results[0], results[1])


def test_a_rank_joins_after_a_restart() -> None:
    """It takes over parameters, momentum and the compressor's step, also with an older checkpoint."""
    older: dict[int, Any] = {}

    def before(comm: Communicator) -> dict[str, Array]:
        worker = Worker(comm).train(3)
        older[comm.rank] = worker.local.state_dict()
        return worker.train(3).local.state_dict()

    newest = co.simulate(3, before)

    def after(comm: Communicator) -> tuple[bool, Array, int]:
        worker = Worker(comm, start=comm.rank)
        if comm.rank != 1:
            state = newest[comm.rank] if comm.rank == 0 else older[comm.rank]
            worker.local.load_state_dict(state)
            worker.w[:] = state["parameter/w"]
        with pytest.raises(co.CollectiveError, match=r"ranks 1, 2: .*synchronize\(\) on all ranks") as info:
            worker.local.exchange()
        assert (info.value.reason, info.value.ranks) == ("parameters", (1, 2))
        joined = worker.local.synchronize()
        assert np.array_equal(worker.w, newest[0]["parameter/w"])
        assert not worker.local.synchronize()
        return joined, worker.train(3).w, worker.local.round

    results = co.simulate(3, after)
    assert [joined for joined, _, _ in results] == [False, True, True]
    assert all(np.array_equal(w, results[0][1]) and rounds == 3 for _, w, rounds in results)


@pytest.mark.parametrize("setting", ["rate", "keep"])
def test_different_settings_are_an_error_on_all_ranks(setting: str) -> None:
    def train(comm: Communicator) -> str:
        named = f"rank 1: settings differ from those of rank 0; {setting}=1.0 on rank 1, and {setting}=0.5 on"
        with pytest.raises(co.CollectiveError, match=named) as info:
            Worker(comm, **{setting: 0.5 + 0.5 * comm.rank}).train(3)
        return info.value.reason

    assert co.simulate(2, train) == ["parameters", "parameters"]


@pytest.mark.parametrize(
    ("change", "kind", "advice"),
    [
        ({"every": 0}, ValueError, "every is 0; it must be a number of steps"),
        ({"rate": 0}, ValueError, "rate is 0.0"),
        ({"momentum": 1}, ValueError, "momentum is 1.0"),
        ({"keep": "0.5"}, TypeError, "keep is '0.5'; pass a number"),
        ({"nesterov": True}, ValueError, "pass momentum=0.9"),
        ({"optimizer": 3}, TypeError, "pass an object with a step"),
        ({"named_parameters": [np.ones(3)]}, TypeError, "pass model.named_parameters"),
        ({"named_parameters": {"w": [1.0]}}, TypeError, "a torch tensor or a writable NumPy array"),
        (
            {"named_parameters": {"n": np.zeros(3, np.int64)}},
            ValueError,
            "tensor 'n': dtype int64 is not carried",
        ),
        ({"named_parameters": {}}, ValueError, "iterated only once"),
        ({"compressor": "topk(0.1) | rice | raw"}, TypeError, r"pass wc.Compressor\(scheme\)"),
        (
            {"compressor": wc.Compressor("dct | topk(0.1) | rice | raw"), "divide": "senders"},
            ValueError,
            "no meaning with a transform",
        ),
    ],
)
def test_wrong_arguments_say_what_to_write(
    change: dict[str, Any], kind: type[Exception], advice: str
) -> None:
    def make(comm: Communicator) -> None:
        given = {"optimizer": None, "named_parameters": {"w": np.zeros(3)}, "compressor": wc.Compressor()}
        with pytest.raises(kind, match=advice):
            co.LocalUpdates(**({**given, "comm": comm, "every": 2} | change))

    co.simulate(1, make)


def test_a_wrong_state_changes_nothing() -> None:
    def load(comm: Communicator) -> None:
        worker = Worker(comm).train(4)
        state = worker.local.state_dict()
        for change in ({"parameter/w": np.zeros(3)}, {"round": -1}, {"x": 1}, {"compressor/step": -1}):
            with pytest.raises(ValueError, match=next(iter(change)).removeprefix("compressor/")):
                worker.local.load_state_dict(state | change)
        after = worker.local.state_dict()
        assert all(np.array_equal(after[key], state[key]) for key in state)

    co.simulate(1, load)


def test_torch_parameters() -> None:
    """Parameters of bfloat16 accumulate small movements, and frozen ones are left out."""
    torch = pytest.importorskip("torch")

    def train(comm: Communicator) -> tuple[list[float], Any]:
        torch.manual_seed(0)
        model = torch.nn.Linear(4, 2)
        model.bias.requires_grad_(False)
        model.weight.data.fill_(256)
        model.to(torch.bfloat16)
        compressor = wc.Compressor("all | raw-index | raw")
        local = co.LocalUpdates(None, model.named_parameters(), compressor, comm, every=1, rate=0.125)
        for _ in range(8):
            with torch.no_grad():
                model.weight -= 2  # the next number below 256 in bfloat16 is 255, and 1/8 of 2 is less
            local.step()
        inner = torch.optim.AdamW([model.weight], lr=1.0)
        second = co.LocalUpdates(inner, model.named_parameters(), compressor, comm, every=2)
        (model(torch.ones(1, 4, dtype=torch.bfloat16)) * (1 + comm.rank)).sum().backward()
        assert [second.step() for _ in range(2)] == [False, True]
        assert sorted(co.torch_state_dict(local)) == sorted(local.state_dict())
        found = co.torch_state_dict(local)["parameter/weight"].unique().tolist()
        return found, model.weight.detach().float().numpy().tobytes()

    results = co.simulate(2, train)
    assert results[0] == results[1]
    assert results[0][0] == [254.0]


def test_the_workers_that_are_left_go_on_under_new_ranks() -> None:
    """As after the death of rank 1 of 3; a rank that still has its old number is told."""
    states = co.simulate(3, lambda comm: Worker(comm).train(3).local.state_dict())

    def go_on(comm: Communicator) -> tuple[Array, int]:
        worker, old = Worker(comm), states[2 * comm.rank]
        worker.local.load_state_dict(old)
        worker.local.revert()
        with pytest.raises(co.CollectiveError, match=r"rank 1: .*saved by rank 2, .*state, rank=1"):
            worker.train(3)
        worker.local.load_state_dict(wc.rename_state(old, rank=comm.rank))
        worker.local.revert()
        assert not worker.local.synchronize()
        return worker.train(3).w, worker.local.round

    (one, rounds), (other, _) = co.simulate(2, go_on)
    assert rounds == 2
    np.testing.assert_array_equal(one, other)
