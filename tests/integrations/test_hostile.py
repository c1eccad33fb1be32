"""Tests of hostile updates: one table and one generator, for each server, that skips or raises."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from collectives.errors import Refused
from collectives.integrations.acceptance import Acceptance, Model, Sent, check_metrics, check_weight, judge
from collectives.integrations.updates import CONTAINER
from tests.integrations.hostile import (
    COUNTERS,
    FLOATS,
    MAX_NORM,
    MODEL,
    UNMEASURED,
    UPDATES,
    Update,
    beside,
    check_accepted,
    pack,
    plain,
    random_update,
)

Server = Callable[[Update], tuple[dict[str, Any] | None, str]]
"""It returns the arrays that it uses, or None, and the code of the refusal."""


def flower(*, skip: bool, **conditions: Any) -> Server:
    """Return Flower's server; without ``skip``, the checks themselves, which raise."""
    pytest.importorskip("flwr", reason="flwr is not installed")
    from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
    from flwr.serverapp.strategy import FedAvg

    from collectives.integrations.flower import Compressed
    from tests.integrations.flower_run import LocalGrid, arrays_of, record_of, start_task

    start_task()

    class Inner(FedAvg):  # type: ignore[misc]
        def aggregate_train(self, server_round: int, replies: Any) -> Any:
            self.got = [one.content for one in replies]
            return None, None

    class Grid(LocalGrid):
        def get_node_ids(self) -> list[int]:
            return [3]

    def array_of(x: Any) -> Any:
        stream = io.BytesIO()
        np.save(stream, x, allow_pickle=False)
        return Array(dtype="float32", shape=(1,), stype="numpy.ndarray", data=stream.getvalue())

    def run(update: Update) -> tuple[dict[str, Any] | None, str]:
        inner = Inner(min_train_nodes=1, min_available_nodes=1)
        strategy = Compressed(inner, max_norm=MAX_NORM, **conditions)
        (message,) = strategy.configure_train(1, record_of(MODEL), _config(), Grid([]))
        arrays = {name: array_of(x) for name, x in (update.plain or {}).items()}
        if update.container is not None:
            arrays[CONTAINER] = Array("uint8", (1,), "wirecodec", update.container)
        metrics = MetricRecord({"num-examples": update.weight, **(update.metrics or {})})
        content = RecordDict({"arrays": ArrayRecord(arrays), "metrics": metrics})
        if skip:
            strategy.aggregate_train(1, [Message(content, reply_to=message)])
            codes = [one.code for one in strategy.dropped]
            return (arrays_of(inner.got[0]["arrays"]), "") if inner.got else (None, codes[0])
        try:
            model = Model({name: x.numpy() for name, x in record_of(MODEL).items()}, {"batches"})
            return strategy._checks.read(content, model), ""
        except Refused as refused:
            return None, refused.code

    return run


def _config() -> Any:
    from flwr.app import ConfigRecord

    return ConfigRecord()


def nvflare(*, skip: bool) -> Server:
    """Return NVFlare's filter."""
    pytest.importorskip("nvflare", reason="nvflare is not installed")
    from nvflare.apis.dxo import DataKind, MetaKey, from_shareable

    from collectives.integrations.nvflare import UpdateBlocked, WirecodecDecode
    from tests.integrations.test_nvflare import result, server

    ctx = server(MODEL)

    def run(update: Update) -> tuple[dict[str, Any] | None, str]:
        decode = WirecodecDecode(max_norm=MAX_NORM, skip=skip)
        meta = {MetaKey.NUM_STEPS_CURRENT_ROUND: update.weight, MetaKey.INITIAL_METRICS: update.metrics}
        data = dict(update.plain or {})
        if update.container is not None:
            meta[MetaKey.PROCESSED_ALGORITHM] = "wirecodec"
            data[CONTAINER] = update.container
        with contextlib.suppress(UpdateBlocked):
            got = from_shareable(decode.process(result(data, DataKind.WEIGHT_DIFF, **meta), ctx))
            assert skip or not decode.dropped
            if not decode.dropped:
                return got.data, ""
            assert got.data == {}
            assert set(got.meta) <= {MetaKey.NUM_STEPS_CURRENT_ROUND, MetaKey.FILTER_HISTORY}
        return None, decode.dropped[0].code

    return run


SERVERS = {"flower": flower, "nvflare": nvflare}
each_server = pytest.mark.parametrize("skip", [True, False], ids=["skip", "raise"])
each_framework = pytest.mark.parametrize("name", SERVERS)


@each_server
@each_framework
@pytest.mark.parametrize("case", UPDATES)
def test_hostile_updates(case: str, name: str, skip: bool) -> None:
    server: Server = SERVERS[name](skip=skip)
    assert server(UPDATES[case]) == (None, UPDATES[case].code)


@each_server
@each_framework
def test_honest_updates(name: str, skip: bool) -> None:
    server: Server = SERVERS[name](skip=skip)
    for update in (
        Update("", pack(), COUNTERS),
        Update("", None, plain()),
        Update("", pack(w=None), {**COUNTERS, "w": MODEL["w"]}, weight=65_000),  # a factor that float16 holds
        beside(code="", keep="half", x=np.full(3, 7, np.int8)),
        Update("", None, plain(batches=np.array(2**62))),
        Update("", pack(), COUNTERS, metrics={"loss": 1e300}),
    ):
        arrays, code = server(update)
        assert arrays is not None, code
        assert arrays.keys() == MODEL.keys()
        check_accepted(update, arrays)


@each_framework
@pytest.mark.parametrize("case", UNMEASURED)
def test_containers_of_other_types(case: str, name: str) -> None:
    server: Server = SERVERS[name](skip=True)
    arrays, code = server(Update("", UNMEASURED[case], COUNTERS))
    assert arrays is None
    assert code in ("dtype", "schema-dtype")


@each_server
@each_framework
def test_random_updates(name: str, skip: bool) -> None:
    """No update raises anything else, and what is used of the others is finite, and within the norm."""
    server: Server = SERVERS[name](skip=skip)
    rng = np.random.default_rng(7)
    codes, accepted = set(), 0
    for _ in range(150):
        update = random_update(rng)
        arrays, code = server(update)
        codes.add(code)
        if arrays is not None:
            accepted += 1
            check_accepted(update, arrays)
    assert "failed" not in codes
    assert len(codes) > 8
    assert accepted > 5


def test_flower_takes_partial_updates_of_optional_layers() -> None:
    server = flower(skip=True, optional=["b", "batches"])
    arrays, code = server(Update("", pack(b=None), {}))
    assert code == ""
    assert arrays is not None
    assert np.array_equal(arrays["b"], MODEL["b"])
    assert arrays["batches"] == 0
    assert np.all(arrays["w"] == 0.5)
    for update in (Update("", pack(b=None, w=None), {}), Update("", None, {"b": MODEL["b"]})):
        assert server(update) == (None, "schema-names")
    for case in UPDATES:
        assert server(UPDATES[case])[0] is None, case


@pytest.mark.parametrize(
    "weight", [True, "5", None, 10**400, -(10**400), 1j, np.float32("nan"), np.array([3.0]), b"1"]
)
def test_weights_that_only_some_frameworks_carry(weight: Any) -> None:
    with pytest.raises(Refused, match="weight"):
        check_weight("examples", weight)


@pytest.mark.parametrize(
    "metric", [10**400, 1j, np.zeros(3), object(), np.complex64(1), {"a": [{"b": np.inf}]}]
)
def test_metrics_that_only_some_frameworks_carry(metric: Any) -> None:
    with pytest.raises(Refused):
        check_metrics("metrics", {"x": metric})
    check_metrics("metrics", {"x": {"y": [1, 2.5, "text", None, True, np.float32(3)]}})


def test_metrics_that_are_deep() -> None:
    deep: Any = 1.0
    for _ in range(5000):
        deep = [deep]
    with pytest.raises(Refused, match="deep"):
        check_metrics("metrics", deep)


def test_an_error_of_any_kind_is_a_refusal() -> None:
    def fail() -> None:
        raise MemoryError("1 TiB")

    with pytest.raises(Refused, match="failed: MemoryError"):
        judge(fail)


def test_a_model_that_is_not_known_counts_all_numbers() -> None:
    acceptance = Acceptance(max_norm=10.0, optional=("*",), any_type=True)
    big = {"n": np.full(5, 10**6)}
    for sent in (
        Sent(None, big, "movements"),
        Sent(pack(), big, "movements"),
        Sent(None, {}, "movements", big),
    ):
        with pytest.raises(Refused, match="max-norm"):
            acceptance.accept(sent, None)
    got = acceptance.accept(Sent(pack(), COUNTERS, "movements"), None)
    assert {name: got[name].dtype for name in FLOATS} == {name: MODEL[name].dtype for name in FLOATS}
