"""Training on a GPU: every system trains on the CPU, with torch's functions for the GPU replaced."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.gpu.training import Row, base_of, draw, format_rows
from tests.collectives.torch.processes import run

ROWS = [
    Row("no exchange", 40.0, 0, 0, None, 5e9, 39.0),
    Row("DDP", 42.0, 0, 0, None, 6e9, 40.0),
    Row("DDP, torch_hook", 52.0, 2e6, 1e6, 1.5e6, 7e9, 44.0),
    Row("FSDP2, fsdp_hook", 60.0, 2e6, 1e6, 1.5e6, 7e9, 44.0),
]
ON_CPU = """
import time
from types import SimpleNamespace
from torch import nn
from benchmarks.gpu import model, training
dist.destroy_process_group()
port = os.environ["MASTER_PORT"]

class Event:
    def __init__(self, enable_timing): pass
    def record(self): self.at = time.perf_counter()
    def elapsed_time(self, other): return 1000 * (other.at - self.at)

def trace(call, calls):
    for _ in range(calls): call()
    return [{"cat": "gpu_memcpy", "name": "Memcpy DtoH", "dur": 5, "args": {"bytes": 1000 * calls}}]

torch.cuda.Event = Event
torch.cuda.synchronize = torch.cuda.empty_cache = torch.cuda.reset_peak_memory_stats = lambda: None
torch.cuda.max_memory_allocated = lambda: 1
torch.Tensor.cuda = nn.Module.cuda = lambda self: self
pool = SimpleNamespace(free_all_blocks=lambda: None, total_bytes=lambda: 2)
sys.modules["cupy"] = SimpleNamespace(get_default_memory_pool=lambda: pool)
import torch.distributed.device_mesh as meshes
make_mesh, begin = meshes.init_device_mesh, dist.init_process_group
meshes.init_device_mesh = lambda kind, *given, **named: make_mesh("cpu", *given, **named)
def init(backend, **named):
    os.environ["MASTER_PORT"] = str(int(port) + 1)
    begin("gloo", **named)
dist.init_process_group = init
training.has_cuda, training.trace = lambda: True, trace
for module in (model, training):
    module.WORDS, module.LENGTH = 64, 16
rows = [row for job in training.generate_jobs(quick=True) for row in job.run()]
begin("gloo", rank=0, world_size=1)
print(json.dumps([[row.name, row.ms, row.to_host, row.sent, row.peak] for row in rows]))
"""


def test_every_system_trains() -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    (rows,) = run(1, ON_CPU)
    names = [row[0] for row in rows]
    assert names[:2] == ["no exchange", "DDP"]
    assert {"DDP, torch_hook", "average_gradients", "FSDP2, fsdp_hook", "LocalUpdates"} <= set(names)
    for name, ms, to_host, sent, peak in rows:
        assert ms > 0
        assert (to_host, peak) == (1000, 3)
        plain = name in ("no exchange", "DDP", "FSDP2") or "PowerSGD" in name
        assert (sent is None) == plain, name


def test_the_time_is_compared_with_the_same_framework(tmp_path: Path) -> None:
    assert base_of("DDP, torch_hook") == "DDP"
    text = format_rows(ROWS)
    assert "| DDP, torch_hook | 52.0 | 10.0 | 44.0 | 2.00 | 1.00 | 1.50 | 7.00 |" in text
    assert "| FSDP2, fsdp_hook | 60.0 |  |" in text  # FSDP2 alone is missing
    assert "| no exchange | 40.0 |  | 39.0 | 0.00 | 0.00 |  | 5.00 |" in text
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    draw(tmp_path / "bars.png", ROWS, "a GPU")
    assert (tmp_path / "bars.png").read_bytes().startswith(b"\x89PNG")
