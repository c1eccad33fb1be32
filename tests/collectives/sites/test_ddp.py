"""torch_hook and average_gradients over Sites: two sites of two processes each."""

from __future__ import annotations

import pytest

from tests.collectives.torch.processes import run

pytest.importorskip("torch")

BODY = """
import math
os.environ["LOCAL_WORLD_SIZE"] = "2"
sites = co.Sites.of()
results = [sites.local.size, sites.across.size, sites.rank]

def make_model():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(8, 300), torch.nn.ReLU(), torch.nn.Linear(300, 4))

def batch(step):
    return torch.randn(16, 8, generator=torch.Generator().manual_seed(10 * step + rank))

def gradients(model, step, scale=1.0):
    model.zero_grad()
    (scale * model(batch(step)).square().mean()).backward()
    return [p.grad.clone() for p in model.parameters()]

def state_of(compressor):
    return {key: x.tobytes() for key, x in compressor.state_dict().items()}

def register(ddp, compressor, overlap):
    hook = co.torch_hook(compressor, sites, ddp.module.named_parameters(), overlap=overlap)
    ddp.register_comm_hook(None, hook)

plain = DDP(make_model())
for overlap in (False, True):
    ddp, compressor = DDP(make_model(), bucket_cap_mb=0.001), wc.Compressor("all | raw-index | raw")
    register(ddp, compressor, overlap)
    apart = 0.0
    for step in range(3):
        both = zip(gradients(plain, step), gradients(ddp, step), strict=True)
        apart = max([apart, *(float((a - b).abs().max()) for a, b in both)])
    results.append([apart < 1e-6, compressor.step])

    # A sparse exchange: equal bits on all ranks, and NaN of one rank on all.
    ddp, compressor = DDP(make_model()), wc.Compressor("topk(0.1) | rice | raw")
    register(ddp, compressor, overlap)
    found = [None] * size
    dist.all_gather_object(found, [g.numpy().tobytes() for g in gradients(ddp, 0)])
    before = state_of(compressor)
    spoiled = all(bool(g.isnan().all()) for g in gradients(ddp, 1, math.nan if rank == 2 else 1.0))
    kept = state_of(compressor) == before
    finite = all(bool(g.isfinite().all()) for g in gradients(ddp, 2))
    results.append([found[0] == found[1] == found[2] == found[3], spoiled, kept, finite, compressor.step])

    # An error of one rank is raised by all, and the next step works.
    compressor.set_step(2 + (rank == 1))
    try:
        gradients(ddp, 3)
    except co.CollectiveError as error:
        results.append(error.reason)
    compressor.set_step(2)
    results.append(all(bool(g.isfinite().all()) for g in gradients(ddp, 4)))

alone, compressor = make_model(), wc.Compressor("all | raw-index | raw")
gradients(alone, 0)
co.average_gradients(sites, alone.named_parameters(), compressor)
both = zip(alone.parameters(), gradients(plain, 0), strict=True)
results.append(max(float((a.grad - b).abs().max()) for a, b in both) < 1e-6)
print(json.dumps(results))
"""


def test_gradients_of_ddp_over_sites() -> None:
    for rank, results in enumerate(run(4, BODY)):
        assert results[:3] == [2, 2, rank]
        reason = "scheme" if rank < 2 else "encode"  # the other site learns that this one has failed
        one = [[True, 3], [True, True, True, True, 2], reason, True]
        assert results[3:] == [*one, *one, True]
