"""Tests of rules as keys: of schemes, feedbacks and ratios."""

from __future__ import annotations

import numpy as np
import pytest

import collectives as co
import wirecodec as wc


def test_rules_match_by_name_axes_and_size() -> None:
    rule = wc.Rule("fc*", ndim=(2, 3), min_size=10, max_size=20)
    assert [rule.matches(*given) for given in (("fc", (2, 5)), ("fc", (10,)), ("conv", (2, 5)))] == [
        True,
        False,
        False,
    ]
    assert [rule.matches("fc", shape) for shape in ((3, 3), (4, 5), (3, 7), (1, 2, 5))] == [
        False,
        True,
        False,
        True,
    ]
    assert str(wc.Rule("a*", min_size=3)) == "Rule(glob='a*', min_size=3)"
    for wrong in ({"glob": 3}, {"ndim": "2"}, {"min_size": 1.5}):
        with pytest.raises(wc.EncodeError, match="rule: "):
            wc.Rule(**wrong)


def test_the_usual_rules() -> None:
    schemes = wc.rules.usual(
        "topk(0.1) | rice | raw", embeddings="nonzero | rice | raw", convolutions="topk(0.2) | rice | raw"
    )
    tensors = {
        "bias": np.ones(9000, np.float32),
        "conv": np.ones((8, 64, 3, 3), np.float32),
        "small": np.ones((3, 4), np.float32),
        "token_embedding": np.eye(100, dtype=np.float32),
        "fc": np.ones((100, 100), np.float32),
        "scalar": np.float32(2),
    }
    expected = {"bias": 9000, "conv": 921, "small": 12, "token_embedding": 100, "fc": 1000, "scalar": 1}
    for blob in (wc.encode_many(tensors, schemes), wc.Compressor(schemes).compress(tensors)):
        assert {name: x.nnz for name, x in wc.decode_many(blob).items()} == expected
    c = wc.Compressor(schemes)
    assert repr(c).startswith("Compressor({'Rule(ndim=(0, 1))': 'all | raw-index | raw', ")
    with pytest.raises(wc.EncodeError, match=r"Rule\(ndim=2\) needs the tensor's shape"):
        wc.Compressor({wc.Rule(ndim=2): None}).scheme("w")


def test_rules_as_keys_of_ratios() -> None:
    grads = {"w": np.arange(1, 5001, dtype=np.float32).reshape(50, 100), "b": np.ones(100, np.float32)}
    ratios = wc.rules.usual(0.01, whole=1)
    means = co.simulate(2, lambda comm: co.CLTk(ratios).allreduce(comm, grads))[0]
    assert (np.count_nonzero(means["w"]), np.count_nonzero(means["b"])) == (50, 100)
