"""CLT-k of gradients on a GPU: results, residuals and states equal the host's, and few bytes leave the GPU.

The GPU is a stand-in whose kernels run in an emulator.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import collectives as co
import wirecodec as wc
from collectives.simulation.communicator import SimulatedComm
from tests.collectives.inputs import bits, gradient
from tests.gpu_emulated.standin import OnGPU, StandInDevice, marked, standin
from tests.oracles import Array
from wirecodec.element_types import BFLOAT16
from wirecodec.kernels.cuda.topk import Search

__all__ = ["standin"]

RANKS = [1, 2, 3, 5]
SHAPES: dict[str, tuple[int, ...]] = {"conv": (30, 40), "bias": (7,), "norm": (0,), "scalar": ()}
RATIOS = {"bias": 1.0, "*": 0.1}


def make(beta: float, **settings: Any) -> co.CLTk:
    return co.CLTk(RATIOS, feedback=wc.ErrorFeedback(beta), **settings)


Places = Callable[[int, int], bool]
"""Whether a rank's gradients of a step lie on the GPU: (rank, step)."""


def here(rank: int, step: int) -> bool:
    return False


def there(rank: int, step: int) -> bool:
    return True


def either(rank: int, step: int) -> bool:
    """Alternate between host and GPU, differently on each rank."""
    return (rank + step // 2) % 2 == 0


def placed(x: Array, on_gpu: bool) -> Array:
    """Copy an array to the host or the GPU."""
    return marked(x.copy()) if on_gpu else x.copy()


def plain(x: Any, on_gpu: bool = True) -> bytes:
    """Return the bits of a result, and check its device."""
    assert isinstance(x, OnGPU) == on_gpu
    return bits(np.asarray(x.view(np.ndarray)))


def state_of(cltk: co.CLTk) -> dict[str, bytes]:
    """Return the saved state, which must be on the host."""
    return {key: plain(x, False) for key, x in cltk.state_dict().items()}


def train(comm: SimulatedComm, cltk: co.CLTk, places: Places, steps: range, dtype: Any) -> list[object]:
    """Return the means and the state of each step; gradients are overwritten after a step."""
    found: list[object] = []
    for step in steps:
        on_gpu = places(comm.rank, step)
        grads = {
            name: placed(gradient(100 * step + 10 * comm.rank + i, shape, dtype), on_gpu)
            for i, (name, shape) in enumerate(SHAPES.items())
        }
        means = cltk.allreduce(comm, grads)
        for x in grads.values():
            x[...] = np.nan
        found.append({name: plain(x, on_gpu) for name, x in means.items()})
        found.append(state_of(cltk))
        for name in SHAPES:
            left: Any = cltk.residual(name)
            assert isinstance(left, OnGPU) == on_gpu
    return found


@pytest.mark.sampled
@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("beta", [1.0, 0.3])
def test_every_type_through_all_leaders(standin: StandInDevice, ranks: int, beta: float, dtype: Any) -> None:
    """Named tensors with several ratios are equal after a warm-up."""

    def run(places: Places) -> list[list[object]]:
        steps = range(2 * ranks + 2 if ranks < 3 else ranks + 2)
        return co.simulate(
            ranks,
            lambda comm: train(comm, make(beta, schedule=wc.WarmUp(1, hold=True)), places, steps, dtype),
        )

    assert run(there) == run(here)


@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize("beta", [1.0, 0.3])
@pytest.mark.parametrize("kind", ["float32", "float16"])
def test_ranks_here_and_there(standin: StandInDevice, ranks: int, beta: float, kind: str) -> None:
    def run(places: Places) -> list[list[object]]:
        return co.simulate(ranks, lambda comm: train(comm, make(beta), places, range(6), kind))

    assert run(either) == run(here)


def test_groups(standin: StandInDevice) -> None:
    """One selection from all tensors of a key, on the host, on GPUs, or on both."""

    def run(places: Places) -> list[list[object]]:
        return co.simulate(
            2, lambda comm: train(comm, co.CLTk(RATIOS, scope="group"), places, range(4), "float32")
        )

    assert run(there) == run(either) == run(here)


@pytest.mark.parametrize(("saved", "restored"), [(here, there), (there, here), (there, there)])
def test_a_state_goes_anywhere(standin: StandInDevice, saved: Places, restored: Places) -> None:
    def run(first: Places, second: Places) -> list[list[object]]:
        def both(comm: SimulatedComm) -> list[object]:
            one, other = make(0.5), make(0.5)
            before = train(comm, one, first, range(3), "float32")
            other.load_state_dict(one.state_dict())
            return before + train(comm, other, second, range(3, 6), "float32")

        return co.simulate(2, both)

    assert run(saved, restored) == run(here, here)


@pytest.mark.parametrize("kind", ["float16", "float32", "float64"])
@pytest.mark.parametrize("wide", [np.float32, np.float64])
@pytest.mark.parametrize("beta", [1.0, 0.7])
def test_sums_near_the_end_of_the_range(standin: StandInDevice, kind: str, wide: Any, beta: float) -> None:
    """Values beyond the range of the gradient's type stay in the residual."""
    size = 600
    most = float(np.finfo(kind).max)

    def run(on_gpu: bool) -> list[list[bytes]]:
        def both(comm: SimulatedComm) -> list[bytes]:
            cltk = co.CLTk(0.2, feedback=wc.ErrorFeedback(beta))
            with np.errstate(all="ignore"):
                residual = gradient(9, size, np.float64)
                residual[::5] = min(most, float(np.finfo(wide).max)) * 0.9
                cltk.load_state_dict({"step": 0, "residual/0": residual.astype(wide)})
                found = []
                for step in range(3):
                    x = gradient(10 * step + comm.rank, size, kind)
                    x[::10] = most
                    mean: Any = cltk.allreduce(comm, placed(x, on_gpu))
                    found += [plain(mean, on_gpu), *state_of(cltk).values()]
            return found

        return co.simulate(2, both)

    assert run(True) == run(False)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_failed_step_changes_nothing(standin: StandInDevice, bad: float) -> None:
    """NaN on one rank raises the host's error on all ranks; the residuals do not change or move."""
    odd = 2

    def run(on_gpu: bool) -> list[tuple[str, bytes]]:
        def check(comm: SimulatedComm) -> tuple[str, bytes]:
            cltk = co.CLTk(0.1)
            cltk.allreduce(comm, {"w": placed(gradient(comm.rank), on_gpu)})
            before = state_of(cltk)
            wrong = gradient(comm.rank + 1)
            if comm.rank == odd:
                wrong[17] = bad
            with pytest.raises(co.CollectiveError) as info:
                cltk.allreduce(comm, {"w": placed(wrong, on_gpu)})
            assert (info.value.ranks, info.value.reason) == ((odd,), "value")
            assert state_of(cltk) == before
            mean: Any = cltk.allreduce(comm, {"w": placed(gradient(comm.rank + 2), on_gpu)})["w"]
            assert cltk.step == 2
            return str(info.value), plain(mean, on_gpu)

        return co.simulate(3, check)

    found = run(True)
    assert found == run(False)
    assert "at element 17" in found[0][0]


def test_a_residual_of_another_size(standin: StandInDevice) -> None:
    def run(on_gpu: bool) -> list[str]:
        def check(comm: SimulatedComm) -> str:
            cltk = co.CLTk(0.1)
            cltk.allreduce(comm, {"w": placed(gradient(comm.rank, 300), on_gpu)})
            with pytest.raises(co.CollectiveError) as info:
                cltk.allreduce(comm, {"w": placed(gradient(comm.rank, 400), on_gpu)})
            assert cltk.step == 1
            return str(info.value)

        return co.simulate(2, check)

    assert run(True) == run(False)


@pytest.mark.parametrize("kind", ["float32", "float16"])
@pytest.mark.parametrize("beta", [1.0, 0.3])
def test_what_leaves(standin: StandInDevice, kind: str, beta: float) -> None:
    """The leader's indices leave with 4 bytes each, all values in the gradient's type, and a few counts."""
    size, ranks, steps = 40_000, 3, 4
    k = size // 100

    def run(comm: SimulatedComm) -> None:
        cltk = co.CLTk(0.01, feedback=wc.ErrorFeedback(beta))
        for step in range(steps):
            cltk.allreduce(comm, marked(gradient(10 * step + comm.rank, size, kind)))

    standin.asked.clear()
    standin.fetched.clear()
    co.simulate(ranks, run)
    assert standin.asked[0] == "device"
    payload = steps * (4 * k + ranks * k * np.dtype(kind).itemsize)
    assert payload <= sum(standin.fetched) <= payload + 32 * steps * ranks
    assert max(standin.fetched) <= 4 * k


def test_what_leaves_where_all_is_sent(standin: StandInDevice) -> None:
    """In a warm-up and with ratio 1, the values leave once."""
    size = 5000

    def run(comm: SimulatedComm) -> None:
        co.CLTk(0.01, schedule=wc.WarmUp(1, hold=True)).allreduce(comm, marked(gradient(comm.rank, size)))
        co.CLTk(1.0).allreduce(comm, marked(gradient(comm.rank, size)))

    standin.fetched.clear()
    co.simulate(2, run)
    assert 16 * size <= sum(standin.fetched) <= 16 * size + 64


def test_a_leader_begins_at_its_last_threshold(
    standin: StandInDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    searches: list[str] = []
    for way in ("cold", "warm"):
        whole = getattr(Search, way)

        def noted(self: Search, *given: Any, whole: Any = whole, way: str = way) -> Any:
            searches.append(way)
            return whole(self, *given)

        monkeypatch.setattr(Search, way, noted)

    def run(comm: SimulatedComm) -> None:
        cltk = co.CLTk(0.1)
        for step in range(6):
            cltk.allreduce(comm, marked(gradient(10 * step + comm.rank)))

    co.simulate(2, run)
    assert sorted(searches) == ["cold"] * 2 + ["warm"] * 4


def test_tensors_on_both_sides(standin: StandInDevice) -> None:
    """Tensors on the GPU are copied to the host, and their results back."""

    def run(comm: SimulatedComm) -> bool:
        x, y = gradient(comm.rank, 400), gradient(comm.rank + 5, 300)
        want = co.CLTk(0.1).allreduce(comm, {"x": x, "y": y})
        found: Any = co.CLTk(0.1).allreduce(comm, {"x": marked(x.copy()), "y": y})
        return (plain(found["x"]), plain(found["y"], False)) == (bits(want["x"]), bits(want["y"]))

    assert co.simulate(2, run) == [True] * 2


def test_similarity_of_residuals_on_the_device(standin: StandInDevice) -> None:
    def run(comm: SimulatedComm) -> bool:
        found = []
        for on_gpu in (False, True):
            cltk = co.CLTk(0.1)
            cltk.allreduce(comm, placed(gradient(comm.rank), on_gpu))
            found.append(co.similarity(comm, cltk, placed(gradient(comm.rank + 4), on_gpu)))
        return found[0] == found[1]

    assert co.simulate(3, run) == [True] * 3


def test_bfloat16_comes_back_as_words(standin: StandInDevice) -> None:
    """Results are raw bits, because CuPy has no bfloat16."""
    from wirecodec.interop import accumulate_on_gpu
    from wirecodec.select.topk import TopK
    from wirecodec.settings.feedback import ErrorFeedback

    x = gradient(1, 500, BFLOAT16)
    total = accumulate_on_gpu(ErrorFeedback(), marked(x), None, {}, "w")
    assert total is not None
    selected = total.select(total.top(TopK(k=20)))
    assert selected.values.dtype == BFLOAT16
    assert selected.scatter(selected.values).dtype == np.uint16
