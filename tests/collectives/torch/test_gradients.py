"""``average_gradients``, and arguments of the hook that say what to write instead."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import collectives as co
import wirecodec as wc
from collectives.communicator import Communicator
from tests.collectives.torch.processes import run
from tests.oracles import Array

torch = pytest.importorskip("torch")

NAMES = ("used", "by one rank", "by none", "frozen")


def parameters() -> dict[str, Any]:
    return {name: torch.nn.Parameter(torch.zeros(4, 5), name != "frozen") for name in NAMES}


@pytest.mark.parametrize("method", ["topk(0.1) | rice | raw", "clt-k", "ok-topk"])
@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16, torch.float64])
def test_gradients_are_replaced_in_place_and_nothing_is_lost(method: str, kind: Any) -> None:
    steps = 7

    def gradient(name: str, step: int, rank: int) -> Any:
        if name in ("by none", "frozen") or (name == "by one rank" and rank == 0):
            return None
        draw = torch.Generator().manual_seed(100 * step + rank)
        return 2 * torch.randint(-9, 9, (4, 5), generator=draw).to(kind)

    def train(comm: Communicator) -> tuple[dict[str, Array], dict[str, Array]]:
        methods = {"clt-k": co.CLTk, "ok-topk": co.OkTopK}
        compressor: Any = methods[method](0.1) if method in methods else wc.Compressor(method)
        named = parameters()
        delivered = {name: np.zeros((4, 5)) for name in NAMES}
        for step in range(steps):
            for name, p in named.items():
                p.data = p.data.to(kind)
                p.grad = gradient(name, step, comm.rank)
            buffer = named["used"].grad
            co.average_gradients(comm, named.items(), compressor)
            assert named["used"].grad is buffer
            assert named["by none"].grad is named["frozen"].grad is None
            for name, p in named.items():
                delivered[name] += 0 if p.grad is None else 2 * p.grad.double().numpy()
        left = {name: compressor.residual(name) for name in NAMES}
        return delivered, {n: np.zeros(20) if x is None else x.astype("f8") for n, x in left.items()}

    results = co.simulate(2, train)
    for name in NAMES:
        grads = [gradient(name, step, rank) for step in range(steps) for rank in range(2)]
        came_in = sum((g.double().numpy() for g in grads if g is not None), np.zeros((4, 5)))
        np.testing.assert_array_equal(results[0][0][name], results[1][0][name])
        kept = sum((left[name] for _, left in results), np.zeros(20)).reshape(4, 5)
        np.testing.assert_array_equal(results[0][0][name] + kept, came_in)


def test_nan_on_one_rank_is_nan_on_all() -> None:
    def train(comm: Communicator) -> bool:
        named = parameters()
        named["used"].grad = torch.full((4, 5), float("inf") if comm.rank else 1.0)
        compressor = wc.Compressor("topk(0.1) | rice | raw")
        co.average_gradients(comm, named.items(), compressor)
        grads = [p.grad for name, p in named.items() if name != "frozen"]
        return compressor.step == 0 and all(g is not None and bool(g.isnan().all()) for g in grads)

    assert co.simulate(2, train) == [True, True]


@pytest.mark.parametrize("method", ["topk(0.1) | rice | raw", "clt-k"])
def test_sparse_gradients_stay_sparse_and_nothing_is_lost(method: str) -> None:
    def train(comm: Communicator) -> tuple[Array, Array, Array]:
        compressor = co.CLTk(0.1) if method == "clt-k" else wc.Compressor(method)
        embedding = torch.nn.Embedding(8, 5, sparse=True)
        came_in, delivered = np.zeros((8, 5)), np.zeros((8, 5))
        for step in range(5):
            embedding.zero_grad()
            values = 2 * torch.randint(-9, 9, (2, 5), generator=torch.Generator().manual_seed(step))
            (embedding(torch.tensor([step, 2 + comm.rank])) * values).sum().backward()
            came_in += embedding.weight.grad.to_dense().numpy()
            co.average_gradients(comm, embedding.named_parameters(), compressor)
            assert embedding.weight.grad.is_sparse
            assert len(embedding.weight.grad.coalesce().values()) < 8
            delivered += 2 * embedding.weight.grad.to_dense().numpy()
        kept = compressor.residual("weight")
        assert kept is not None
        return came_in, kept.reshape(8, 5), delivered

    results = co.simulate(2, train)
    np.testing.assert_array_equal(results[0][2], results[1][2])
    np.testing.assert_array_equal(
        sum(kept for _, kept, _ in results) + results[0][2], sum(came_in for came_in, _, _ in results)
    )


def rows(*numbers: int) -> Any:
    """Return a sparse gradient of shape (6, 2), of ones in some rows."""
    dense = torch.zeros(6, 2)
    dense[list(numbers)] = 1
    return dense.to_sparse(1)


STEPS: dict[str, list[tuple[Any, Any]]] = {
    "unused on a rank": [(rows(1, 3), None), (None, rows(2)), (rows(0), rows(4))],
    "unused on all at first": [(None, None), (None, rows(2)), (rows(2), None)],
    "dense on a rank": [(rows(1), torch.ones(6, 2)), (torch.ones(6, 2), None)],
    "NaN at first": [(rows(1) * float("nan"), None), (None, rows(3))],
    "of more dimensions on a rank": [(rows(1).to_dense().to_sparse(2), rows(1)), (rows(2), None)],
}


@pytest.mark.parametrize("ends", ["channel", "sites"])
@pytest.mark.parametrize("method", ["topk(0.9) | rice | raw", "clt-k", "ok-topk"])
@pytest.mark.parametrize("case", STEPS)
def test_a_mean_is_sparse_on_all_ranks_if_a_gradient_is(case: str, method: str, ends: str) -> None:
    """SparseAdam takes sparse gradients only; the bits are the same on all ranks."""

    def train(comm: Communicator) -> tuple[list[Any], int]:
        methods = {"clt-k": co.CLTk, "ok-topk": co.OkTopK}
        compressor: Any = methods[method](1.0) if method in methods else wc.Compressor(method)
        table, other = (torch.nn.Parameter(torch.zeros(6, 2)) for _ in range(2))
        optimizer, found = torch.optim.SparseAdam([table], lr=0.1), list[Any]()
        alone = co.simulate(1, lambda alone: alone)[0]
        where: Any = co.Sites(alone, comm) if ends == "sites" else comm
        for gradients in STEPS[case]:
            table.grad = (
                gradients[comm.rank] if gradients[comm.rank] is None else gradients[comm.rank].clone()
            )
            other.grad = torch.ones(6, 2)
            co.average_gradients(where, {"table": table, "other": other}.items(), compressor)
            assert not other.grad.is_sparse
            if table.grad is not None:
                assert table.grad.sparse_dim() == 1
                mean = table.grad.coalesce()
                found.append((mean.indices().tolist(), mean.values().numpy().tobytes()))
            optimizer.step()
        return [*found, table.detach().numpy().tobytes()], co.Channel.of(comm).sequence

    results = co.simulate(2, train)
    assert results[0] == results[1]
    assert len(results[0][0]) > 1


def test_names_of_sparse_gradients_are_exchanged_once() -> None:
    def count(comm: Communicator) -> list[int]:
        channel, bag = co.Channel.of(comm), torch.nn.EmbeddingBag(6, 2, sparse=True)
        compressor, counts = wc.Compressor("topk(0.9) | rice | raw"), []
        for step in range(4):
            bag.weight.grad = None
            if step and comm.rank == step % 2:
                bag(torch.tensor([[1, 3]])).sum().backward()
            before = channel.sequence
            co.average_gradients(channel, bag.named_parameters(), compressor, algorithm="allgather")
            counts.append(channel.sequence - before)
        return counts

    assert co.simulate(2, count) == [[1, 2, 1, 1]] * 2


def test_a_sparse_gradient_under_a_transform_is_an_error_on_all_ranks() -> None:
    def train(comm: Communicator) -> str:
        named = parameters()
        named["used"].grad = torch.eye(4, 5).to_sparse() if comm.rank else torch.ones(4, 5)
        with pytest.raises(co.CollectiveError, match="use a scheme without a transform") as info:
            co.average_gradients(comm, named.items(), wc.Compressor("dct | topk(0.1) | rice | raw"))
        return str(info.value)

    assert len(set(co.simulate(2, train))) == 1


HOOK = """
embedding = torch.nn.Embedding(10, 3, sparse=True)
model = torch.nn.Linear(3, 2)
named = list(model.named_parameters())
topk = "topk(0.1) | rice | raw"
compressor = wc.Compressor(topk)

def advice(call):
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"

def train_sparse():
    # The mean of the rows that the ranks used, then an error in them, then the mean again.
    ddp = DDP(embedding)
    fifth = wc.Compressor("topk(0.2) | rice | raw")
    hook = co.torch_hook(fifth, comm, embedding.named_parameters(), nonfinite="raise", overlap=True)
    ddp.register_comm_hook(None, hook)
    found = []
    for value in (2.0, float("nan") if rank else 2.0, 4.0):
        ddp.zero_grad()
        text = advice(lambda: (value * ddp(torch.tensor([1, 2 + rank]))).sum().backward())
        assert embedding.weight.grad.is_sparse
        found.append(text and "tensor 'weight'" in text or embedding.weight.grad.to_dense()[:, 0].tolist())
    return found

def train_with_a_group():
    ddp = DDP(model)
    ddp.register_comm_hook(None, co.torch_hook(compressor, dist.group.WORLD, dict(named), overlap=True))
    ddp(torch.ones(1, 3)).sum().backward()
    return compressor.step

import threading
encoded = threading.Event()

class Early(wc.Compressor):
    def prepare(self, gradients, **options):
        encoded.set()
        return super().prepare(gradients, **options)

class Late(torch.autograd.Function):
    # Waits in backward until a bucket was encoded.
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return gradient * (1 if encoded.wait(20) else float("nan"))

class Stack(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)

    def forward(self, x):
        return self.last(Late.apply(self.first(x))).sum()

def overlaps():
    from collectives.torch import step
    step.MIN_FIRST = 0  # the small first bucket does not wait
    stack = Stack()
    ddp = DDP(stack, bucket_cap_mb=0.00001)
    ddp.register_comm_hook(None, co.torch_hook(Early(topk), comm, stack.named_parameters(), overlap=True))
    for _ in range(2):  # the first step has other buckets
        ddp.zero_grad()
        encoded.clear()
        ddp(torch.ones(1, 3)).backward()
    return all(bool(p.grad.isfinite().all()) for p in stack.parameters())

print(json.dumps([
    advice(lambda: DDP(model).register_comm_hook(compressor, co.torch_hook)),
    advice(lambda: co.torch_hook(compressor, comm, model.parameters())),
    advice(lambda: co.torch_hook(compressor, comm, iter([]))),
    advice(lambda: co.torch_hook(topk, comm, named)),
    advice(lambda: co.torch_hook({"*": topk}, comm, named)),
    advice(lambda: co.torch_hook(None, comm, named)),
    advice(lambda: co.torch_hook(compressor, None, named)),
    advice(lambda: co.torch_hook(wc.Compressor(topk, clip=1.0), comm, named, overlap=True)),
    advice(lambda: co.torch_hook(wc.Compressor(bytes_per_step=9000), comm, named, overlap=True)),
    train_sparse(),
    train_with_a_group(),
    overlaps(),
]))
"""


def test_wrong_arguments_say_what_to_write() -> None:
    expected = [
        "TypeError: torch_hook creates a hook and is not one; write ddp.register_comm_hook(None, co.",
        "pass model.named_parameters()",
        "ValueError: named_parameters is empty",
        "pass wc.Compressor(scheme)",
        "pass wc.Compressor(scheme)",
        "pass a wirecodec.Compressor or a collectives.CLTk",
        "TypeError: NoneType is not a communicator",
        "pass overlap=False, or clip=None",
        "pass overlap=False, or bytes_per_step=None",
    ]
    for *found, sparse, step, overlaps in run(2, HOOK):
        assert sparse == [[0, 2, 1, 1, *[0] * 6], True, [0, 4, 2, 2, *[0] * 6]]
        assert all(part in text for part, text in zip(expected, found, strict=True)), found
        assert step == 1
        assert overlaps


def test_a_shared_parameter_is_passed_once() -> None:
    p = torch.nn.Parameter(torch.zeros(3))
    named = [("encoder.emb", p), ("decoder.emb", p)]
    with pytest.raises(
        ValueError, match=r"^encoder.emb and decoder.emb are the same parameter; pass it once"
    ):
        co.simulate(1, lambda comm: co.average_gradients(comm, named, wc.Compressor("all | raw-index | raw")))
    with pytest.raises(ValueError, match="pass it once"):
        co.simulate(1, lambda comm: co.torch_hook(wc.Compressor("all | raw-index | raw"), comm, named))


def test_complex_parameters_are_refused_unless_they_are_frozen() -> None:
    p = torch.nn.Parameter(torch.zeros(3, dtype=torch.complex64))
    q = torch.nn.Parameter(torch.zeros(3))

    def make(comm: Communicator) -> None:
        co.torch_hook(wc.Compressor("all | raw-index | raw"), comm, [("p", p), ("q", q)])

    with pytest.raises(ValueError, match=r"'p' is torch.complex64; .*torch.view_as_complex"):
        co.simulate(1, make)
    p.requires_grad_(False)
    co.simulate(1, make)


class Bucket:
    """Bucket as torch passes it to a hook, whose gradients cover a part of it."""

    def __init__(self, parameter: Any) -> None:
        self.parameter, self.data = parameter, torch.ones(6)

    def index(self) -> int:
        return 0

    def is_last(self) -> bool:
        return True

    def buffer(self) -> Any:
        return self.data

    def parameters(self) -> list[Any]:
        return [self.parameter]

    def gradients(self) -> list[Any]:
        return [self.data[:3]]


def test_gradients_that_do_not_cover_their_bucket_are_an_error() -> None:
    """As torch gives a bucket of complex parameters: views of its first half."""

    def step(comm: Communicator) -> bool:
        p, compressor = torch.nn.Parameter(torch.zeros(3)), wc.Compressor("all | raw-index | raw")
        hook = co.torch_hook(compressor, comm, [("p", p)], overlap=False)
        with pytest.raises(co.CollectiveError, match="a bucket has 6 elements, and its gradients have 3"):
            hook(None, Bucket(p)).wait()
        return compressor.step == 0

    assert co.simulate(1, step) == [True]


def test_a_process_outside_of_the_group_is_told() -> None:
    body = """
group = dist.new_group([1])
try:
    found = co.TorchComm(group).size
except ValueError as error:
    found = str(error)
print(json.dumps(found))
"""
    zero, one = run(2, body)
    assert "this process is not in the group" in zero
    assert one == 1


def test_nothing_is_averaged_without_a_parameter_that_needs_a_gradient() -> None:
    """As in a phase of training that freezes the model."""

    def work(comm: Communicator) -> Any:
        weight = torch.nn.Parameter(torch.ones(3), requires_grad=False)
        co.average_gradients(comm, {"w": weight}.items(), wc.Compressor("topk(0.1) | rice | raw"))
        return weight.grad

    assert co.simulate(2, work) == [None, None]
