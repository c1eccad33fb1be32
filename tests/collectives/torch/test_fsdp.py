"""fsdp_hook: FSDP2 within two sites of two processes each, exchanges between them."""

from __future__ import annotations

import pytest

from tests.collectives.torch.processes import run

torch = pytest.importorskip("torch")
pytest.importorskip("torch.distributed.fsdp", reason="FSDP2 came with torch 2.6")
if not hasattr(torch.distributed.fsdp, "FSDPModule"):
    pytest.skip("FSDP2's hooks came with torch 2.7", allow_module_level=True)

COMMON = """
import copy, math
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("site", "rank"))
sites = co.Sites.of(mesh)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.one, self.two, self.three = nn.Linear(8, 6), nn.Linear(6, 6), nn.Linear(6, 5)
        self.unused, self.frozen = nn.Linear(4, 4), nn.Linear(6, 6)
        for p in self.frozen.parameters(): p.requires_grad_(False)
    def forward(self, x):
        return self.three(torch.relu(self.frozen(self.two(torch.relu(self.one(x))))))

def shard(model, mesh, **options):
    for part in (model.one, model.two, model.three, model.unused, model.frozen):
        fully_shard(part, mesh=mesh, **options)
    return fully_shard(model, mesh=mesh, **options)

def batch(step):
    return torch.randn(16, 8, generator=torch.Generator().manual_seed(100 * step + rank))

def grads(model):
    return {n: p.grad.to_local().clone() for n, p in model.named_parameters() if p.grad is not None}

def train(model, steps=3, accumulate=1, clip=None, loss_of=None):
    optimizer = torch.optim.SGD(model.parameters(), lr=.1)
    for step in range(steps):
        optimizer.zero_grad()
        for turn in range(accumulate):
            if accumulate > 1:
                model.set_requires_gradient_sync(turn == accumulate - 1)
            model(batch(step * accumulate + turn)).square().mean().backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
    return [p.to_local().detach().float().numpy().copy() for p in model.parameters()]

def agree(value):
    found = [None] * size
    dist.all_gather_object(found, value)
    return found
"""

DENSE = (
    COMMON
    + """
policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
half = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16)
errors = {}
for name, options, how in (
    ("plain", {}, {}),
    ("accumulation", {}, {"accumulate": 3}),
    ("clipping", {}, {"clip": .01}),
    ("mixed", {"mp_policy": policy}, {}),
    ("half", {"mp_policy": half}, {}),
    ("resharded", {"reshard_after_forward": True}, {}),
    ("kept", {"reshard_after_forward": False}, {}),
    ("compiled", {}, {}),
):
    native = train(shard(Net(), mesh, **options), **how)
    model, compressor = shard(Net(), mesh["rank"], **options), wc.Compressor("all | raw-index | raw")
    if name == "compiled":
        model = torch.compile(model, backend="eager")
    co.fsdp_hook(model, compressor, sites)
    ours = train(model, **how)
    apart = max(float(np.abs(a - b).max()) for a, b in zip(native, ours, strict=True))
    starts = train(shard(Net(), mesh["rank"]), steps=0)
    moved = max(float(np.abs(a - b).max()) for a, b in zip(ours, starts, strict=True))
    errors[name] = [apart, moved, compressor.step]
print(json.dumps(errors))
"""
)


def test_dense_exchanges_equal_native_hsdp() -> None:
    for errors in run(4, DENSE):
        for name, (apart, moved, step) in errors.items():
            assert apart <= (2e-3 if name == "half" else 1e-6), name
            assert moved > 1e-4, name
            assert step == 3, name


SPARSE = (
    COMMON
    + """
def make(**options):
    model, compressor = shard(Net(), mesh["rank"]), wc.Compressor("topk(0.2) | rice | raw")
    co.fsdp_hook(model, compressor, sites, **options)
    return model, compressor

def state_of(compressor):
    return {key: x.tobytes().hex() for key, x in compressor.state_dict().items()}

model, compressor = make()
native = shard(Net(), mesh)
sent, came, results = {}, {}, {}
for step in range(4):
    for one, total in ((model, sent), (native, came)):
        one.zero_grad()
        one(batch(step)).square().mean().backward()
        for name, grad in grads(one).items():
            total[name] = total.get(name, 0) + grad.double()
kept = agree({name: compressor.residual(name) for name in ("one", "two", "three")})
site = mesh.get_local_rank("rank")
left = {name: kept[site][name] / 2 + kept[site + 2][name] / 2 for name in kept[0]}
results["lost"] = 0.0
for name in left:
    pairs = [(sent[f"{name}.{p}"], came[f"{name}.{p}"]) for p in ("weight", "bias")]
    missing = np.concatenate([(c - s).numpy().ravel() for s, c in pairs])
    padded = np.resize(left[name], 0)
    total = float(np.abs(missing.sum() - left[name].sum()))
    results["lost"] = max(results["lost"], total)
results["steps"] = compressor.step
results["kinds"] = sorted(k.split("/")[1] for k in compressor.state_dict() if k.startswith("residual/"))
shown = agree({n: g.tolist() for n, g in grads(model).items()})
results["equal"] = shown[0] == shown[2] and shown[1] == shown[3]
flat = torch.cat([g.ravel() for g in grads(model).values()])
results["zeros"] = float((flat == 0).double().mean())

# NaN on one rank is NaN on all, and no state changes.
before = state_of(compressor)
model.zero_grad()
x = batch(9)
if rank == 3: x[0, 0] = math.nan
model(x).square().mean().backward()
results["nan"] = all(bool(g.isnan().all()) for g in grads(model).values())
results["nan kept the state"] = state_of(compressor) == before

# So it is after an error, which all ranks raise.
compressor.set_step(4 + (rank == 1))
before, raised = state_of(compressor), ""
model.zero_grad()
try:
    model(batch(10)).square().mean().backward()
except co.CollectiveError as error:
    raised = error.reason
results["raised"] = raised
results["error made nan"] = all(bool(g.isnan().all()) for g in grads(model).values())
results["error kept the state"] = state_of(compressor) == before
compressor.set_step(4)
model.zero_grad()
model(batch(11)).square().mean().backward()
results["after"] = [compressor.step, all(bool(g.isfinite().all()) for g in grads(model).values())]

# An interrupted backward pass leaves no step behind.
class Break(torch.autograd.Function):
    @staticmethod
    def forward(context, x): return x.clone()
    @staticmethod
    def backward(context, g): raise ZeroDivisionError
model.zero_grad()
try:
    out = model.three(torch.relu(model.frozen(model.two(torch.relu(Break.apply(model.one(batch(12))))))))
    out.square().mean().backward()
except ZeroDivisionError:
    results["interrupted"] = compressor.step
print(json.dumps(results))
"""
)


def test_sparse_exchanges() -> None:
    for results in run(4, SPARSE):
        assert results["lost"] < 1e-5
        assert results["steps"] == 4
        assert results["kinds"] == ["one", "three", "two"]
        assert results["equal"]
        assert results["zeros"] > 0.4
        assert results["nan"]
        assert results["nan kept the state"]
        assert results["raised"] in ("scheme", "encode")
        assert results["error made nan"]
        assert results["error kept the state"]
        assert results["after"] == [5, True]
        assert results["interrupted"] == 5


UNEQUAL = (
    COMMON
    + """
import time

class Skipping(Net):
    def forward(self, x, without=None):
        x = torch.ones(16, 6) if without == "one" else torch.relu(self.one(x))
        return self.three(x if without == "two" else torch.relu(self.two(x)))

model, compressor = shard(Skipping(), mesh["rank"]), wc.Compressor("topk(0.5) | rice | raw")
co.fsdp_hook(model, compressor, sites)

def loss(step, without=None):
    if without != "two, as roots":
        return model(batch(step), without).square().mean()
    return model.three(torch.relu(model.one(batch(step)))).square().mean()  # each module is a root of FSDP

results = []
loss(0).backward()
for number, without in enumerate(("one", "two", "two, as roots")):
    model.zero_grad()
    start, raised = time.monotonic(), ""
    try:
        loss(1 + number, without if rank < 2 else None).backward()
    except co.CollectiveError as error:
        raised = error.reason
    found = all(bool(g.isnan().all()) for g in grads(model).values())
    results.append([raised, found, time.monotonic() - start < 10, compressor.step])
    model.zero_grad()
    loss(9).backward()
    results.append([all(bool(g.isfinite().all()) for g in grads(model).values()), compressor.step])
print(json.dumps(results))
"""
)


def test_a_module_has_a_gradient_in_one_site_only() -> None:
    """All ranks of all sites raise at once, whether the module is the last one in backward or not."""
    for results in run(4, UNEQUAL):
        for number in range(3):
            raised, spoilt, soon, step = results[2 * number]
            assert raised, number
            assert spoilt, number
            assert soon, number
            assert step == 1 + number
            assert results[2 * number + 1] == [True, 2 + number]


ISLANDS = (
    COMMON
    + """
from torch.distributed.tensor import DTensor

def train_locally(model, comm, data, steps=9, **settings):
    optimizer = torch.optim.SGD(model.parameters(), lr=.5)
    local = co.LocalUpdates(
        optimizer, model.named_parameters(), wc.Compressor("nonzero | raw-index | raw"), comm,
        every=4, rate=.7, momentum=.9, nesterov=True, fragments=2, delay=1, alpha=.25, **settings,
    )
    for step in range(steps):
        optimizer.zero_grad()
        batches = data(step)
        (sum(model(x).square().mean() for x in batches) / len(batches)).backward()
        local.step()
    return {name: (p.full_tensor() if isinstance(p, DTensor) else p).detach().clone()
            for name, p in model.named_parameters()}

def draw(step, of):
    x = torch.randn(16, 8, generator=torch.Generator().manual_seed(100 * step + of))
    x[:, of // 2] = 0  # the other site alone moves these weights of the first layer
    return x

def measure(a, b):
    return max(float((a[name] - b[name]).detach().abs().max()) for name in b)

site = mesh.get_local_rank("site")
group = mesh["site"].get_group()
start = dict(Net().named_parameters())
before, results = start, []
own, senders = {"weight": 1. + site}, {"divide": "senders"}
for settings in ({}, senders, {**senders, **own}, own):
    found = train_locally(
        shard(Net(), mesh["rank"]), co.TorchComm(group), lambda step: [draw(step, rank)], **settings
    )
    whole = train_locally(
        Net(), co.TorchComm(group), lambda step: [draw(step, 2 * site), draw(step, 2 * site + 1)], **settings
    )
    results.append([measure(found, whole), measure(found, before)])
    before = found
print(json.dumps(results))
"""
)


def test_local_updates_of_shards_are_those_of_whole_models() -> None:
    """Sites of two ranks that hold shards of a model do what whole models do, with all settings."""
    for results in run(4, ISLANDS):
        for apart, moved in results:  # moved from the start, then from the settings before
            assert apart < 1e-5
            assert moved > 1e-3


MISUSE = (
    COMMON
    + """
def text_of(call):
    try:
        call()
    except (TypeError, ValueError) as error:
        return str(error)
    return ""

sparse = "topk(0.2) | rice | raw"
model = shard(Net(), mesh["rank"])
texts = [
    text_of(lambda: co.fsdp_hook(Net(), wc.Compressor(sparse), sites)),
    text_of(lambda: co.fsdp_hook("model", wc.Compressor(sparse), sites)),
    text_of(lambda: co.fsdp_hook(model, sparse, sites)),
    text_of(lambda: co.fsdp_hook(model, wc.Compressor(sparse, clip=1.0), sites)),
    text_of(lambda: co.fsdp_hook(shard(Net(), mesh), wc.Compressor(sparse), co.TorchComm(mesh.get_group(0)))),
]
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard
group = mesh.get_group(0)
channel = co.Channel(co.TorchComm(group))
x = torch.arange(6.) + rank
results = []
for placements in ([Shard(0)], [Replicate()], [Partial()]):
    tensor = DTensor.from_local(x, mesh["rank"], placements)
    try:
        mean = co.allreduce(channel, {"w": tensor}, wc.Compressor("all | raw-index | raw"))["w"]
        results.append(mean.tolist() == (x + (1 if rank < 2 else -1)).tolist())
    except co.CollectiveError as error:
        results.append(str(error))
compressor = wc.Compressor("topk(0.5) | rice | raw")
co.allreduce(channel, {"w": DTensor.from_local(x, mesh["rank"], [Shard(0)])}, compressor)
results.append(compressor.residual("w").size)

# Gradients and parameters that are shards.
p = nn.Parameter(DTensor.from_local(torch.ones(3), mesh["rank"], [Shard(0)]))
q = nn.Parameter(DTensor.from_local(torch.ones(2), mesh["rank"], [Shard(0)]))
p.grad = DTensor.from_local(torch.full((3,), 1. + rank), mesh["rank"], [Shard(0)])
if rank < 2: q.grad = DTensor.from_local(torch.full((2,), 4.), mesh["rank"], [Shard(0)])
co.average_gradients(channel, [("p", p), ("q", q)], wc.Compressor("all | raw-index | raw"))
means = p.grad.to_local().tolist(), q.grad.to_local().tolist()
results.append([means[0] == [2. + rank % 2] * 3, type(q.grad).__name__, means[1]])
local = co.LocalUpdates(None, {"p": p}, wc.Compressor("all | raw-index | raw"), channel, every=1)
with torch.no_grad(): p.to_local().add_(rank)
local.step()
results.append(p.to_local().tolist() == [2. + rank % 2] * 3)
print(json.dumps([texts, results]))
"""
)


def test_wrong_modules_and_distributed_tensors() -> None:
    for texts, results in run(4, MISUSE):
        assert "fully_shard to it first" in texts[0]
        assert "pass a torch module" in texts[1]
        assert "keeps no residuals" in texts[2]
        assert "clip" in texts[3]
        assert "mesh of 2 dimensions" in texts[4]
        assert results[:2] == [True, True]
        assert "not added up yet" in results[2]
        assert results[3] == 6
        assert results[4] == [True, "DTensor", [2.0, 2.0]]
        assert results[5]


REBOUND = (
    COMMON
    + """
first = mesh.get_group(0)
second = [dist.new_group([number, number + 2]) for number in range(2)][rank % 2]
results = {}
for keep in (0.0, 0.5):
    model = shard(Net(), mesh["rank"])
    named = {name: p for name, p in model.named_parameters() if p.requires_grad}
    compressor = wc.Compressor("topk(0.3) | rice | raw")
    local = co.LocalUpdates(
        None, model.named_parameters(), compressor, co.TorchComm(first), every=2, fragments=2, keep=keep
    )
    starts = {name: p.to_local().detach().clone() for name, p in named.items()}
    moved = {name: torch.zeros_like(x) for name, x in starts.items()}
    kept = 0
    for step in range(48):
        if step == 5:
            kept = sum(bool(np.any(compressor.residual(name))) for name in named)
            local.rebind(co.TorchComm(second))
            assert not local.synchronize()
        if step < 9:
            for number, (name, p) in enumerate(named.items()):
                generator = torch.Generator().manual_seed(1000 * step + 10 * number + rank)
                movement = torch.randn(starts[name].shape, generator=generator)
                with torch.no_grad():
                    p.to_local().add_(movement)
                moved[name] += movement
        local.step()
    local.revert()
    apart = 0.0
    for name, p in named.items():
        total = moved[name].clone()
        dist.all_reduce(total, group=second)
        apart = max([apart, *(p.to_local() - starts[name] - total / 2).abs().flatten().tolist()])
    results[str(keep)] = [kept, apart, local.round]
print(json.dumps(results))
"""
)


def test_local_updates_of_shards_go_on_over_another_group() -> None:
    """The ranks with the same shards exchange these, in two fragments; nothing of a movement is lost."""
    for results in run(4, REBOUND):
        for keep, (kept, apart, rounds) in results.items():
            assert kept > 3, keep
            assert apart < 1e-4, keep
            assert rounds == 48


ALONE = (
    COMMON
    + """
import time
from collectives.torch import fsdp

model, compressor = shard(Net(), mesh["rank"]), wc.Compressor("topk(0.5) | rice | raw")
co.fsdp_hook(model, compressor, sites)

def attempt(step):
    model.zero_grad()
    start, raised = time.monotonic(), "ok"
    try:
        model(batch(step)).square().mean().backward()
    except BaseException as error:
        raised = type(error).__name__
    return raised, time.monotonic() - start

def breaking(method, kind, number, is_after):
    original, calls = getattr(fsdp._Backward, method), []
    def call(self, *arguments):
        calls.append(method)
        if len(calls) != number:
            return original(self, *arguments)
        if is_after:
            original(self, *arguments)
        raise kind("injected")
    setattr(fsdp._Backward, method, call)
    return lambda: setattr(fsdp._Backward, method, original)

attempt(0)
results = []
for kind in (MemoryError, KeyboardInterrupt):
    for method, number in (("_average", 1), ("_average", 3), ("_queue", 1), ("_agree", 1), ("_agree", 2)):
        for is_after in (False, True):
            before = {key: x.tobytes() for key, x in compressor.state_dict().items()}
            restore = breaking(method, kind, number, is_after) if rank == 1 else lambda: None
            raised, seconds = attempt(len(results))
            restore()
            same = before == {key: x.tobytes() for key, x in compressor.state_dict().items()}
            nan = all(bool(g.isnan().all()) for g in grads(model).values())
            seen = agree((raised, seconds < 10, compressor.step, same, nan))
            then = agree((attempt(9)[0], compressor.step))
            results.append([kind.__name__, method, is_after, seen, then])
print(json.dumps(results))
"""
)


def test_an_exception_on_one_rank_alone() -> None:
    """All ranks learn it at once, and take the step or not; the next backward pass goes on."""
    step = 1
    for kind, method, is_after, seen, then in run(4, ALONE)[0]:
        counts = method == "_agree"  # its exchanges were made
        where = kind, method, is_after, seen
        assert seen[1][0] == kind, where
        assert {raised for rank, (raised, *_) in enumerate(seen) if rank != 1} == (
            {"ok"} if counts else {"CollectiveError"}
        ), where
        step += counts
        for _, is_soon, taken, is_same, is_nan in seen:
            assert is_soon, where
            assert taken == step, where
            assert (is_same, is_nan) == (not counts, not counts), where
        step += 1
        assert then == [["ok", step]] * 4, where
