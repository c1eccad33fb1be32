"""Arrays that share memory, where a call would write it twice, and arrays that only look as if they did."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

import collectives as co
import wirecodec as wc
from collectives.communicator import Communicator
from tests.collectives.torch.processes import run
from wirecodec.interop import describe_overlap

torch = pytest.importorskip("torch")


def flat(size: int = 24) -> Any:
    return torch.arange(float(size))


SHARED: dict[str, Callable[[Any], Mapping[str, Any]]] = {
    "the same memory": lambda x: {"a": x, "b": x.view(4, 6)},
    "an overlap of one element": lambda x: {"a": x[:10], "b": x[9:]},
    "inside, not next to it": lambda x: {"a": x[:20], "b": x[2:4], "c": x[5:7]},
    "every second and every third": lambda x: {"a": x[::2], "b": x[1::3]},
    "a transpose": lambda x: {"a": x.view(4, 6).T, "b": x},
    "a part of a column": lambda x: {"a": x.view(4, 6)[:, 1], "b": x.view(4, 6)[2, :3]},
    "expanded": lambda x: {"a": x[:1].expand(5), "b": x[2:]},
    "windows": lambda x: {"a": x.as_strided((4, 3), (2, 1)), "b": x[20:]},
    "other types": lambda x: {"a": x[4:], "b": x.view(torch.int32)[:5]},
}
SEPARATE: dict[str, Callable[[Any], Mapping[str, Any]]] = {
    "parts of a vector": lambda x: {"a": x[:10], "b": x[10:].view(2, 7)},
    "every second": lambda x: {"a": x[::2], "b": x[1::2]},
    "columns": lambda x: {str(k): x.view(4, 6)[:, k] for k in range(6)},
    "transposed blocks": lambda x: {"a": x.view(4, 6)[:, :3].T, "b": x.view(4, 6)[:, 3:].T},
    "nothing": lambda x: {"a": x, "b": x[5:5], "c": x[7:7]},
    "meta": lambda x: {"a": x.to("meta"), "b": x.to("meta")},
    "sparse": lambda x: {"a": x.to_sparse(), "b": x},
    "strides that do not nest": lambda x: {"a": x.as_strided((3, 2), (2, 3)), "b": x[20:]},
}


@pytest.mark.parametrize("name", SHARED)
def test_shared_memory_is_found_and_named(name: str) -> None:
    named = SHARED[name](flat())
    text = describe_overlap(named)
    assert text is not None
    assert ("share memory" in text) != ("several elements in one place" in text)
    assert "'a'" in text
    arrays = {key: x.numpy() for key, x in named.items()}
    assert describe_overlap(arrays) == text


@pytest.mark.parametrize("name", SEPARATE)
def test_memory_that_is_not_shared(name: str) -> None:
    assert describe_overlap(SEPARATE[name](flat())) is None


def test_random_strides_against_the_sets_of_their_bytes() -> None:
    rng = np.random.default_rng(5)
    found = {True: 0, False: 0}
    for _ in range(300):
        base = np.zeros(60, np.int16)
        views = {}
        for name in "ab":
            shape, steps = rng.integers(1, 4, 2), rng.integers(-4, 7, 2)
            reach = (shape - 1) * steps
            start = int(-reach[reach < 0].sum() + rng.integers(0, 20))
            part = base[start:]
            views[name] = np.lib.stride_tricks.as_strided(part, tuple(shape), tuple(2 * steps))
        places = {name: x.__array_interface__["data"][0] for name, x in views.items()}
        sets = {
            name: [places[name] + int(np.dot(index, x.strides)) for index in np.ndindex(*x.shape)]
            for name, x in views.items()
        }
        repeats = any(len(set(one)) < len(one) for one in sets.values())
        shared = repeats or bool(set(sets["a"]) & set(sets["b"]))
        assert (describe_overlap(views) is not None) == shared
        found[shared] += 1
    assert min(found.values()) > 30


class Pointer:
    """Array of a GPU, whose memory is not read here."""

    def __init__(self, address: int, shape: tuple[int, ...], strides: tuple[int, ...] | None) -> None:
        self.__cuda_array_interface__ = {
            "data": (address, False),
            "shape": shape,
            "strides": strides,
            "typestr": "<f4",
            "version": 3,
        }


def test_addresses_on_a_gpu() -> None:
    place = 0x7F0000000000
    assert describe_overlap({"a": Pointer(place, (8,), None), "b": Pointer(place + 32, (8,), None)}) is None
    even, odd = Pointer(place, (8,), (8,)), Pointer(place + 4, (8,), (8,))
    assert describe_overlap({"a": even, "b": odd}) is None
    shared = {"a": Pointer(place, (8,), None), "b": Pointer(place + 28, (8,), None)}
    assert describe_overlap(shared) == "'a' and 'b' share memory"


def parameters(kind: str, name: str) -> dict[str, Any]:
    named = {**SHARED, **SEPARATE}[name](flat())
    if kind == "numpy":
        return {key: x.numpy() for key, x in named.items()}
    return {key: torch.nn.Parameter(x) for key, x in named.items()}


DENSE = "all | raw-index | raw"


@pytest.mark.parametrize("ends", ["channel", "sites", "store"])
@pytest.mark.parametrize("kind", ["numpy", "torch"])
@pytest.mark.parametrize(
    "name", ["the same memory", "an overlap of one element", "a transpose", "every second and every third"]
)
def test_local_updates_refuse_shared_memory(name: str, kind: str, ends: str, tmp_path: Any) -> None:
    """Each movement would count twice, and the second one would be a movement of nothing."""

    def make(comm: Communicator) -> None:
        alone = co.simulate(1, lambda alone: alone)[0]
        where: Any = comm
        if ends == "sites":
            where = co.Sites(alone, comm)
        elif ends == "store":
            where = co.StoreComm(str(tmp_path), "run", f"peer-{comm.rank}", quorum=2)
        with pytest.raises(ValueError, match="parameter 'a' and parameter 'b' share memory"):
            co.LocalUpdates(None, parameters(kind, name), wc.Compressor(DENSE), where, every=1)

    co.simulate(2, make)


@pytest.mark.parametrize("kind", ["numpy", "torch"])
@pytest.mark.parametrize("name", ["parts of a vector", "every second", "transposed blocks", "nothing"])
def test_local_updates_of_separate_views(name: str, kind: str) -> None:
    def train(comm: Communicator) -> list[Any]:
        named = parameters(kind, name)
        local = co.LocalUpdates(None, named, wc.Compressor(DENSE), comm, every=1)
        for p in named.values():
            values = p.data if kind == "torch" else p
            values += comm.rank + 1
        local.step()
        return [p.tolist() for p in named.values()]

    expected = [(x + 1.5).tolist() for x in SEPARATE[name](flat()).values()]
    assert co.simulate(2, train) == [expected, expected]


def test_local_updates_refuse_expanded_parameters() -> None:
    named = {"w": torch.zeros(1, requires_grad=True).expand(4)}
    comm = co.simulate(1, lambda comm: comm)[0]
    with pytest.raises(ValueError, match="parameter 'w' has several elements in one place of memory"):
        co.LocalUpdates(None, named, wc.Compressor(DENSE), comm, every=1)


GRADIENTS: dict[str, Callable[[Any], Mapping[str, Any]]] = {
    "contiguous": lambda x: {"a": x[:10], "b": x[5:15]},
    "one object": lambda x: {"a": x[:10], "b": x[:10]},
    "transposed": lambda x: {"a": x.view(4, 6).T, "b": x.view(4, 6)},
    "strided": lambda x: {"a": x[::2], "b": x[2::3]},
    "expanded": lambda x: {"a": x[:1].expand(5), "b": x[2:7]},
}


@pytest.mark.parametrize("on_one_rank", [False, True])
@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_that_share_memory_are_an_error_of_all_ranks(name: str, on_one_rank: bool) -> None:
    def work(comm: Communicator) -> str:
        gradients = GRADIENTS[name](flat())
        named = {key: torch.nn.Parameter(torch.zeros(x.shape)) for key, x in gradients.items()}
        for key, p in named.items():
            p.grad = gradients[key].clone() if on_one_rank and comm.rank else gradients[key]
        compressor = wc.Compressor("topk(0.5) | rice | raw")
        with pytest.raises(co.CollectiveError, match=r"share memory|several elements in one place") as caught:
            co.average_gradients(comm, named.items(), compressor)
        assert compressor.residual("a") is None
        return str(caught.value)

    assert len(set(co.simulate(2, work))) == 1


VECTOR = """
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.Linear(5, 3))
vector = torch.nn.utils.parameters_to_vector(model.parameters()).detach().clone()
torch.nn.utils.vector_to_parameters(vector, model.parameters())
ddp = DDP(model, gradient_as_bucket_view=True)
ddp.register_comm_hook(None, co.torch_hook(wc.Compressor(), comm, model.named_parameters()))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
local = co.LocalUpdates(optimizer, model.named_parameters(), wc.Compressor(), comm, every=2)
for step in range(4):
    model.zero_grad()
    ddp(torch.ones(2, 6) * (rank + 1)).sum().backward()
    co.average_gradients(comm, model.named_parameters(), wc.Compressor())
    local.step()
print(json.dumps(vector.tolist()))
"""


def test_views_of_one_storage_that_torch_makes_are_taken() -> None:
    """Parameters are parts of one vector, and gradients parts of DDP's buckets."""
    first, second = run(2, VECTOR)
    assert first == second
