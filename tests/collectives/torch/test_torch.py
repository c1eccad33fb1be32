"""TorchComm and torch_hook, in two real processes that train a model."""

from __future__ import annotations

import pytest

from tests.collectives.torch.processes import run

pytest.importorskip("torch")


def test_it_is_a_communicator() -> None:
    """Every collective has the results of simulated ranks, for small and large tensors."""
    body = """
from tests.collectives.inputs import bits, gradient
import hashlib
from collectives.communicator import Communicator
assert isinstance(comm, Communicator)

def everything(comm):
    found = [b"".join(x.tobytes() for x in co.allgather_bytes(comm, bytes([comm.rank]) * n * (comm.rank + 1)))
             for n in (0, 10, 30_000, 200_000)]
    for algorithm in ("allgather", "dense", "split-pairs", "split-bitmap", "split-dense", "auto"):
        x = gradient(comm.rank, 50_000)
        found.append(bits(co.allreduce(comm, x, "topk(0.1) | rice | raw", algorithm=algorithm)))
    cltk = co.CLTk(0.1)
    found += [bits(cltk.allreduce(comm, gradient(comm.rank + 5 * t, 50_000))) for t in range(3)]
    return [hashlib.sha256(x).hexdigest() for x in found]

got = everything(comm)
assert got == co.simulate(size, everything)[rank]
bad = gradient(rank, 10)
bad[3] = np.nan if rank else 1
try:
    co.allreduce(comm, bad, "topk(0.5) | rice | raw")
    reason = None
except co.CollectiveError as error:
    reason = error.reason
print(json.dumps([got, reason]))
"""
    results = run(3, body)
    assert all(result == results[0] for result in results)
    assert results[0][1] == "value"


TRAINING = """
import hashlib
nn = torch.nn

def train(compressor, megabytes, overlap, steps=80):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(20, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))
    ddp = DDP(model, bucket_cap_mb=megabytes)
    hook = co.torch_hook(compressor, comm, model.named_parameters(), overlap=overlap)
    ddp.register_comm_hook(None, hook)
    optimiser = torch.optim.SGD(ddp.parameters(), lr=0.1)
    truth = torch.randn(20, 1)
    data = torch.Generator().manual_seed(100 + rank)
    losses = []
    for step in range(steps):
        x = torch.randn(32, 20, generator=data)
        loss = ((ddp(x) - torch.tanh(x @ truth)) ** 2).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    weights = b"".join(p.detach().numpy().tobytes() for p in model.parameters())
    residuals = b"".join(compressor.residual(name).tobytes() for name, _ in model.named_parameters())
    return [hashlib.sha256(weights).hexdigest(), compressor.step, float(np.mean(losses[:10])),
            float(np.mean(losses[-10:])), hashlib.sha256(residuals).hexdigest()]

print(json.dumps([train(COMPRESSOR, 0.01, True), train(COMPRESSOR, 25, False)]))
"""


@pytest.mark.parametrize(
    "compressor",
    ["wc.Compressor('topk(0.05) | rice | raw')", "co.CLTk(0.05)", "co.OkTopK(0.05, scope='tensor')"],
)
def test_ddp_trains_the_same_model_on_all_ranks(compressor: str) -> None:
    """The loss falls, and the cut into buckets changes no bit, nor does the overlap."""
    results = run(2, TRAINING.replace("COMPRESSOR", compressor))
    assert results[0][0][0] == results[1][0][0]
    for one, other in results:
        assert one == other
        _, steps, first, last, _ = one
        assert steps == 80
        assert last < 0.5 * first


BUCKETS = """
from collectives.torch import step

def exchanges(overlap, least):
    step.MIN_FIRST = least
    model = torch.nn.Sequential(*(torch.nn.Linear(40, 40) for _ in range(4)))
    ddp = DDP(model, bucket_cap_mb=0.006)  # a bucket per layer
    channel = co.Channel(co.TorchComm())
    hook = co.torch_hook(wc.Compressor(), channel, model.named_parameters(), overlap=overlap)
    ddp.register_comm_hook(None, hook)
    counts = []
    for _ in range(4):  # the first step has other buckets
        before = channel.sequence
        ddp(torch.full((1, 40), rank + 1.0)).square().sum().backward()
        counts.append(channel.sequence - before)
    return counts[-1]

ways = {"joined": (True, 2**19), "each": (True, 0), "at once": (False, 0)}
print(json.dumps({name: exchanges(*way) for name, way in ways.items()}))
"""


def test_a_small_first_bucket_is_exchanged_with_the_next_one() -> None:
    for counts in run(2, BUCKETS):
        assert counts == {"joined": counts["each"] - 1, "each": counts["each"], "at once": 1}
        assert counts["each"] > 2


AHEAD = """
import threading
from collectives.channel import Channel
from collectives.torch import step
from wirecodec.interop import StepInParts

step.MIN_FIRST = 0
model = torch.nn.Sequential(*(torch.nn.Linear(40, 40) for _ in range(4)))
ddp = DDP(model, bucket_cap_mb=0.006)  # a bucket per layer
compressor = wc.Compressor("topk(0.1) | rice | raw")
ddp.register_comm_hook(None, co.torch_hook(compressor, comm, model.named_parameters(), overlap=True))

def train():
    ddp.zero_grad()
    ddp(torch.full((1, 40), rank + 1.0)).square().sum().backward()

train()
train()  # the first step has other buckets
encoded, in_time = {}, []
plain, gather = StepInParts.encode_ahead, Channel.gather

def encode_ahead(self, number, *args, **settings):
    plain(self, number, *args, **settings)
    encoded.setdefault(number, threading.Event()).set()

def slow_gather(self, *args, **settings):
    if len(in_time) < 2:  # a bucket is on its way until the next one is encoded
        in_time.append(encoded.setdefault(len(in_time) + 1, threading.Event()).wait(20))
    gather(self, *args, **settings)

StepInParts.encode_ahead, Channel.gather = encode_ahead, slow_gather
train()
print(json.dumps(in_time))
"""


def test_a_bucket_is_encoded_while_the_one_before_travels() -> None:
    assert run(2, AHEAD) == [[True, True], [True, True]]
