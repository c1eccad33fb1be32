"""Tests of schemas, and of tensors without names."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wirecodec as wc
from tests.wirecodec.container.small import X


def test_what_has_no_names_is_added_under_the_names_that_it_is_given() -> None:
    """\"10\" precedes "2", so digits are padded to one length, and then ascend as the keys do."""
    tensors = {f"layer{n:02}": np.full(1 + n % 3, n, np.float32) for n in range(12)}
    blob = wc.encode_many(tensors, "all | rice | raw", names=False)
    decoded = wc.decode_many(blob)
    assert list(decoded) == sorted(decoded) == [entry.name for entry in wc.inspect(blob).entries]
    out = {name: np.zeros(tensor.shape, np.float32) for name, tensor in decoded.items()}
    wc.decode_add(blob, out)
    assert [x.tolist() for x in out.values()] == [x.tolist() for x in tensors.values()]


@pytest.mark.parametrize(
    ("schema", "code"),
    [
        ({"a": ((8,), "float32")}, "schema-names"),
        ({"a": ((8,), "float32"), "c": ((2, 4), "float32")}, "schema-names"),
        ({"a": ((8,), "float32"), "b": ((4, 2), "float32")}, "schema-shape"),
        ({"a": ((9,), "float64"), "b": ((2, 4), "float32")}, "schema-shape"),
        ({"a": (8, "float16"), "b": ((2, 4), "float32")}, "schema-dtype"),
    ],
)
def test_schemas(schema: Any, code: str) -> None:
    blob = wc.encode_many({"a": X, "b": X.reshape(2, 4)})
    with pytest.raises(wc.SchemaMismatch) as caught:
        wc.decode_many(blob, schema=schema)
    assert caught.value.code == code


def test_decode_wants_exactly_one() -> None:
    for tensors in ({}, {"a": X, "b": X}):
        blob = wc.encode_many(tensors)
        assert len(wc.decode_many(blob)) == len(tensors)
        with pytest.raises(wc.SchemaMismatch, match="schema-count"):
            wc.decode(blob)
    assert wc.decode(wc.encode_many({"a": X}), schema=(8, np.float32)).nnz == 3


def test_the_message_has_the_name_of_the_only_tensor() -> None:
    for blob, name in ((wc.encode_many({"a": X}), "a"), (wc.encode(X), "0")):
        with pytest.raises(wc.SchemaMismatch, match=f"tensor '{name}' has shape"):
            wc.decode(blob, schema=(7, np.float32))
    with pytest.raises(wc.SchemaMismatch, match="schema-dtype"):
        wc.decode(wc.encode(X), schema=((8,), "bfloat16"))
