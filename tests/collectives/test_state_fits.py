"""States that do not fit the training that loads them: other names, another rank, another number of ranks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import collectives as co
import wirecodec as wc
from collectives.communicator import Communicator
from tests.oracles import Array

NAMES = ("0.weight", "0.bias", "head")


@dataclass(frozen=True)
class Method:
    """Way to average, with a state.

    Attributes:
        make: makes the object that has the state, for named arrays.
        step: takes a step with gradients; returns their means.
    """

    make: Callable[[Communicator, dict[str, Array]], Any]
    step: Callable[[Any, Communicator, dict[str, Array]], Any]


def _local(comm: Communicator, like: dict[str, Array]) -> co.LocalUpdates:
    parameters = {name: np.zeros_like(x) for name, x in like.items()}
    compressor = wc.Compressor("topk(0.25) | rice | raw")
    return co.LocalUpdates(None, parameters, compressor, comm, every=1, momentum=0.5)


def _move(local: Any, comm: Communicator, gradients: dict[str, Array]) -> Any:
    for name, x in gradients.items():
        local._anchor.parameters[name] -= x
    local.step()
    return {name: x.copy() for name, x in local._anchor.parameters.items()}


METHODS = {
    "Compressor": Method(
        lambda comm, like: wc.Compressor("topk(0.25) | rice | raw"),
        lambda compressor, comm, gradients: co.allreduce(comm, gradients, compressor),
    ),
    "momentum": Method(
        lambda comm, like: wc.Compressor("topk(0.25) | rice | raw", feedback=wc.MomentumCorrection(0.9)),
        lambda compressor, comm, gradients: co.allreduce(comm, gradients, compressor),
    ),
    "CLTk": Method(
        lambda comm, like: co.CLTk(0.25), lambda cltk, comm, gradients: cltk.allreduce(comm, gradients)
    ),
    "GTopK": Method(
        lambda comm, like: co.GTopK(0.25), lambda gtopk, comm, gradients: gtopk.allreduce(comm, gradients)
    ),
    "OkTopK": Method(
        lambda comm, like: co.OkTopK(0.25), lambda one, comm, gradients: one.allreduce(comm, gradients)
    ),
    "LocalUpdates": Method(_local, _move),
}


def gradients(rank: int, step: int) -> dict[str, Array]:
    draw = np.random.default_rng([rank, step])
    return {name: draw.integers(-9, 9, 8).astype(np.float32) for name in NAMES}


def saved(method: Method, ranks: int = 2, steps: int = 3) -> list[dict[str, Array]]:
    """Return every rank's state after some steps."""

    def train(comm: Communicator) -> dict[str, Array]:
        one = method.make(comm, gradients(0, 0))
        for step in range(steps):
            method.step(one, comm, gradients(comm.rank, step))
        state: dict[str, Array] = one.state_dict()
        return state

    return co.simulate(ranks, train)


def arrays_of(state: dict[str, Array]) -> dict[str, bytes]:
    return {key: np.asarray(x).tobytes() for key, x in state.items()}


@pytest.mark.parametrize("name", METHODS)
def test_a_rank_s_own_state_is_taken(name: str) -> None:
    method = METHODS[name]
    states = saved(method)

    def resume(comm: Communicator) -> dict[str, bytes]:
        one = method.make(comm, gradients(0, 0))
        one.load_state_dict(states[comm.rank])
        if name == "LocalUpdates":
            one.revert()
        method.step(one, comm, gradients(comm.rank, 3))
        return arrays_of(one.state_dict())

    assert co.simulate(2, resume) == [arrays_of(state) for state in saved(method, steps=4)]


@pytest.mark.parametrize("name", METHODS)
def test_another_rank_s_state_is_an_error_with_the_remedy(name: str) -> None:
    """As Accelerate gives the state of rank 0 to all ranks. ``strict=False`` takes its step only."""
    method = METHODS[name]
    donor = saved(method)[0]

    def resume(comm: Communicator) -> tuple[int, list[float]]:
        one = method.make(comm, gradients(0, 0))
        one.load_state_dict(donor)
        with pytest.raises(co.CollectiveError, match=r"rank 1: .*saved by rank 0, .*strict=False"):
            method.step(one, comm, gradients(comm.rank, 3))
        one.load_state_dict(donor, strict=comm.rank == 0)
        if name == "LocalUpdates":
            one.revert()
        method.step(one, comm, gradients(comm.rank, 3))
        state = one.state_dict()
        kept = next(x for key, x in sorted(state.items()) if "residual/" in key)
        return int(state["compressor/step" if name == "LocalUpdates" else "step"]), kept.tolist()

    (step, kept), (other_step, other_kept) = co.simulate(2, resume)
    assert step == other_step == 4
    assert kept != other_kept

    fresh = saved(method, steps=1)[1]  # of a rank that starts with the step alone
    assert len(fresh) >= len(NAMES)


HABITS: dict[str, tuple[Callable[[str], str], dict[str, Any]]] = {
    "DDP": (lambda name: f"module.{name}", {"prefix": "module."}),
    "torch.compile": (lambda name: f"_orig_mod.{name}", {"prefix": "_orig_mod."}),
    "both": (lambda name: f"module._orig_mod.{name}", {"prefix": "module._orig_mod."}),
    "a compiled part": (
        lambda name: name.replace("0.", "0._orig_mod."),
        {"names": lambda name: name.replace("_orig_mod.", "")},
    ),
    "the prefix is new": (
        lambda name: name.removeprefix("0."),
        {"names": {"weight": "0.weight", "bias": "0.bias"}},
    ),
    "renamed": (lambda name: name.replace("head", "classifier"), {"names": {"classifier": "head"}}),
}


@pytest.mark.parametrize("habit", HABITS)
@pytest.mark.parametrize("name", METHODS)
def test_other_names_are_told_with_the_remedy(name: str, habit: str) -> None:
    method, (rename, remedy) = METHODS[name], HABITS[habit]
    states = [wc.rename_state(state, rename) for state in saved(method)]
    wanted = [arrays_of(state) for state in saved(method)]

    def resume(comm: Communicator) -> bool:
        one = method.make(comm, gradients(0, 0))
        if name == "LocalUpdates":
            with pytest.raises(ValueError, match=r"wc.rename_state"):
                one.load_state_dict(states[comm.rank])
        else:
            one.load_state_dict(states[comm.rank])
            with pytest.warns(UserWarning, match=r"wc.rename_state.*strict=False"):
                method.step(one, comm, gradients(comm.rank, 3))
        back = wc.rename_state(states[comm.rank], **remedy)
        assert arrays_of(back) == wanted[comm.rank]
        one = method.make(comm, gradients(0, 0))
        one.load_state_dict(back)
        if name == "LocalUpdates":
            one.revert()
        method.step(one, comm, gradients(comm.rank, 3))  # a warning is an error here
        return True

    assert co.simulate(2, resume) == [True, True]


NUMBERS = {"step", "seed", "rank", "arrays"}
"""Keys that are not of tensors."""


@pytest.mark.parametrize("name", METHODS)
def test_without_strict_stale_arrays_leave_the_state(name: str) -> None:
    method = METHODS[name]
    states = [wc.rename_state(state, lambda x: x.replace("head", "old")) for state in saved(method)]

    def resume(comm: Communicator) -> set[str]:
        one = method.make(comm, gradients(0, 0))
        one.load_state_dict(states[comm.rank], strict=False)
        if name == "LocalUpdates":
            one.revert()
            one.synchronize()
        method.step(one, comm, gradients(comm.rank, 3))
        keys = [key for key in one.state_dict() if "/" in key and not key.startswith("bounds/")]
        return {key.rpartition("/")[2] for key in keys} - NUMBERS

    assert co.simulate(2, resume) == [{*NAMES, "schedule"} if name == "LocalUpdates" else set(NAMES)] * 2


@pytest.mark.parametrize("name", ["Compressor", "CLTk"])
def test_functions_that_know_all_names_raise(name: str) -> None:
    """``average_gradients`` and the hook have the names of all parameters, also of those that are frozen."""
    torch = pytest.importorskip("torch")
    method = METHODS[name]
    states = saved(method)

    def resume(comm: Communicator, rename: dict[str, str], frozen: bool) -> Any:
        named = {key: torch.nn.Parameter(torch.zeros(8), not (frozen and key == "head")) for key in NAMES}
        for p in named.values():
            p.grad = torch.ones(8) if p.requires_grad else None
        one = method.make(comm, {})
        one.load_state_dict(wc.rename_state(states[comm.rank], rename))
        co.average_gradients(comm, named.items(), one)
        return one.residual("head") is not None

    with pytest.raises(co.CollectiveError, match=r"ranks 0, 1: .*'old'; .*wc.rename_state"):
        co.simulate(2, lambda comm: resume(comm, {"head": "old"}, False))
    assert co.simulate(2, lambda comm: resume(comm, {}, True)) == [True, True]


@pytest.mark.parametrize("ranks", [1, 4])
@pytest.mark.parametrize("name", METHODS)
def test_training_resumes_with_more_or_fewer_ranks(name: str, ranks: int) -> None:
    """A rank loads its own file if there is one, and any other without its residuals."""
    method = METHODS[name]
    states = saved(method, ranks=2)

    def resume(comm: Communicator) -> bytes:
        one = method.make(comm, gradients(0, 0))
        has_own = comm.rank < len(states)
        one.load_state_dict(states[comm.rank if has_own else 0], strict=has_own)
        if name == "LocalUpdates":
            one.revert()
        means = method.step(one, comm, gradients(comm.rank, 3))
        return b"".join(means[key].tobytes() for key in NAMES)

    assert len(set(co.simulate(ranks, resume))) == 1


def test_an_array_that_cannot_be_read_is_named() -> None:
    torch = pytest.importorskip("torch")
    for name, method in METHODS.items():
        state = saved(method)[0]
        key = next(key for key in sorted(state) if "residual/" in key)
        broken = state | {key: torch.nn.Parameter(torch.zeros(8))}

        def load(comm: Communicator, method: Method = method, broken: Any = broken, key: str = key) -> None:
            with pytest.raises(ValueError, match=key.removeprefix("compressor/")):
                method.make(comm, gradients(0, 0)).load_state_dict(broken)

        co.simulate(1, load)
        assert name
