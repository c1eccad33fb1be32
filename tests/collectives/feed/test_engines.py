"""Updates for inference engines: whole tensors for their loaders, and elements for those that patch in place.

The engines here have the signatures of vLLM 0.33.0 and SGLang 0.5.23, and fused weights of their own. If the
files of these packages are on the path, they are read, too; they need not be installed so that they run.
"""

from __future__ import annotations

import ast
import gc
import importlib.util
import math
import weakref
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import collectives as co
from tests.collectives.feed.weights import Training, bits_of, copy_of, start_training

torch: Any = pytest.importorskip("torch")
State = dict[str, Any]


class CheckpointWeightPatch(NamedTuple):
    """Argument of ``load_checkpoint_weight_patches`` of vLLM."""

    name: str
    shape: tuple[int, ...]
    dtype: Any
    values: Any
    indices: Any = None


class Engine:
    """Model of an engine that holds the rows of all tensors of two dimensions in one fused parameter."""

    def __init__(self, state: State) -> None:
        self.order = list(state)
        self.fused = torch.cat([x.reshape(-1).float() for x in state.values()])
        self.sizes = {name: x.numel() for name, x in state.items()}

    def _part(self, name: str) -> Any:
        start = sum(self.sizes[other] for other in self.order[: self.order.index(name)])
        return self.fused[start : start + self.sizes[name]]

    def load_weights(self, weights: Iterable[tuple[str, Any]]) -> set[str]:
        """Take tensors as models of vLLM and SGLang do, one at a time."""
        loaded = set()
        for name, tensor in weights:
            self._part(name).copy_(tensor.reshape(-1))
            loaded.add(name)
        return loaded

    def update_weights_from_tensor(
        self, named_tensors: list[tuple[str, Any]], load_format: str | None = None, flush_cache: bool = True
    ) -> tuple[bool, str]:
        """Take a list, as the engine of SGLang does."""
        assert isinstance(named_tensors, list)
        assert load_format is None
        self.load_weights(named_tensors)
        return flush_cache, "Success"

    def load_checkpoint_weight_patches(self, patches: Iterable[CheckpointWeightPatch]) -> set[str]:
        """Take elements, with the checks of vLLM."""
        listed = list(patches)
        for patch in listed:
            assert patch.dtype.is_floating_point
            assert patch.values.dtype == patch.dtype
            assert patch.values.ndim == patch.indices.ndim == 1
            assert patch.values.numel() == patch.indices.numel() == torch.unique(patch.indices).numel()
            assert patch.indices.dtype == torch.int32
            assert math.prod(patch.shape) == self.sizes[patch.name]
            assert 0 <= int(patch.indices.min()) <= int(patch.indices.max()) < math.prod(patch.shape)
            self._part(patch.name)[patch.indices.long()] = patch.values.float()
        return {patch.name for patch in listed}

    def weights(self) -> list[float]:
        found: list[float] = self.fused.tolist()
        return found


def to_torch(state: State) -> State:
    """Return the state as torch tensors."""
    made: State = {}
    for name, x in state.items():
        kind = getattr(torch, x.dtype.name)
        made[name] = torch.from_numpy(x.view(f"i{x.dtype.itemsize}").copy()).view(kind)
    return made


def patches_of(update: Any, state: State) -> list[CheckpointWeightPatch]:
    return [
        CheckpointWeightPatch(name, tuple(state[name].shape), values.dtype, values, indices)
        for name, indices, values in update.changes()
    ]


@pytest.mark.parametrize("base", ["read", "unread"])
@pytest.mark.parametrize("way", ["load", "list", "patch"])
def test_an_engine_follows(tmp_path: Path, way: str, base: str) -> None:
    """One version at a time, several at once, and one by an anchor, because the host copy was changed."""
    training, state = start_training(), to_torch(start_training().state)
    publisher, reader = co.Publisher(str(tmp_path), "run", base=base), co.Subscriber(str(tmp_path), "run")
    training.publish(publisher)
    reader.update(state)
    engine = Engine(state)
    for span in (1, 3, 1):
        for _ in range(span):
            training.step()
            training.state["scale"][0] = 1  # a tensor that stays
            training.publish(publisher)
        if span == 3:
            state["embedding"][2, 3] = 9
            engine = Engine(state)
        update = reader.prepare(state)
        before = {name: x.clone() for name, x in state.items()}
        if way == "load":
            assert engine.load_weights(update.tensors()) == {name for name, _ in update.tensors()}
        elif way == "list":
            engine.update_weights_from_tensor(list(update.tensors()))
        else:
            engine.load_checkpoint_weight_patches(patches_of(update, state))
        assert all(torch.equal(x, before[name]) for name, x in state.items())
        assert "scale" not in dict(update.tensors())
        expected = to_torch(training.state)
        assert engine.weights() == Engine(expected).weights()
        assert update.commit() == publisher.version
        assert all(torch.equal(x, expected[name]) for name, x in state.items())
        again = Engine(before)
        if way == "patch":
            again.load_checkpoint_weight_patches(patches_of(update, state))
        else:
            again.load_weights(update.tensors())
        assert again.weights() == engine.weights()  # also after the commit


@pytest.fixture
def training() -> Training:
    return start_training()


@pytest.fixture
def feed(tmp_path: Path) -> tuple[co.Publisher, co.Subscriber]:
    return co.Publisher(str(tmp_path), "run"), co.Subscriber(str(tmp_path), "run")


def test_a_caller_without_a_copy_gets_all(
    training: Training, feed: tuple[co.Publisher, co.Subscriber]
) -> None:
    """All tensors are new to an empty dictionary, again and again."""
    publisher, reader = feed
    for _ in range(3):
        training.publish(publisher)
        update = reader.prepare({})
        assert bits_of(dict(update.tensors())) == training.kept[update.version]
        with pytest.raises(ValueError, match=r"new, or has another shape .* use tensors\(\)"):
            update.changes()
        engine = Engine(to_torch(start_training().state))
        engine.load_weights((name, to_torch({name: x})[name]) for name, x in update.tensors())
        assert engine.weights() == Engine(to_torch(training.state)).weights()
        training.step()


def test_tensors_have_memory_of_their_own(
    training: Training, feed: tuple[co.Publisher, co.Subscriber]
) -> None:
    publisher, reader = feed
    training.publish(publisher)
    state: State = {}
    update = reader.prepare(state)
    taken = dict(update.tensors())
    update.commit()
    for x in taken.values():
        x[...] = 0
    assert bits_of(state) == training.kept[0]
    training.step()
    training.publish(publisher)
    update = reader.prepare(state)
    for _, tensor in update.tensors():
        tensor[...] = 0
    for _, indices, values in update.changes():
        indices[...], values[...] = 0, 0
    update.commit()
    assert bits_of(state) == training.kept[1]


def test_one_tensor_is_held_at_a_time(training: Training, feed: tuple[co.Publisher, co.Subscriber]) -> None:
    publisher, reader = feed
    training.publish(publisher)
    state = to_torch(copy_of(training.state))
    reader.update(state)
    training.step()
    training.publish(publisher)
    held: list[weakref.ref[Any]] = []
    for _, tensor in reader.prepare(state).tensors():
        gc.collect()
        assert all(one() is None for one in held)
        held.append(weakref.ref(tensor))
        del tensor
    assert len(held) == 4


@pytest.mark.parametrize("kind", [np.asarray, lambda x: torch.from_numpy(x.copy())], ids=["numpy", "torch"])
@pytest.mark.parametrize("strided", [False, True])
def test_elements_of_all_types_and_shapes(
    feed: tuple[co.Publisher, co.Subscriber], kind: Any, strided: bool
) -> None:
    """Also of complex numbers, which are replaced whole, of scalars, and in an order of Fortran."""
    publisher, reader = feed
    types = ("f4", "f8", "f2", "i1", "u1", "i2", "i4", "i8", "?", "c8", "c16")
    shapes: tuple[tuple[int, ...], ...] = ((3, 5), (), (1,), (0, 4))
    old = {f"{one} {shape}": np.zeros(shape, one) for one in types for shape in shapes}
    new = {name: x.copy() for name, x in old.items()}
    for x in new.values():
        x.reshape(-1)[1::2] = 1
        x.reshape(-1)[:1] = 1
    state = {name: kind(x) for name, x in old.items()}
    if strided:
        state = {name: kind(x.T.copy()).T if x.ndim > 1 else kind(x) for name, x in old.items()}
    publisher.publish(old)
    reader.update(state)
    publisher.publish(new)
    update = reader.prepare(state)
    patched = {name: x.copy() for name, x in old.items()}
    for name, indices, values in update.changes():
        assert type(indices) is type(values) is type(state[name])
        patched[name].reshape(-1)[np.asarray(indices)] = np.asarray(values)
    whole = dict(update.tensors())
    for name, x in new.items():
        assert np.array_equal(patched[name], x), name
        assert x.size == 0 or np.array_equal(np.asarray(whole[name]), x), name
        assert x.size == 0 or whole[name].shape == x.shape
    update.commit()
    assert all(np.array_equal(np.asarray(state[name]), x) for name, x in new.items())


def find_file(package: str, path: str) -> Path:
    """Return a file of a package without an import of it. Skip the test if there is no such file."""
    found = importlib.util.find_spec(package)
    for folder in (found and found.submodule_search_locations) or ():
        if (Path(folder) / path).exists():
            return Path(folder) / path
    pytest.skip(f"{package} is not on the path")


class Layers(torch.nn.Module):  # type: ignore[misc]
    """Model with a fused layer, whose loader copies parts, as those of vLLM do."""

    def __init__(self, state: State) -> None:
        super().__init__()
        self.fused = torch.nn.Parameter(torch.cat([state["embedding"], state["embedding"] * 0]))
        self.own = torch.nn.ParameterDict(
            {name.replace(".", "_"): x.clone() for name, x in state.items() if name != "embedding"}
        )

    def load_weights(self, weights: Iterable[tuple[str, Any]]) -> set[str]:
        names = set()
        for name, tensor in weights:
            whole = self.fused.data[: len(tensor)] if name == "embedding" else None
            target = self.own[name.replace(".", "_")].data if whole is None else whole
            target.copy_(tensor)
            names.add(name)
        return names


def test_vllm_patches_elements(training: Training, feed: tuple[co.Publisher, co.Subscriber]) -> None:
    """The real function, which needs torch alone."""
    file = find_file("vllm", "model_executor/model_loader/checkpoint_weight_patch.py")
    spec = importlib.util.spec_from_file_location("checkpoint_weight_patch", file)
    assert spec is not None
    assert spec.loader is not None
    real: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(real)
    publisher, reader = feed
    state: State = to_torch(start_training().state)
    training.publish(publisher)
    reader.update(state)
    model = Layers(state)
    for _ in range(3):
        training.step()
        training.publish(publisher)
        update = reader.prepare(state)
        patches = [real.CheckpointWeightPatch(*one) for one in patches_of(update, state)]
        assert real.load_checkpoint_weight_patches(model, patches) == {one.name for one in patches}
        update.commit()
        assert torch.equal(model.fused[:64], to_torch(training.state)["embedding"])
        assert torch.equal(model.own["layer_weight"], to_torch(training.state)["layer.weight"])


def test_sglang_takes_lists() -> None:
    """The signature of the engine's method."""
    tree = ast.parse(find_file("sglang", "srt/entrypoints/engine.py").read_text())
    found = {one.name: one for one in ast.walk(tree) if isinstance(one, ast.FunctionDef)}
    names = [one.arg for one in found["update_weights_from_tensor"].args.args]
    assert names == ["self", "named_tensors", "load_format", "flush_cache"]
    assert "flush_cache" in found
