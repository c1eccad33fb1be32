"""compute-sanitizer on a reduced battery: memory, races in shared memory, uninitialised words, barriers."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.gpu_required import skip_or_fail

ROOT = Path(__file__).parents[2]
BATTERY = """
import cupy, numpy as np, wirecodec as wc
rng = np.random.default_rng(0)
for size in (1, 5_000, 40_001):
    for kind in (np.float32, np.float16, np.float64):
        x = cupy.asarray(rng.standard_normal(size).astype(kind))
        for select in ("topk(0.05)", "threshold(1.0)", "nonzero", "dgc(0.05)", "adacomp"):
            codecs = "rice | qsgd", "elias-fano | offset-float", "bitmap | sign-scale", "raw-index | raw"
            for rest in codecs:
                blob = wc.encode(x, f"{select} | {rest}")
                wc.decode(blob).to_dense()
                wc.decode_add(blob, cupy.zeros(size, np.float32))
        for scheme in ("topk(0.05) | rice | qsgd", "adacomp | rice | raw", "threshold(1.0) | bitmap | raw"):
            for beta in (1.0, 0.5):
                compressor = wc.Compressor(scheme, feedback=wc.ErrorFeedback(beta), fuse=100)
                for step in range(3):
                    compressor.compress({"a": x, "b": x[:50], "c": x[-70:]})
        y, words = x.copy(), f"u{x.itemsize}"
        y.view(words)[::37] ^= np.dtype(words).type(1)
        for base in ("read", "unread"):
            state = {"a": x.copy(), "b": x[1:].copy()[1:]}
            wc.apply(wc.diff(state, {"a": y, "b": y[2:]}, base=base), state)
            assert (state["a"].view(words) == y.view(words)).all()
"""


@pytest.mark.parametrize("tool", ["memcheck", "racecheck", "initcheck", "synccheck"])
def test_nothing_is_reported(cupy: Any, tool: str) -> None:
    found = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    if not Path(found).exists():
        skip_or_fail("compute-sanitizer, which comes with CUDA's toolkit, is not installed")
    command = [found, "--tool", tool, "--error-exitcode", "9", sys.executable, "-c", BATTERY]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
