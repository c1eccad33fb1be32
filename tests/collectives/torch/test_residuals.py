"""Under DistributedDataParallel, no gradient is lost: delivered plus kept is what came in."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.collectives.torch.processes import run

pytest.importorskip("torch")

LEDGER = """
import contextlib
from collections import defaultdict

class Model(torch.nn.Module):
    # The gradient of a parameter is the tensor that the input holds for it.
    def __init__(self, names):
        super().__init__()
        self.p = torch.nn.ParameterDict({name: torch.zeros(40) for name in names})

    def forward(self, gradients):
        return sum((self.p[name] * g).sum() for name, g in gradients.items())

def gradients(names, seed):
    # Whole numbers, whose sums and means are exact.
    rng = torch.Generator().manual_seed(1000 * seed + rank)
    return {name: torch.randint(-50, 50, (40,), generator=rng).float() * size for name in names}

class Ledger:
    def __init__(self, make, **settings):
        self.settings = settings
        self.compressor, self.came_in = make(), defaultdict(lambda: torch.zeros(40))
        self.delivered = defaultdict(lambda: torch.zeros(40))

    def wrap(self, model, **options):
        ddp = DDP(model, bucket_cap_mb=0.0001, **options)
        hook = co.torch_hook(self.compressor, comm, model.named_parameters(), **self.settings)
        ddp.register_comm_hook(None, hook)
        return ddp

    def enter(self, gradients):
        for name, g in gradients.items():
            self.came_in["p." + name] += g

    def receive(self, model):
        for name, p in model.named_parameters():
            if p.grad is not None:
                self.delivered[name] += p.grad * size
        model.zero_grad()

    def balance(self):
        # Sums over ranks: came in - kept - delivered, per parameter.
        lost = 0.0
        for name in ('p.a', 'p.b', 'p.c', 'p.d'):
            kept = self.compressor.residual(name)
            left = self.came_in[name] - (0 if kept is None else torch.from_numpy(kept))
            dist.all_reduce(left)
            lost = max(lost, float((left - self.delivered[name]).abs().max()))
        return lost

def steps(make, uses, unused=True, no_sync=(), freeze=None, overlap=True, double="", **options):
    # uses(step) returns the names that this rank uses. Those of double have float64.
    ledger, model = Ledger(make, overlap=overlap), Model("abcd")
    for name in double:
        model.p[name].data = model.p[name].data.double()
    ddp = ledger.wrap(model, find_unused_parameters=unused, **options)
    for step in range(6):
        if freeze and step == 3:
            model.p[freeze].requires_grad_(False)
        g = gradients(uses(step), step)
        ledger.enter(g if step < 3 or not freeze else {n: x for n, x in g.items() if n != freeze})
        with ddp.no_sync() if step in no_sync else contextlib.nullcontext():
            ddp(g).backward()
        if step not in no_sync:
            ledger.receive(model)
    return ledger.balance()

topk = lambda: wc.Compressor("topk(0.1) | rice | raw")
fused = lambda: wc.Compressor("topk(0.1) | rice | raw", fuse=1000)
dense = lambda: wc.Compressor({"p.a": "all | raw-index | raw", "*": "topk(0.1) | rice | raw"})
cltk = lambda: co.CLTk(0.1, schedule=wc.WarmUp(2, hold=True))
"""

SCENARIOS = {
    "unused on all ranks, from the start or later": "steps(topk, lambda step: 'ab' if step > 1 else 'abc')",
    "fused entries": "steps(fused, lambda step: 'ab' if step > 1 else 'abc')",
    "dense tensors": "steps(dense, lambda step: 'ab' if step % 2 else 'bc')",
    "CLT-k": "steps(cltk, lambda step: 'ab' if step % 3 else 'bc')",
    "used on one rank": "steps(topk, lambda step: 'ab' if rank else 'ac')",
    "CLT-k, used on one rank": "steps(cltk, lambda step: 'ab' if rank else 'ac')",
    "views of buckets": "steps(topk, lambda step: 'ab' if step % 2 else 'abc', gradient_as_bucket_view=True)",
    "a static graph": "steps(topk, lambda step: 'ab', unused=False, static_graph=True)",
    "a static graph of two types": (
        "steps(topk, lambda step: 'ab', unused=False, static_graph=True, double='b')"
    ),
    "the same, after backward": (
        "steps(topk, lambda step: 'ab', unused=False, static_graph=True, double='b', overlap=False)"
    ),
    "no_sync": "steps(topk, lambda step: 'ab' if step % 2 else 'abc', no_sync=(0, 2, 3))",
    "after backward": "steps(topk, lambda step: 'ab' if rank else 'ac', overlap=False)",
    "CLT-k, after backward": "steps(cltk, lambda step: 'ab' if rank else 'ac', overlap=False)",
    "frozen later": "steps(topk, lambda step: 'abcd', freeze='b')",
}


def test_every_parameter_balances() -> None:
    """Each scenario runs a few steps; the greatest loss of any parameter's sum is 0."""
    scenarios = ", ".join(f"{name!r}: {call}" for name, call in SCENARIOS.items())
    for losses in run(2, LEDGER + f"print(json.dumps({{{scenarios}}}))"):
        assert losses == dict.fromkeys(SCENARIOS, 0)


OTHERS = """
def rewrapped():
    # The second model lacks parameter d, and has new buckets.
    ledger = Ledger(topk)
    for names in ("abcd", "abc", "abcd"):
        model = Model(names)
        ddp = ledger.wrap(model)
        for step in range(2):
            g = gradients(names, step)
            ledger.enter(g)
            ddp(g).backward()
            ledger.receive(model)
    return ledger.balance()

def joined():
    # Rank 1 has fewer inputs.
    ledger, model = Ledger(topk), Model("abcd")
    ddp = ledger.wrap(model)
    with torch.distributed.algorithms.join.Join([ddp], divide_by_initial_world_size=True):
        for step in range(4 - rank):
            g = gradients("abcd", step)
            ledger.enter(g)
            ddp(g).backward()
            ledger.receive(model)
    # Rank 0 has received every mean.
    table = [None] * size
    dist.all_gather_object(table, dict(ledger.delivered))
    ledger.delivered = table[0]
    return ledger.balance()

def two_models():
    ledgers = [Ledger(topk), Ledger(cltk)]
    models = [Model("ab"), Model("cd")]
    ddps = [ledger.wrap(model) for ledger, model in zip(ledgers, models)]
    for step in range(3):
        gs = [gradients("ab", step), gradients("cd", step + 9)]
        for ledger, g in zip(ledgers, gs):
            ledger.enter(g)
        (ddps[0](gs[0]) + ddps[1](gs[1])).backward()
        for ledger, model in zip(ledgers, models):
            ledger.receive(model)
    return max(ledger.balance() for ledger in ledgers)

def refused():
    # All ranks raise for another shape in the middle; that step is not delivered, and nothing of it is kept.
    ledger, model = Ledger(topk), Model("abcd")
    ddp = ledger.wrap(model, find_unused_parameters=True)
    for step in range(4):
        g = gradients("abc", step)
        if step == 2 and rank == 1:
            g["b"][3] = float("inf")
        ddp(g).backward()
        if step == 2:
            assert all(p.grad is None or p.grad.isnan().all() for p in model.parameters())
            model.zero_grad()
            continue
        ledger.enter(g)
        ledger.receive(model)
    return ledger.balance()
"""


def test_every_parameter_balances_in_other_loops() -> None:
    names = ("rewrapped", "joined", "two_models", "refused")
    calls = ", ".join(f"{name!r}: {name}()" for name in names)
    for losses in run(2, LEDGER + OTHERS + f"print(json.dumps({{{calls}}}))"):
        assert losses == dict.fromkeys(names, 0)


STATES = """
def step(state, strict=True, overlap=True):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(30, 20), torch.nn.Linear(20, 10))
    ddp = DDP(model, bucket_cap_mb=0.001)
    compressor = wc.Compressor("topk(0.1) | rice | raw")
    ddp.register_comm_hook(None, co.torch_hook(compressor, comm, model.named_parameters(), overlap=overlap))
    if state is not None:
        compressor.load_state_dict(state, strict=strict)
    try:
        ddp(torch.ones(2, 30) * (1 + rank)).sum().backward()
        found = "ok"
    except co.CollectiveError as error:
        found = str(error)
    kept = sorted(key for key in compressor.state_dict() if "/" in key)
    return found, compressor.state_dict(), kept

_, own, names = step(None)
files = f"{os.environ['FILES']}/rank"
np.savez(f"{files}{rank}.npz", **own)
dist.barrier()
donor = dict(np.load(f"{files}0.npz"))
wrapped = {key.replace("residual/", "residual/module."): x for key, x in own.items()}
results = []
for overlap in (True, False):
    renamed = wc.rename_state(wrapped, prefix="module.")
    attempts = [(own, True), (donor, True), (donor, rank == 0), (wrapped, True), (wrapped, False)]
    attempts += [(renamed, True)]
    found = [step(state, strict, overlap) for state, strict in attempts]
    results.append([[text, int(state["step"]), kept == names] for text, state, kept in found])
print(json.dumps(results))
"""


def test_states_are_compared_under_the_hook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its buckets have some of the names each; another number of ranks takes a file with ``strict=False``."""
    monkeypatch.setenv("FILES", str(tmp_path))
    for results in run(2, STATES):
        for taken, donated, joined, wrapped, dropped, renamed in results:
            assert taken == joined == dropped == renamed == ["ok", 2, True]
            assert "rank 1: encoding failed: EncodeError: the loaded state was saved by rank 0" in donated[0]
            assert donated[1] == wrapped[1] == 1
            assert "ranks 0, 1: " in wrapped[0]
            assert "wc.rename_state(state, prefix='module.')" in wrapped[0]
