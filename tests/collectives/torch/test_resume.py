"""The guide's scripts with checkpoints: a resumed run has the bits of one without a break."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.collectives.torch.processes import run_program
from tests.integrations.pages import change, read_script

pytest.importorskip("torch")
END = "dist.destroy_process_group()\n"
DIGEST = """
import hashlib
full = [getattr(p, "full_tensor", lambda p=p: p)().detach().numpy().tobytes() for p in model.parameters()]
print("parameters", hashlib.sha256(b"".join(full)).hexdigest(), flush=True)
"""


def train(script: str, ranks: int, folder: Path, steps: int) -> tuple[int, str]:
    """Return the first step, and the digest of the parameters, which all ranks share."""
    folder.mkdir(exist_ok=True)
    outputs = run_program(ranks, change(script, (END, DIGEST + END)), [str(steps)], cwd=folder)
    (digest,) = set(re.findall(r"parameters (\w{64})", "".join(outputs)))
    (first,) = re.findall(r"first step: (\d+)", outputs[0])
    return int(first), digest


@pytest.mark.parametrize(("name", "ranks"), [("resume.py", 2), ("resume_fsdp.py", 4), ("resume_fsdp.py", 2)])
def test_a_resumed_run_has_the_bits_of_an_uninterrupted_one(name: str, ranks: int, tmp_path: Path) -> None:
    script = read_script("checkpoints.md", name)
    stopped, _ = train(script, ranks, tmp_path / "stopped", 13)  # three steps after its last checkpoint
    resumed, digest = train(script, ranks, tmp_path / "stopped", 20)
    assert (stopped, resumed) == (0, 10)
    assert train(script, ranks, tmp_path / "whole", 20) == (0, digest)


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("resume.py", "    compressor.load_state_dict("),
        ("resume_fsdp.py", ', "compressor": co.Checkpointable(compressor)'),
    ],
)
def test_residuals_are_needed(name: str, line: str, tmp_path: Path) -> None:
    """Without them, the bits differ."""
    script = read_script("checkpoints.md", name)
    without = change(script, (line, "    dict(" if "load" in line else ""))
    whole, lost = tmp_path / "whole", tmp_path / "lost"
    train(without, 2, lost, 13)
    assert train(without, 2, lost, 20)[1] != train(script, 2, whole, 20)[1]
