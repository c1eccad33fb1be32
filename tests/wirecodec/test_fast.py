"""Tests that ``cpu.fast`` changes only the time: bytes, states and errors are those of the plain way."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from typing import Any
from unittest import mock

import ml_dtypes
import numpy as np
import pytest

import wirecodec as wc
from formats.reference import reseal
from tests.fuzz.anatomy import Parts, assemble_parts, split_container
from wirecodec.arrays import addresses_of, aligned
from wirecodec.container.reader import read_header
from wirecodec.cpu import fast
from wirecodec.cpu import forms as cpu_forms
from wirecodec.cpu.fast import decode, encode
from wirecodec.cpu.fast.budget_search import BudgetSearch
from wirecodec.cpu.forms import current, describe
from wirecodec.kernels import term_forms as forms
from wirecodec.limits import UNLIMITED
from wirecodec.registry import index_codecs, value_codecs
from wirecodec.select.term_table import TermTable
from wirecodec.select.topk.rounded import least_float32

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


def add(blob: Any, model: dict[str, Any], dtype: Any) -> dict[str, bytes]:
    out = {name: np.full(x.size, 0.3, dtype) for name, x in model.items()}
    wc.decode_add(blob, out, scale=0.7)
    return {name: x.tobytes() for name, x in out.items()}


@pytest.mark.sampled(66)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_tensors_together_are_tensors_one_by_one(scheme: str, dtype: Any) -> None:
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
    with fast.off():
        assert together == run()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "scheme",
    ["topk(0.03) | rice | qsgd", "topk(0.002) | rice | raw", "topk(0.03) | rice | error-bounded(0.3)"],
)
def test_steps_together_are_steps_one_by_one(scheme: str, dtype: Any) -> None:
    def run() -> list[Any]:
        compressor, found = wc.Compressor({"*1": "all | raw-index | qsgd", "*": scheme}), []
        for factor in (-1.5, -0.5, 0.5, 0.55, 1e-4, 1e6, 0, 1e-4):
            model = {name: (x * factor).astype(dtype) for name, x in make_model(dtype).items()}
            found.append(compressor.compress(model, rank=1).tobytes())
        state = compressor.state_dict()
        return [*found, *((key, np.array(x).tobytes()) for key, x in state.items())]

    together = run()
    with fast.off():
        assert together == run()


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize(
    "scheme",
    [
        *("topk(0.03) | rice | qsgd", "topk(0.002) | rice | raw", "topk(0.4) | rice | raw"),
        *("threshold(0.5) | rice | raw", "all | raw-index | qsgd", "sidco(0.02) | rice | sign-scale"),
    ],
)
@pytest.mark.parametrize("momentum", [False, True])
def test_steps_of_16_bits_together_are_steps_one_by_one(scheme: str, dtype: Any, momentum: bool) -> None:
    """Sums are clamped to the type, rounded with ties to even, and may have many equal magnitudes."""
    most = float(ml_dtypes.finfo(dtype).max)

    def run() -> list[Any]:
        feedback = wc.MomentumCorrection(0.9) if momentum else wc.ErrorFeedback()
        compressor, found = wc.Compressor(scheme, feedback=feedback), []
        for factor in (-1.5, 0.501, 0.5, 2**-12, most / 9, most / 9, 1):
            model = {name: (x * factor).astype(dtype) for name, x in make_model(np.float64).items()}
            model = {name: np.clip(x, -most, most).astype(dtype) for name, x in model.items()}
            found.append(compressor.compress(model, rank=1).tobytes())
        state = compressor.state_dict()
        return [*found, *((key, np.array(x).tobytes()) for key, x in state.items())]

    with np.errstate(over="ignore"):
        together = run()
        with fast.off():
            assert together == run()


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("bad", [np.nan, -np.inf])
@pytest.mark.parametrize("at", [0, 63, 29_999])
def test_sums_of_16_bits_that_are_not_finite_fail_alike(dtype: Any, bad: float, at: int) -> None:
    gradient = np.random.default_rng(1).normal(size=30_000).astype(dtype)
    broken = gradient.copy()
    broken[at] = bad

    def run() -> tuple[str, bytes]:
        compressor = wc.Compressor("topk(0.01) | rice | raw")
        compressor.compress({"w": gradient})
        with pytest.raises(wc.EncodeError) as error:
            compressor.compress({"w": broken})
        return str(error.value), compressor.compress({"w": gradient}).tobytes()

    together = run()
    with fast.off():
        assert together == run()


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_the_least_float32_of_a_key_is_where_rounding_changes(dtype: Any) -> None:
    infinity = int(np.array(np.inf, dtype).view(np.uint16))
    keys = np.arange(1, infinity)
    least = np.array([least_float32(key, np.dtype(dtype)) for key in keys.tolist()], np.uint32)
    below = least - np.uint32(1)
    assert np.array_equal(least.view(np.float32).astype(dtype).view(np.uint16), keys)
    assert np.array_equal(below.view(np.float32).astype(dtype).view(np.uint16), keys - 1)


def test_a_sweep_serves_16_bit_sums() -> None:
    """A sample that is never believed would make this as slow as the plain way, with the same bytes."""
    gradient = np.random.default_rng(1).normal(size=200_000).astype(ml_dtypes.bfloat16)
    compressor = wc.Compressor("topk(0.01) | rice | raw")
    compressor.compress({"w": gradient})
    without = replace(current(), add_rounded=mock.Mock(side_effect=AssertionError))
    with mock.patch.dict(cpu_forms._table, {True: without}):
        compressor.compress({"w": gradient})


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_wrong_guess_of_a_threshold_affects_only_the_time(dtype: Any) -> None:
    """A guess may be too low, too high, or a key of a number that is not finite."""
    gradients = [x for x in make_model(dtype).values() if x.size > 63]
    residuals = [x[::-1].copy() for x in gradients]
    sizes = np.array([x.size for x in gradients])
    selector, largest = wc.selectors.TopK(0.01), (1 << 31) - 1 if dtype == np.float32 else (1 << 63) - 1

    def run(guesses: Any) -> tuple[list[bytes], Any]:
        sums = [aligned(x.size, dtype) for x in gradients]
        columns = np.zeros((len(sums), 5), np.int64)
        columns[:, [forms.GRADIENT, forms.RESIDUAL, forms.TOTAL]] = np.transpose(
            [addresses_of(arrays) for arrays in (gradients, residuals, sums)]
        )
        table = TermTable(columns, sizes, np.ones(3), forms.SUM, np.dtype(dtype))
        found = selector.select_each(table, guesses)
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
    (batch,) = encode.select_described(describe(list(model.values())), schemes)
    assert batch.keys.size >= 9  # not the empty, the full, the tied and perhaps the largest
    (entries,) = encode.encode_many([batch], {}, schemes, [x.shape for x in model.values()], (), 0)
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


@pytest.mark.parametrize("part", ["index_section", "value_section"])
@pytest.mark.parametrize("pair", ["huffman sketchml", "delta mean", "rle terngrad", "elias-fano 3lc"])
def test_entries_before_a_bad_one_are_decoded_once(pair: str, part: str) -> None:
    """The batch has them, so a container is not refused in twice the time of its entries."""
    index, value = pair.split()
    tensor = np.zeros(400, np.float32)
    tensor[::9] = np.linspace(-1, 1, 45)
    parts = split_container(wc.encode(tensor, f"nonzero | {index} | {value}").tobytes())
    assert parts is not None
    (row,) = parts.rows
    bad = replace(row, **{part: getattr(row, part)[:-1]})
    for at in (1, 5, 9):
        rows = [replace(bad if key == at else row, key=key) for key in range(10)]
        blob = np.frombuffer(assemble_parts(Parts(rows)), np.uint8)
        batches = decode.decode_batches(blob, read_header(blob, UNLIMITED))
        assert [batch.entries.tolist() for batch in batches] == [list(range(at))]
        errors = []
        for way in (nullcontext(), fast.off()):
            with way, pytest.raises(wc.WireError) as caught:
                wc.decode_many(blob)
            errors.append((caught.value.code, caught.value.entry, str(caught.value)))
        assert errors[0] == errors[1]
        assert errors[0][1] == at


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_nonfinite_element_is_reported_as_one_by_one(bad: float) -> None:
    model = make_model(np.float32)
    model["09"][77] = bad
    messages = []
    for way in (nullcontext(), fast.off()):
        with way, pytest.raises(wc.EncodeError) as caught:
            wc.encode_many(model, "topk(0.03) | rice | qsgd")
        messages.append(str(caught.value))
    assert messages[0] == messages[1]
    assert "tensor '09', element 77" in messages[0]


@pytest.mark.parametrize(
    "scheme",
    [f"topk(0.05) | rice | {value}" for value in ("qsgd(bits=5)", "raw", "error-bounded(0.1)")]
    + ["topk(0.05) | auto-index | raw"],
)
def test_damage_gives_the_error_of_one_by_one(scheme: str) -> None:
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
    with fast.off():
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


def test_an_empty_list_changes_nothing() -> None:
    out = np.ones(3)
    wc.decode_add([], out)
    assert (out == 1).all()


def test_no_tensors_are_added_to_no_arrays() -> None:
    wc.decode_add(wc.encode_many({}), {})
    wc.decode_add([wc.encode_many({})] * 2, {})


def test_arrays_that_overlap_are_added_in_order() -> None:
    blob = wc.encode_many({name: np.arange(1, 5, dtype="f4") for name in "abc"}, "all | raw-index | raw")
    memory = np.zeros(6, np.float32)
    wc.decode_add(blob, {"a": memory[:4], "b": memory[1:5], "c": memory[2:]})
    assert memory.tolist() == [1, 3, 6, 9, 7, 4]


FEEDBACKS = {
    "plain": wc.ErrorFeedback(),
    "decay": wc.ErrorFeedback(decay=0.9),
    "low-pass": wc.ErrorFeedback(beta=0.5),
    "momentum": wc.MomentumCorrection(),
    "nesterov": wc.MomentumCorrection(nesterov=True),
    "unmasked": wc.MomentumCorrection(masking=False),
}
STEP_SCHEMES = (
    "topk(0.01) | auto-index | qsgd(bits=4)",
    "topk(0.3) | bitmap | raw(float16)",
    "topk(0.02) | bloom | raw",
    "topk(0.02) | rice | polyfit",
    "threshold(2.5) | rice | raw",
    "sidco(0.02) | rice | qsgd",
    "adacomp(50) | rle | raw",
    "all | raw-index | raw",
    "budget(1) | auto-index | error-bounded",
    "budget(6) | auto-index | error-bounded",
)
WAYS: dict[str, dict[str, Any]] = {
    "tensor": {},
    "fused": {"fuse": 5000},
    "clipped": {"clip": 10.0},
    "group": {"scope": "group"},
    "clipped group": {"scope": "group", "clip": 10.0},
}


@pytest.mark.filterwarnings("ignore:.*does not hold the header")
@pytest.mark.sampled(40)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("feedback", FEEDBACKS)
@pytest.mark.parametrize("scheme", STEP_SCHEMES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, ml_dtypes.bfloat16])
@pytest.mark.parametrize("only", [None, "11", "09"])
def test_every_step_is_that_of_the_plain_way(
    way: str, feedback: str, scheme: str, dtype: Any, only: str | None
) -> None:
    """Models and single tensors, with a zero gradient in the third step and a NaN in the last."""
    factors = (1.0, -0.5, 0.0, 1e-4, 1e6, np.nan)

    def run() -> list[Any]:
        compressor, found = wc.Compressor(scheme, feedback=FEEDBACKS[feedback], **WAYS[way]), list[Any]()
        for factor in factors:
            model = {name: (x * min(factor, 1e6)).astype(dtype) for name, x in make_model(np.float64).items()}
            if np.isnan(factor):
                model = {name: x.copy() for name, x in make_model(dtype).items()}
                model["09"][7] = np.nan
            chosen = model if only is None else {only: model[only]}
            try:
                found.append(compressor.compress(chosen).tobytes())
            except wc.EncodeError as error:
                found.append(str(error))
        state = compressor.state_dict()
        return [*found, *((key, np.array(x).tobytes()) for key, x in state.items())]

    together = run()
    with fast.off():
        assert together == run()


BUDGETS = [
    *(f"budget({bits}) | rice | error-bounded" for bits in (0.05, 0.25, 1, 3, 8)),
    *("budget(0.25) | auto-index | error-bounded", "budget(1) | rice | error-bounded(0.2)"),
    *("budget(0.5) | rice | qsgd(bits=3)", "budget(0.5) | auto-index | raw"),
]


def make_sparse_model(step: int) -> dict[str, Any]:
    """Make tensors of which few elements, or nearly all, are not 0."""
    rng = np.random.default_rng(step)
    sizes = (9, 40, 300, 556, 1000, 4097, 9000, 30_000, 33_000, 70_001, 200_001)
    model = {f"{size}": rng.laplace(size=size) for size in sizes}
    model |= {f"{size}s": rng.laplace(size=size) * (rng.random(size) < 0.3 / (1 + step)) for size in sizes}
    model |= {"ties": np.sign(rng.normal(size=9000)), "zeros": np.zeros(5000), "tiny": np.full(5000, 1e-42)}
    return {name: x.astype(np.float32) for name, x in model.items()}


@pytest.mark.filterwarnings("ignore:.*does not hold the header", "ignore:.*bytes_per_step")
@pytest.mark.sampled(12)
@pytest.mark.parametrize("limit", [None, 3000, 60_000])
@pytest.mark.parametrize("scheme", BUDGETS)
def test_budgets_together_are_budgets_one_by_one(scheme: str, limit: int | None) -> None:
    def run() -> list[Any]:
        compressor, found = wc.Compressor(scheme, bytes_per_step=limit), list[Any]()
        for step in range(4):
            prepared = compressor.prepare(make_sparse_model(step), rank=1)
            prepared.commit()
            found += [
                prepared.blob.tobytes(),
                *(np.array(x.values).tobytes() for x in prepared.sent.values()),
            ]
        for step in range(2 if limit is None else 0):
            model = make_sparse_model(step) | {
                "empty": np.zeros(0, np.float32),
                "half": np.ones(99, np.float16),
            }
            found += [wc.encode_many(model, scheme, seed=3, fuse=fuse).tobytes() for fuse in (0, 500)]
        return [*found, *(np.array(x).tobytes() for x in compressor.state_dict().values())]

    together = run()
    with fast.off():
        assert together == run()


@pytest.mark.filterwarnings("ignore:.*does not hold the header")
def test_a_search_takes_nearly_all_tensors() -> None:
    """A tensor that the search leaves out has the same bytes, and takes far longer."""
    taken: list[tuple[int, int]] = []

    def run(search: BudgetSearch) -> Any:
        found = plain_run(search)
        taken.append((search.sizes.size, 0 if found is None else found.selection.members.size))
        return found

    plain_run = BudgetSearch.run
    compressor = wc.Compressor("budget(0.5) | rice | error-bounded")
    with mock.patch.object(BudgetSearch, "run", run):
        for _ in range(3):
            compressor.compress(make_sparse_model(0))
        wc.encode_many(make_sparse_model(0), "budget(0.5) | rice | error-bounded")
    assert len(taken) == 3  # the first step has no residuals
    for every, some in taken:
        assert every >= 24
        assert some >= every - 5  # not of zeros, nor of the smallest


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("feedback", [None, wc.ErrorFeedback(decay=0.9), wc.MomentumCorrection(0.9)])
def test_a_search_among_swept_sums_is_that_among_all(dtype: Any, feedback: Any) -> None:
    """Tensors begin anywhere in a cache line; some guesses fail, since magnitudes jump."""
    rng, sizes = np.random.default_rng(5), (70_000, 37, 1, 131_075, 64, 65_536)
    searched, swept = [], TermTable.add_and_sweep

    def sweep(table: TermTable, low: int) -> Any:
        searched.append(swept(table, low))
        return searched[-1]

    kind = {} if feedback is None else {"feedback": feedback}
    scheme = "budget(0.25) | rice | error-bounded"
    together, plain = (wc.Compressor(scheme, scope="group", **kind) for _ in range(2))
    with mock.patch.object(TermTable, "add_and_sweep", sweep):
        for scale in (1, 1, 1, 0.1, 30, 1, 0, 1, 1):
            model = {str(i): (scale * rng.laplace(size=n)).astype(dtype) for i, n in enumerate(sizes)}
            with cpu_forms.off():
                expected = plain.compress(model)
            assert bytes(together.compress(model)) == bytes(expected)
            for name in model:
                assert together.residual(name).tobytes() == plain.residual(name).tobytes()
    assert None in searched
    assert any(found is not None and found[0].size for found in searched)


def test_a_sweep_collects_sums_that_begin_anywhere() -> None:
    rng, sizes = np.random.default_rng(6), np.array([5000, 1, 1023, 64, 70_001, 15])
    for form in forms.SUM_NAMES:
        g, u, v = (rng.laplace(size=int(sizes.sum())).astype(np.float32) for _ in range(3))
        starts, memory = 4 * (np.cumsum(sizes) - sizes), aligned(g.size, g.dtype)
        after = [aligned(int(n), g.dtype) for n in sizes]
        columns = [x.ctypes.data + starts for x in (g, u, v)]
        addresses = np.stack([*columns, addresses_of(after), memory.ctypes.data + starts], axis=1)
        table = TermTable(addresses, sizes, np.array([0.5, 0.9, 1.1]), form, g.dtype)
        assert table.add()
        expected, momenta = memory.copy(), [x.copy() for x in after]
        keys = expected.view(np.uint32) & np.uint32(0x7FFFFFFF)
        low = int(np.sort(keys)[-4000])
        memory[:] = 0
        found = table.add_and_sweep(low)
        assert found is not None
        np.testing.assert_array_equal(memory, expected)
        np.testing.assert_array_equal(found[0], np.flatnonzero(keys >= low))
        np.testing.assert_array_equal(found[1], expected.view(np.uint32)[found[0]])
        if form >= forms.HEAVY_BALL:
            for x, y in zip(after, momenta, strict=True):
                np.testing.assert_array_equal(x, y)
        assert table.add_and_sweep(1) is None  # more than a share of all


@pytest.mark.parametrize("hold_zeros", [False, True])
def test_groups_with_weights_and_held_tensors_are_those_of_the_plain_way(hold_zeros: bool) -> None:
    def run() -> list[Any]:
        weights = {"0*": 4.0, "*": 1.0}
        budget = "budget(1) | auto-index | error-bounded"
        compressors = [
            wc.Compressor(budget, scope="group", weights=weights),
            wc.Compressor(budget, scope="group", bytes_per_step=20_000),
            wc.Compressor({"0*": "topk(0.05) | rice | raw", "*": "topk(0.02) | rice | raw"}, scope="group"),
        ]
        found = []
        for compressor in compressors:
            for factor in (1, 0, -0.3):
                model = {name: (x * factor).astype("f4") for name, x in make_model(np.float32).items()}
                model["11"] = make_model(np.float32)["11"]
                prepared = compressor.prepare(model, hold_zeros=hold_zeros)
                prepared.commit()
                found.append(prepared.blob.tobytes())
            found += [np.array(x).tobytes() for x in compressor.state_dict().values()]
        return found

    together = run()
    with fast.off():
        assert together == run()


def test_a_sparse_tensor_is_selected_with_its_group() -> None:
    rng = np.random.default_rng(4)
    counts = []
    compressor = wc.Compressor("topk(k=8) | rice | raw", scope="group")
    for _ in range(3):
        model: dict[str, Any] = {name: rng.standard_normal(9000).astype("f4") for name in "ab"}
        model["c"] = wc.SparseTensor.from_dense(rng.standard_normal(9000).astype("f4"))
        prepared = compressor.prepare(model)
        prepared.commit()
        counts.append(sum(x.nnz for x in prepared.sent.values()))
    assert counts == [8] * 3


@pytest.mark.parametrize("scheme", ["topk(0.1) | rice | raw", "randomk(0.1) | rice | raw"])
def test_the_memory_of_a_group_is_one_array(scheme: str) -> None:
    """A chain of views would grow with every step."""
    compressor = wc.Compressor(scheme, scope="group")
    for _ in range(20):
        compressor.compress({name: np.ones(9000, "f4") for name in "ab"})
    array: Any = compressor._holder.state.residuals["a"]
    depth = 0
    while array is not None:
        array, depth = getattr(array, "base", None), depth + 1
    assert depth <= 3
