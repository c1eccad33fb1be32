"""First steps of processes that have the wheel with kernels, in an environment and a home of their own."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.progress import track

from benchmarks.common.store import ROOT
from wheels.kernels import SCHEMES

GROUP = SCHEMES[0]

_FRAME = """
import json, time
{before}
start = time.perf_counter()
import numpy as np
import wirecodec as wc
rng = np.random.default_rng(0)
gradient = rng.laplace(size=1_000_000).astype(np.float32)
{program}
seconds = time.perf_counter() - start
from wirecodec.kernels.compiler.compile_log import log
print(json.dumps([seconds, [entry.kernel for entry in log if entry.compiled]]))
"""
_STEP = """
if "{scheme}".startswith("nonzero"):
    gradient[rng.random(gradient.size) < 0.95] = 0
wc.decode_many(wc.Compressor("{scheme}").compress({{"w": gradient}}))
"""
_THREADS = f"""
from concurrent.futures import ThreadPoolExecutor
def step(number):
    blob = wc.Compressor("{GROUP}", scope="group").compress({{"v": gradient[number:], "w": gradient[:500]}})
    return wc.decode_many(blob)
with ThreadPoolExecutor(8) as pool:
    list(pool.map(step, range(8)))
"""
_GROUP_OF_ONE = """
import tempfile
import torch
import torch.distributed as dist
dist.init_process_group("gloo", init_method="file://" + tempfile.mktemp(), rank=0, world_size=1)
model = torch.nn.Linear(1000, 1000)
"""
_HOOK = f"""
import collectives as co
ddp = torch.nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
compressor = wc.Compressor("{GROUP}", scope="group")
ddp.register_comm_hook(None, co.torch_hook(compressor, co.TorchComm(), model.named_parameters()))
ddp(torch.ones(4, 1000)).sum().backward()
"""
_LOCAL = """
import collectives as co
settings = co.local_recipe("{name}")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
settings["every"] = 2
compressor = settings.pop("compressor")
local = co.LocalUpdates(optimizer, model.named_parameters(), compressor, co.TorchComm(), **settings)
for _ in range(2):
    model(torch.ones(4, 1000)).sum().backward()
    optimizer.step()
    local.step()
"""
_PATCH = """
new = np.where(rng.random(gradient.size) < 0.01, gradient * np.float32(1.5), gradient)
wc.apply(wc.diff({"w": gradient}, {"w": new}), {"w": gradient})
"""


def list_programs() -> dict[str, str]:
    """Return the programs by name; each prints its seconds, and the kernels that it compiled."""
    found = {
        f"`{scheme}`": _FRAME.format(before="", program=_STEP.format(scheme=scheme)) for scheme in SCHEMES
    }
    found["a group, in 8 threads at once"] = _FRAME.format(before="", program=_THREADS)
    found["a patch of weights"] = _FRAME.format(before="", program=_PATCH)
    found["the hook, after torch's import"] = _FRAME.format(before=_GROUP_OF_ONE, program=_HOOK)
    for name in ("few-bits", "sparseloco", "diloco"):
        program = _LOCAL.format(name=name)
        found[f"local updates, `{name}`, after torch's import"] = _FRAME.format(
            before=_GROUP_OF_ONE, program=program
        )
    return found


@dataclass(frozen=True)
class Environment:
    """Virtual environment with the wheel, whose dependencies are those of this process.

    Attributes:
        python: its interpreter.
        home: an empty folder.
    """

    python: Path
    home: Path

    def run(self, program: str) -> tuple[float, list[str]]:
        """Run a program in a new process; return its seconds, and the kernels that it compiled."""
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("NUMBA_", "PYTHON"))
        }
        done = subprocess.run(
            [self.python, "-I", "-W", "ignore", "-c", program],
            env={**kept, "HOME": str(self.home)},
            cwd=self.home,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        seconds, compiled = json.loads(done.stdout.splitlines()[-1])
        return seconds, compiled


def make_environment(wheel: Path, folder: Path) -> Environment:
    """Install a wheel in an environment of its own."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "venv"], check=True)
    python = folder / "venv" / "bin" / "python"
    options = ("--no-deps", "--no-index", "--disable-pip-version-check", "--quiet")
    subprocess.run([sys.executable, "-m", "pip", "--python", python, "install", *options, wheel], check=True)
    (site,) = (folder / "venv" / "lib").glob("*/site-packages")
    # The wheel's own packages come first on the path.
    (site / "dependencies.pth").write_text(str(Path(np.__file__).parents[1]))
    home = folder / "home"
    home.mkdir()
    return Environment(python, home)


def build_wheel(folder: Path, seconds: int = 1500) -> Path:
    """Build the wheel of this repository, with kernels for this machine; return its path."""
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", ROOT],
        cwd=folder,
        env={**os.environ, "WIRECODEC_BUILD_SECONDS": str(seconds)},
        check=True,
    )
    (wheel,) = folder.glob("*.whl")
    return wheel


def measure(repeats: int) -> Mapping[str, tuple[float, int]]:
    """Return the median seconds of each program, and the number of kernels that it compiled."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        environment = make_environment(build_wheel(folder), folder)
        found = {}
        for title, program in track(list_programs().items(), "measuring the wheel"):
            runs = [environment.run(program) for _ in range(repeats)]
            found[title] = statistics.median(run[0] for run in runs), max(len(run[1]) for run in runs)
    return found
