"""Tests of the NVFlare filters: Shareables pass through FOBS, as between a client and the server."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wirecodec as wc

pytest.importorskip("nvflare", reason="nvflare is not installed")

from nvflare.apis.dxo import DXO, DataKind, MetaKey, from_shareable
from nvflare.apis.filter import ContentBlockedException
from nvflare.apis.fl_constant import ReservedKey, ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable, make_reply
from nvflare.app_common.abstract.model import make_model_learnable
from nvflare.app_common.app_constant import AppConstants
from nvflare.fuel.utils import fobs

from collectives.integrations.nvflare import UpdateBlocked, WirecodecDecode, WirecodecEncode
from collectives.integrations.updates import CONTAINER, UpdateError

SCHEME = "topk(0.1) | rice | raw"
FOUR_BITS = "topk(0.25) | rice | qsgd(bits=4)"
MODEL: dict[str, Any] = {
    "w": np.zeros((40, 5), np.float32),
    "b": np.zeros(5, np.float32),
    "batches": np.zeros(1, np.int64),
}


def context(name: str = "site-1", peer: str | None = None, model: Any = None) -> FLContext:
    ctx = FLContext()
    ctx.put(ReservedKey.IDENTITY_NAME, name, private=False, sticky=True)
    if peer is not None:
        ctx.set_peer_context(context(peer))
    if model is not None:
        learnable = make_model_learnable(weights=model, meta_props={})
        ctx.set_prop(AppConstants.GLOBAL_MODEL, learnable, private=True, sticky=True)
    return ctx


def server(model: Any = MODEL) -> FLContext:
    return context("server", "site-1", model)


def result(data: Any, kind: str = DataKind.WEIGHT_DIFF, **meta: Any) -> Shareable:
    shareable = DXO(kind, data, {MetaKey.NUM_STEPS_CURRENT_ROUND: 17, **meta}).to_shareable()
    shareable.set_header(AppConstants.CURRENT_ROUND, 4)
    return shareable


def through_bytes(shareable: Shareable) -> Shareable:
    import nvflare.app_common.decomposers.numpy_decomposers as decomposers

    fobs.register(decomposers.NumpyArrayDecomposer)
    copied: Shareable = fobs.loads(fobs.dumps(shareable))
    return copied


def residual_of(encode: WirecodecEncode, name: str) -> Any:
    residual = encode.state.residual(name)
    return None if residual is None else residual.reshape(MODEL[name].shape if name in MODEL else -1)


def movements(number: int) -> dict[str, Any]:
    rng = np.random.default_rng(number)
    data = {name: rng.integers(-9, 10, x.shape).astype(x.dtype) for name, x in MODEL.items()}
    return data


def test_rounds_of_a_pair_of_filters() -> None:
    encode, decode = WirecodecEncode(SCHEME), WirecodecDecode()
    arrived = {name: np.zeros_like(x) for name, x in MODEL.items()}
    for number in range(4):
        sent = encode.process(result(movements(number), site="A"), context())
        dxo = from_shareable(sent)
        assert list(dxo.data) == [CONTAINER, "batches"]
        assert len(dxo.data[CONTAINER]) < 300
        got = decode.process(through_bytes(sent), server())
        dxo = from_shareable(got)
        assert dxo.data_kind == DataKind.WEIGHT_DIFF
        assert dxo.get_meta_prop(MetaKey.NUM_STEPS_CURRENT_ROUND) == 17
        assert dxo.get_meta_prop("site") == "A"
        assert dxo.get_meta_prop(MetaKey.PROCESSED_ALGORITHM) is None
        assert dxo.get_filter_history() == ["WirecodecEncode", "WirecodecDecode"]
        assert got.get_header(AppConstants.CURRENT_ROUND) == 4
        for name, x in dxo.data.items():
            assert x.dtype == MODEL[name].dtype
            assert x.shape == MODEL[name].shape
            arrived[name] += x
    assert encode.state.step == 4
    for name, x in arrived.items():
        moved = sum(movements(number)[name] for number in range(4))
        rest = residual_of(encode, name)
        assert (rest is None) == (name == "batches")
        np.testing.assert_array_equal(x + (0 if rest is None else rest), moved)
    assert decode.dropped == []


def test_four_bits_on_the_host() -> None:
    encode, decode = WirecodecEncode(FOUR_BITS), WirecodecDecode()
    rng = np.random.default_rng(0)
    data = {"w": rng.normal(size=(1000, 100)).astype("f4")}
    sent = encode.process(result(data), context())
    blob = from_shareable(sent).data[CONTAINER]
    assert len(blob) < data["w"].nbytes / 15
    entry = wc.inspect(blob).entries[0]
    assert entry.value == "qsgd"
    assert 8 * entry.value_bytes / entry.nnz < 5
    got = from_shareable(decode.process(through_bytes(sent), context("server", "site-1"))).data
    assert np.count_nonzero(got["w"]) <= 25_000
    rest = np.asarray(encode.state.residual("w")).reshape(1000, 100)
    np.testing.assert_allclose(got["w"] + rest, data["w"], atol=1e-6)


def test_tensors_of_torch_come_back_as_tensors() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    data = {"w": torch.ones(4, 3), "half": torch.ones(3, dtype=torch.bfloat16), "n": torch.tensor([3])}
    for model in (None, {name: torch.zeros_like(x) for name, x in data.items()}):
        encode, decode = WirecodecEncode("all | raw-index | raw"), WirecodecDecode()
        sent = encode.process(result(data), context())
        got = from_shareable(decode.process(sent, context("server", "site-1", model))).data
        for name, x in data.items():
            assert got[name].dtype == x.dtype
            assert torch.equal(got[name], x)


def test_clients_draw_their_own_random_numbers() -> None:
    data = {"w": np.linspace(0, 1, 40, dtype="f4")}
    blobs = set()
    for name in ("site-1", "site-2"):
        sent = WirecodecEncode("all | raw-index | qsgd(bits=2)").process(result(data), context(name))
        blobs.add(from_shareable(sent).data[CONTAINER])
    assert len(blobs) == 2


def test_weights_pass_with_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    encode, decode = WirecodecEncode(SCHEME), WirecodecDecode(max_norm=200.0, kind="WEIGHTS")
    data = movements(0)
    for _ in range(2):
        sent = encode.process(result(data, DataKind.WEIGHTS), context())
        got = from_shareable(decode.process(sent, server()))
        assert all(np.array_equal(x, data[name]) for name, x in got.data.items())
        assert got.data.keys() == data.keys()
        assert got.data_kind == DataKind.WEIGHTS
    assert caplog.text.count("TransferType.DIFF") == 1
    assert encode.state.step == 0


def test_results_with_an_error_pass() -> None:
    reply = make_reply(ReturnCode.EXECUTION_EXCEPTION)
    assert WirecodecEncode(SCHEME).process(reply, context()) is reply
    assert WirecodecDecode().process(reply, server()) is reply


@pytest.mark.parametrize("strict", [True, False])
def test_layers_that_change(strict: bool) -> None:
    encode = WirecodecEncode(SCHEME, strict=strict)
    encode.process(result(movements(0)), context())
    before = residual_of(encode, "w")
    other = {"w": np.ones((5, 40), "f4"), "b": MODEL["b"]}
    if strict:
        with pytest.raises(UpdateError, match=r"'w' has shape \(5, 40\) and had \(40, 5\).*strict=False"):
            encode.process(result(other), context())
        assert np.array_equal(residual_of(encode, "w"), before)
        assert encode.state.step == 1
    else:
        encode.process(result(other), context())
        assert set(residual_of(encode, "w").ravel()) == {0.0, 1.0}


def test_a_movement_that_cannot_be_encoded() -> None:
    encode = WirecodecEncode(SCHEME)
    encode.process(result(movements(0)), context())
    before = residual_of(encode, "w")
    with pytest.raises(wc.EncodeError, match="tensor 'b', element 0"):
        encode.process(result({**movements(1), "b": np.full(5, np.inf, "f4")}), context())
    assert np.array_equal(residual_of(encode, "w"), before)


def test_other_filters() -> None:
    encode = WirecodecEncode(SCHEME)
    encrypted = result(movements(0), **{MetaKey.PROCESSED_ALGORITHM: "HE"})
    with pytest.raises(UpdateError, match="processed already"):
        encode.process(encrypted, context())
    collection = DXO(DataKind.COLLECTION, {"a": DXO(DataKind.WEIGHT_DIFF, movements(0))}).to_shareable()
    with pytest.raises(UpdateError, match="COLLECTION"):
        encode.process(collection, context())
    with pytest.raises(ValueError, match="names is False"):
        WirecodecEncode(SCHEME, names=False)


def pack(arrays: Any, **others: Any) -> dict[str, Any]:
    blob = wc.encode_many(arrays, "all | raw-index | raw").tobytes()
    return {CONTAINER: blob, **others}


GOOD = {"w": np.full((40, 5), 0.5, "f4"), "b": np.ones(5, "f4")}


@pytest.mark.parametrize(
    ("data", "code"),
    [
        ({CONTAINER: np.random.default_rng(0).bytes(400)}, "magic"),
        ({CONTAINER: b""}, "prefix"),
        ({CONTAINER: "text"}, "record"),
        ({CONTAINER: np.zeros(9, np.uint8)}, "record"),
        ({"w": GOOD["w"]}, "record"),
        (pack({**GOOD, "w": np.zeros((5, 40), "f4")}), "schema-shape"),
        (pack({**GOOD, "c": np.zeros(5, "f4")}), "max-entries"),
        (pack({"w": GOOD["w"], "c": np.zeros(5, "f4")}), "schema-names"),
        (pack({**GOOD, "w": np.zeros(10**6, "f4")}), "max-elements"),
        (pack({**GOOD, "b": np.full(5, np.nan, "f4")}), "nonfinite"),
        (pack({**GOOD, "b": np.full(5, 1e300)}), "max-norm"),
        (pack({**GOOD, "w": np.full((40, 5), 9, "f4")}), "max-norm"),
        (pack(GOOD, batches=np.zeros(2, np.int64)), "schema-shape"),
        (pack(GOOD, b=np.zeros(5, "f4")), "schema-names"),
        (pack(GOOD, more=np.zeros(5)), "schema-names"),
        (pack({"b": GOOD["b"]}, w=np.full((40, 5), np.nan, "f4")), "nonfinite"),
    ],
)
def test_hostile_containers(data: Any, code: str) -> None:
    decode = WirecodecDecode(max_norm=20.0)
    sent = result(data, **{MetaKey.PROCESSED_ALGORITHM: "wirecodec"})
    with pytest.raises(ContentBlockedException, match="client site-1") as raised:
        decode.process(sent, server())
    assert isinstance(raised.value, UpdateBlocked)
    assert [(one.round, one.client, one.code) for one in decode.dropped] == [(4, "site-1", code)]
    assert raised.value.dropped is decode.dropped[0]


@pytest.mark.parametrize(
    ("data", "code"),
    [
        ({**GOOD, "w": np.full((40, 5), 1e6, "f4")}, "max-norm"),
        ({**GOOD, "w": np.full((40, 5), 10**6)}, "max-norm"),
        ({**GOOD, "w": np.full((40, 5), 1e6, ">f4")}, "max-norm"),
        ({**GOOD, "w": [1, 2]}, "array"),
        ({**GOOD, "w": np.full((40, 5), "x")}, "schema-dtype"),
        ({**GOOD, "b": np.full(5, np.nan, "f4")}, "nonfinite"),
        ({**GOOD, "b": np.zeros(6, "f4")}, "schema-shape"),
    ],
)
def test_hostile_arrays(data: Any, code: str) -> None:
    decode = WirecodecDecode(max_norm=20.0)
    with pytest.raises(UpdateBlocked):
        decode.process(result(data), server())
    assert [one.code for one in decode.dropped] == [code]


def test_updates_that_are_skipped(caplog: pytest.LogCaptureFixture) -> None:
    decode = WirecodecDecode(skip=True)
    sent = result({CONTAINER: b"x" * 90}, **{MetaKey.PROCESSED_ALGORITHM: "wirecodec"})
    dxo = from_shareable(decode.process(sent, server()))
    assert dxo.data == {}
    assert dxo.get_meta_prop(MetaKey.NUM_STEPS_CURRENT_ROUND) == 17
    assert [one.code for one in decode.dropped] == ["magic"]
    assert "dropped the update of client site-1" in caplog.text


def test_a_client_without_the_filter_is_accepted_as_it_is() -> None:
    decode = WirecodecDecode(max_norm=20.0)
    data = {**GOOD, "batches": np.full(1, 10**9)}
    got = from_shareable(decode.process(result(data), server())).data
    assert got.keys() == data.keys()
    assert all(np.array_equal(x, data[name]) for name, x in got.items())


def test_a_server_that_does_not_know_the_model() -> None:
    decode = WirecodecDecode(max_norm=20.0, limits={"max_dense": 1000, "max_bytes": 4040})
    meta = {MetaKey.PROCESSED_ALGORITHM: "wirecodec"}
    got = decode.process(result(pack(GOOD), **meta), context("server", "site-1"))
    assert all(np.array_equal(x, GOOD[name]) for name, x in from_shareable(got).data.items())
    for data, code in (
        (pack({"w": np.zeros(1001, "f2")}), "max-dense"),
        (pack({"w": np.zeros(1000, "f8")}), "max-bytes"),
    ):
        with pytest.raises(UpdateBlocked):
            decode.process(result(data, **meta), context("server", "site-1"))
        assert decode.dropped[-1].code == code


def test_types_that_differ_from_those_of_the_model() -> None:
    encode, decode = WirecodecEncode("all | raw-index | raw"), WirecodecDecode()
    data = {"w": np.full((40, 5), 0.5), "b": np.ones(5, np.float16), "batches": MODEL["batches"]}
    got = from_shareable(decode.process(encode.process(result(data), context()), server())).data
    assert {name: x.dtype for name, x in got.items()} == {name: x.dtype for name, x in MODEL.items()}


def test_values_that_the_type_of_the_model_does_not_hold() -> None:
    decode = WirecodecDecode()
    meta = {MetaKey.PROCESSED_ALGORITHM: "wirecodec"}
    with pytest.raises(UpdateBlocked, match="nonfinite"):
        decode.process(result(pack({"w": np.full((40, 5), 1e300)}), **meta), server())


def test_mutated_containers_raise_update_blocked_only() -> None:
    rng, decode = np.random.default_rng(3), WirecodecDecode(max_norm=20.0)
    blob = np.frombuffer(pack(GOOD)[CONTAINER], np.uint8)
    for _ in range(500):
        data = blob.copy()
        data[rng.integers(0, data.size, rng.integers(1, 4))] = rng.integers(0, 256)
        sent = result({CONTAINER: data.tobytes()}, **{MetaKey.PROCESSED_ALGORITHM: "wirecodec"})
        with contextlib.suppress(UpdateBlocked):
            decode.process(sent, server())
    assert len(decode.dropped) > 100


def test_a_job_holds_the_arguments(tmp_path: Path) -> None:
    """A job's configuration has the arguments, and builds the same filters."""
    from nvflare.job_config.api import FedJob
    from nvflare.job_config.defs import FilterType

    job = FedJob(name="job", min_clients=1)
    encode = WirecodecEncode({"*.b": "all | raw-index | raw", "*": SCHEME}, strict=False, seed=5, clip=2.0)
    job.to(encode, "site-1", filter_type=FilterType.TASK_RESULT, tasks=["train"])
    decode = WirecodecDecode(limits=wc.DecodeLimits(max_bytes=777), max_norm=3.0)
    job.to(decode, "server", filter_type=FilterType.TASK_RESULT, tasks=["train"])
    job.export_job(str(tmp_path))
    found = {}
    for path in tmp_path.rglob("config_fed_*.json"):
        for group in json.loads(path.read_text()).get("task_result_filters", []):
            found.update({one["path"].rpartition(".")[2]: one for one in group["filters"]})
    assert set(found) == {"WirecodecEncode", "WirecodecDecode"}
    assert all(one["path"].startswith("collectives.integrations.nvflare.") for one in found.values())
    again = WirecodecEncode(**found["WirecodecEncode"]["args"])
    assert again.state.signature == encode.state.signature
    assert again.compressor == {"seed": 5, "clip": 2.0}
    assert again.strict is False
    arguments = found["WirecodecDecode"]["args"]
    assert arguments["max_norm"] == 3.0
    assert arguments["limits"]["args"] == {"max_bytes": 777}


def test_a_weight_that_overflows_the_type_of_a_layer() -> None:
    """Aggregators multiply by the weight first, in the type of the layer."""
    decode = WirecodecDecode(max_norm=20.0)
    half = {"half": np.full(4, 2, np.float16)}
    for weight, code in ((20_000, []), (40_000, ["nonfinite"])):
        with contextlib.suppress(UpdateBlocked):
            decode.process(result(half, NUM_STEPS_CURRENT_ROUND=weight), server(half))
        assert [one.code for one in decode.dropped] == code


@pytest.mark.parametrize("kind", ["WEIGHTS", "COLLECTION", "FL_MODEL", "anything", "", None, 5])
def test_results_of_another_kind(kind: Any) -> None:
    """FedAvg would add them up, and the first result of a round would set the kind of all."""
    decode = WirecodecDecode(skip=True)
    sent = result(dict(GOOD))
    sent["DXO"]["kind"] = kind
    got = from_shareable(decode.process(sent, server()))
    assert (got.data, got.data_kind) == ({}, "WEIGHT_DIFF")
    assert [one.code for one in decode.dropped] == ["kind"]


@pytest.mark.parametrize("code", ["", None, 0])
def test_a_return_code_that_a_workflow_takes_for_ok(code: Any) -> None:
    decode = WirecodecDecode(max_norm=1.0)
    sent = result(dict(GOOD))
    sent.set_return_code(code)
    with pytest.raises(UpdateBlocked, match="max-norm"):
        decode.process(sent, server())


@pytest.mark.parametrize(
    ("meta", "code"),
    [
        ({"control": {"w": [np.full(9, 1e6)]}}, "max-norm"),
        ({"control": {"w": np.full(9, np.nan)}}, "nonfinite"),
        ({MetaKey.INITIAL_METRICS: {"loss": np.ones(3)}}, "record"),
        ({MetaKey.PROCESSED_ALGORITHM: "HE"}, "record"),
        ({MetaKey.NUM_STEPS_CURRENT_ROUND: "x"}, "weight"),
        ({MetaKey.NUM_STEPS_CURRENT_ROUND: True}, "weight"),
        ({MetaKey.FILTER_HISTORY: np.ones(3)}, None),
    ],
)
@pytest.mark.parametrize("data", [GOOD, {}], ids=["arrays", "empty"])
def test_hostile_meta_information(meta: Any, code: str | None, data: Any) -> None:
    decode = WirecodecDecode(max_norm=20.0, skip=True)
    decode.process(result(dict(data), **meta), server())
    assert [one.code for one in decode.dropped] == ([] if code is None else [code])


def test_metrics_are_finite_and_their_arrays_count() -> None:
    decode = WirecodecDecode(max_norm=20.0, skip=True)
    for data in ({"loss": 1e6, "name": "x"}, {"loss": np.nan}, {"matrix": np.full(9, 1e6)}):
        decode.process(result(data, DataKind.METRICS), server())
    assert [one.code for one in decode.dropped] == ["nonfinite", "max-norm"]


def test_counters_that_the_mean_has_made_floats() -> None:
    decode = WirecodecDecode(max_norm=20.0)
    for model in (MODEL, {**MODEL, "batches": MODEL["batches"].astype(float)}):
        got = decode.process(result({**GOOD, "batches": np.full(1, 1000)}), server(model))
        assert from_shareable(got).data["batches"] == 1000


def test_partial_updates() -> None:
    decode = WirecodecDecode(max_norm=20.0)
    encode = WirecodecEncode("all | raw-index | raw")
    got = from_shareable(decode.process(encode.process(result({"w": GOOD["w"]}), context()), server()))
    assert list(got.data) == ["w"]
