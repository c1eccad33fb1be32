"""The place of lossy index codecs in the pipeline: values are gathered at the indices that readers will find.

Bloom filters serve as the example, and a codec of a user's own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

import wirecodec as wc
from formats.reference import Row, assemble
from tests import oracles
from wirecodec.index.base import Approximation

POLICIES = ("naive", "p0", "p1", "p2", "leftmost", "middle", "rightmost")
GATHERING = POLICIES[1:]


def top(policy: str, fpr: float = 0.01, value: str = "raw") -> str:
    return f"topk(0.05) | bloom(policy={policy}, fpr={fpr}) | {value}"


@pytest.mark.sampled
@pytest.mark.parametrize("policy", GATHERING)
def test_values_are_those_of_the_dense_tensor(policy: str, dtype: Any, rng: np.random.Generator) -> None:
    x = rng.normal(size=(40, 100)).astype(dtype)
    decoded = wc.decode(wc.encode(x, top(policy)))
    assert np.array_equal(decoded.values, x.reshape(-1)[decoded.indices])
    kept = oracles.top_k(x.reshape(-1), 200)
    assert decoded.nnz == 200 or policy == "p0"
    assert np.isin(decoded.indices, kept).mean() > 0.7
    if policy == "p0":
        assert decoded.nnz > 200
        assert np.isin(kept, decoded.indices).all()


def test_naive_lays_the_values_onto_the_first_positives(rng: np.random.Generator) -> None:
    x = rng.normal(size=4000).astype(np.float32)
    naive, leftmost = (wc.decode(wc.encode(x, top(policy))) for policy in ("naive", "leftmost"))
    kept = oracles.top_k(x, 200)
    assert np.array_equal(naive.values, x[kept])
    assert np.array_equal(naive.indices, leftmost.indices)
    first = next(i for i, (a, b) in enumerate(zip(naive.indices, kept, strict=True)) if a != b)
    assert (naive.indices[first + 1 :] < kept[first + 1 :]).mean() > 0.9


def test_what_a_sparse_tensor_does_not_store_is_zero(rng: np.random.Generator) -> None:
    where = np.sort(rng.choice(5000, 200, replace=False))
    sparse = wc.SparseTensor(where, rng.normal(size=200), (50, 100))
    for selector in ("all", "nonzero"):
        for policy in GATHERING:
            decoded = wc.decode(wc.encode(sparse, f"{selector} | bloom(policy={policy}, fpr=0.03) | raw"))
            assert np.array_equal(decoded.values, sparse.to_dense().reshape(-1)[decoded.indices])
            assert not np.isin(decoded.indices, where).all()
    lossless = wc.decode(wc.encode(sparse, "all | bloom(fpr=0.1) | raw"))
    assert np.array_equal(lossless.to_dense(), sparse.to_dense())


@pytest.mark.parametrize("policy", POLICIES)
def test_fused_tensors_gather_from_their_own(policy: str, rng: np.random.Generator) -> None:
    tensors: dict[str, Any] = {f"{n:02}": rng.normal(size=n).astype(np.float32) for n in (3, 70, 129, 500)}
    tensors["none"] = np.zeros(60, np.float32)
    tensors["sparse"] = wc.SparseTensor([5, 90], np.float32([7, 8]), 200)
    tensors["empty"] = wc.SparseTensor([], np.empty(0, np.float32), 40)
    scheme = f"nonzero | bloom(policy={policy}, fpr=0.02) | raw"
    scheme = {"[0-9]*": top(policy, 0.05), "*": scheme}
    decoded = wc.decode_many(wc.encode_many(tensors, scheme, fuse=1000))
    assert len(wc.inspect(wc.encode_many(tensors, scheme, fuse=1000)).entries) == 2
    for name, tensor in tensors.items():
        x = np.asarray(tensor)
        assert decoded[name].shape == x.shape
        if policy != "naive":
            assert np.array_equal(decoded[name].values, x[decoded[name].indices]), name
        if policy == "p0" and not name.isdigit():
            assert np.array_equal(decoded[name].to_dense(), x)


@pytest.mark.parametrize("policy", ["p0", "p1", "p2"])
def test_chunks_gather_from_their_own(policy: str, rng: np.random.Generator) -> None:
    size = 2**24 + 70_000
    where = np.unique(rng.integers(0, size, 30_000))
    where = np.concatenate([where, np.arange(2**24 + 100, 2**24 + 900)])
    x = np.zeros(size, np.float16)
    x[np.unique(where)] = rng.normal(size=np.unique(where).size)
    for tensor in (x, wc.SparseTensor.from_dense(x)):
        blob = wc.encode(tensor, f"nonzero | bloom(policy={policy}, fpr=0.0005) | raw", seed=1)
        decoded = wc.decode(blob)
        assert np.array_equal(decoded.values, x[decoded.indices])
        assert np.isin(decoded.indices[decoded.indices > 2**24], np.flatnonzero(x)).any()
        if policy == "p0":
            assert np.array_equal(decoded.to_dense(), x)


def test_full_and_empty_supports_take_no_index_bytes(rng: np.random.Generator) -> None:
    x = rng.normal(size=50).astype(np.float32)
    for policy in POLICIES:
        for tensor, nnz in ((x, 50), (np.zeros(50, np.float32), 0)):
            blob = wc.encode(tensor, f"nonzero | bloom(policy={policy}) | raw")
            info = wc.inspect(blob).entries[0]
            assert (info.nnz, info.index_bytes) == (nnz, 0)
            assert np.array_equal(wc.decode(blob).to_dense(), tensor)
    x = rng.normal(size=130).astype(np.float32)
    x[[70, 71, 128]] = 0
    blob = wc.encode(x, "nonzero | bloom(fpr=0.9999999) | raw")
    info = wc.inspect(blob).entries[0]
    assert (info.nnz, info.index, info.index_bytes) == (130, "bloom", 0)
    assert np.array_equal(wc.decode(blob).to_dense(), x)


@pytest.mark.parametrize("policy", POLICIES)
def test_same_input_same_bytes(policy: str, rng: np.random.Generator) -> None:
    x = rng.normal(size=3000).astype(np.float32)
    scheme = top(policy, 0.02, "qsgd")
    first = wc.encode(x, scheme, seed=11)
    strided = np.empty((3000, 2), np.float32)[:, 0]
    strided[...] = x
    for same in (x.copy(), strided, x.astype(">f4")):
        assert np.array_equal(first, wc.encode(same, scheme, seed=11))
    seeds = {wc.encode(x, top(policy, 0.02), seed=seed).tobytes() for seed in range(5)}
    assert len(seeds) == (5 if policy in ("p1", "p2") else 1)


@pytest.mark.parametrize("policy", POLICIES)
def test_residual_and_sent_are_the_gradient(policy: str, rng: np.random.Generator) -> None:
    c = wc.Compressor(top(policy), seed=3)
    residual = np.zeros(2000, np.float32)
    for _ in range(4):
        g = rng.normal(size=2000).astype(np.float32)
        prepared = c.prepare({"w": g})
        sent = c.decompress(prepared.blob)["w"].to_dense()
        prepared.commit()
        x, residual = residual + g, c.residual("w")
        if policy == "naive":
            assert np.allclose(residual + sent, x, atol=1e-6)
        else:
            assert np.array_equal(residual + sent, x)
            assert np.array_equal(residual[sent != 0], np.zeros((sent != 0).sum()))


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_is_sent_or_refused(policy: str, bad: float) -> None:
    """Only p0 keeps every selected element; under other policies a NaN could be lost with its residual."""
    c = wc.Compressor(f"nonzero | bloom(policy={policy}, fpr=0.3) | raw", fuse=1000)
    rng = np.random.default_rng(3)
    named = {name: np.where(rng.random(400) < 0.2, 1, 0).astype(np.float32) for name in ("a", "w")}
    c.compress(named)
    before = c.state_dict()
    named["w"][361] = bad
    if policy == "p0":
        assert not np.isfinite(c.prepare(named).sent["w"].to_dense()[361])
        return
    with pytest.raises(wc.EncodeError, match=rf"tensor 'w', element 361: bloom.* cannot carry {bad}"):
        c.compress(named)
    assert all(np.array_equal(before[k], v) for k, v in c.state_dict().items())


@dataclass(frozen=True)
class EveryTenth:
    """Selector that ignores the values."""

    name: ClassVar[str] = "every-tenth"

    def select(self, x: Any, **_: Any) -> wc.Selection:
        return wc.Selection(np.arange(0, x.size, 10, dtype=np.int32))


def test_errors_name_the_element_whose_value_was_gathered() -> None:
    scheme = wc.Scheme(EveryTenth(), wc.codecs.Bloom(fpr=0.1), wc.codecs.Raw())
    found = wc.decode(wc.encode(np.ones(1000, np.float32), scheme)).indices
    false = int(found[found % 10 != 0][3])
    for bad, value, message in (
        (np.nan, wc.codecs.QSGD(), "cannot carry nan"),
        (1e30, wc.codecs.Raw("float16"), "too large for float16"),
    ):
        x = np.ones(1000, np.float32)
        x[false] = bad
        for fuse in (0, 5000):
            tensors = {"a": np.ones(30, np.float32), "b": x} if fuse else {"b": x}
            scheme = wc.Scheme(EveryTenth(), wc.codecs.Bloom(fpr=0.9999999 if fuse else 0.1), value)
            with pytest.raises(wc.EncodeError, match=rf"tensor 'b', element {false}: .*{message}"):
                wc.encode_many(tensors, scheme, fuse=fuse)
        naive = wc.Scheme(EveryTenth(), wc.codecs.Bloom("naive", 0.1), value)
        wc.encode(x, naive)
        x[70] = bad
        with pytest.raises(wc.EncodeError, match=f"element 70: .*{message}"):
            wc.encode(x, naive)


@dataclass(frozen=True)
class Pairs:
    """User-defined lossy codec: one bit per pair of neighbours, which are both present or both absent."""

    name: ClassVar[str] = "pairs"
    wire_id: ClassVar[int] = 0x95
    lossy: ClassVar[bool] = True

    def encode(self, indices: Any, d: int, stream: int) -> Any:
        return np.packbits(np.isin(np.arange(-(-d // 2)), indices // 2), bitorder="little")

    def approximate(self, indices: Any, d: int, stream: int) -> Approximation:
        section = self.encode(indices, d, stream)
        return Approximation(section, self._read(section, d))

    @staticmethod
    def _read(section: Any, d: int) -> Any:
        found = np.repeat(np.unpackbits(section, bitorder="little"), 2)[:d]
        return np.flatnonzero(found).astype(np.uint32)

    @classmethod
    def work(cls, section: Any, d: int, r: int) -> Any:
        return 1000 * section.size if section[0] != 77 else "many"

    @classmethod
    def decode(cls, section: Any, d: int, r: int, limits: Any) -> Any:
        return cls._read(section, d)


@pytest.fixture
def own(own_registry: None) -> None:
    """Register ``Pairs`` for one test."""
    wc.register(Pairs)


@pytest.mark.usefixtures("own")
def test_a_lossy_codec_of_ones_own(rng: np.random.Generator) -> None:
    x = rng.normal(size=1001).astype(np.float32)
    decoded = wc.decode(wc.encode(x, "topk(0.1) | pairs | raw"))
    pairs = {i // 2 for i in oracles.top_k(x, 100)}
    assert decoded.indices.tolist() == [i for i in range(1001) if i // 2 in pairs]
    assert np.array_equal(decoded.values, x[decoded.indices])


@pytest.mark.usefixtures("own")
def test_a_lossy_codec_of_ones_own_is_not_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.ones(100, np.float32)
    for wrong in ([3, 2], [2, 2], [0, 100], [0.5], [[1, 2]]):
        monkeypatch.setattr(Pairs, "_read", staticmethod(lambda *_, w=wrong: np.array(w)))
        with pytest.raises(wc.EncodeError, match="indices"):
            wc.encode(x, "topk(0.1) | pairs | raw")
    with pytest.raises(wc.EncodeError, match="a lossy index codec must define it"):
        wc.register(
            type("Half", (), {"name": "half", "wire_id": 0x96, "lossy": True, **_codec_attributes(Pairs)})
        )


def _codec_attributes(cls: Any) -> dict[str, Any]:
    """Return the attributes that turn a class into a dataclass and an index codec."""
    return {name: cls.__dict__[name] for name in ("encode", "decode", "__dataclass_fields__")}


@pytest.mark.usefixtures("own")
def test_the_work_of_registered_codecs_counts() -> None:
    def blob(first: int, entries: int) -> bytes:
        section = bytes([first]) + bytes(1)
        r = 2 * first.bit_count()
        return assemble([Row(key, 0, 30, r, 1, 0x95, 1, section, bytes(4 * r)) for key in range(entries)])

    assert len(wc.decode_many(blob(3, 3), limits=wc.DecodeLimits(max_work=6000))) == 3
    with pytest.raises(wc.LimitExceeded) as caught:
        wc.decode_many(blob(3, 3), limits=wc.DecodeLimits(max_work=5999))
    assert (caught.value.code, caught.value.entry) == ("max-work", 2)
    with pytest.raises(wc.Invalid) as odd:
        wc.decode_many(blob(77, 1))
    assert odd.value.code == "codec-failed"


@pytest.mark.usefixtures("own_registry")
def test_a_lossy_codec_that_derives_from_the_base_class_is_lossy() -> None:
    """It encodes without ``register``: only readers need that."""

    @dataclass(frozen=True)
    class Neighbours(wc.IndexCodec):
        name: ClassVar[str] = "neighbours"
        wire_id: ClassVar[int] = 0xF3
        lossy: ClassVar[bool] = True

        def encode(self, indices: Any, d: int, stream: int) -> Any:
            return indices.astype("<u4").view(np.uint8)

        def approximate(self, indices: Any, d: int, stream: int) -> Any:
            found = np.unique(np.r_[indices, np.minimum(indices + 1, d - 1)]).astype(np.uint32)
            return Approximation(self.encode(found, d, stream), found, complete=True)

        @classmethod
        def decode(cls, section: Any, d: int, r: int, limits: Any) -> Any:
            return section.view("<u4").copy()

    x = np.array([0, 0, 5, 0, 0, 9, 0, 1], np.float32)
    scheme = wc.Scheme(wc.selectors.TopK(k=2), Neighbours(), wc.codecs.Raw())
    blob = wc.encode(x, scheme)
    assert Neighbours().max_decoded(2, 8) == 8
    wc.register(Neighbours)
    assert wc.decode(blob).indices.tolist() == [2, 3, 5, 6]
