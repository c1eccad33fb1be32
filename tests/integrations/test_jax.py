"""Arrays of JAX: on several devices, without elements, and sparse ones with wrong indices."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

import wirecodec as wc

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=2")  # JAX reads it once
jax = pytest.importorskip("jax", reason="not in make test-integrations")
SCHEME = "all | raw-index | raw"


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("axis", ["device", None], ids=["sharded", "replicated"])
def test_arrays_on_several_devices(axis: str | None, dtype: str) -> None:
    if len(jax.devices()) < 2:
        pytest.skip("XLA_FLAGS gives one device")
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:2]), ("device",))
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(axis))
    array = jax.device_put(jax.numpy.arange(8, dtype=dtype), sharding)
    found = wc.decode(wc.encode(array, SCHEME))
    assert (found.values.tolist(), str(found.dtype)) == (list(range(8)), dtype)
    array.delete()
    with pytest.raises(wc.EncodeError, match="has been deleted"):
        wc.encode(array, SCHEME)


def test_arrays_without_elements() -> None:
    donated = jax.numpy.ones(3)
    jax.jit(lambda x: x * 2, donate_argnums=0)(donated)
    traced: list[Any] = []

    def keep(x: Any) -> Any:
        traced.append(x)
        return x

    jax.jit(keep)(jax.numpy.ones(3))
    for array in (donated, *traced):
        with pytest.raises(wc.EncodeError, match="cannot be read on the host"):
            wc.encode(array, SCHEME)


def _bcoo(where: list[list[int]], shape: tuple[int, int] = (5, 7), dtype: str = "int32") -> Any:
    sparse = pytest.importorskip("jax.experimental.sparse")
    return sparse.BCOO((jax.numpy.ones(len(where)), jax.numpy.array(where, dtype)), shape=shape)


def test_indices_outside_of_a_dimension() -> None:
    with pytest.raises(wc.EncodeError, match="index -1 in dimension 1, whose extent is 7"):
        wc.encode(_bcoo([[0, 1], [1, -1]]))
    padded = _bcoo([[0, 1], [5, 7], [2, 7], [5, 0]])
    found = wc.decode(wc.encode(padded))
    np.testing.assert_array_equal(found.to_dense(), padded.todense())
    assert found.indices.tolist() == [1]
    assert wc.decode(wc.encode(_bcoo([[0, 99]], (5, 300), "int8"))).indices.tolist() == [99]


def test_a_sparse_array_whose_parts_are_deleted() -> None:
    array = _bcoo([[0, 1]])
    array.data.delete()
    with pytest.raises(wc.EncodeError, match="has been deleted"):
        wc.encode(array)
