"""Exchanges whose step the caller commits or rolls back: ``commit=False``."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import collectives as co
import wirecodec as wc
from collectives.exchange.encoding import Encoding
from tests.collectives.conftest import World

SCHEME = "topk(0.25) | rice | raw"


def grad_of(rank: int, step: int = 0) -> Any:
    return np.random.default_rng((rank, step)).normal(size=40).astype(np.float32)


class Training:
    """One of the objects with a state, its exchange, and its whole state."""

    def __init__(self, kind: str) -> None:
        makers: dict[str, Callable[[], Any]] = {
            "compressor": lambda: wc.Compressor(SCHEME),
            "momentum": lambda: wc.Compressor(SCHEME, feedback=wc.MomentumCorrection(0.9)),
            "clt-k": lambda: co.CLTk(0.25),
            "gtop-k": lambda: co.GTopK(0.25),
            "ok-topk": lambda: co.OkTopK("topk(0.25) | rice | qsgd"),
        }
        self.kind, self.object = kind, makers[kind]()

    def exchange(self, comm: Any, grad: Any, **options: Any) -> Any:
        if isinstance(self.object, wc.Compressor):
            return co.allreduce(comm, {"": grad}, self.object, **options)
        return self.object.allreduce(comm, {"": grad}, **options)

    def state(self) -> dict[str, bytes]:
        return {key: x.tobytes() for key, x in self.object.state_dict().items()}


KINDS = ("compressor", "momentum", "clt-k", "gtop-k", "ok-topk")


@pytest.mark.parametrize("kind", KINDS)
def test_commit_and_rollback(kind: str) -> None:
    """A step that is committed later has the bits of one that is committed at once; a rollback is no step."""

    def run(comm: Any) -> None:
        plain, open_ = Training(kind), Training(kind)
        for step in range(5):
            grad = grad_of(comm.rank, step)
            before = open_.state()
            dropped = open_.exchange(comm, grad_of(comm.rank, 99), commit=False)
            assert open_.state() == before
            dropped.rollback()
            assert open_.state() == before
            pending = open_.exchange(comm, grad.copy(), commit=False)
            assert open_.state() == before
            mean = plain.exchange(comm, grad.copy())
            assert pending.means[""].tobytes() == mean[""].tobytes()
            pending.commit()
            assert open_.state() == plain.state() != before

    co.simulate(3, run)


@pytest.mark.parametrize("kind", KINDS[::2])
def test_the_next_step_waits(world: World, kind: str) -> None:
    """It is an error on all ranks, even if only one of them has not decided; then training goes on."""

    def run(comm: Any) -> int:
        training = Training(kind)
        pending = training.exchange(comm, grad_of(comm.rank), commit=False)
        if comm.rank:
            pending.commit()
        with pytest.raises(co.CollectiveError, match="commit=False") as caught:
            training.exchange(comm, grad_of(comm.rank))
        assert caught.value.ranks == (0,)
        if not comm.rank:
            pending.commit()
        training.exchange(comm, grad_of(comm.rank))
        return int(training.object.step)

    assert set(world.run(run)) == {2}


@pytest.mark.parametrize("kind", KINDS)
def test_ranks_that_decide_differently_learn_of_it(kind: str) -> None:
    def run(comm: Any) -> str:
        training = Training(kind)
        pending = training.exchange(comm, grad_of(comm.rank), commit=False)
        (pending.rollback if comm.rank else pending.commit)()
        with pytest.raises(co.CollectiveError, match="step") as caught:
            training.exchange(comm, grad_of(comm.rank))
        return caught.value.reason

    assert set(co.simulate(3, run)) == {"scheme"}


def test_as_a_context_manager() -> None:
    def run(comm: Any) -> None:
        compressor, grad = wc.Compressor(SCHEME), {"w": grad_of(comm.rank)}
        with pytest.raises(ZeroDivisionError), co.allreduce(comm, grad, compressor, commit=False):
            _ = 1 // 0
        assert compressor.step == 0
        with co.allreduce(comm, grad, compressor, commit=False) as pending:
            assert compressor.step == 0
        assert compressor.step == 1
        for close in (pending.commit, pending.rollback):
            with pytest.raises(RuntimeError, match="before"):
                close()
        with co.allreduce(comm, grad, compressor, commit=False) as pending:
            pending.rollback()
        assert compressor.step == 1

    co.simulate(2, run)


def lose(make: Callable[[], object]) -> None:
    make()
    gc.collect()


def test_an_object_that_is_lost_is_rolled_back() -> None:
    def run(comm: Any) -> int:
        compressor, grad = wc.Compressor(SCHEME), {"w": grad_of(comm.rank)}
        with pytest.warns(ResourceWarning, match="neither committed nor rolled back"):
            lose(lambda: co.allreduce(comm, grad, compressor, commit=False))
        co.allreduce(comm, grad, compressor)
        return compressor.step

    assert co.simulate(1, run) == [1]


@pytest.mark.parametrize("kind", ["compressor", "clt-k"])
def test_nan_of_one_rank_leaves_nothing_to_commit(kind: str) -> None:
    def run(comm: Any) -> None:
        training = Training(kind)
        grad = grad_of(comm.rank)
        grad[3] = np.nan if comm.rank else grad[3]
        before = training.state()
        pending = training.exchange(comm, grad, commit=False, nonfinite="propagate")
        assert np.isnan(pending.means[""]).all()
        pending.commit()
        assert training.state() == before

    co.simulate(2, run)


def test_schemes_have_nothing_to_commit() -> None:
    def run(comm: Any) -> None:
        pending = co.allreduce(comm, grad_of(comm.rank), SCHEME, commit=False)
        same = co.allreduce(comm, grad_of(comm.rank), SCHEME)
        assert pending.means.tobytes() == same.tobytes()
        pending.commit()

    co.simulate(2, run)


def test_an_interrupt_after_the_last_payload_changes_nothing_on_its_rank(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The caller gets no Pending to decide with, so this rank has not taken the step."""
    deliver, grads = Encoding.deliver, [{"w": grad_of(rank)} for rank in range(2)]

    def interrupt(self: Encoding, sums: Any) -> Any:
        if self.inputs.tensors is grads[0]:
            raise KeyboardInterrupt
        return deliver(self, sums)

    def run(comm: Any) -> int:
        compressor = wc.Compressor(SCHEME)
        if comm.rank:
            co.allreduce(comm, grads[1], compressor, commit=False).rollback()
        else:
            with pytest.raises(KeyboardInterrupt):
                co.allreduce(comm, grads[0], compressor, commit=False)
        assert compressor.step == 0
        co.allreduce(comm, {"w": grad_of(comm.rank)}, compressor)
        return compressor.step

    monkeypatch.setattr(Encoding, "deliver", interrupt)
    assert co.simulate(2, run) == [1, 1]


def test_results_in_the_gradients_memory() -> None:
    """A rollback restores the state; the caller's memory has the means, as without ``commit``."""

    def run(comm: Any) -> None:
        compressor, grad = wc.Compressor(SCHEME), {"w": grad_of(comm.rank)}
        pending = co.allreduce(comm, grad, compressor, commit=False, out=grad)
        assert pending.means["w"] is grad["w"]
        pending.rollback()
        assert compressor.step == 0

    co.simulate(2, run)


@pytest.mark.parametrize("compressor", ["compressor", "clt-k"])
def test_local_updates(compressor: str) -> None:
    def make(comm: Any) -> tuple[Any, co.LocalUpdates]:
        w = np.zeros(40, np.float32)
        inner = Training(compressor).object
        return w, co.LocalUpdates(None, {"w": w}, inner, comm, every=1, momentum=0.5, nesterov=True)

    def run(comm: Any) -> None:
        (w, plain), (v, open_) = make(comm), make(comm)
        for step in range(4):
            w += grad_of(comm.rank, step)
            v += grad_of(comm.rank, step)
            moved, before = v.copy(), open_.round
            dropped = open_.exchange(commit=False)
            with pytest.raises(RuntimeError, match="commit=False"):
                open_.step()
            open_.inner_step = 0
            dropped.rollback()
            assert v.tobytes() == moved.tobytes()
            assert open_.round == before
            plain.exchange()
            pending = open_.exchange(commit=False)
            assert v.tobytes() == moved.tobytes()
            pending.commit()
            assert v.tobytes() == w.tobytes()
            one, other = plain.state_dict(), open_.state_dict()
            assert all(one[key].tobytes() == other[key].tobytes() for key in one)

    co.simulate(2, run)


def test_weights_of_local_updates() -> None:
    def run(comm: Any) -> float:
        w = np.zeros(1, np.float32)
        local = co.LocalUpdates(None, {"w": w}, wc.Compressor("all | raw-index | raw"), comm, every=1)
        w += [[2.0, 6.0, np.nan][comm.rank]]
        local.exchange(weight=[3, 1, 0][comm.rank])
        return float(w[0])

    assert co.simulate(3, run) == [3.0, 3.0, 3.0]
