"""Programs that change torch's defaults: own tensors of the library state their device and type."""

from __future__ import annotations

import pytest

from tests.collectives.torch.processes import run

pytest.importorskip("torch")

BODY = """
import io
from contextlib import contextmanager, nullcontext

@contextmanager
def default(set, get, value):
    before = get()
    set(value)
    try:
        yield
    finally:
        set(before)

def device():
    return default(torch.set_default_device, torch.get_default_device, "meta")

def dtype(kind):
    return default(torch.set_default_dtype, torch.get_default_dtype, kind)

def as_bytes(x):
    return x.detach().to_dense().contiguous().view(torch.uint8).numpy().tobytes().hex()

def work(mode):
    draw = torch.Generator().manual_seed(rank)
    given = torch.randn(6, 4, generator=draw, dtype=torch.float32, device="cpu")
    named = {
        name: torch.nn.Parameter(torch.zeros(6, 4, dtype=torch.float32, device="cpu")) for name in "abc"
    }
    compressor, found = wc.Compressor("topk(0.5) | rice | raw"), []
    moved = wc.Compressor("topk(0.5) | rice | raw")
    with mode:
        for step in range(2):
            named["a"].grad, named["b"].grad = given.clone(), given.clone().to_sparse(1)
            named["c"].grad = None if rank else given.T.contiguous().T
            co.average_gradients(comm, named.items(), compressor)
            found += [as_bytes(p.grad) for p in named.values()]
        local = co.LocalUpdates(None, named.items(), moved, comm, every=2, momentum=0.5, delay=1)
        for step in range(4):
            with torch.no_grad():
                for p in named.values():
                    p.sub_(p.grad.to_dense())
            local.step()
        local.exchange()
        found += [as_bytes(p) for p in named.values()]
        file = io.BytesIO()
        state = co.Checkpointable(compressor, key="c", comm=comm).state_dict()
        torch.save([state, co.torch_state_dict(local)], file)
        file.seek(0)
        state, of_local = torch.load(file, weights_only=True, map_location="cpu")
        again = wc.Compressor("topk(0.5) | rice | raw")
        co.Checkpointable(again, key="c", comm=comm).load_state_dict(state)
        local.load_state_dict(of_local)
        found.append(again.residual("a").tobytes().hex())
        gathered = co.Checkpointable(compressor, key="c", comm=comm, gather=True).state_dict()
        found += [as_bytes(x) for x in gathered.values()]
    return found

def train(mode):
    model = torch.nn.Linear(6, 4, dtype=torch.float32, device="cpu")
    with torch.no_grad():
        for p in model.parameters():
            p.zero_()
    ddp = DDP(model)
    ddp.register_comm_hook(None, co.torch_hook(wc.Compressor(), comm, model.named_parameters()))
    with mode:
        inputs = torch.ones(2, 6, dtype=torch.float32, device="cpu")
        ddp(inputs * (rank + 1)).sum().backward()
    return [as_bytes(p.grad) for p in model.parameters()]

MODES = [nullcontext, device, lambda: dtype(torch.float64), lambda: dtype(torch.bfloat16), torch.no_grad]
expected, of_training = work(nullcontext()), train(nullcontext())
equal = [work(mode()) == expected for mode in [*MODES, torch.inference_mode]]
equal += [train(mode()) == of_training for mode in MODES[1:-1]]
print(json.dumps(equal))
"""


def test_results_do_not_depend_on_torchs_defaults() -> None:
    assert run(2, BODY) == [[True] * 9] * 2
