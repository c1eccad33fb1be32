"""Hostile updates of a small model, which each server must refuse, and a generator of random ones.

An update is written here once, and each server's test sends it in its own way. The model is zero, so that a
movement and the layer after it are equal.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import wirecodec as wc

MODEL: dict[str, Any] = {
    "w": np.zeros((8, 5), np.float32),
    "b": np.zeros(5, np.float32),
    "half": np.zeros(3, np.float16),
    "batches": np.array(0, np.int64),
}
FLOATS = [name for name, x in MODEL.items() if x.dtype.kind == "f"]
MAX_NORM = 100.0


@dataclass(frozen=True)
class Update:
    """Update of a client.

    Attributes:
        code: of the refusal.
        container: bytes, or None.
        plain: arrays beside it, or all arrays of a client without a container.
        weight: that the client claims.
        metrics: beside the weight.
    """

    code: str
    container: bytes | None = None
    plain: Mapping[str, Any] | None = None
    weight: Any = 17
    metrics: Mapping[str, Any] | None = None


def pack(**changes: Any) -> bytes:
    """Return a container of small movements of all layers; None takes a layer out."""
    arrays = {name: np.full(MODEL[name].shape, 0.5, MODEL[name].dtype) for name in FLOATS} | changes
    return encode({name: x for name, x in arrays.items() if x is not None})


def encode(arrays: Mapping[str, Any], **options: Any) -> bytes:
    blob: bytes = wc.encode_many(arrays, "all | raw-index | raw", **options).tobytes()
    return blob


def plain(**changes: Any) -> dict[str, Any]:
    """Return small plain arrays of the whole model."""
    return {name: np.full(x.shape, 1, x.dtype) for name, x in MODEL.items()} | changes


COUNTERS = {"batches": np.array(8, np.int64)}
W, B = MODEL["w"].shape, MODEL["b"].shape


def beside(*, code: str, keep: str, x: Any) -> Update:
    """Return an update whose container has all layers but one, which is beside it."""
    return Update(code, pack(**{keep: None}), {**COUNTERS, keep: x})


UPDATES: dict[str, Update] = {
    # all arrays together
    "a large container": Update("max-norm", pack(w=np.full(W, 20, "f4")), COUNTERS),
    "a large array": Update("max-norm", None, plain(w=np.full(W, 1e6, "f4"))),
    "a large array beside a small container": beside(code="max-norm", keep="w", x=np.full(W, 1e6, "f4")),
    "a container and an array whose norms add up": Update(
        "max-norm", pack(w=np.full(W, 15, "f4"), b=None), {**COUNTERS, "b": np.full(B, 40, "f4")}
    ),
    "arrays whose norms add up": Update(
        "max-norm", None, plain(w=np.full(W, 15, "f4"), b=np.full(B, 40, "f4"))
    ),
    "large integers": Update("max-norm", None, plain(w=np.full(W, 2**62))),
    "large integers beside": beside(code="max-norm", keep="w", x=np.full(W, 2**62)),
    "a large array of another byte order": Update("max-norm", None, plain(w=np.full(W, 1e6, ">f4"))),
    "a layer twice": Update("schema-names", pack(), {**COUNTERS, "w": np.zeros(W, "f4")}),
    # values
    "NaN in a container": Update("nonfinite", pack(b=np.full(B, np.nan, "f4")), COUNTERS),
    "Inf in a container": Update("nonfinite", pack(b=np.full(B, -np.inf, "f4")), COUNTERS),
    "NaN in an array": Update("nonfinite", None, plain(w=np.full(W, np.nan, "f4"))),
    "NaN beside": beside(code="nonfinite", keep="w", x=np.full(W, np.nan, "f4")),
    "NaN of float16": Update("nonfinite", None, plain(w=np.full(W, np.nan, "f2"))),
    "NaN of another byte order": Update("nonfinite", None, plain(w=np.full(W, np.nan, ">f8"))),
    "Inf after a cast to float16": Update("nonfinite", None, plain(half=np.full(3, 1e5))),
    "Inf after a cast to float16, beside": beside(code="nonfinite", keep="half", x=np.full(3, 1e5)),
    "Inf after a cast to float32": Update("nonfinite", None, plain(w=np.full(W, 1e300))),
    "Inf after a cast from long double": Update(
        "nonfinite", None, plain(w=np.full(W, np.longdouble("1e4000")))
    ),
    "long double in a counter": Update("nonfinite", None, plain(batches=np.array(np.longdouble("1e4000")))),
    "NaN in a counter": Update("nonfinite", None, plain(batches=np.array(np.nan))),
    # types
    "complex numbers": Update("schema-dtype", None, plain(w=np.full(W, 1j, "c8"))),
    "complex numbers beside": beside(code="schema-dtype", keep="w", x=np.full(W, 1j, "c16")),
    "text": Update("schema-dtype", None, plain(w=np.full(W, "x"))),
    "bytes": Update("schema-dtype", None, plain(w=np.full(W, b"1"))),
    "times": Update("schema-dtype", None, plain(w=np.zeros(W, "M8[s]"))),
    "records": Update("schema-dtype", None, plain(w=np.zeros(W, [("x", "f4")]))),
    # names and shapes
    "another shape": Update("schema-shape", None, plain(w=np.zeros(W[::-1], "f4"))),
    "another shape beside": beside(code="schema-shape", keep="w", x=np.zeros(40, "f4")),
    "another shape of a counter": Update("schema-shape", pack(), {"batches": np.zeros(9, np.int64)}),
    "another name": Update("schema-names", None, plain(c=np.zeros(3, "f4"))),
    "another name beside": Update("schema-names", pack(), {**COUNTERS, "c": np.zeros(3, "f4")}),
    # containers
    "random bytes": Update("magic", np.random.default_rng(0).bytes(300), COUNTERS),
    "no bytes": Update("prefix", b"", COUNTERS),
    "cut": Update("container", pack()[:-1], COUNTERS),
    "a patch": Update("patch", encode({name: MODEL[name] for name in FLOATS}, absent="unchanged"), COUNTERS),
    "another shape in a container": Update("schema-shape", pack(w=np.zeros(W[::-1], "f4")), COUNTERS),
    "another name in a container": Update("schema-names", pack(b=None, c=np.zeros(5, "f4")), COUNTERS),
    "a large tensor": Update("max-elements", pack(w=np.zeros(10**6, "f4")), COUNTERS),
    # weights and metrics
    "a weight below 0": Update("weight", pack(), COUNTERS, weight=-3),
    "a weight below 0, near that of others": Update("weight", pack(), COUNTERS, weight=-16.99),
    "weight 0": Update("weight", pack(), COUNTERS, weight=0),
    "weight NaN": Update("weight", pack(), COUNTERS, weight=math.nan),
    "weight Inf": Update("weight", pack(), COUNTERS, weight=math.inf),
    "a huge weight": Update("weight", pack(), COUNTERS, weight=1e300),
    "a huge integer as weight": Update("weight", pack(), COUNTERS, weight=2**53 + 1),
    "a list as weight": Update("weight", pack(), COUNTERS, weight=[1, 2]),
    "a weight with plain arrays": Update("weight", None, plain(), weight=math.nan),
    "a metric NaN": Update("nonfinite", pack(), COUNTERS, metrics={"loss": math.nan}),
    "a metric Inf": Update("nonfinite", pack(), COUNTERS, metrics={"loss": math.inf}),
    "a list with NaN": Update("nonfinite", None, plain(), metrics={"loss": [0.5, math.nan]}),
}
"""{what is wrong: update}, for each server."""

UNMEASURED = {
    "integers in a container": pack(w=np.zeros(W, np.int64)),
    "complex numbers in a container": pack(w=np.zeros(W, "c8")),
    "logical values in a container": pack(w=np.zeros(W, bool)),
}
"""Containers of tensors that are no floats; the code depends on whether the server knows the types."""

_VALUES = (0, 1, -1, 0.5, 1e-3, 20, 99, 1e3, 65504, 65520, 1e30, 1e300, math.nan, math.inf, -math.inf, 2**62)
_TYPES = (
    "f2",
    "f4",
    "f8",
    ">f4",
    ">f8",
    "g",
    "i1",
    "i4",
    "i8",
    "u8",
    ">i2",
    "?",
    "c8",
    "U3",
    "S2",
    "M8[s]",
    "V2",
)
_WEIGHTS = (17.5, 1, 0, -1, 2**53, 2**53 + 1, 1e300, math.nan, math.inf, -16.99)


def random_array(
    rng: np.random.Generator, shape: tuple[int, ...], likely: np.dtype[Any], wrong: float
) -> Any:
    """Return an array whose type and values are wrong with a probability."""
    if rng.random() < wrong / 4:
        shape = [(), (1,), shape[::-1], (0,), (40,), (2, 3)][rng.integers(6)]
    dtype = likely if rng.random() >= wrong else np.dtype(_TYPES[rng.integers(len(_TYPES))])
    value = _VALUES[rng.integers(len(_VALUES))] if rng.random() < wrong else 0.5
    with np.errstate(all="ignore"):
        x = np.zeros(shape, dtype)
        try:
            values = np.full(shape, value) * (rng.random(shape) < 0.5)
            x[...] = np.nan_to_num(values) if dtype.kind in "iub" else values
        except (ValueError, TypeError, OverflowError):
            pass
    return x


def random_update(rng: np.random.Generator) -> Update:
    """Return an update that is acceptable, or wrong in some places."""
    wrong = (0.02, 0.1, 0.5)[rng.integers(3)]
    names = [*MODEL, "c"] if rng.random() < wrong / 4 else list(MODEL)
    if rng.random() < wrong / 4:
        names.pop(int(rng.integers(len(names))))
    arrays = {}
    for name in names:
        like = MODEL.get(name, MODEL["b"])
        arrays[name] = random_array(rng, like.shape, like.dtype, wrong)
    carried = [
        n for n, x in arrays.items() if x.dtype.kind in "fiubc" and x.dtype.isnative and x.dtype.char != "g"
    ]
    inside = {name: arrays[name] for name in carried if name in FLOATS and rng.random() < 0.7}
    blob = None
    if rng.random() < 0.7:
        blob = encode(inside, **({"absent": "unchanged"} if rng.random() < wrong / 8 else {}))
        if rng.random() < wrong / 2:
            damaged = np.frombuffer(blob, np.uint8).copy()
            damaged[rng.integers(0, damaged.size, 2)] = rng.integers(0, 256, 2)
            blob = damaged.tobytes()
    twice = rng.random() < wrong / 8
    others = {name: x for name, x in arrays.items() if blob is None or twice or name not in inside}
    weight = _WEIGHTS[rng.integers(len(_WEIGHTS))] if rng.random() < wrong else 17
    metrics = {"loss": _VALUES[rng.integers(len(_VALUES))] if rng.random() < wrong else 0.5}
    return Update("", blob, others, weight, metrics)


def check_accepted(update: Update, arrays: Mapping[str, Any]) -> None:
    """Check what a server uses of an update that it has accepted; counters have no limit."""
    squares = 0.0
    for name, x in arrays.items():
        assert x.shape == MODEL[name].shape
        assert np.isfinite(x).all()
        if name in FLOATS:
            assert x.dtype == MODEL[name].dtype
            squares += float((x.astype("f8") ** 2).sum())
    assert math.sqrt(squares) <= MAX_NORM * (1 + 1e-3)  # rounded to float16
    assert 0 < update.weight <= 2**53
