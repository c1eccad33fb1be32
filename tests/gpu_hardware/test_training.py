"""torch's programs on a GPU: hooks and average_gradients give the bits that they give on the host.

The gradients are constants, so they are the same on both. A long wait before them shows whether a stream is
waited for: what is read too early is other numbers.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.collectives.torch.processes import run

torch = pytest.importorskip("torch", reason="torch is not installed")

COMMON = """
from torch import nn
from contextlib import nullcontext
torch.cuda.set_device(0)
SIZES = {"a": (300, 1000), "b": (77,), "c": (2000, 300), "d": (100_000,)}

class Net(nn.Module):
    def __init__(self, device, dtype):
        super().__init__()
        for name, shape in SIZES.items():
            setattr(self, name, nn.Parameter(torch.zeros(shape, device=device, dtype=dtype)))
    def forward(self, constants):
        return sum((getattr(self, name) * x).sum() for name, x in constants.items())

def constants(step, device, dtype):
    random = torch.Generator().manual_seed(100 * step + rank)
    return {n: torch.randn(s, generator=random).to(device=device, dtype=dtype) for n, s in SIZES.items()}

def bits(x):
    return x.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes().hex()

def train(device, dtype, prepare, after=lambda net: None, stream=None):
    net = Net(device, dtype)
    model = prepare(net)
    found = []
    for step in range(4):
        given = constants(step, device, dtype)
        net.zero_grad()
        torch.cuda.synchronize()
        with torch.cuda.stream(stream) if stream is not None else nullcontext():
            if device == "cuda":
                torch.cuda._sleep(40_000_000)
            model(given).backward()
            after(net)
            found += [bits(p.grad) for p in net.parameters()]
    return found
"""

SAME = """
results = {}
for name in KINDS:
    dtype = getattr(torch, name)
    here = train("cpu", dtype, *way())
    results[name] = here == train("cuda", dtype, *way()), len(set(here)) > 4
    results[name + " on a stream"] = here == train("cuda", dtype, *way(), stream=torch.cuda.Stream())
print(json.dumps(results))
"""


def check(body: str, kinds: list[str], size: int = 2) -> None:
    """Run a way to train on the host and on the GPU, and compare all gradients."""
    found = run(size, COMMON + body + SAME.replace("KINDS", repr(kinds)))
    for results in found:
        for name, result in results.items():
            assert result in (True, [True, True]), name


@pytest.mark.parametrize("overlap", [True, False])
@pytest.mark.parametrize("make", ['wc.Compressor("topk(0.02) | rice | qsgd")', "co.CLTk(0.02)"])
def test_the_hook(cupy: Any, make: str, overlap: bool) -> None:
    body = f"""
def way():
    def prepare(net):
        ddp = DDP(net, bucket_cap_mb=1)
        compressor = {make}
        hook = co.torch_hook(compressor, co.TorchComm(), net.named_parameters(), overlap={overlap})
        ddp.register_comm_hook(None, hook)
        return ddp
    return prepare,
"""
    check(body, ["float32", "bfloat16"])


@pytest.mark.parametrize(
    "make",
    [
        'wc.Compressor("topk(0.02) | rice | qsgd")',
        'wc.Compressor("budget(1.0) | rice | qsgd")',
        'wc.Compressor("topk(0.02) | rice | raw", scope="group", clip=1.0)',
    ],
)
def test_average_gradients(cupy: Any, make: str) -> None:
    body = f"""
def way():
    compressor = {make}
    def after(net):
        co.average_gradients(comm, net.named_parameters(), compressor)
    return lambda net: net, after
"""
    check(body, ["float32", "float16", "bfloat16"])


def test_fsdp(cupy: Any) -> None:
    body = """
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
dist.destroy_process_group()
os.environ["MASTER_PORT"] = str(int(os.environ["MASTER_PORT"]) + 1)
dist.init_process_group("cpu:gloo,cuda:nccl", rank=rank, world_size=size)

class Deep(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(4))
    def forward(self, x):
        for layer in self.layers: x = torch.relu(layer(x))
        return x

def steps(stream=None):
    mesh = init_device_mesh("cuda", (2, 1), mesh_dim_names=("site", "rank"))
    model = Deep().cuda()
    for layer in model.layers: fully_shard(layer, mesh=mesh["rank"])
    fully_shard(model, mesh=mesh["rank"])
    compressor = wc.Compressor("all | raw-index | raw")
    co.fsdp_hook(model, compressor, co.TorchComm(mesh.get_group(0)))
    reference = Deep().cuda()
    worst = 0
    for step in range(3):
        x = torch.randn(32, 64, generator=torch.Generator().manual_seed(10 * step + rank))
        other = torch.randn(32, 64, generator=torch.Generator().manual_seed(10 * step + 1 - rank))
        x, other = x.cuda(), other.cuda()
        model.zero_grad(); reference.zero_grad()
        torch.cuda.synchronize()
        with torch.cuda.stream(stream) if stream is not None else nullcontext():
            torch.cuda._sleep(40_000_000)
            model(x).square().mean().backward()
            ((reference(x).square().mean() + reference(other).square().mean()) / 2).backward()
            for p, q in zip(model.parameters(), reference.parameters()):
                error = (p.grad.to_local() - q.grad).abs().max() / q.grad.abs().max()
                worst = max(worst, error.item())
    return worst

print(json.dumps([steps(), steps(torch.cuda.Stream())]))
"""
    for plain, on_a_stream in run(2, COMMON + body):
        assert plain < 1e-5
        assert on_a_stream < 1e-5


def test_local_updates(cupy: Any) -> None:
    body = """
def parameters(device):
    net = Net(device, torch.float32)
    compressor = wc.Compressor("topk(0.05) | rice | raw")
    optimizer = torch.optim.SGD(net.parameters(), lr=1)
    local = co.LocalUpdates(optimizer, net.named_parameters(), compressor, comm, every=2)
    for step in range(6):
        optimizer.zero_grad()
        net(constants(step, device, torch.float32)).backward()
        local.step()
    return [bits(p) for p in net.parameters()]

print(json.dumps(parameters("cpu") == parameters("cuda")))
"""
    assert run(2, COMMON + body) == [True, True]
