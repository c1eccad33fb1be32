"""``warm`` leaves nothing to compile, for any scheme of README and any preset."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest

import wirecodec as wc
from tests.child import run

README = (Path(__file__).parents[2] / "README.md").read_text()
SCHEMES = [row.replace("\\|", "|") for row in re.findall(r"^\|[^|`]*\| `([^`]*\|[^`]*)` \|", README, re.M)]

USE = """
import numpy as np
import wirecodec as wc
from wirecodec.interop import dtype_named
from wirecodec.kernels.compiler.compile_log import log

dtype, rng, late = dtype_named("{dtype}"), np.random.default_rng(1), []
for scheme in {schemes}:
    wc.warm(scheme, dtype, feedback=True)
    before = len(log)
    for size in (1_000_000, 4000):
        dense = rng.laplace(size=size)
        for x in (dense, dense * (rng.random(size) < 0.05)):
            tensor = x.astype(dtype)
            blob = wc.encode(tensor, scheme)
            wc.decode(blob)
            wc.decode_add(blob, np.zeros(size, np.result_type(dtype, np.float32)))
            compressor = wc.Compressor(scheme)
            for _ in range(2):
                compressor.compress({{"w": tensor}})
            together = wc.Compressor(scheme)
            for _ in range(3):
                together.compress(dict.fromkeys("abc", tensor))
    late += [(scheme, entry.kernel) for entry in log[before:]]
assert not late, late
"""


@pytest.mark.parametrize("dtype", ["float32", pytest.param("bfloat16", marks=pytest.mark.sweep)])
def test_nothing_is_compiled_or_loaded_after_warm(dtype: str) -> None:
    assert SCHEMES
    schemes = SCHEMES + [str(preset.scheme) for preset in wc.PRESETS.values()]
    run(USE.format(schemes=schemes, dtype=dtype))


def test_nothing_is_compiled_or_loaded_after_warm_of_weights() -> None:
    run("""
import numpy as np
import wirecodec as wc
from wirecodec.kernels.compiler.compile_log import log

def build():
    scheme = "budget(bits=0.25) | rice | error-bounded"
    return wc.Compressor(scheme, scope="group", weights={"e*": 0.5})

wc.warm(build())
before = len(log)
compressor, rng = build(), np.random.default_rng(1)
for _ in range(2):
    compressor.compress({name: rng.laplace(size=50_000).astype(np.float32) for name in ("embedding", "out")})
assert not log[before:], log[before:]
""")


def test_nothing_is_compiled_or_loaded_in_the_first_exchange() -> None:
    """Sums of tensors that do not fit into a cache have a kernel of their own."""
    run("""
import numpy as np
import collectives as co
import wirecodec as wc
from wirecodec.kernels.compiler.compile_log import log

def build():
    return wc.Compressor("budget(0.25) | rice | error-bounded", scope="group")

wc.warm(build())
before = len(log)

def train(comm):
    compressor, rng = build(), np.random.default_rng(comm.rank)
    for _ in range(2):
        gradients = {str(n): rng.laplace(size=n).astype(np.float32) for n in (10, 1000, 300_000)}
        co.allreduce(comm, gradients, compressor, algorithm="allgather")

co.simulate(2, train)
assert not log[before:], log[before:]
""")


def test_a_second_call_does_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    compressor = wc.Compressor({"b*": "all | raw-index | raw", "*": "topk(0.1) | rice | raw"})
    wc.warm(compressor)
    ran: list[object] = []
    monkeypatch.setattr(sys.modules[wc.warm.__module__], "run_shared", ran.extend)
    assert wc.warm(compressor, np.float32).compiled == {}
    assert not ran


def test_arguments_are_checked() -> None:
    with pytest.raises(wc.EncodeError, match="unknown index codec"):
        wc.warm("topk(0.1) | rize | raw")
    with pytest.raises(wc.EncodeError, match="int32 is not carried"):
        wc.warm(dtype=np.int32)


def test_the_kernels_of_calibration_and_of_local_updates_are_warm() -> None:
    """Ranks that exchange once, and take an outer step, compile and load nothing."""
    run("""
import numpy as np
import collectives as co
import wirecodec as wc
from wirecodec.kernels.compiler.compile_log import log

scheme = "topk(0.1) | rice | raw(bfloat16)"
wc.warm(scheme, feedback=True)
before = len(log)

def train(comm):
    compressor, w = wc.Compressor(scheme), np.zeros(50_000, np.float32)
    gradient = np.random.default_rng(comm.rank).laplace(size=w.size).astype(np.float32)
    co.allreduce(comm, {"w": gradient}, compressor)
    local = co.LocalUpdates(None, {"w": w}, wc.Compressor(scheme), comm, every=1)
    w += gradient
    local.step()

co.simulate(2, train)
assert not log[before:], log[before:]
""")
