"""Tests that tensors encoded and decoded together give what they give one by one."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import wirecodec as wc
from formats.reference import reseal
from wirecodec.arrays import addresses_of, aligned
from wirecodec.container.reader import read_header
from wirecodec.cpu.batch import decode, encode, selection
from wirecodec.cpu.columns import describe
from wirecodec.limits import UNLIMITED
from wirecodec.registry import index_codecs, value_codecs

INDEX = [codec.name for codec in index_codecs().values() if not codec.lossy]
VALUE = [codec.name for codec in value_codecs().values() if codec.name not in ("raw-float16", "raw-bfloat16")]
SCHEMES = [
    *(f"topk(0.03) | {name} | raw" for name in INDEX),
    *(f"topk(0.03) | rice | {name}" for name in VALUE),
    "topk(0.03) | auto-index | raw",
    "topk(0.002) | auto-index | qsgd",
    "topk(0.03) | rice | raw(bfloat16)",
    "topk(0.03) | rice | raw(float16)",
    "topk(0.03) | rice | qsgd(bits=7, bucket=48)",
    "topk(0.03) | rice | qsgd(norm=l2)",
    "topk(0.4) | rice | qsgd",
    "topk(0.002) | rice | raw",
    "topk(k=1) | rice | raw",
    "all | raw-index | qsgd",
]
SIZES = (0, 1, 2, 7, 40, 64, 511, 4096, 4097, 6000, 30_000, 200_001)


def make_model(dtype: Any) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    model = {f"{i:02}": rng.laplace(size=size) for i, size in enumerate(SIZES)}
    model |= {
        "ties": np.sign(rng.normal(size=9000)),
        "zeros": np.zeros(5000),
        "matrix": rng.normal(size=(90, 70)),
        "rising": np.linspace(-0.5, 9, 40_000),
        "falling": np.linspace(9, -0.5, 40_000),
    }
    return {name: x.astype(dtype) for name, x in model.items()}


def one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (encode, decode, selection):
        monkeypatch.setattr(module, "MIN_TENSORS", 10**9)


def add(blob: Any, model: dict[str, Any], dtype: Any) -> dict[str, bytes]:
    out = {name: np.full(x.size, 0.3, dtype) for name, x in model.items()}
    wc.decode_add(blob, out, scale=0.7)
    return {name: x.tobytes() for name, x in out.items()}


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_tensors_together_are_tensors_one_by_one(
    scheme: str, dtype: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = make_model(dtype)
    schemes = {"*1": "all | raw-index | raw", "*": scheme}

    def run() -> list[Any]:
        blobs = [wc.encode_many(model, schemes, seed=5), wc.encode_many(model, schemes, seed=5, fuse=500)]
        decoded = wc.decode_many(blobs[0])
        found = [
            (x.shape, np.array(x.indices).tobytes(), np.array(x.values).tobytes()) for x in decoded.values()
        ]
        sums = [add(blob, model, kind) for blob in blobs for kind in (np.float32, np.float64)]
        return [*(blob.tobytes() for blob in blobs), found, *sums]

    together = run()
    one_by_one(monkeypatch)
    assert together == run()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "scheme",
    ["topk(0.03) | rice | qsgd", "topk(0.002) | rice | raw", "topk(0.03) | rice | error-bounded(0.3)"],
)
def test_steps_together_are_steps_one_by_one(
    scheme: str, dtype: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run() -> list[Any]:
        compressor, found = wc.Compressor({"*1": "all | raw-index | qsgd", "*": scheme}), []
        for factor in (-1.5, -0.5, 0.5, 0.55, 1e-4, 1e6, 0, 1e-4):
            model = {name: (x * factor).astype(dtype) for name, x in make_model(dtype).items()}
            found.append(compressor.compress(model, rank=1).tobytes())
        state = compressor.state_dict()
        return [*found, *((key, np.array(x).tobytes()) for key, x in state.items())]

    together = run()
    one_by_one(monkeypatch)
    assert together == run()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_wrong_guess_of_a_threshold_affects_only_the_time(dtype: Any) -> None:
    """A guess may be too low, too high, or a key of a number that is not finite."""
    gradients = [x for x in make_model(dtype).values() if x.size > 63]
    residuals = [x[::-1].copy() for x in gradients]
    sizes = np.array([x.size for x in gradients])
    selector, largest = wc.TopK(0.01), (1 << 31) - 1 if dtype == np.float32 else (1 << 63) - 1

    def run(guesses: Any) -> tuple[list[bytes], Any]:
        sums = [aligned(x.size, dtype) for x in gradients]
        columns = np.array([addresses_of(arrays) for arrays in (gradients, residuals, sums)]).T.copy()
        found = selector.select_sum_batch(columns, sizes, np.dtype(dtype), guesses)
        assert found is not None
        for slot, member in enumerate(found.members.tolist()):
            sums[member][found.indices[found.cuts[slot] : found.cuts[slot + 1]]] = 0
        rests = [sums[member] for member in found.members.tolist()]
        return [x.tobytes() for x in (found.members, found.indices, found.values, *rests)], guesses

    expected, found = run(np.zeros(sizes.size, np.uint64))
    assert (found > 0).sum() >= 8  # not of zeros and ties, and perhaps not of the largest
    for guesses in (found, found // 2, found + found // 64, found * 0 + 1, found * 0 + np.uint64(largest)):
        assert run(guesses.copy())[0] == expected


def test_batches_are_used() -> None:
    model = make_model(np.float32)
    schemes = [wc.Scheme.parse("topk(0.03) | rice | qsgd")] * len(model)
    (batch,) = encode.select_batches(describe(list(model.values())), schemes)
    assert batch.keys.size >= 9  # not the empty, the full, the tied and perhaps the largest
    entries = encode.encode_selected(batch, seed=0)
    assert entries is not None
    assert np.array_equal(entries.keys, batch.keys)


@pytest.mark.parametrize(
    "scheme", [s for s in SCHEMES if not any(name in s for name in ("context", "polyfit", "dexpfit"))]
)
def test_all_entries_are_decoded_together(scheme: str) -> None:
    """A batch that refuses a sound section gives no other result, but takes far longer."""
    blob = wc.encode_many(make_model(np.float32), scheme)
    header = read_header(blob, UNLIMITED)
    decoded = np.concatenate([batch.entries for batch in decode.decode_batches(blob, header)])
    assert np.array_equal(np.sort(decoded), np.flatnonzero(header.table["r"]))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_nonfinite_element_is_reported_as_one_by_one(bad: float, monkeypatch: pytest.MonkeyPatch) -> None:
    model = make_model(np.float32)
    model["09"][77] = bad
    messages = []
    for _ in range(2):
        with pytest.raises(wc.EncodeError) as caught:
            wc.encode_many(model, "topk(0.03) | rice | qsgd")
        messages.append(str(caught.value))
        one_by_one(monkeypatch)
    assert messages[0] == messages[1]
    assert "tensor '09', element 77" in messages[0]


@pytest.mark.parametrize(
    "scheme",
    [f"topk(0.05) | rice | {value}" for value in ("qsgd(bits=5)", "raw", "error-bounded(0.1)")]
    + ["topk(0.05) | auto-index | raw"],
)
def test_damage_gives_the_error_of_one_by_one(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    model = {
        name: rng.laplace(size=size).astype("f4") for name, size in (("a", 900), ("b", 9000), ("c", 7000))
    }
    blob = wc.encode_many(model, scheme).tobytes()
    payload = (
        len(blob) - sum(entry.index_bytes + entry.value_bytes for entry in wc.inspect(blob).entries) - 48
    )
    damaged = []
    for _ in range(400):
        data = bytearray(blob)
        for _ in range(rng.integers(1, 3)):
            at = int(rng.integers(payload, len(blob)))
            data[at] ^= 1 << int(rng.integers(8))
        damaged.append(reseal(bytes(data)) if rng.random() < 0.9 else bytes(data))

    def judge(data: bytes) -> Any:
        out = {name: np.zeros(x.size, "f4") for name, x in model.items()}
        try:
            wc.decode_add(data, out)
        except wc.WireError as error:
            assert not any(x.any() for x in out.values())
            return error.code, str(error)
        return {name: x.tobytes() for name, x in out.items()}

    together = [judge(data) for data in damaged]
    one_by_one(monkeypatch)
    assert together == [judge(data) for data in damaged]
    codes = {found[0] for found in together if isinstance(found, tuple)}
    assert len(codes) >= 3


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_a_list_is_added_as_one_call_per_container(kind: Any) -> None:
    schemes = ["topk(0.2) | rice | raw", "all | raw-index | raw", "topk(0.01) | rice | qsgd"]
    schemes += ["topk(0.1) | delta | raw"]
    models = [{name: x * (i + 0.1) for name, x in make_model(np.float32).items()} for i in range(4)]
    for chosen in (schemes[:3], schemes, [schemes[0]] * 4, [schemes[3]]):
        blobs = [wc.encode_many(model, scheme) for model, scheme in zip(models, chosen, strict=False)]
        one, together = (
            {name: np.full(x.size, 0.3, kind) for name, x in models[0].items()} for _ in range(2)
        )
        for blob in blobs:
            wc.decode_add(blob, one, scale=0.7)
        wc.decode_add(blobs, together, scale=0.7)
        assert {name: x.tobytes() for name, x in one.items()} == {k: x.tobytes() for k, x in together.items()}


def test_a_list_with_a_bad_container_changes_nothing() -> None:
    model = make_model(np.float32)
    blob = wc.encode_many(model, "topk(0.2) | rice | raw")
    bad = bytearray(blob.tobytes())
    bad[-9] ^= 1
    for damaged, code in ((bytes(bad), "entry-checksum"), (b"", "prefix")):
        out = {name: np.zeros(x.size, np.float32) for name, x in model.items()}
        with pytest.raises(wc.WireError, match="container 2") as caught:
            wc.decode_add([blob, blob, damaged, blob], out)
        assert (caught.value.code, caught.value.container) == (code, 2)
        assert not any(x.any() for x in out.values())


def test_no_tensors_are_added_to_no_arrays() -> None:
    wc.decode_add(wc.encode_many({}), {})
    wc.decode_add([wc.encode_many({})] * 2, {})


def test_arrays_that_overlap_are_added_in_order() -> None:
    blob = wc.encode_many({name: np.arange(1, 5, dtype="f4") for name in "abc"}, "all | raw-index | raw")
    memory = np.zeros(6, np.float32)
    wc.decode_add(blob, {"a": memory[:4], "b": memory[1:5], "c": memory[2:]})
    assert memory.tolist() == [1, 3, 6, 9, 7, 4]
