"""Results in memory of the caller: the same bits, no other memory, and errors that all ranks hear of."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import collectives as co
import wirecodec as wc
from collectives.communicator import Communicator
from tests.collectives.conftest import World, worlds
from tests.collectives.inputs import bits, gradient
from tests.collectives.operations import CORRUPTS, Odd
from tests.gpu_emulated.standin import StandInDevice, marked, standin
from tests.oracles import Array

__all__ = ["standin"]

ALGORITHMS = ["allgather", "dense", "split-pairs", "split-bitmap", "split-dense", "auto"]
SCHEME = "topk(0.1) | rice | qsgd(bits=4)"


@pytest.fixture(params=worlds((1, 3), (3,)))
def world(request: pytest.FixtureRequest) -> World:
    """Provide one rank or three."""
    found: World = request.param
    return found


def model(rank: int, step: int = 0) -> dict[str, Array]:
    """Make gradients of several types, two of one."""
    seed = rank + 50 * step
    return {
        "w": gradient(seed, (20, 30)),
        "v": gradient(seed + 7, (41,)),
        "h": gradient(seed + 9, 90, "float16"),
        "d": gradient(seed + 11, (5, 6), "float64"),
    }


def all_bits(arrays: dict[str, Any]) -> dict[str, bytes]:
    return {name: bits(x) for name, x in sorted(arrays.items())}


def reducers() -> list[Any]:
    """Return functions that make a step: (comm, grads, out) -> means."""

    def compressed(algorithm: str) -> Callable[[], Any]:
        def make() -> Any:
            compressor = wc.Compressor({"v": "all | raw-index | raw", "*": SCHEME})
            return compressor, lambda comm, x, **out: co.allreduce(
                comm, x, compressor, algorithm=algorithm, **out
            )

        return make

    def cltk(**settings: Any) -> Callable[[], Any]:
        def make() -> Any:
            one = co.CLTk({"v": 1, "*": 0.1}, **settings)
            return one, one.allreduce

        return make

    def owned() -> Any:
        one = co.OkTopK({"v": "all | raw-index | raw", "*": SCHEME})
        return one, one.allreduce

    named = {algorithm: compressed(algorithm) for algorithm in ALGORITHMS}
    named["OkTopK"] = owned
    named |= {
        "CLTk": cltk(),
        "CLTk beta": cltk(feedback=wc.ErrorFeedback(0.3)),
        "CLTk warmup": cltk(schedule=wc.WarmUp(2, hold=True)),
    }
    return [pytest.param(make, id=name) for name, make in named.items()]


@pytest.mark.parametrize("make", reducers())
@pytest.mark.parametrize("in_place", [False, True], ids=["apart", "in place"])
def test_bits_and_residuals_are_those_of_new_arrays(world: World, make: Any, in_place: bool) -> None:
    def train(comm: Communicator) -> bool:
        plain, step = make()
        other, step_into = make()
        for number in range(4):
            grads = model(comm.rank, number)
            want = all_bits(step(comm, {name: x.copy() for name, x in grads.items()}))
            out = grads if in_place else {name: np.full_like(x, 7) for name, x in grads.items()}
            before = {name: x.copy() for name, x in grads.items()}
            got = step_into(comm, grads, out=out)
            assert all(got[name] is x for name, x in out.items())
            assert all_bits(got) == want
            assert in_place or all_bits(grads) == all_bits(before)
        return all_bits(plain.state_dict()) == all_bits(other.state_dict())

    assert all(world.run(train))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_one_tensor_and_every_type(algorithm: str, dtype: np.dtype[Any]) -> None:
    def both(comm: Communicator) -> bool:
        x = gradient(comm.rank, (30, 40), dtype)
        want = bits(co.allreduce(comm, x, SCHEME, algorithm=algorithm))
        out = np.empty_like(x)
        assert co.allreduce(comm, x, SCHEME, algorithm=algorithm, out=out) is out
        assert co.allreduce(comm, x, SCHEME, algorithm=algorithm, out=x) is x
        return bits(out) == bits(x) == want

    assert all(co.simulate(3, both))


def test_more_ranks_than_containers_that_are_decoded_at_once() -> None:
    def both(comm: Communicator) -> bool:
        x = gradient(comm.rank, 300)
        want = bits(co.allreduce(comm, x, SCHEME, algorithm="allgather"))
        return bits(co.allreduce(comm, x, SCHEME, algorithm="allgather", out=x)) == want

    assert all(co.simulate(18, both))


def read_only(x: Array) -> Array:
    x.flags.writeable = False
    return x


BAD: dict[str, tuple[Callable[[Array, Array], Any], str]] = {
    "another shape": (lambda a, b: {"a": a[:9], "b": b}, r"out\['a'\]: the shape is \(9,\); the tensor has"),
    "another dtype": (lambda a, b: {"a": a.astype("f8"), "b": b}, "dtype is float64; the tensor has float32"),
    "no element type": (lambda a, b: {"a": a.astype("i4"), "b": b}, "dtype int32 is not carried"),
    "byte order": (lambda a, b: {"a": a.astype(">f4"), "b": b}, "byte order"),
    "read-only": (lambda a, b: {"a": read_only(a), "b": b}, "read-only"),
    "strides": (lambda a, b: {"a": np.empty(2000, "f4")[::2], "b": b}, "not C-contiguous"),
    "overlap": (lambda a, b: {"a": a, "b": a}, "share memory"),
    "a name is missing": (lambda a, b: {"a": a}, "no array for 'b'"),
    "an unknown name": (lambda a, b: {"a": a, "b": b, "c": a}, "no tensor is called 'c'"),
    "one array": (lambda a, b: a, "named tensors need a mapping"),
    "a list": (lambda a, b: {"a": list(a), "b": b}, "list is not an array"),
}


@pytest.mark.parametrize("reason", BAD)
def test_a_bad_out_of_one_rank_is_the_error_of_all(reason: str) -> None:
    make, message = BAD[reason]

    def step(comm: Communicator, reduce: Any, rank: int) -> tuple[str, bool]:
        arrays = [np.full(1000, 5, np.float32) for _ in "ab"]
        grads = {"a": gradient(comm.rank), "b": gradient(comm.rank + 9)}
        out = make(*arrays) if comm.rank == rank else dict(zip("ab", arrays, strict=True))
        with pytest.raises(co.CollectiveError, match=message) as info:
            reduce(comm, grads, out=out)
        assert info.value.reason == "argument"
        assert info.value.ranks == (rank,)
        return str(info.value), all((x == 5).all() for x in arrays)

    def both(comm: Communicator) -> list[tuple[str, bool]]:
        compressor, cltk = wc.Compressor(SCHEME), co.CLTk(0.1)
        found = [
            step(comm, lambda c, x, out: co.allreduce(c, x, compressor, out=out), 1),
            step(comm, cltk.allreduce, 2),
        ]
        assert (compressor.step, cltk.step) == (0, 0)
        co.allreduce(comm, gradient(comm.rank), out=gradient(0))  # the communicator is usable
        return found

    results = co.simulate(3, both)
    assert results == [results[0]] * 3
    assert all(unchanged for _, unchanged in results[0])


def test_a_bad_out_leaves_the_others_unchanged(several: World) -> None:
    """Under MPI, ranks also rehearse the call, which must not write to ``out``."""

    def step(comm: Communicator) -> bool:
        x = gradient(comm.rank)
        before = bits(x)
        with pytest.raises(co.CollectiveError) as info:
            co.allreduce(comm, x, SCHEME, algorithm="allgather", out=x[::2] if comm.rank == 1 else x)
        return bits(x) == before and info.value.ranks == (1,)

    assert all(several.run(step))


def test_a_whole_gradient_is_averaged_in_place(several: World) -> None:
    """CLT-k sends views of the gradients that the means replace."""

    def both(comm: Communicator) -> bool:
        x = gradient(comm.rank, 150_000)
        want = bits(co.CLTk(1).allreduce(comm, x))
        return bits(co.CLTk(1).allreduce(comm, x, out=x)) == want

    assert all(several.run(both))


@pytest.mark.usefixtures("own_registry")
@pytest.mark.parametrize("ranks", [3, 18])
@pytest.mark.parametrize("algorithm", ["allgather", "dense", "split-pairs"])
def test_out_is_unchanged_if_a_container_cannot_be_decoded(ranks: int, algorithm: str) -> None:
    wc.register(Odd)

    def fail(comm: Communicator) -> bool:
        x = gradient(comm.rank)
        if comm.rank == comm.size - 1:
            x[4] = CORRUPTS
        before = bits(x)
        with pytest.raises(co.CollectiveError, match="cannot be decoded"):
            co.allreduce(comm, x, "threshold(0.5) | rice | odd", algorithm=algorithm, out=x)
        return bits(x) == before

    assert all(co.simulate(ranks, fail))


@pytest.mark.parametrize("algorithm", ["allgather", "dense", "CLTk"])
def test_nan_is_propagated_into_out(algorithm: str) -> None:
    def step(comm: Communicator) -> bool:
        x = {"w": gradient(comm.rank)}
        if comm.rank == 1:
            x["w"][3] = np.inf
        compressor, cltk = wc.Compressor(SCHEME), co.CLTk(0.1)
        if algorithm == "CLTk":
            cltk.allreduce(comm, x, nonfinite="propagate", out=x)
        else:
            co.allreduce(comm, x, compressor, algorithm=algorithm, nonfinite="propagate", out=x)
        return bool(np.isnan(x["w"]).all()) and compressor.step == cltk.step == 0

    assert all(co.simulate(3, step))


def test_no_array_of_the_tensors_size_is_allocated() -> None:
    x = gradient(0, 2_000_000)
    out = np.empty_like(x)

    def peak(target: Array | None) -> int:
        def step(comm: Communicator) -> None:
            co.allreduce(comm, x, "topk(0.001) | rice | raw", algorithm="allgather", out=target)

        co.simulate(1, step)
        tracemalloc.start()
        co.simulate(1, step)
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    assert peak(None) > x.nbytes
    assert peak(out) < x.nbytes / 2


def test_torch_gradients_that_are_views_of_a_bucket() -> None:
    torch = pytest.importorskip("torch")

    def step(comm: Communicator) -> bool:
        rng = np.random.default_rng(comm.rank)
        same = True
        for dtype in (torch.float32, torch.bfloat16, torch.float16):
            bucket = torch.from_numpy(rng.standard_normal(1000).astype("f4")).to(dtype)
            grads = {"w": bucket[:600].view(20, 30), "b": bucket[600:]}
            want = co.allreduce(comm, grads, SCHEME)
            means = co.allreduce(comm, grads, SCHEME, out=grads)
            got = {name: x.float().numpy() for name, x in grads.items()}
            same &= all(means[name] is grads[name] for name in grads)
            same &= all(np.array_equal(got[name], want[name].astype("f4")) for name in grads)
        with pytest.raises(co.CollectiveError, match="not C-contiguous"):
            co.allreduce(comm, bucket, out=torch.empty(2000, dtype=dtype)[::2])
        return same

    assert all(co.simulate(2, step))


def test_results_on_a_gpu_are_copied_there(standin: StandInDevice) -> None:
    def step(comm: Communicator) -> bool:
        x = gradient(comm.rank, (20, 30))
        cltk, plain = co.CLTk(0.1), co.CLTk(0.1)
        same = True
        for algorithm in ("allgather", "dense"):
            there = marked(x.copy())
            want = bits(co.allreduce(comm, x, SCHEME, algorithm=algorithm))
            assert co.allreduce(comm, there, SCHEME, algorithm=algorithm, out=there) is there
            same &= bits(there.view(np.ndarray)) == want
        there = marked(x.copy())
        want = bits(plain.allreduce(comm, x))
        same &= bits(cltk.allreduce(comm, there, out=there).view(np.ndarray)) == want
        with pytest.raises(co.CollectiveError, match="on a GPU and the tensor on the host"):
            co.allreduce(comm, x, out=there)
        with pytest.raises(co.CollectiveError, match="on a GPU and the array on the host"):
            co.allreduce(comm, there, out=x)
        return same

    assert all(co.simulate(2, step))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_no_tensors(algorithm: str) -> None:
    def work(comm: Any) -> Any:
        return co.allreduce(comm, {}, SCHEME, algorithm=algorithm, out={})

    assert co.simulate(2, work) == [{}, {}]
