"""Patches of torch tensors and modules, and of JAX arrays."""

from __future__ import annotations

import sys
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import wirecodec as wc
from tests.wirecodec.patch.weights import make_state, train
from wirecodec.element_types import ELEMENT_DTYPES, name_of

torch = pytest.importorskip("torch")


def to_torch(state: dict[str, Any]) -> dict[str, Any]:
    """Copy a bfloat16 state to torch tensors."""
    return {name: torch.from_numpy(x.view("i2").copy()).view(torch.bfloat16) for name, x in state.items()}


def bytes_of(x: Any) -> Any:
    """Return the bytes of a tensor."""
    return x.detach().contiguous().reshape(-1).view(torch.uint8)


def is_equal(a: dict[str, Any], b: dict[str, Any]) -> bool:
    """Return whether two states have the same bits."""
    return set(a) == set(b) and all(torch.equal(bytes_of(a[name]), bytes_of(b[name])) for name in a)


def test_tensors_are_changed_in_place() -> None:
    old = make_state()
    a, b = to_torch(old), to_torch(train(old, 1e-5))
    patch = wc.diff(a, b)
    assert np.array_equal(patch, wc.diff(old, train(old, 1e-5)))
    addresses = {name: x.data_ptr() for name, x in a.items()}
    wc.apply(patch, a)
    assert is_equal(a, b)
    assert {name: x.data_ptr() for name, x in a.items()} == addresses


def test_modules_with_tied_and_buffered_tensors() -> None:
    class Net(torch.nn.Module):  # type: ignore[name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.embed = torch.nn.Embedding(50, 8)
            self.head = torch.nn.Linear(8, 50, bias=False)
            self.head.weight = self.embed.weight
            self.norm = torch.nn.BatchNorm1d(8)

    torch.manual_seed(0)
    net, other = Net(), Net()
    other.load_state_dict(net.state_dict())
    before = {name: x.clone() for name, x in net.state_dict().items()}
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    net.head(net.norm(net.embed(torch.arange(9)))).square().sum().backward()
    optimizer.step()
    patch = wc.diff(before, net)
    assert wc.apply(patch, other) is other
    assert is_equal(other.state_dict(), net.state_dict())
    assert other.head.weight.data_ptr() == other.embed.weight.data_ptr()
    wc.apply(patch, other)
    assert is_equal(other.state_dict(), net.state_dict())
    grown = wc.diff(net, dict(net.state_dict()) | {"new": torch.ones(2)})
    with pytest.raises(ValueError, match="pass a mapping"):
        wc.apply(grown, other)


NAMES = sorted(name_of(dtype) for dtype in ELEMENT_DTYPES if hasattr(torch, name_of(dtype)))


@pytest.mark.parametrize("layout", ["contiguous", "transposed"])
@pytest.mark.parametrize("name", NAMES)
def test_bits_of_each_type(name: str, layout: str) -> None:
    """Tensors of any bits that are changed, replaced and new, in place where their memory stays."""
    dtype, rng = getattr(torch, name), np.random.default_rng(0)
    old, new = (rng.integers(0, 2, (6, 16), np.uint8) * 0xFF for _ in range(2))
    if name == "bool":
        old, new = old & 1, new & 1

    def make(data: Any) -> Any:
        tensor = torch.from_numpy(data.copy()).view(dtype)
        return tensor if layout == "contiguous" else tensor.t()

    a, b, state = {"w": make(old)}, {"w": make(new)}, {"w": make(old)}
    b["new"] = torch.from_numpy(new[:2].copy()).view(dtype)
    memory, strides = state["w"].data_ptr(), state["w"].stride()
    wc.apply(wc.diff(a, b), state)
    assert is_equal(state, b)
    assert (state["w"].data_ptr(), state["w"].stride()) == (memory, strides)
    assert state["new"].dtype == dtype
    patches = [wc.diff(a, b), wc.diff(b, a)]
    assert is_equal(wc.apply(wc.merge(patches, a), a), {"w": make(old)})


@pytest.mark.parametrize(
    "name", ["float8_e4m3fn", "float8_e5m2", "float16", "float64", "int32", "bool", "complex64"]
)
def test_types_and_strides(name: str) -> None:
    generator = torch.Generator().manual_seed(0)
    dtype, other = getattr(torch, name), {"new": torch.ones(2, dtype=torch.bfloat16)}
    numbers = torch.randint(0, 100, (60, 40), generator=generator).float()
    changed = numbers + (torch.rand(60, 40, generator=generator) < 0.1)
    a, b = {"w": numbers.to(dtype).t()}, {"w": changed.to(dtype).t()} | other
    a["scalar"], b["scalar"] = torch.tensor(1).to(dtype), torch.tensor(0).to(dtype)
    state = {"w": numbers.to(dtype).t(), "scalar": torch.tensor(1).to(dtype)}
    assert name == "bool" or not state["w"].is_contiguous()
    memory = state["w"].data_ptr()
    wc.apply(wc.diff(a, b), state)
    assert is_equal(state, b)
    assert state["w"].data_ptr() == memory
    assert state["w"].stride() == a["w"].stride()


def test_an_inference_tensor_and_a_leaf_that_requires_a_gradient() -> None:
    x = torch.zeros(5, requires_grad=True)
    with torch.inference_mode():
        y = torch.zeros(5)
    patch = wc.diff({"w": np.zeros(5, "f4")}, {"w": np.arange(5, dtype="f4")})
    for tensor in (x, y):
        wc.apply(patch, {"w": tensor})
        assert tensor.tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("make", [torch.zeros, np.zeros])
@pytest.mark.parametrize("base", ["read", "unread"])
def test_tied_names_get_one_target_or_none(make: Any, base: str) -> None:
    def tied() -> dict[str, Any]:
        x = make(8)
        return {"embed": x, "head": x}

    old, one, two = make(8), make(8), make(8)
    one[1], two[1] = 1, 2
    apart = wc.diff({"embed": old, "head": old}, {"embed": one, "head": two}, base=base)
    state = tied()
    with pytest.raises(ValueError, match="'embed' and 'head' share memory"):
        wc.apply(apart, state)
    assert not state["embed"].any()
    wc.apply(wc.diff({"embed": old, "head": old}, {"embed": one, "head": one}, base=base), state)
    assert state["head"][1] == 1


def test_a_tied_name_that_the_patch_lacks_or_keeps() -> None:
    x, one = torch.zeros(8), torch.ones(8)
    kept = wc.diff({"embed": torch.zeros(8), "head": x}, {"embed": one, "head": x})
    with pytest.raises(ValueError, match="share memory"):
        wc.apply(kept, {"embed": x, "head": x})
    assert not x.any()
    lacking = wc.diff({"embed": x.clone()}, {"embed": one})
    with pytest.raises(wc.SchemaMismatch, match="leave out the name that the checkpoint lacks"):
        wc.apply(lacking, {"embed": x, "head": x})
    wc.apply(lacking, {"embed": x})
    assert x.all()


def test_patches_in_sequence_copy_what_they_change() -> None:
    """Tensors that are new in one of them are torch tensors; those that no patch changes are not copied."""
    states = [{"a": torch.arange(9.0), "kept": torch.ones(5)}]
    states.append({**states[0], "a": states[0]["a"] + 1, "new": torch.ones(4, dtype=torch.bfloat16)})
    states.append({**states[1], "new": states[1]["new"] * 2})
    chain = wc.merge([wc.diff(*pair) for pair in pairwise(states)])
    state = {name: x.clone() for name, x in states[0].items()}
    addresses = {name: x.data_ptr() for name, x in state.items()}
    wc.apply(chain, state)
    assert is_equal(state, states[2])
    assert all(isinstance(x, torch.Tensor) for x in state.values())
    assert addresses.items() <= {name: x.data_ptr() for name, x in state.items()}.items()
    damaged = {**states[0], "kept": torch.zeros(5)}
    with pytest.raises(wc.SchemaMismatch):
        wc.apply(chain, damaged)


def test_tensors_that_share_elements_are_refused() -> None:
    patch = wc.diff({"w": np.zeros((3, 2), "f4")}, {"w": np.ones((3, 2), "f4")})
    with pytest.raises(ValueError, match="share memory"):
        wc.apply(patch, {"w": torch.zeros(1, 2).expand(3, 2)})
    with pytest.raises(ValueError, match="meta"):
        wc.apply(patch, {"w": torch.zeros(3, 2, device="meta")})


def test_arrays_of_jax_are_replaced() -> None:
    jax = pytest.importorskip("jax")
    assert "jax" in sys.modules
    old = {"w": jax.numpy.arange(6, dtype="bfloat16").reshape(2, 3)}
    new = {"w": old["w"].at[1, 2].set(-0.0), "new": jax.numpy.ones(3)}
    state = dict(old)
    wc.apply(wc.diff(old, new), state)
    assert isinstance(state["w"], jax.Array)
    assert np.asarray(state["w"]).tobytes() == np.asarray(new["w"]).tobytes()
    assert np.asarray(state["new"]).tobytes() == np.asarray(new["new"]).tobytes()


def test_a_module_whose_state_dict_has_copies_is_refused() -> None:
    module = torch.nn.Linear(3, 2)
    old = {name: x.clone() for name, x in module.state_dict().items()}
    patch = wc.diff(old, {name: x + 1 for name, x in old.items()})
    module.register_state_dict_post_hook(
        lambda module, state, prefix, _: state.update({name: x.clone() for name, x in state.items()})
    )
    with pytest.raises(ValueError, match="returns a copy"):
        wc.apply(patch, module)
    wc.apply(patch, dict(module.named_parameters()))
    assert all(torch.equal(x, old[name] + 1) for name, x in module.named_parameters())
