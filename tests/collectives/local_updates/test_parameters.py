"""Parameters of LocalUpdates: 0-d ones, ones that are unfrozen later, and errors while they are written."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import collectives as co
import wirecodec as wc
from collectives.communicator import Communicator
from collectives.local_updates.anchor import Anchor
from tests.collectives.store.peers import make_comm, run_each
from tests.oracles import Array
from tests.wirecodec.test_foreign_arrays import UNREADABLE

LOSSLESS = "all | raw-index | raw"
SETTINGS: dict[str, dict[str, Any]] = {
    "plain": {},
    "momentum": {"momentum": 0.5},
    "nesterov": {"momentum": 0.5, "nesterov": True, "rate": 0.5},
}


def make_parameters(kind: str) -> dict[str, Any]:
    """Return a 0-d parameter beside an equal one of one element."""
    if kind == "numpy":
        return {"scale": np.array(1.0, np.float32), "w": np.ones(1, np.float32)}
    torch = pytest.importorskip("torch")
    dtype = getattr(torch, kind)
    return {
        "scale": torch.nn.Parameter(torch.tensor(1.0, dtype=dtype)),
        "w": torch.nn.Parameter(torch.ones(1, dtype=dtype)),
    }


def as_numbers(named: dict[str, Any]) -> list[float]:
    return [float((p.detach() if hasattr(p, "detach") else p).reshape(())) for p in named.values()]


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("kind", ["numpy", "float32", "bfloat16", "float64"])
@pytest.mark.parametrize("method", ["compressor", "clt-k", "ok-topk"])
def test_0_d_parameters_have_the_values_of_1_d_ones(method: str, kind: str, settings: str) -> None:
    """Also after a checkpoint, as arrays or as tensors."""

    def make(comm: Communicator, named: dict[str, Any]) -> co.LocalUpdates:
        methods: dict[str, Any] = {
            "compressor": wc.Compressor,
            "clt-k": lambda _: co.CLTk(1.0),
            "ok-topk": co.OkTopK,
        }
        compressor = methods[method](LOSSLESS)
        return co.LocalUpdates(None, named, compressor, comm, every=1, **SETTINGS[settings])

    def train(comm: Communicator) -> list[float]:
        named = make_parameters(kind)
        local = make(comm, named)
        for step in range(4):
            for name in named:
                data = named[name].data if kind != "numpy" else named[name]
                data += 1 + comm.rank + step
            assert local.step()
            if step == 1:
                state: Any = local.state_dict()
                assert all(isinstance(x, np.ndarray) for x in state.values())
                local = make(comm, named)
                local.load_state_dict(state if kind == "numpy" else co.torch_state_dict(_Saved(state)))
        assert local.round == 4
        scale, w = as_numbers(named)
        assert scale == w != 1
        return [scale, w]

    results = co.simulate(2, train)
    assert results[0] == results[1]


class _Saved:
    """Object whose state is given."""

    def __init__(self, state: dict[str, Any]) -> None:
        self.state = state

    def state_dict(self) -> dict[str, Any]:
        return self.state


class Model:
    """Two layers, of which the body is frozen at first, and an optimizer that adds 1 + rank to both."""

    def __init__(self, rank: int) -> None:
        torch = pytest.importorskip("torch")
        self.body = torch.nn.Parameter(torch.zeros(4), requires_grad=False)
        self.head = torch.nn.Parameter(torch.zeros(4))
        self.rank = rank

    def named(self) -> list[tuple[str, Any]]:
        return [("body", self.body), ("head", self.head)]

    def step(self) -> None:
        for p in (self.body, self.head):
            if p.requires_grad:
                p.data += 1 + self.rank

    def values(self) -> list[float]:
        return [float(p.detach()[0]) for p in (self.body, self.head)]


@pytest.mark.parametrize("momentum", [0.0, 0.5])
@pytest.mark.parametrize("owner", ["LocalUpdates", "the program"])
def test_an_unfrozen_parameter_is_exchanged(owner: str, momentum: float) -> None:
    def train(comm: Communicator) -> list[float]:
        model = Model(comm.rank)
        optimizer = model if owner == "LocalUpdates" else None
        compressor = wc.Compressor(LOSSLESS)
        local = co.LocalUpdates(optimizer, model.named(), compressor, comm, every=2, momentum=momentum)

        def step() -> None:
            if optimizer is None:
                model.step()
            local.step()

        step()
        step()
        assert model.values() == [0, 3]
        model.body.requires_grad_(True)
        if optimizer is None:
            assert local.admit() == ["body"]
        step()
        step()
        values = model.values()
        assert values == [3, 3 + 3 + momentum * 3]
        assert local.admit() == []
        return values

    results = co.simulate(2, train)
    assert results[0] == results[1]


def test_an_unfrozen_parameter_that_was_not_admitted_is_an_error_on_all_ranks() -> None:
    def train(comm: Communicator) -> str:
        model = Model(comm.rank)
        local = co.LocalUpdates(None, model.named(), wc.Compressor(LOSSLESS), comm, every=1)
        if comm.rank == 1:
            model.body.requires_grad_(True)
        model.step()
        with pytest.raises(co.CollectiveError, match=r"rank 1: .*'body' needs a gradient.*admit\(\)"):
            local.step()
        if comm.rank == 1:
            local.admit()
        with pytest.raises(co.CollectiveError, match="rank 1: names, shapes or types") as info:
            local.step()
        return info.value.reason

    assert co.simulate(2, train) == ["shape", "shape"]


def test_a_state_without_the_unfrozen_parameter_loads() -> None:
    def train(comm: Communicator) -> list[float]:
        model = Model(comm.rank)
        local = co.LocalUpdates(model, model.named(), wc.Compressor(LOSSLESS), comm, every=1, momentum=0.5)
        local.step()
        state = local.state_dict()
        model.body.requires_grad_(True)
        local = co.LocalUpdates(model, model.named(), wc.Compressor(LOSSLESS), comm, every=1, momentum=0.5)
        with pytest.raises(ValueError, match=r"'body' is missing; .*strict=False"):
            local.load_state_dict(state)
        local.load_state_dict(state, strict=False)
        local.step()
        assert local.round == 2
        return model.values()

    results = co.simulate(2, train)
    assert results[0] == results[1] == [1.5, 1.5 + 1.5 + 0.75]


def test_an_error_while_parameters_are_written_is_mended_by_synchronize() -> None:
    """The other rank has taken the step. This one keeps its round, so the next exchange is an error."""

    def train(comm: Communicator) -> tuple[list[int], Array]:
        w, scale = np.zeros(3), np.array(0.0)
        local = co.LocalUpdates(None, {"scale": scale, "w": w}, wc.Compressor(LOSSLESS), comm, every=1)
        rounds = []
        w += 1 + comm.rank
        if comm.rank == 1:
            w.flags.writeable = False
            with pytest.raises(ValueError, match="read-only"):
                local.step()
            w.flags.writeable = True
        else:
            local.step()
        rounds.append(local.round)
        with pytest.raises(co.CollectiveError, match=r"rank 1: .*call synchronize\(\)"):
            local.step()
        assert local.synchronize() == (comm.rank == 1)
        w += 2
        local.step()
        rounds.append(local.round)
        return rounds, w

    (rounds, w), (other_rounds, other_w) = co.simulate(2, train)
    assert rounds == [1, 2]
    assert other_rounds == [0, 2]
    np.testing.assert_array_equal(w, np.full(3, 3.5))
    np.testing.assert_array_equal(other_w, w)


def test_an_interrupt_while_parameters_are_written_is_completed_by_the_next_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    writer: Any = sys.modules[Anchor.__module__]
    real = writer.write_all

    def train(comm: Communicator) -> Array:
        w = np.zeros(3)
        local = co.LocalUpdates(
            None, {"scale": np.array(0.0), "w": w}, wc.Compressor(LOSSLESS), comm, every=1
        )
        w += 1

        def interrupted(parameters: Any, values: Iterable[tuple[str, Array]]) -> None:
            for name, value in values:
                if name == "w":
                    raise KeyboardInterrupt
                real(parameters, [(name, value)])

        monkeypatch.setattr(writer, "write_all", interrupted)
        with pytest.raises(KeyboardInterrupt):
            local.step()
        monkeypatch.setattr(writer, "write_all", real)
        assert local.round == 0
        assert int(local.state_dict()["round"]) == 1
        return w

    np.testing.assert_array_equal(co.simulate(1, train)[0], np.ones(3))


def test_a_shared_parameter_is_passed_once() -> None:
    w = np.zeros(3)
    with pytest.raises(ValueError, match=r"encoder.emb and decoder.emb are the same parameter; pass it once"):
        co.simulate(
            1,
            lambda comm: co.LocalUpdates(
                None, {"encoder.emb": w, "decoder.emb": w}, wc.Compressor(LOSSLESS), comm, every=1
            ),
        )


WAYS: dict[str, dict[str, Any]] = {
    "plain": {},
    "fragments": {"fragments": [["norm.weight", "frozen"], "*"]},
    "delayed": {"delay": 1},
    "sites": {},
    "store": {},
}


@pytest.mark.parametrize("way", WAYS)
def test_buffers_are_exchanged_if_they_are_passed_and_frozen_parameters_are_not(
    way: str, tmp_path: Path
) -> None:
    """Also with a state that is saved, renamed and loaded between."""
    torch = pytest.importorskip("torch")

    def train(comm: Any) -> dict[str, list[float]]:
        norm = torch.nn.BatchNorm1d(2)
        frozen = torch.nn.Parameter(torch.zeros(2), requires_grad=False)
        named = {"norm.weight": norm.weight, "norm.running_mean": norm.running_mean, "frozen": frozen}
        alone = co.simulate(1, lambda alone: alone)[0]
        ends: Any = co.Sites(alone, comm) if way == "sites" else comm
        if way == "store":
            ends = make_comm(tmp_path, f"peer-{comm.rank}")

        def make(prefix: str) -> co.LocalUpdates:
            given = {prefix + name: p for name, p in named.items()}
            settings = dict(WAYS[way])
            if prefix and "fragments" in settings:
                settings["fragments"] = [[prefix + name for name in settings["fragments"][0]], "*"]
            return co.LocalUpdates(None, given, wc.Compressor(LOSSLESS), ends, every=2, **settings)

        local = make("")
        for step in range(4):
            if step == 2:
                names = {name: f"new.{name}" for name in named}
                state = wc.rename_state(local.state_dict(), names)
                local = make("new.")
                local.load_state_dict(state)
            with torch.no_grad():
                norm.weight += comm.rank + 1
                norm.running_mean += 2 * comm.rank + 1
                frozen += comm.rank  # which nobody exchanges, but over Sites
            local.step()
        if way != "store":
            local.exchange()
        return {name: p.tolist() for name, p in named.items()}

    results = run_each(lambda r: train(Place(r)), range(2)) if way == "store" else co.simulate(2, train)
    count = 3 if way == "delayed" else 4  # the result replaces the step during the delay
    for rank, found in enumerate(results):
        assert found["norm.weight"] == [1 + 1.5 * count] * 2
        assert found["norm.running_mean"] == [2 * count] * 2
        assert found["frozen"] == ([2, 2] if way == "sites" else [4 * rank] * 2)


class Place:
    """Rank without a communicator."""

    def __init__(self, rank: int) -> None:
        self.rank = rank


@pytest.mark.parametrize("kind", ["int64", "bool", "complex64"])
def test_buffers_of_other_types_are_refused(kind: str) -> None:
    torch = pytest.importorskip("torch")
    named = {"w": torch.zeros(2), "counts": torch.zeros(2, dtype=getattr(torch, kind))}
    comm = co.simulate(1, lambda comm: comm)[0]
    with pytest.raises(
        wc.EncodeError, match=r"'counts': dtype .* parameters and buffers of these types only"
    ):
        co.LocalUpdates(None, named, wc.Compressor(LOSSLESS), comm, every=1)


@pytest.mark.parametrize("delay", [0, 1])
@pytest.mark.parametrize("shape", [(), (1, 2), (4, 1), (2, 2, 2)])
def test_another_shape_is_refused_on_all_ranks_before_anything_is_sent(
    shape: tuple[int, ...], delay: int
) -> None:
    """NumPy repeats the elements of some of these shapes: the others would apply a movement that is none."""
    torch = pytest.importorskip("torch")

    def work(comm: Communicator) -> list[float]:
        w = torch.nn.Parameter(torch.ones(2, 2))
        local = co.LocalUpdates(None, {"w": w}, wc.Compressor(LOSSLESS), comm, every=2, delay=delay)
        if comm.rank == 0:
            w.data = torch.full(shape, 9.0)
        with pytest.raises(
            co.CollectiveError, match=r"tensor 'w': the shape is .*, and was \(2, 2\)"
        ) as caught:
            local.exchange()
        assert caught.value.ranks == (0,)
        return w.detach().reshape(-1).tolist()  # type: ignore[no-any-return]

    assert co.simulate(2, work)[1] == [1.0] * 4


@pytest.mark.filterwarnings("ignore:Sparse CSR")
@pytest.mark.parametrize("over_sites", [False, True])
@pytest.mark.parametrize("kind", ["meta", "coo", "csr", "mkldnn"])
def test_tensors_without_dense_elements_are_refused_by_name(kind: str, over_sites: bool) -> None:
    torch = pytest.importorskip("torch")
    made = {
        "meta": lambda: torch.empty(3, 3, device="meta"),
        "coo": lambda: torch.eye(3).to_sparse(),
        "csr": lambda: torch.eye(3).to_sparse_csr(),
        "mkldnn": lambda: torch.eye(3).to_mkldnn(),
    }
    comm: Any = co.simulate(1, lambda comm: comm)[0]
    named = {"w": made[kind]()}
    with pytest.raises(wc.EncodeError, match=r"tensor 'w': the parameter (is on meta|has layout)"):
        co.LocalUpdates(
            None, named, wc.Compressor(LOSSLESS), co.Sites(comm, comm) if over_sites else comm, every=1
        )


@pytest.mark.parametrize("kind", [kind for kind in UNREADABLE if kind != "meta"])
@pytest.mark.parametrize("over_sites", [False, True])
@pytest.mark.filterwarnings("ignore")
def test_tensors_that_torch_cannot_read_are_refused_by_name(kind: str, over_sites: bool) -> None:
    """torch itself reads storage that was freed: the process ends, or other memory is sent."""
    tensor = UNREADABLE[kind][0](pytest.importorskip("torch"))
    comm: Any = co.simulate(1, lambda comm: comm)[0]
    end: Any = co.Sites(comm, comm) if over_sites else comm
    with pytest.raises(wc.EncodeError, match="tensor 'w'"):
        co.LocalUpdates(None, {"w": tensor}, wc.Compressor(LOSSLESS), end, every=1)
    with pytest.raises(co.CollectiveError):
        co.allreduce(end, {"w": tensor}, wc.Compressor(LOSSLESS))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_storage_that_is_freed_later_is_an_error_of_all_ranks(dtype: str) -> None:
    torch = pytest.importorskip("torch")

    def work(comm: Any) -> str:
        w = torch.ones(3, dtype=getattr(torch, dtype))
        local = co.LocalUpdates(None, {"w": w}, wc.Compressor(LOSSLESS), comm, every=1)
        if comm.rank == 1:
            w.untyped_storage().resize_(0)
        with pytest.raises(co.CollectiveError, match="has been freed"):
            local.step()
        return "raised"

    assert co.simulate(2, work) == ["raised"] * 2


def test_a_masked_array_is_refused() -> None:
    comm: Any = co.simulate(1, lambda comm: comm)[0]
    masked = np.ma.masked_array(np.zeros(3), mask=[False, True, False])
    with pytest.raises(TypeError, match="is a MaskedArray"):
        co.LocalUpdates(None, {"w": masked}, wc.Compressor(LOSSLESS), comm, every=1)
