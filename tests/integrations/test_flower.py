"""Tests of the Flower adapter: rounds of real ClientApps and strategies in this process."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wirecodec as wc

pytest.importorskip("flwr", reason="flwr is not installed")

from flwr.app import Array, ArrayRecord, Error, Message, MetricRecord, RecordDict
from flwr.clientapp.mod import LocalDpMod
from flwr.serverapp.strategy import DifferentialPrivacyServerSideFixedClipping, FedAdam, FedAvg, FedMedian

from collectives.integrations.flower import Compressed, wirecodec_mod
from collectives.integrations.updates import CONTAINER
from tests.integrations.flower_run import Client, LocalGrid, arrays_of, record_of, start_task, through_bytes

SCHEME = "topk(0.1) | rice | raw"
LOSSLESS = "nonzero | rice | raw"
MODEL = {"w": np.zeros((8, 5), np.float32), "b": np.zeros(5, np.float32)}


@pytest.fixture(autouse=True)
def identity() -> None:
    start_task()


def steps(node: int, number: int) -> dict[str, Any]:
    """Return movements of small integers, so that sums of float32 are exact."""
    rng = np.random.default_rng([node, number])
    return {name: rng.integers(-9, 10, x.shape).astype(np.float32) for name, x in MODEL.items()}


class Mover:
    """A train function that moves the model by ``steps``; it counts the examples of its node."""

    def __init__(self) -> None:
        self.calls: dict[int, int] = {}
        self.moved: dict[int, dict[str, Any]] = {}
        self.fails = False

    def __call__(self, arrays: dict[str, Any], node: int) -> tuple[dict[str, Any], int]:
        if self.fails:
            raise RuntimeError("out of memory")
        self.calls[node] = self.calls.get(node, 0) + 1
        moved = steps(node, self.calls[node])
        total = self.moved.setdefault(node, {name: np.zeros_like(x) for name, x in MODEL.items()})
        for name, x in moved.items():
            total[name] += x
        return {name: arrays[name] + x for name, x in moved.items()}, 10 * (node % 7)


def fedavg(**arguments: Any) -> FedAvg:
    return FedAvg(fraction_evaluate=0.0, min_train_nodes=1, min_available_nodes=1, **arguments)


class Recorder(FedAvg):  # type: ignore[misc]
    """FedAvg that keeps what arrives at it, and leaves the model as it is."""

    def __init__(self) -> None:
        super().__init__(fraction_evaluate=0.0, min_train_nodes=1, min_available_nodes=1)
        self.arrived: list[Any] = []

    def aggregate_train(self, server_round: int, replies: Any) -> Any:
        replies = list(replies)
        good = [one for one in replies if not one.has_error()]
        self.arrived += [(one.metadata.src_node_id, arrays_of(one.content["arrays"])) for one in good]
        return None, None


def test_what_arrives_and_the_residual_are_the_movements() -> None:
    mover, inner = Mover(), Recorder()
    client = Client(1, mover, [wirecodec_mod(SCHEME)])
    Compressed(inner).start(LocalGrid([client]), record_of(MODEL), num_rounds=5)
    assert len(inner.arrived) == 5
    state = client.state()
    assert state["step"] == 5
    for name, x in MODEL.items():
        arrived = sum(arrays[name] for _, arrays in inner.arrived)
        assert 0 < np.count_nonzero(inner.arrived[0][1][name]) < x.size  # each round carries a part
        assert np.any(state[f"residual/{name}"])
        np.testing.assert_array_equal(
            arrived + state[f"residual/{name}"].reshape(x.shape), mover.moved[1][name]
        )


def test_fedavg_takes_the_weighted_mean_of_what_arrived() -> None:
    mover = Mover()
    clients = [Client(node, mover, [wirecodec_mod(LOSSLESS)]) for node in (1, 3)]
    strategy = Compressed(fedavg())
    result = strategy.start(LocalGrid(clients), record_of(MODEL), num_rounds=1)
    arrays = arrays_of(result.arrays)
    assert list(arrays) == list(MODEL)
    for name, x in arrays.items():
        wanted = (10 * steps(1, 1)[name] + 30 * steps(3, 1)[name]) / 40
        np.testing.assert_allclose(x, wanted, rtol=1e-6)
        assert x.dtype == np.float32
    assert strategy.dropped == []


def test_rounds_learn_with_few_bytes() -> None:
    teacher = np.random.default_rng(0).normal(size=(64, 8)).astype("f4")

    def train(arrays: dict[str, Any], node: int) -> tuple[dict[str, Any], int]:
        inputs = np.random.default_rng(node).normal(size=(200, 64)).astype("f4")
        w = arrays["w"].copy()
        for _ in range(5):
            w -= 0.2 * inputs.T @ (inputs @ w - inputs @ teacher) / len(inputs)
        return {"w": w}, 200

    model = {"w": np.zeros((64, 8), "f4")}
    clients = [Client(node, train, [wirecodec_mod("topk(0.2) | rice | qsgd(bits=4)")]) for node in (1, 2)]
    result = Compressed(fedavg(), max_norm=100.0).start(LocalGrid(clients), record_of(model), num_rounds=20)
    error = float(np.mean((arrays_of(result.arrays)["w"] - teacher) ** 2))
    assert error < 0.01 * float(np.mean(teacher**2))
    assert clients[0].bytes_sent < 20 * teacher.nbytes / 6


def test_a_train_function_that_fails_loses_nothing() -> None:
    mover, inner = Mover(), Recorder()
    client = Client(1, mover, [wirecodec_mod(SCHEME)])
    strategy, grid = Compressed(inner), LocalGrid([client])
    strategy.start(grid, record_of(MODEL), num_rounds=1)
    before = client.state()
    mover.fails = True
    strategy.start(grid, record_of(MODEL), num_rounds=1)
    assert "out of memory" in grid.replies[-1].error.reason
    after = client.state()
    assert before.keys() == after.keys()
    for key, x in before.items():
        np.testing.assert_array_equal(after[key], x)


def test_a_reply_that_is_an_error_changes_no_residual() -> None:
    refuses = [False]

    def refuse(message: Message, context: Any, call_next: Any) -> Message:
        reply: Message = call_next(message, context)
        return Message(Error(code=6, reason="no"), reply_to=message) if refuses[0] else reply

    client = Client(1, Mover(), [wirecodec_mod(SCHEME), refuse])
    strategy, grid = Compressed(fedavg()), LocalGrid([client])
    strategy.start(grid, record_of(MODEL), num_rounds=1)
    before = client.state()
    refuses[0] = True
    strategy.start(grid, record_of(MODEL), num_rounds=1)
    assert grid.replies[-1].error.reason == "no"
    assert all(np.array_equal(client.state()[key], x) for key, x in before.items())
    assert strategy.dropped == []  # errors are the strategy's


def test_a_movement_that_cannot_be_encoded_is_an_error() -> None:
    def train(arrays: dict[str, Any], node: int) -> tuple[dict[str, Any], int]:
        return {**arrays, "w": np.full((8, 5), np.nan, "f4")}, 1

    client = Client(1, train, [wirecodec_mod(SCHEME)])
    grid = LocalGrid([client])
    Compressed(Recorder()).start(grid, record_of(MODEL), num_rounds=1)
    assert "tensor 'w'" in grid.replies[0].error.reason
    assert client.context.state == RecordDict()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda x: {"w": x["w"].reshape(5, 8), "b": x["b"]}, "'w' has shape (5, 8) and had (8, 5)"),
        (lambda x: {"w": x["w"]}, "'b' is missing"),
        (lambda x: {**x, "c": x["b"]}, "'c' is new"),
        (lambda x: {**x, CONTAINER: x["b"]}, "rename the layer"),
    ],
)
def test_layers_that_are_not_those_of_the_message(change: Any, sentence: str) -> None:
    client = Client(1, lambda arrays, node: (change(arrays), 1), [wirecodec_mod(SCHEME)])
    grid = LocalGrid([client])
    Compressed(Recorder()).start(grid, record_of(MODEL), num_rounds=1)
    assert sentence in grid.replies[0].error.reason


@pytest.mark.parametrize("strict", [True, False])
def test_layers_that_change_between_rounds(strict: bool) -> None:
    def train(arrays: dict[str, Any], node: int) -> tuple[dict[str, Any], int]:
        return {name: x + np.arange(x.size, dtype="f4").reshape(x.shape) for name, x in arrays.items()}, 1

    client = Client(1, train, [wirecodec_mod(SCHEME, strict=strict)])
    strategy, grid = Compressed(Recorder()), LocalGrid([client])
    strategy.start(grid, record_of(MODEL), num_rounds=1)
    before = client.state()
    other = {"w": MODEL["w"].reshape(5, 8), "b": MODEL["b"], "c": MODEL["b"]}
    strategy.start(grid, record_of(other), num_rounds=1)
    reply, after = grid.replies[-1], client.state()
    if strict:
        assert "'w' has shape (5, 8) and had (8, 5), 'c' is new" in reply.error.reason
        assert "strict=False" in reply.error.reason
        assert all(np.array_equal(after[key], x) for key, x in before.items())
        return
    assert not reply.has_error()
    moved = np.arange(40, dtype="f4")
    assert np.array_equal(after["residual/w"], np.where(moved < 36, moved, 0))  # without the old residual
    doubled = np.where(np.arange(5) < 4, 2.0, 1.0) * np.arange(5)
    assert np.array_equal(after["residual/b"], np.where(doubled < doubled.max(), doubled, 0))


def test_the_state_of_another_node() -> None:
    first = Client(1, Mover(), [wirecodec_mod(SCHEME)])
    second = Client(2, Mover(), [wirecodec_mod(SCHEME)])
    grid = LocalGrid([first])
    Compressed(Recorder()).start(grid, record_of(MODEL), num_rounds=1)
    context = second.context
    context.state = first.context.state
    second.context = context
    grid = LocalGrid([second])
    Compressed(Recorder()).start(grid, record_of(MODEL), num_rounds=1)
    assert "saved by client 1, and this is client 2" in grid.replies[0].error.reason


def test_large_node_ids() -> None:
    client = Client(2**64 - 3, Mover(), [wirecodec_mod(SCHEME)])
    Compressed(inner := Recorder()).start(LocalGrid([client]), record_of(MODEL), num_rounds=2)
    assert len(inner.arrived) == 2


def test_clients_draw_their_own_random_numbers() -> None:
    seen = []
    for node in (1, 2):
        client = Client(
            node,
            lambda arrays, _: ({"w": arrays["w"] + np.linspace(0, 1, 40, dtype="f4")}, 1),
            [wirecodec_mod("all | raw-index | qsgd(bits=2)")],
        )
        grid = LocalGrid([client])
        Compressed(Recorder()).start(grid, record_of({"w": np.zeros(40, "f4")}), num_rounds=1)
        seen.append(grid.replies[0].content["arrays"]["w"].data)
    assert seen[0] != seen[1]


def test_integers_and_other_records_are_left_as_they_are() -> None:
    """Flower averages integers to floats, so that they come back as float64 in the second round."""
    model = {"w": MODEL["w"], "batches": np.int64(3), "mask": np.array([True, False])}

    def train(arrays: dict[str, Any], node: int) -> tuple[dict[str, Any], int]:
        arrays = {
            "w": arrays["w"] + 1,
            "batches": np.int64(arrays["batches"]) + 1000,
            "mask": arrays["mask"] > 0,
        }
        return arrays, 1

    def extra(message: Message, context: Any, call_next: Any) -> Message:
        reply: Message = call_next(message, context)
        reply.content["more"] = record_of({"x": np.arange(3)})
        return reply

    class Inner(Recorder):
        def aggregate_train(self, server_round: int, replies: Any) -> Any:
            replies = list(replies)
            assert [sorted(one.content) for one in replies] == [["arrays", "metrics", "more"]]
            assert np.array_equal(arrays_of(replies[0].content["more"])["x"], np.arange(3))
            return super().aggregate_train(server_round, replies)

    client = Client(1, train, [wirecodec_mod(LOSSLESS), extra])
    Compressed(inner := Inner(), max_norm=10.0).start(LocalGrid([client]), record_of(model), num_rounds=1)
    _, arrays = inner.arrived[0]
    assert list(arrays) == list(model)
    assert arrays["batches"] == 1003
    assert arrays["batches"].dtype == np.int64
    assert arrays["mask"].dtype == np.bool_

    client = Client(1, train, [wirecodec_mod(LOSSLESS)])
    strategy = Compressed(fedavg(), max_norm=10.0)
    result = strategy.start(LocalGrid([client]), record_of(model), num_rounds=3)
    assert strategy.dropped == []
    assert arrays_of(result.arrays)["batches"] == 3003
    assert arrays_of(result.arrays)["w"][0, 0] == 3


def test_a_model_of_torch_with_batch_normalization() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")

    def build() -> Any:
        torch.manual_seed(0)
        return torch.nn.Sequential(torch.nn.Linear(20, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 1))

    def train(arrays: dict[str, Any], node: int) -> tuple[dict[str, Any], int]:
        model = build()
        model.load_state_dict({name: torch.from_numpy(np.array(x)) for name, x in arrays.items()})
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        inputs = torch.randn(64, 20, generator=torch.Generator().manual_seed(node))
        for _ in range(4):
            optimizer.zero_grad()
            (model(inputs) - inputs.sum(1, keepdim=True)).square().mean().backward()
            optimizer.step()
        return {name: x.numpy() for name, x in model.state_dict().items()}, 64

    clients = [Client(node, train, [wirecodec_mod({"*.bias": LOSSLESS, "*": SCHEME})]) for node in (1, 2)]
    strategy = Compressed(fedavg(), max_norm=50.0)
    result = strategy.start(LocalGrid(clients), ArrayRecord(build().state_dict()), num_rounds=3)
    assert strategy.dropped == []
    model = build()
    model.load_state_dict(result.arrays.to_torch_state_dict())
    assert model[1].num_batches_tracked == 12
    assert not torch.equal(model[0].weight, build()[0].weight)


def test_types_of_floats() -> None:
    model = {
        "half": np.zeros(3, np.float16),
        "double": np.zeros(3),
        "empty": np.zeros((0, 2), "f4"),
        "one": np.float32(1),
    }
    client = Client(
        1,
        lambda arrays, _: ({k: x + x.dtype.type(0.5) for k, x in arrays.items()}, 1),
        [wirecodec_mod(LOSSLESS)],
    )
    Compressed(inner := Recorder()).start(LocalGrid([client]), record_of(model), num_rounds=1)
    for name, x in inner.arrived[0][1].items():
        assert x.dtype == model[name].dtype
        assert x.shape == model[name].shape
        assert np.all(x == model[name] + 0.5)


def test_a_client_that_trains_in_another_type() -> None:
    """FedAdam's model may be float64; a client's torch model is float32."""
    client = Client(
        1, lambda arrays, _: ({"w": arrays["w"].astype("f4") + np.float32(0.5)}, 1), [wirecodec_mod(LOSSLESS)]
    )
    Compressed(inner := Recorder()).start(LocalGrid([client]), record_of({"w": np.zeros(3)}), num_rounds=1)
    assert inner.arrived[0][1]["w"].dtype == np.float64
    assert np.all(inner.arrived[0][1]["w"] == 0.5)


@pytest.mark.parametrize("strategy", [FedMedian, FedAdam])
def test_other_strategies(strategy: Any) -> None:
    clients = [Client(node, Mover(), [wirecodec_mod(SCHEME)]) for node in (1, 2)]
    inner = strategy(fraction_evaluate=0.0)
    compressed = Compressed(inner, max_norm=1e3)
    result = compressed.start(LocalGrid(clients), record_of(MODEL), num_rounds=2)
    assert compressed.dropped == []
    assert np.any(arrays_of(result.arrays)["w"])


def test_a_strategy_inside_of_a_strategy() -> None:
    clients = [Client(node, Mover(), [wirecodec_mod(SCHEME)]) for node in (1, 2)]
    inner = DifferentialPrivacyServerSideFixedClipping(
        fedavg(arrayrecord_key="model"), noise_multiplier=0.0, clipping_norm=1.0, num_sampled_clients=2
    )
    assert Compressed(inner)._checks.key == "model"
    inner.strategy = fedavg()
    compressed = Compressed(inner)
    result = compressed.start(LocalGrid(clients), record_of(MODEL), num_rounds=1)
    arrays = arrays_of(result.arrays)
    assert 0 < np.sqrt(sum(float((x**2).sum()) for x in arrays.values())) <= 1.001


def test_a_mod_that_clips_sees_plain_arrays() -> None:
    clip = LocalDpMod(clipping_norm=1.0, sensitivity=0.0, epsilon=1.0, delta=1e-5)
    client = Client(1, Mover(), [wirecodec_mod(LOSSLESS), clip])
    Compressed(inner := Recorder(), max_norm=1.001).start(LocalGrid([client]), record_of(MODEL), num_rounds=1)
    arrays = inner.arrived[0][1]
    assert np.sqrt(sum(float((x**2).sum()) for x in arrays.values())) == pytest.approx(1.0)


def test_a_strategy_with_its_own_loop() -> None:
    class Own(FedAvg):  # type: ignore[misc]
        def start(self, *arguments: Any, **keywords: Any) -> None:
            pass

    with pytest.raises(TypeError, match=r"Own has a start\(\) of its own"):
        Compressed(Own())


def test_another_key() -> None:
    def rename(message: Message, context: Any, call_next: Any) -> Message:
        message.content = RecordDict({"arrays": message.content["model"]})
        reply: Message = call_next(message, context)
        reply.content = RecordDict({"model": reply.content["arrays"], "metrics": reply.content["metrics"]})
        return reply

    client = Client(1, Mover(), [wirecodec_mod(SCHEME, key="model"), rename])
    grid = LocalGrid([client])
    compressed = Compressed(fedavg(arrayrecord_key="model"))
    compressed.start(grid, record_of(MODEL), num_rounds=1)
    assert compressed.dropped == []
    assert list(grid.replies[0].content["model"]) == list(MODEL)
    assert client.state("model")["step"] == 1
    wrong = LocalGrid([Client(1, Mover(), [wirecodec_mod(SCHEME), rename])])
    Compressed(fedavg(arrayrecord_key="model")).start(wrong, record_of(MODEL), num_rounds=1)
    with pytest.raises(ValueError, match="sends no ArrayRecord 'w'"):
        Compressed(fedavg(), key="w").start(grid, record_of(MODEL), num_rounds=1)


@pytest.mark.parametrize("kind", ["evaluate", "query"])
def test_arrays_in_replies_to_other_messages_stay(kind: str) -> None:
    mod = wirecodec_mod(SCHEME)
    message = Message(RecordDict({"arrays": record_of(MODEL)}), dst_node_id=1, message_type=kind)
    reply = Message(RecordDict({"arrays": record_of(MODEL)}), reply_to=message)
    client = Client(1, Mover())
    got = mod(message, context := client.context, lambda *_: reply)
    assert list(got.content["arrays"]) == list(MODEL)
    assert context.state == RecordDict()


def test_a_train_function_that_changes_the_message_in_place() -> None:
    def train(message: Message, context: Any) -> Message:
        record = message.content["arrays"]
        for name, x in MODEL.items():
            record[name] = Array(x + np.float32(3))
        return Message(message.content, reply_to=message)

    mod = wirecodec_mod(LOSSLESS)
    message = Message(RecordDict({"arrays": record_of(MODEL)}), dst_node_id=1, message_type="train")
    reply = mod(message, Client(1, Mover()).context, train)
    moved = wc.decode_many(reply.content["arrays"][CONTAINER].data)
    assert all(np.all(x.to_dense() == 3) for x in moved.values())
    assert list(message.content["arrays"]) == list(MODEL)  # other clients may share this record


def test_movements_have_the_types_that_the_server_has_sent() -> None:
    client = Client(1, lambda arrays, _: ({"w": arrays["w"] + np.float64(0.5)}, 1), [wirecodec_mod(LOSSLESS)])
    grid = LocalGrid([client])
    strategy = Compressed(inner := Recorder())
    strategy.start(grid, record_of({"w": np.zeros(3, "f4")}), num_rounds=1)
    assert strategy.dropped == []
    assert inner.arrived[0][1]["w"].dtype == np.float32


def test_messages_of_evaluation_pass() -> None:
    clients = [Client(node, Mover(), [wirecodec_mod(SCHEME)]) for node in (1, 2)]
    result = Compressed(FedAvg()).start(LocalGrid(clients), record_of(MODEL), num_rounds=1)
    assert result.evaluate_metrics_clientapp[1]["loss"] == 0.25


def test_settings_are_checked_at_once() -> None:
    with pytest.raises(wc.EncodeError):
        wirecodec_mod("topk(2) | rice | raw")
    with pytest.raises(ValueError, match="max_norm"):
        Compressed(fedavg(), max_norm=-1.0)


def test_replies_keep_other_metrics() -> None:
    client = Client(1, Mover(), [wirecodec_mod(SCHEME)])
    message = Message(RecordDict({"arrays": record_of(MODEL)}), dst_node_id=1, message_type="train")
    reply = through_bytes(client.answer(message))
    assert isinstance(reply.content["arrays"], ArrayRecord)
    assert reply.content["metrics"] == MetricRecord({"num-examples": 10, "loss": 0.5})
    assert list(reply.content["arrays"]) == [CONTAINER]


@pytest.mark.parametrize("leaves_out", [True, False])
def test_layers_that_stay_on_a_client(leaves_out: bool) -> None:
    """The server keeps its values of them, and the others are averaged as before."""
    model = {**MODEL, "bn.mean": np.full(3, 7, np.float32), "bn.count": np.int64(5)}

    def train(arrays: dict[str, Any], node: int) -> tuple[dict[str, Any], int]:
        moved = {name: x + x.dtype.type(node) for name, x in arrays.items()}
        return {name: x for name, x in moved.items() if not (leaves_out and name.startswith("bn."))}, 1

    clients = [Client(node, train, [wirecodec_mod(LOSSLESS, keep=["bn.*"])]) for node in (1, 3)]
    strategy = Compressed(fedavg(), max_norm=100.0, optional=["bn.*"])
    result = strategy.start(LocalGrid(clients), record_of(model), num_rounds=2)
    assert strategy.dropped == []
    arrays = arrays_of(result.arrays)
    assert np.all(arrays["w"] == 4)
    assert np.all(arrays["bn.mean"] == 7)
    assert arrays["bn.count"] == 5
    assert "residual/bn.mean" not in clients[0].state()
    refusing = Compressed(fedavg(), max_norm=100.0)
    refusing.start(LocalGrid(clients), record_of(model), num_rounds=1)
    assert [one.code for one in refusing.dropped] == ["schema-names"] * 2


def test_globs_are_a_list() -> None:
    with pytest.raises(ValueError, match=r"keep is 'bn\.\*'; pass a list"):
        wirecodec_mod(SCHEME, keep="bn.*")
    with pytest.raises(ValueError, match=r"optional is 'bn\.\*'; pass a list"):
        Compressed(fedavg(), optional="bn.*")


def test_a_second_reply_of_a_client_is_dropped() -> None:
    class Twice(LocalGrid):
        def send_and_receive(self, messages: Any, *, timeout: float | None = None) -> list[Message]:
            return super().send_and_receive(messages, timeout=timeout) * 2

    strategy = Compressed(inner := Recorder())
    strategy.start(Twice([Client(1, Mover(), [wirecodec_mod(SCHEME)])]), record_of(MODEL), num_rounds=1)
    assert [one.code for one in strategy.dropped] == ["node"]
    assert len(inner.arrived) == 1
