"""The outer step in place, and the digests by which ranks compare their states."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import collectives as co
import wirecodec as wc
from collectives.communicator import Communicator
from collectives.local_updates.outer import BLOCK_BYTES, CHECKED_STEPS, OuterSettings, OuterState
from collectives.local_updates.outer_step import OuterStep, check_step
from tests.oracles import Array

SHAPES = {"a": (3, 341), "b": (1024,), "c": (5, 5, 41), "empty": (0, 2), "scalar": ()}
SETTINGS = [(1.0, 0.0, False), (0.7, 0.0, False), (0.7, 0.9, False), (1.0, 0.3, True), (0.7, 0.9, True)]


def draw(seed: int, dtype: Any) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    return {name: np.asarray(rng.normal(size=shape), dtype) for name, shape in SHAPES.items()}


def reference(x: Array, m: Array | None, d: Array, settings: OuterSettings) -> tuple[Array, Array]:
    """Compute the step of one tensor by NumPy, as an optimizer without compiled code."""
    momentum = d if m is None else settings.momentum * m + d
    update = d if not settings.momentum else momentum
    update = d + settings.momentum * momentum if settings.nesterov else update
    return np.asarray(x - settings.rate * update), np.asarray(momentum)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("rate", "momentum", "nesterov"), SETTINGS)
def test_steps_have_the_bits_of_numpy(rate: float, momentum: float, nesterov: bool, dtype: str) -> None:
    settings = OuterSettings(1, rate, momentum, nesterov)
    state, expected = OuterState(0, draw(0, dtype)), draw(0, dtype)
    momenta: dict[str, Array] = {}
    for number in range(1, 4):
        means = draw(number, dtype)
        step = OuterStep(state, means, settings)
        assert [name for name, _ in step.values()] == list(SHAPES)
        state = step.after
        for name, d in means.items():
            expected[name], momenta[name] = reference(expected[name], momenta.get(name), d, settings)
            assert state.parameters[name].tobytes() == expected[name].tobytes()
            assert state.parameters[name].shape == SHAPES[name]
            if momentum:
                assert state.momenta[name].tobytes() == momenta[name].tobytes()
        assert state.round == number
        assert bool(state.momenta) == bool(momentum)


def test_an_interrupted_step_moves_each_tensor_once() -> None:
    settings = OuterSettings(1, 1.0, 0.5, nesterov=True)
    steps = [OuterStep(OuterState(0, draw(0, "f4")), draw(1, "f4"), settings) for _ in range(3)]
    for stop in range(len(SHAPES)):
        for number, _ in enumerate(steps[0].values()):
            if number == stop:
                break
    whole = dict(steps[1].values())
    for name, x in steps[0].values():
        assert x.tobytes() == whole[name].tobytes()
    next(iter(steps[2].values()))
    abandoned = steps[2].salvage()
    assert abandoned.round == 0
    assert abandoned.digest() == steps[1].after.digest()


def test_arrays_in_column_order_or_read_only_are_copied() -> None:
    columns = np.asfortranarray(np.arange(6, dtype="f4").reshape(2, 3))
    columns.flags.writeable = False
    step = OuterStep(
        OuterState(0, {"w": columns}), {"w": np.ones((2, 3), "f4")}, OuterSettings(1, 1, 0, False)
    )
    assert dict(step.values())["w"].tolist() == [[-1, 0, 1], [2, 3, 4]]
    assert columns[0, 0] == 0


def test_every_changed_block_is_found_once_per_turn() -> None:
    """Blocks are counted through all arrays, so that also a small tensor has its turn."""
    sizes = {
        "a": 70 * BLOCK_BYTES // 4 + 5,
        "b": 300 * BLOCK_BYTES // 4,
        "c": 3,
        "d": 0,
        "e": BLOCK_BYTES // 4,
    }
    parameters = {name: np.zeros(size, np.float32) for name, size in sizes.items()}
    rounds = range(CHECKED_STEPS)
    before = [OuterState(r, parameters).next_digest(every=1) for r in rounds]
    for x in parameters.values():
        for at in {0, x.size // 3, x.size - 1} & set(range(x.size)):
            x[at] = 1
            after = [OuterState(r, parameters).next_digest(every=1) for r in rounds]
            assert sum(a != b for a, b in zip(before, after, strict=True)) == 1
            assert OuterState(3, parameters).next_digest(every=CHECKED_STEPS) != before[3]
            x[at] = 0
    small = OuterState(5, {"w": np.ones(1000)})
    assert small.next_digest(every=1) == small.digest()


class Model:
    """Worker with a state of 2 MB, whose steps add whole numbers."""

    def __init__(self, comm: Communicator) -> None:
        self.w, self.rank = np.zeros(2**19, np.float32), comm.rank
        compressor = wc.Compressor("topk(0.01) | rice | raw")
        self.local = co.LocalUpdates(self, {"w": self.w}, compressor, comm, every=1)

    def step(self) -> None:
        self.w[:100] += 1 + self.rank


@pytest.mark.parametrize("changed", [False, True])
def test_a_loaded_state_is_compared_as_a_whole(changed: bool) -> None:
    """One element of another state is found at once; the same state is no error."""

    def train(comm: Communicator) -> int:
        model = Model(comm)
        for _ in range(3):
            model.local.step()
        if comm.rank == 1:
            state = model.local.state_dict()
            state["parameter/w"][-1] += changed
            model.local.load_state_dict(state)
        if changed:
            with pytest.raises(co.CollectiveError, match=r"rank 1: .*call synchronize\(\)"):
                model.local.step()
            assert model.local.synchronize() == (comm.rank == 1)
        model.local.step()
        model.local.step()
        return model.local.round

    assert co.simulate(2, train) == [5, 5]


def test_a_state_that_changes_by_itself_is_found_in_some_steps() -> None:
    def train(comm: Communicator) -> int:
        model = Model(comm)
        for _ in range(3):
            model.local.step()
        if comm.rank == 1:
            model.local._anchor.state.parameters["w"][2**18] += 1

        def take_steps() -> None:
            for _ in range(CHECKED_STEPS):
                model.local.step()

        with pytest.raises(co.CollectiveError, match="rank 1: parameters or rounds differ"):
            take_steps()
        return model.local.round

    rounds = co.simulate(2, train)
    assert rounds[0] == rounds[1]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rate", [0.5, 1000.0, 2000.0])
@pytest.mark.parametrize(("momentum", "nesterov"), [(0.0, False), (0.9, False), (0.9, True)])
def test_a_step_is_refused_exactly_if_it_is_not_finite(
    momentum: float, nesterov: bool, rate: float, dtype: Any
) -> None:
    """One element of the parameters, the momentum or the mean is near the end of the type's range."""
    settings = OuterSettings(1, rate, momentum, nesterov)
    largest = np.finfo(dtype).max
    values = [largest / 2**k for k in (0, 1, 2, 5, 9, 12, 14, 15, 16, 18, 20)]
    values += [values[0] * 0.99, np.inf, np.nan]
    seen = set()
    for value in values:
        for place, at in ((0, 0), (1, 20_000), (2, 16_384), (0, 16_383)):
            arrays = [np.full(20_001, 1e-3, dtype) for _ in range(3)]
            arrays[place][at] = -value if place == 2 else value
            x, mean, m = arrays
            state = OuterState(1, {"w": x}, {"w": m} if momentum else {})
            with np.errstate(all="ignore"):
                expected = reference(x.copy(), m.copy() if momentum else None, mean, settings)[0]
            before = [array.tobytes() for array in arrays]
            try:
                check_step(state, {"w": mean}, settings)
                accepted = True
            except co.CollectiveError as error:
                accepted = False
                seen.add(error.reason)
            assert before == [array.tobytes() for array in arrays]
            if np.isfinite(mean).all():
                assert accepted == np.isfinite(expected).all(), (value, place)
            else:
                assert not accepted
    assert seen == {"value"}
