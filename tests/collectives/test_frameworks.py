"""Objects of frameworks, and names that they make: accepted, or refused with advice."""

from __future__ import annotations

import copy
import io
from typing import Any

import numpy as np
import pytest

import collectives as co
import wirecodec as wc
from collectives.communicator import Communicator
from tests.oracles import Array


def test_nested_trees_are_refused_with_advice() -> None:
    tree = {"dense": {"w": np.ones(3, np.float32)}}
    with pytest.raises(wc.EncodeError, match=r"'dense': dict is nested.*\{'dense/w': array\}"):
        wc.Compressor().compress(tree)  # type: ignore[arg-type]


def test_names_with_the_characters_of_globs_match_themselves() -> None:
    """JAX's key strings are such names; the first match still wins."""
    name = "['a']['b']"
    schemes = {name: "all | raw-index | raw", "*": "topk(k=1) | rice | raw"}
    x = np.ones(3, np.float32)
    assert wc.decode_many(wc.encode_many({name: x, "other": x}, schemes))[name].nnz == 3
    assert wc.Compressor(schemes).prepare({name: x}).sent[name].nnz == 3
    assert wc.decode_many(wc.encode_many({"w": x}, {"*": "topk(k=1) | rice | raw", "w": None}))["w"].nnz == 1
    ratios = co.CLTk({name: 1, "*": 0.5})
    assert ratios.selector(name) is None
    assert ratios.selector("other") is not None


def test_states_of_torch_and_of_safetensors() -> None:
    torch = pytest.importorskip("torch")
    safetensors = pytest.importorskip("safetensors.torch")
    compressor = wc.Compressor("topk(0.1) | rice | qsgd", schedule=wc.WarmUp(3), seed=2**63 + 5)
    compressor.compress(
        {"a": torch.randn(100), "b": torch.randn(100).bfloat16(), "c": torch.ones(40).double()}
    )
    stored = io.BytesIO()
    torch.save(co.torch_state_dict(compressor), stored)
    stored.seek(0)
    packed = safetensors.save(co.torch_state_dict(compressor))
    for state in (torch.load(stored), safetensors.load(packed)):
        loaded = wc.Compressor("topk(0.1) | rice | qsgd")
        loaded.load_state_dict(state)
        got, want = loaded.state_dict(), compressor.state_dict()
        assert {k: (x.dtype, x.tobytes()) for k, x in got.items()} == {
            k: (x.dtype, x.tobytes()) for k, x in want.items()
        }


def test_decode_add_into_torch_tensors() -> None:
    torch = pytest.importorskip("torch")
    blob = wc.encode(np.array([0, 2, 4], np.float32))
    parameter = torch.nn.Parameter(torch.ones(3))
    wc.decode_add(blob, parameter)
    assert parameter.tolist() == [1, 3, 5]
    with pytest.raises(ValueError, match="not a writable, contiguous float32"):
        wc.decode_add(blob, torch.ones(6)[::2])
    with pytest.raises(ValueError, match="not a writable, contiguous float32"):
        wc.decode_add(blob, torch.ones(3, dtype=torch.bfloat16))


def test_distributed_tensors_are_refused_with_advice() -> None:
    torch = pytest.importorskip("torch")

    class Sharded(torch.Tensor):  # type: ignore[misc, name-defined]
        def to_local(self) -> None: ...

    with pytest.raises(wc.EncodeError, match=r"DTensor.*tensor\.to_local\(\)"):
        wc.encode(torch.ones(3).as_subclass(Sharded))


@pytest.mark.parametrize("scheme", ["nonzero | rice | raw", wc.Compressor("topk(0.5) | rice | raw"), "clt-k"])
def test_sparse_tensors_of_torch_are_averaged(scheme: Any) -> None:
    """So are those of a rank that passes the same tensor dense; NaN on one rank is NaN on all."""
    torch = pytest.importorskip("torch")

    def step(comm: Communicator, value: float) -> Array:
        x = torch.zeros(3, 4)
        x[comm.rank] = torch.tensor([1.0, 0, 3, value])
        tensor = x if comm.rank else x.to_sparse(1)
        if scheme == "clt-k":
            return np.asarray(co.CLTk(1).allreduce(comm, tensor, nonfinite="propagate"))
        chosen = copy.copy(scheme)
        return np.asarray(co.allreduce(comm, tensor, chosen, nonfinite="propagate"))

    expected = np.zeros((3, 4))
    expected[:2] = [0.5, 0, 1.5, 2]
    for mean in co.simulate(2, lambda comm: step(comm, 4)):
        np.testing.assert_array_equal(mean, expected)
    for mean in co.simulate(2, lambda comm: step(comm, float("nan") if comm.rank == 0 else 4)):
        assert np.isnan(mean).all()


def test_tensors_of_tensorflow() -> None:
    tf = pytest.importorskip("tensorflow")

    def step(comm: Communicator) -> Array:
        named = {"a": tf.ones(3, tf.bfloat16), "b": tf.constant([0.0, comm.rank])}
        means = co.allreduce(comm, named, wc.Compressor("all | raw-index | raw"))
        return np.concatenate([np.asarray(tf.convert_to_tensor(x), "f4") for x in means.values()])

    for mean in co.simulate(2, step):
        np.testing.assert_array_equal(mean, [1, 1, 1, 0, 0.5])


def test_a_model_of_keras_trains() -> None:
    """The lines of the guide: variables by path, and the sparse gradient of an embedding made dense."""
    tf = pytest.importorskip("tensorflow")

    def train(comm: Communicator) -> tuple[list[float], dict[str, Array]]:
        tf.keras.utils.set_random_seed(1)
        model = tf.keras.Sequential([tf.keras.layers.Embedding(20, 8), tf.keras.layers.Dense(1)])
        model.build((None, 5))
        optimizer = tf.keras.optimizers.SGD(0.5)
        compressor = wc.Compressor({"*bias*": "all | raw-index | raw", "*": "topk(0.25) | rice | qsgd"})
        assert co.check_optimizer(optimizer, compressor)
        words = np.random.default_rng(comm.rank).integers(0, 20, (16, 5))
        wanted, losses = (words < 10).astype("f4")[..., None], []
        for _ in range(40):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((model(words) - wanted) ** 2)
            grads = tape.gradient(loss, model.trainable_variables)
            assert isinstance(grads[0], tf.IndexedSlices)
            named = {
                v.path: tf.convert_to_tensor(g) for v, g in zip(model.trainable_variables, grads, strict=True)
            }
            means = co.allreduce(comm, named, compressor)
            optimizer.apply(
                [tf.convert_to_tensor(means[v.path]) for v in model.trainable_variables],
                model.trainable_variables,
            )
            losses.append(float(loss))
        return losses, {v.path: np.asarray(v) for v in model.trainable_variables}

    (losses, first), (_, second) = co.simulate(2, train)
    assert losses[-1] < 0.7 * losses[0]
    assert sorted(x.tobytes() for x in first.values()) == sorted(x.tobytes() for x in second.values())


@pytest.mark.parametrize("sparse", [False, True])
def test_an_index_outside_of_a_tensor_fails_on_all_ranks_alike(sparse: bool) -> None:
    """On one rank, coordinate (1, 9) has the row-major number of (2, 2), which this rank stores, too."""
    torch = pytest.importorskip("torch")

    def step(comm: Communicator) -> str:
        column = 9 if comm.rank == 0 else 6
        where = torch.tensor([[2, 1], [2, column]])
        tensor = torch.sparse_coo_tensor(where, torch.ones(2), (5, 7), check_invariants=False)
        parameter = torch.nn.Parameter(torch.zeros(5, 7))
        parameter.grad = tensor
        compressor = wc.Compressor("topk(0.5) | rice | raw")
        try:
            if sparse:
                co.allreduce(comm, {"w": tensor}, "nonzero | rice | raw", sparse=True)
            else:
                co.average_gradients(comm, [("w", parameter)], compressor)
        except co.CollectiveError as error:
            return str(error)
        return ""

    errors = co.simulate(2, step)
    assert errors[0] == errors[1]
    assert "index 9 in dimension 1, whose extent is 7" in errors[0]
