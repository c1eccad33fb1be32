"""Peak memory of a Compressor's steps, measured as resident pages of a process of its own."""

from __future__ import annotations

import json
import os

import pytest

from tests import child

PEAKS = """
import json
from pathlib import Path

import numpy as np

import wirecodec as wc

N, SETTINGS = 25_000_000, {settings}
rng = np.random.default_rng(0)
gradients = {{str(i): rng.standard_normal(N // 100, np.float32) for i in range(100)}}


def read(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(field))


peaks = {{}}
for name, (scheme, scope, momentum) in SETTINGS.items():
    feedback = wc.MomentumCorrection(momentum) if momentum else wc.ErrorFeedback()
    first, measured = (wc.Compressor(scheme, scope=scope, feedback=feedback) for _ in range(2))
    for _ in range(4):  # loads the kernels
        first.compress({{key: x[:40_000] for key, x in gradients.items()}})
        first.compress({{"whole " + key: gradients[key] for key in "01234567"}})
    del first
    before, peaks[name] = read("VmRSS"), []
    for _ in range(4):
        Path("/proc/self/clear_refs").write_text("5")  # resets the peak
        measured.compress(gradients)
        peaks[name].append((read("VmHWM") - before) / 4 / N)
    del measured
print(json.dumps(peaks))
"""
TOP, BUDGET = "topk(0.01) | rice | raw(bfloat16)", "budget(bits=0.25) | rice | error-bounded"
SETTINGS = {
    "topk": (TOP, "tensor", 0),
    "budget": (BUDGET, "tensor", 0),
    "budget of a group": (BUDGET, "group", 0),
    "momentum": (TOP, "tensor", 0.9),
}


@pytest.mark.skipif(not os.path.exists("/proc/self/clear_refs"), reason="needs Linux's peak of pages")
def test_residuals_take_two_floats_per_parameter_and_momenta_two_more() -> None:
    """The first steps' arrays are spare memory of the later ones, so that no step allocates a third set."""
    code = PEAKS.format(settings=SETTINGS)
    peaks = json.loads(child.run(code, MALLOC_MMAP_THRESHOLD_="131072"))  # freed arrays leave the process
    assert max(peaks["topk"]) < 2.1, peaks
    assert max(peaks["budget"]) < 2.2, peaks
    assert max(peaks["budget of a group"]) < 2.4, peaks  # the elements of a whole model are selected at once
    assert max(peaks["momentum"]) < 4.1, peaks
