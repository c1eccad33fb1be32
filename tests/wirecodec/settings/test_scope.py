"""Tests of selection from a group of tensors as from one vector."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import collectives as co
import wirecodec as wc
from tests.inputs import Array

SHAPES: dict[str, tuple[int, ...]] = {
    "a.weight": (30, 40),
    "a.bias": (40,),
    "b.weight": (500,),
    "c": (3, 7, 50),
}


def draw(rng: np.random.Generator, dtype: Any = np.float32) -> dict[str, Array]:
    """Return gradients whose scales differ, so that a global selection differs from one per tensor."""
    return {
        name: (rng.standard_normal(s) * 4.0**i).astype(dtype) for i, (name, s) in enumerate(SHAPES.items())
    }


def join(tensors: dict[str, Array]) -> Array:
    return np.concatenate([tensors[name].reshape(-1) for name in sorted(tensors)])


@pytest.mark.parametrize(
    "feedback", [wc.ErrorFeedback(), wc.ErrorFeedback(0.5, 0.9), wc.MomentumCorrection(), None], ids=str
)
@pytest.mark.parametrize(
    "scheme",
    ["topk(0.05) | rice | raw", "adacomp | rice | sign-scale", "sidco(0.02, mode=faithful) | rice | raw"],
)
def test_a_group_is_one_vector(scheme: str, feedback: Any) -> None:
    """The same elements, residuals and momenta as those of one vector, with rollbacks and restarts."""
    rng = np.random.default_rng(3)
    group = wc.Compressor(scheme, feedback=feedback, scope="group", seed=2)
    flat = wc.Compressor(scheme, feedback=feedback, seed=2)
    for turn in range(6):
        g = draw(rng)
        group.prepare(draw(rng)).rollback()
        if turn == 3:
            state = group.state_dict()
            group = wc.Compressor(scheme, feedback=feedback, scope="group", seed=2)
            group.load_state_dict(state)
        blob = group.compress(g)
        sent = wc.decode_many(blob)
        expected = flat.decompress(flat.compress({"a": join(g)}))["a"].to_dense()
        assert {name: x.shape for name, x in sent.items()} == SHAPES
        assert join({name: x.to_dense() for name, x in sent.items()}).tobytes() == expected.tobytes()
        assert len(wc.inspect(blob).entries) == 1
        for kept, other in ((group.residual, flat.residual), (group.momentum, flat.momentum)):
            if other("a") is not None:
                assert np.array_equal(join({name: kept(name) for name in SHAPES}), other("a"))


LARGE = [
    wc.ErrorFeedback(),
    wc.ErrorFeedback(decay=0.9),
    wc.MomentumCorrection(),
    wc.MomentumCorrection(nesterov=True, masking=False),
]


@pytest.mark.parametrize("feedback", LARGE, ids=str)
def test_many_tensors_have_the_bits_of_one_vector_and_of_each_alone(feedback: Any) -> None:
    """In batches and groups, with tensors of all sizes, zero gradients and a sum that overflows."""
    rng = np.random.default_rng(8)
    sizes = [1, 63, 64, 65, 1024, 4096, 4097, 70_000, *rng.integers(1, 3000, 20).tolist()]
    names = [f"t{i:02}" for i in range(len(sizes))]
    scheme, settings = "topk(0.02) | rice | raw", {"feedback": feedback, "clip": 1e38}
    group = wc.Compressor(scheme, scope="group", **settings)
    flat, together = (wc.Compressor(scheme, **settings) for _ in range(2))
    alone = {name: wc.Compressor(scheme, **settings) for name in names}
    for turn in range(5):
        g = {
            name: rng.standard_normal(size).astype(np.float32)
            for name, size in zip(names, sizes, strict=True)
        }
        g["t07"][11] = np.float32(3e37 if turn == 3 else 1)
        whole, sent = flat.prepare({"x": join(g)}), group.prepare(g)
        assert join({name: x.to_dense() for name, x in sent.sent.items()}).tobytes() == (
            whole.sent["x"].to_dense().tobytes()
        )
        whole.commit()
        sent.commit()
        each = wc.decode_many(together.compress(g))
        for name, c in alone.items():
            own = wc.decode_many(c.compress({name: g[name]}))[name]
            assert each[name].to_dense().tobytes() == own.to_dense().tobytes()
            for kept in ("residual", "momentum"):
                a, b = getattr(together, kept)(name), getattr(c, kept)(name)
                assert (a is None) == (b is None)
                assert a is None or a.tobytes() == b.tobytes()
        for kept in ("residual", "momentum"):
            if getattr(flat, kept)("x") is not None:
                found = join({name: getattr(group, kept)(name) for name in names})
                assert found.tobytes() == getattr(flat, kept)("x").tobytes()


def test_keys_make_groups() -> None:
    """Each key's tensors of one type are a group; tensors that are sent whole are not; nothing is lost."""
    rng = np.random.default_rng(4)
    schemes = {
        "*.bias": "all | raw-index | raw",
        "?.weight": "topk(0.1) | rice | qsgd",
        "*": "topk(k=7) | bloom(p0, 0.1) | raw",
    }
    c = wc.Compressor(schemes, scope="group")
    came, got = (np.zeros(sum(int(np.prod(s)) for s in SHAPES.values())) for _ in range(2))
    for turn in range(5):
        g = draw(rng)
        prepared = c.prepare(g | {"half": np.ones(300, np.float16)}, hold_zeros=turn == 2)
        counts = {name: x.nnz for name, x in prepared.sent.items()}
        assert counts["a.weight"] + counts["b.weight"] == 170
        assert counts["a.bias"] == 40
        prepared.commit()
        came += join(g)
        got += join({name: x.to_dense() for name, x in prepared.sent.items() if name in SHAPES})
        kept = {name: np.zeros(40) if name == "a.bias" else c.residual(name) for name in SHAPES}
        assert np.allclose(got + join(kept), came, atol=1e-3)


def test_a_group_under_allreduce() -> None:
    """All ranks have the same mean; errors name the tensor and its element."""

    def run(comm: Any) -> dict[str, Array]:
        c = wc.Compressor("topk(0.05) | rice | qsgd", scope="group", schedule=wc.WarmUp(2, hold=True))
        for turn in range(4):
            mean = co.allreduce(comm, draw(np.random.default_rng(10 * turn + comm.rank)), c)
        return mean

    first, second = co.simulate(2, run)
    assert all(x.tobytes() == second[name].tobytes() for name, x in first.items())
    g = draw(np.random.default_rng(1))
    g["b.weight"][30] = np.nan
    with pytest.raises(wc.EncodeError) as caught:
        wc.Compressor("topk(0.05) | rice | raw", scope="group").compress(g)
    assert (caught.value.tensor, caught.value.position) == ("b.weight", 30)


def test_a_scope_that_cannot_be() -> None:
    with pytest.raises(wc.EncodeError, match="weights are those of elements"):
        wc.Compressor("dct | budget(1) | rice | raw", scope="group", weights={"a": 0.5})
    with pytest.raises(wc.EncodeError, match="scope is 'model'"):
        wc.Compressor(scope="model")
