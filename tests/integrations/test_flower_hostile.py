"""Tests of hostile Flower clients: each is dropped and named, and the mean is that of the others."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wirecodec as wc

pytest.importorskip("flwr", reason="flwr is not installed")

from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
from flwr.serverapp.strategy import FedAvg

from collectives.errors import Refused
from collectives.integrations.acceptance import Acceptance, Model
from collectives.integrations.flower import Compressed, Dropped, wirecodec_mod
from collectives.integrations.flower_replies import Checks
from collectives.integrations.updates import CONTAINER
from tests.integrations.flower_run import Client, LocalGrid, arrays_of, record_of, start_task

MODEL = {"w": np.zeros((8, 5), np.float32), "b": np.ones(5, np.float32), "batches": np.int64(7)}
FLOATS = {name: x for name, x in MODEL.items() if name != "batches"}
GOOD = {name: np.full(np.shape(x), 0.5, np.float32) for name, x in FLOATS.items()}
PLAIN = {**MODEL, "batches": np.int64(8)}
HOSTILE = 3
COUNTS = {1: 10, 2: 30, HOSTILE: 10**6}


@pytest.fixture(autouse=True)
def identity() -> None:
    start_task()


def train(arrays: dict[str, Any], node: int) -> tuple[dict[str, Any], int]:
    moved = {"w": arrays["w"] + node, "b": arrays["b"] - node, "batches": np.int64(arrays["batches"] + 1)}
    return moved, COUNTS[node]


def run(change: Callable[[Message], Message] | None, nodes: tuple[int, ...] = (HOSTILE, 1, 2)) -> Any:
    """Return the model after a round, and what was dropped; ``change`` replaces replies of the third node."""

    def change_one(reply: Message) -> Message:
        return change(reply) if change and reply.metadata.src_node_id == HOSTILE else reply

    clients = [Client(node, train, [wirecodec_mod("nonzero | rice | raw")]) for node in nodes]
    strategy = Compressed(FedAvg(min_train_nodes=1), max_norm=100.0)
    result = strategy.start(LocalGrid(clients, change_one), record_of(MODEL), num_rounds=1)
    return arrays_of(result.arrays), strategy.dropped, result


def container(blob: Any, others: dict[str, Any] | None = None, stype: str = "wirecodec") -> ArrayRecord:
    blob = bytes(blob)
    held = Array(dtype="uint8", shape=(len(blob),), stype=stype, data=blob)
    plain = record_of({"batches": np.int64(8)} if others is None else others)
    return ArrayRecord({CONTAINER: held, **plain})


def encode(arrays: dict[str, Any]) -> bytes:
    blob: bytes = wc.encode_many(arrays, "all | raw-index | raw").tobytes()
    return blob


def plain(**changes: Any) -> ArrayRecord:
    arrays = {name: x for name, x in {**PLAIN, **changes}.items() if x is not None}
    return ArrayRecord({n: x if isinstance(x, Array) else Array(np.asarray(x)) for n, x in arrays.items()})


def raw(data: bytes, stype: str = "numpy.ndarray") -> Array:
    return Array(dtype="float32", shape=(8, 5), stype=stype, data=data)


def npy(header: str) -> bytes:
    text = header.encode("latin1")
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + bytes(160)


def object_array() -> bytes:
    stream = io.BytesIO()
    np.save(stream, np.array([[len]], dtype=object), allow_pickle=True)
    return stream.getvalue()


RECORDS = {
    "random bytes": (container(np.random.default_rng(0).bytes(300)), "magic"),
    "no bytes": (container(b""), "prefix"),
    "cut": (container(encode(GOOD)[:-1]), "container"),
    "other shapes": (container(encode({**GOOD, "w": np.zeros((5, 8), "f4")})), "schema-shape"),
    "other names": (container(encode({"w": GOOD["w"], "c": GOOD["b"]})), "schema-names"),
    "other types": (container(encode({**GOOD, "b": np.zeros(5)})), "schema-dtype"),
    "a large tensor": (container(encode({**GOOD, "w": np.zeros(10**6, "f4")})), "max-elements"),
    "many tensors": (container(encode({str(i): np.zeros(0, "f4") for i in range(5000)})), "max-entries"),
    "NaN": (container(encode({**GOOD, "b": np.full(5, np.nan, "f4")})), "nonfinite"),
    "Inf": (container(encode({**GOOD, "b": np.full(5, np.inf, "f4")})), "nonfinite"),
    "a large norm": (container(encode({**GOOD, "w": np.full((8, 5), 20, "f4")})), "max-norm"),
    "norms that add up": (
        container(
            encode({"w": np.full((8, 5), 15, "f4")}), {"b": np.full(5, 40, "f4"), "batches": np.int64(1)}
        ),
        "max-norm",
    ),
    "another stype": (container(encode(GOOD), stype="numpy.ndarray"), "record"),
    "no integers": (container(encode(GOOD), {}), "schema-names"),
    "other integers": (container(encode(GOOD), {"batches": np.zeros(9, np.int64)}), "schema-shape"),
    "more arrays": (container(encode(GOOD), {"batches": np.int64(8), "x": np.int64(8)}), "schema-names"),
    "plain: NaN": (plain(w=np.full((8, 5), np.nan, "f4")), "nonfinite"),
    "plain: a large norm": (plain(w=np.full((8, 5), 1e30, "f4")), "max-norm"),
    "plain: large integers": (plain(w=np.full((8, 5), 2**62)), "max-norm"),
    "plain: another byte order": (plain(w=np.full((8, 5), 1e30, ">f4")), "max-norm"),
    "plain: NaN in another byte order": (plain(w=np.full((8, 5), np.nan, ">f8")), "nonfinite"),
    "plain: another shape": (plain(w=np.zeros((8, 6), "f4")), "schema-shape"),
    "plain: text": (plain(w=np.full((8, 5), "x")), "schema-dtype"),
    "plain: complex numbers": (plain(w=np.zeros((8, 5), "c8")), "schema-dtype"),
    "plain: an array is missing": (plain(b=None), "schema-names"),
    "plain: one more": (plain(c=np.zeros(3)), "schema-names"),
    "plain: random bytes": (plain(w=raw(np.random.default_rng(1).bytes(300))), "array"),
    "plain: no bytes": (plain(w=raw(b"")), "array"),
    "plain: objects": (plain(w=raw(object_array())), "schema-shape"),
    "plain: a pickle": (plain(w=raw(pickle.dumps(len))), "array"),
    "plain: a huge claim": (
        plain(w=raw(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000,), }\n"))),
        "schema-shape",
    ),
    "plain: objects of the shape": (
        plain(w=raw(npy("{'descr': '|O', 'fortran_order': False, 'shape': (8, 5), }\n"))),
        "schema-dtype",
    ),
    "plain: too few bytes": (
        plain(w=raw(npy("{'descr': '<f8', 'fortran_order': False, 'shape': (8, 5), }\n"))),
        "array",
    ),
    "plain: a deep header": (plain(w=raw(npy("(" * 9000))), "array"),
    "plain: a header that is no dict": (plain(w=raw(npy("__import__('os')\n"))), "array"),
    "plain: another stype": (plain(w=raw(encode(GOOD), "wirecodec")), "array"),
}


@pytest.fixture(scope="module")
def honest() -> Any:
    """The model of a round without the hostile client."""
    start_task()
    return run(None, (1, 2))[0]


def replace(**records: Any) -> Callable[[Message], Message]:
    """Return a function that replaces records of a reply; None removes one."""

    def change(reply: Message) -> Message:
        if reply.metadata.message_type != "train":
            return reply
        content = {**reply.content, **records}
        reply.content = RecordDict({name: x for name, x in content.items() if x is not None})
        return reply

    return change


def check(change: Callable[[Message], Message], code: str, honest: Any) -> Dropped:
    arrays, dropped, result = run(change)
    assert [(one.round, one.client, one.code) for one in dropped] == [(1, HOSTILE, code)]
    assert arrays.keys() == honest.keys()
    for name, x in arrays.items():
        np.testing.assert_array_equal(x, honest[name])
    assert result.evaluate_metrics_clientapp[1]["loss"] == 0.25
    found: Dropped = dropped[0]
    return found


@pytest.mark.parametrize("case", RECORDS)
def test_hostile_arrays(case: str, honest: Any) -> None:
    record, code = RECORDS[case]
    assert str(check(replace(arrays=record), code, honest)).startswith(
        "round 1: dropped the update of client 3"
    )


@pytest.mark.parametrize(
    ("metrics", "code"),
    [
        ({"loss": 0.5}, "weight"),
        ({"loss": 0.5, "num-examples": -3}, "weight"),
        ({"loss": 0.5, "num-examples": 0}, "weight"),
        ({"loss": 0.5, "num-examples": float("nan")}, "weight"),
        ({"loss": 0.5, "num-examples": float("inf")}, "weight"),
        ({"loss": 0.5, "num-examples": 1e300}, "weight"),
        ({"loss": 0.5, "num-examples": [1, 2]}, "weight"),
        ({"loss": float("nan"), "num-examples": 5}, "nonfinite"),
        ({"loss": float("inf"), "num-examples": 5}, "nonfinite"),
        ({"num-examples": 5}, "record"),
        ({"loss": [0.5], "num-examples": 5}, "record"),
        ({"loss": 0.5, "num-examples": 5, "more": 1}, "record"),
    ],
)
def test_hostile_metrics(metrics: Any, code: str, honest: Any) -> None:
    check(replace(metrics=MetricRecord(metrics)), code, honest)


@pytest.mark.parametrize(
    "records",
    [
        {"arrays": None},
        {"arrays": None, "model": plain()},
        {"arrays": MetricRecord({"x": 1})},
        {"metrics": None},
        {"more": MetricRecord({"num-examples": 1})},
        {"more": plain()},
        {"arrays": None, "metrics": None},
    ],
)
def test_hostile_records(records: Any, honest: Any) -> None:
    check(replace(**records), "record", honest)


def test_a_client_that_was_not_asked(honest: Any) -> None:
    def change(reply: Message) -> Message:
        if "arrays" in reply.content:
            reply.metadata.__dict__["_src_node_id"] = 77
        return reply

    _, dropped, _ = run(change)
    assert [(one.client, one.code) for one in dropped] == [(77, "node")]


def test_hostile_metrics_of_evaluation(honest: Any) -> None:
    def change(reply: Message) -> Message:
        if "arrays" not in reply.content:
            reply.content = RecordDict({"metrics": MetricRecord({"num-examples": 1, "other": 0.5})})
        else:
            reply.content = RecordDict()
        return reply

    arrays, dropped, result = run(change)
    assert [(one.client, one.code) for one in dropped] == [(HOSTILE, "record")] * 2
    assert result.evaluate_metrics_clientapp[1]["loss"] == 0.25
    assert all(np.array_equal(x, honest[name]) for name, x in arrays.items())


def test_all_clients_are_hostile() -> None:
    clients = [Client(node, train) for node in (1, 2)]
    strategy = Compressed(FedAvg(fraction_evaluate=0.0))
    grid = LocalGrid(clients, replace(arrays=container(b"x" * 50)))
    result = strategy.start(grid, record_of(MODEL), num_rounds=2)
    assert len(result.arrays or {}) == 0
    assert [one.round for one in strategy.dropped] == [1, 1, 2, 2]


def test_a_client_without_the_mod_is_accepted_as_it_is(honest: Any) -> None:
    clients = [Client(1, train), Client(2, train, [wirecodec_mod("nonzero | rice | raw")])]
    strategy = Compressed(FedAvg(), max_norm=100.0)
    result = strategy.start(LocalGrid(clients), record_of(MODEL), num_rounds=1)
    assert strategy.dropped == []
    assert all(np.array_equal(x, honest[name]) for name, x in arrays_of(result.arrays).items())


def checks(**conditions: Any) -> Checks:
    return Checks("arrays", None, None, Acceptance(**conditions))


def test_fortran_order_and_double_precision_without_the_mod() -> None:
    content = RecordDict({"arrays": plain(w=np.asfortranarray(np.arange(40.0).reshape(8, 5)))})
    arrays = checks(max_norm=200.0).read(content, Model(MODEL, {"batches"}))
    assert arrays["w"].dtype == np.float32
    assert np.array_equal(arrays["w"], np.arange(40.0).reshape(8, 5))


def test_a_sum_that_overflows() -> None:
    """The movement is finite, and the model is not."""
    largest = np.full(3, np.finfo(np.float32).max)
    content = RecordDict({"arrays": container(encode({"w": largest}), {})})
    with pytest.raises(Refused, match="nonfinite"):
        checks().read(content, Model({"w": largest}))


def test_the_limits_of_the_caller() -> None:
    content = RecordDict({"arrays": container(encode(GOOD))})
    with pytest.raises(Refused, match="max-bytes"):
        checks(limits=wc.DecodeLimits(max_bytes=100)).read(content, Model(MODEL, {"batches"}))


def test_any_bytes_raise_rejected_only() -> None:
    """Mutated containers and arrays are accepted, or raise Refused."""
    rng = np.random.default_rng(5)
    header = np.frombuffer(Array(np.zeros((8, 5), np.float32)).data, np.uint8)
    verdicts = set()
    for _ in range(700):
        blob = np.frombuffer(encode(GOOD), np.uint8).copy()
        array = header.copy()
        for data in (blob, array[:128]):
            data[rng.integers(0, data.size, rng.integers(1, 4))] = rng.integers(0, 256)
        for record in (container(blob), plain(w=raw(array.tobytes()))):
            try:
                checks(max_norm=100.0).read(RecordDict({"arrays": record}), Model(MODEL, {"batches"}))
            except Refused as refused:
                verdicts.add(refused.code)
    assert len(verdicts) > 5


def test_the_loss_by_which_q_fedavg_weighs() -> None:
    from flwr.serverapp.strategy import QFedAvg

    judged = Compressed(QFedAvg(client_learning_rate=0.1, train_loss_key="train_loss"))._checks
    for loss, is_good in ((0.5, True), (0.0, True), (-1.0, False), (float("nan"), False), (None, False)):
        metrics = {"num-examples": 1} if loss is None else {"num-examples": 1, "train_loss": loss}
        content = RecordDict({"arrays": plain(), "metrics": MetricRecord(metrics)})
        if is_good:
            judged.read(content, Model(MODEL, {"batches"}))
        else:
            with pytest.raises(Refused, match="weight"):
                judged.read(content, Model(MODEL, {"batches"}))
