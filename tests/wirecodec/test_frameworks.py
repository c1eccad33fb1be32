"""Sparse tensors of torch, scipy and JAX: encoded as the SparseTensor of their stored elements."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import wirecodec as wc
from tests.oracles import Array
from wirecodec.frameworks import as_sparse

POSITIONS = [(2, 1), (0, 3), (2, 1), (1, 0)]  # out of order, one of them twice
VALUES = [4, 3, 1, 0]  # one of them a stored zero
DENSE = np.zeros((3, 5))
DENSE[0, 3], DENSE[2, 1] = 3, 5
INDICES = [3, 5, 11]


def torch_coo(dtype: str) -> Any:
    torch = pytest.importorskip("torch")
    values = torch.tensor(VALUES, dtype=getattr(torch, dtype))
    return torch.sparse_coo_tensor(np.array(POSITIONS).T, values, DENSE.shape, check_invariants=True)


def torch_csr(dtype: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch calls this layout a beta
        return torch_coo(dtype).coalesce().to_sparse_csr()


def scipy_coo(dtype: str) -> Any:
    sparse = pytest.importorskip("scipy.sparse")
    return sparse.coo_array((np.array(VALUES, dtype), np.array(POSITIONS).T), DENSE.shape)


def scipy_csc(dtype: str) -> Any:
    pytest.importorskip("scipy.sparse")
    return scipy_coo(dtype).tocsc()


def bcoo(dtype: str) -> Any:
    sparse = pytest.importorskip("jax.experimental.sparse")
    jnp = pytest.importorskip("jax.numpy")
    padding = [(3, 5)]
    return sparse.BCOO((jnp.array([*VALUES, 7], dtype), jnp.array(POSITIONS + padding)), shape=DENSE.shape)


@pytest.mark.parametrize("make", [torch_coo, torch_csr, scipy_coo, scipy_csc, bcoo], ids=lambda f: f.__name__)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_stored_elements_are_encoded(make: Any, dtype: str) -> None:
    if make in (scipy_coo, scipy_csc) and dtype == "bfloat16":
        pytest.skip("scipy has no bfloat16")
    tensor = make(dtype)
    found = as_sparse(tensor)
    assert found.indices.tolist() == INDICES
    assert found.values.tolist() == [3, 0, 5]
    assert (str(found.dtype), found.shape) == (dtype, DENSE.shape)
    np.testing.assert_array_equal(wc.decode(wc.encode(tensor)).to_dense(), DENSE)
    assert wc.decode(wc.encode(tensor, "topk(k=1) | rice | raw")).indices.tolist() == [11]
    compressor = wc.Compressor("topk(k=1) | rice | raw")
    compressor.compress({"w": tensor})
    residual = compressor.residual("w")
    assert residual is not None
    assert np.flatnonzero(residual).tolist() == [3]
    with pytest.raises(wc.EncodeError, match=r"sparse, and dct spreads.*pass tensor\.to_dense\(\)"):
        wc.encode_many({"w": tensor}, "dct | topk(k=1) | rice | raw")
    with pytest.raises(wc.EncodeError, match="tensor 'w': the tensor is sparse"):
        wc.Compressor("dct | topk(k=1) | rice | raw").compress({"w": tensor})


def test_rows_of_an_embedding() -> None:
    torch = pytest.importorskip("torch")
    embedding = torch.nn.Embedding(6, 3, sparse=True)
    (embedding(torch.tensor([4, 1, 4])) * torch.arange(9.0).reshape(3, 3)).sum().backward()
    found = wc.decode(wc.encode(embedding.weight.grad))
    assert found.indices.tolist() == [3, 4, 5, 12, 13, 14]
    np.testing.assert_array_equal(found.to_dense(), embedding.weight.grad.to_dense().numpy())


def test_other_layouts_say_what_to_pass() -> None:
    sparse = pytest.importorskip("jax.experimental.sparse")
    jnp = pytest.importorskip("jax.numpy")
    with pytest.raises(wc.EncodeError, match=r"BCSR is not a BCOO.*BCOO\.fromdense"):
        wc.encode(sparse.BCSR.fromdense(jnp.eye(3)))


def lines_back(found: wc.SparseTensor) -> dict[str, Array]:
    """Return the dense arrays of the lines that the guide has for the way back."""
    torch = pytest.importorskip("torch")
    sparse = pytest.importorskip("scipy.sparse")
    bcoo_of = pytest.importorskip("jax.experimental.sparse").BCOO
    where = np.stack(np.unravel_index(found.indices, found.shape))
    return {
        "torch": torch.sparse_coo_tensor(where, found.values.copy(), found.shape, check_invariants=True)
        .to_dense()
        .numpy(),
        "scipy": sparse.coo_array((found.values, where), found.shape).toarray(),
        "jax": np.asarray(bcoo_of((found.values, where.T), shape=found.shape).todense()),
    }


def test_the_way_back() -> None:
    found = wc.decode(wc.encode(DENSE.astype("f4")))
    for dense in lines_back(found).values():
        np.testing.assert_array_equal(dense, DENSE)
