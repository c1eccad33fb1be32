"""Times of calls, as JSON on standard output.

It is run by its path in two checkouts, of which one may be old. So it uses names that all versions have, and
leaves out a call that one of them does not know.
"""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import wirecodec as wc

SCHEMES = (
    "topk(0.01) | rice | qsgd(bits=4)",
    "budget(0.25) | rice | error-bounded",
    "topk(0.01) | auto-index | error-bounded(0.01)",
    "nonzero | auto-index | raw",
    "all | raw-index | qsgd(bits=8)",
    "sidco(0.01) | rice | raw",
    "topk(0.01) | bloom | raw",
    "topk(0.01) | huffman | sketchml",
)
MANY = ("topk(0.01) | rice | qsgd(bits=4)", "topk(0.01) | rice | raw(bfloat16)")
SIZES = {"1 k": 1_000, "100 k": 100_000, "10 M": 10_000_000}
LAYERS = [64] * 40 + [4_096] * 40 + [65_536] * 40 + [400_000] * 20
Call = tuple[str, Callable[[], Any], int]


def measure(call: Callable[[], Any], repeats: int) -> float:
    """Return the shortest time of a call, in milliseconds."""
    times = []
    for number in range(repeats + 2):
        start = time.perf_counter()
        call()
        if number > 1:
            times.append(time.perf_counter() - start)
    return 1e3 * min(times)


def list_calls() -> Iterator[Call]:
    """Yield names, calls and numbers of repeats."""
    rng = np.random.default_rng(0)
    vector = rng.laplace(size=max(SIZES.values())).astype("f4")
    for scheme in SCHEMES:
        for label, size in SIZES.items():
            x = vector[:size].copy()
            if "nonzero" in scheme:
                x[rng.random(size) >= 0.01] = 0
            yield from _calls_of_one(f"{scheme}, {label}", x, scheme, 7 if size > 10**6 else 25)
    model = {f"l{i}": rng.laplace(size=n).astype("f4") for i, n in enumerate(LAYERS)}
    for scheme in MANY:
        yield from _calls_of_many(f"{scheme}, 140 tensors", model, scheme)
    grouped = wc.Compressor("budget(0.25) | rice | error-bounded", scope="group")
    yield "budget of a group, 140 tensors: step", lambda: grouped.prepare(model).commit(), 7
    large = rng.laplace(size=26_000_000).astype("f4")
    yield from _calls_of_one("topk(0.01) | rice | raw, 26 M", large, "topk(0.01) | rice | raw", 7)
    old = {"w": rng.normal(0, 0.02, 10_000_000).astype(np.float16)}
    new = {"w": old["w"].copy()}
    new["w"].view(np.uint16)[rng.choice(10_000_000, 150_000, replace=False)] += 1
    if hasattr(wc, "diff"):
        patch = wc.diff(old, new)
        state = {"w": new["w"].copy()}

        def apply() -> None:
            state["w"][:] = old["w"]
            wc.apply(patch, state)

        yield "patch, 10 M: diff", lambda: wc.diff(old, new), 7
        yield "patch, 10 M: copy and apply", apply, 7


def _calls_of_one(name: str, x: Any, scheme: str, repeats: int) -> Iterator[Call]:
    try:
        blob, out = wc.encode(x, scheme), np.zeros(x.size, "f4")
    except wc.EncodeError:  # in an older revision
        return
    yield f"{name}: encode", lambda: wc.encode(x, scheme), repeats
    yield f"{name}: decode", lambda: wc.decode(blob), repeats
    yield f"{name}: decode_add", lambda: wc.decode_add(blob, out), repeats


def _calls_of_many(name: str, model: dict[str, Any], scheme: str) -> Iterator[Call]:
    compressor = wc.Compressor(scheme)
    blob = wc.encode_many(model, scheme)
    out = {key: np.zeros_like(x) for key, x in model.items()}
    yield f"{name}: step", lambda: compressor.prepare(model).commit(), 9
    yield f"{name}: encode_many", lambda: wc.encode_many(model, scheme), 9
    yield f"{name}: decode_many", lambda: wc.decode_many(blob), 9
    yield f"{name}: decode_add", lambda: wc.decode_add(blob, out), 9


def main() -> None:
    """Print {name: milliseconds}."""
    warnings.simplefilter("ignore")
    print(json.dumps({name: measure(call, repeats) for name, call, repeats in list_calls()}))


if __name__ == "__main__":
    main()
