"""Steps of many tensors in one launch per stage: containers, states and errors are those of the host."""

from __future__ import annotations

from random import Random
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import wirecodec as wc
from tests.fuzz.mutate import mutate_container
from tests.gpu_emulated.compressor_pair import (
    GRADIENTS,
    STAGED,
    assert_same_state,
    make_pair,
    same_bits,
    step_both,
)
from tests.gpu_emulated.standin import StandInDevice, marked, standin
from tests.inputs import Array
from wirecodec.container import table
from wirecodec.cpu import chunk, fast
from wirecodec.gpu import chunk as gpu_chunk
from wirecodec.gpu.fast import plan

__all__ = ["standin"]

SCHEMES = [
    "topk(0.02) | rice | qsgd(bits=4)",
    "topk(0.05) | rice | raw",
    "topk(k=3) | rice | qsgd(bits=8)",
    "topk(0.03) | rice | raw(bfloat16)",
    "topk(0.03) | rice | raw(float16)",
]
SHAPES: dict[str, tuple[int, ...]] = {"a": (9_000,), "b": (7, 11), "c": (40_000,), "d": (4,), "e": (4096, 3)}


def draw(rng: np.random.Generator, kind: Any, factor: float = 1) -> dict[str, Array]:
    return {name: (factor * rng.laplace(size=shape)).astype(kind) for name, shape in SHAPES.items()}


@pytest.mark.sampled
@pytest.mark.parametrize("kind", [np.float32, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_many_tensors(standin: StandInDevice, scheme: str, kind: Any) -> None:
    """Larger and smaller gradients than in the last step, for which its thresholds do not hold the top k."""
    rng = np.random.default_rng(1)
    there, here = make_pair(scheme)
    for factor in (1, 1, 40, 1e-3, 1):
        standin.launched.clear()
        standin.fetched.clear()
        made = step_both(there, here, draw(rng, kind, factor))
        assert "batch_check" in standin.launched
        assert len(made.sent) == len(SHAPES)


def test_launches_and_waits_do_not_depend_on_the_number(standin: StandInDevice) -> None:
    rng = np.random.default_rng(2)
    counts = []
    for number in (1, 30):
        compressor = wc.Compressor("topk(0.02) | rice | qsgd")
        for _ in range(3):
            standin.launched.clear()
            standin.fetched.clear()
            given = {f"{i:02}": marked(rng.laplace(size=3000).astype(np.float32)) for i in range(number)}
            compressor.compress(given)
        counts.append((len(standin.launched), len(standin.fetched)))
    assert counts[0] == counts[1]
    assert counts[0][0] <= 20
    assert counts[0][1] == 2


@pytest.mark.parametrize("shape", GRADIENTS)
def test_gradients_of_every_shape(standin: StandInDevice, shape: str) -> None:
    for kind in (np.float32, np.float16):
        rng = np.random.default_rng(3)
        there, here = make_pair(SCHEMES[0])
        for _ in range(3):
            step_both(there, here, {name: GRADIENTS[shape](rng).astype(kind) for name in "ab"})


def test_several_chunks(standin: StandInDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    """Use shorter chunks; the host takes the plain way, which has them, too."""
    for module in (table, chunk, gpu_chunk, plan):
        monkeypatch.setattr(module, "CHUNK", 4096)
    for scheme in SCHEMES:
        rng = np.random.default_rng(4)
        there, here = make_pair(scheme)
        for _ in range(3):
            x = rng.laplace(size=10_000).astype(np.float32)
            x[4096:8192] = 0
            full = np.where(np.arange(8192) < 4096, 100, 1e-3).astype(
                np.float32
            )  # one chunk has all of the top
            given = {"w": x, "b": rng.laplace(size=50).astype(np.float32), "x": full}
            made = there.prepare({name: marked(each.copy()) for name, each in given.items()})
            with fast.off():
                expected = here.prepare(given)
            assert same_bits(made.blob, expected.blob)
            for each in (made, expected):
                each.commit()
            assert_same_state(there, here)


def test_what_is_rare_takes_the_plain_way(standin: StandInDevice) -> None:
    """Sums that overflow, and tensors to hold, have the container and the state of the host's step."""
    rng = np.random.default_rng(5)
    there, here = make_pair(SCHEMES[1])
    largest = np.full(50, 3e38, np.float32)
    given: dict[str, Array]
    for x in (largest, largest, rng.laplace(size=50).astype(np.float32)):
        step_both(there, here, {"w": x, "v": rng.laplace(size=60).astype(np.float32)})
    for scale in (1, 0, 1):
        small = rng.laplace(size=60).astype(np.float32)
        given = {"v": small * np.float32(scale), "w": largest / 10}
        on_device = {name: marked(x.copy()) for name, x in given.items()}
        made = there.prepare(on_device, hold_zeros=True), here.prepare(given, hold_zeros=True)
        assert same_bits(made[0].blob, made[1].blob)
        for each in made:
            each.commit()
        assert_same_state(there, here)


def test_a_tensor_is_in_one_plan(standin: StandInDevice) -> None:
    """A plan keeps half a byte per element, so those of an older division of the tensors are dropped."""
    rng = np.random.default_rng(12)
    compressor = wc.Compressor(SCHEMES[0])
    for names in ("ab", "cd", "abcd", "ab", "cd", "cd"):
        given = {name: marked(rng.laplace(size=3000).astype(np.float32)) for name in names}
        compressor.compress(given)
        kept = [name for key in compressor._holder.memory.plans for name in key[1]]
        assert len(kept) == len(set(kept))
        assert set(names) <= set(kept)


def test_schemes_of_several_kinds(standin: StandInDevice) -> None:
    """Two batches of the same step, and tensors beside them, some of which are held."""
    schemes = {
        "*.bias": "all | raw-index | raw",
        "a*": "topk(0.05) | rice | raw",
        "s": "sidco(0.02) | rice | raw",
        "*": "topk(0.02) | rice | qsgd",
    }
    rng = np.random.default_rng(11)
    there, here = make_pair(schemes)
    shapes = {"a1": 900, "a2": 3000, "a.bias": 30, "s": 5000, "w": 4000, "z": 70, "z.bias": 9, "one": 1}
    for zero in ("", "z.bias", "s", "w", "one", ""):
        given = {name: rng.laplace(size=size).astype(np.float32) for name, size in shapes.items()}
        given["z"] = given["z"].astype(np.float16)
        if zero:
            given[zero][:] = 0
        on_device = {name: marked(x.copy()) for name, x in given.items()}
        standin.launched.clear()
        made, expected = there.prepare(on_device, hold_zeros=True), here.prepare(given, hold_zeros=True)
        assert standin.launched.count("batch_check") >= 2
        assert same_bits(made.blob, expected.blob)
        for name, sent in expected.sent.items():
            assert same_bits(made.sent[name].values, sent.values)
            assert same_bits(made.sent[name].indices, sent.indices)
        for each in (made, expected):
            each.commit()
        assert_same_state(there, here)


@pytest.mark.parametrize("other", STAGED)
def test_stages_without_kernels_beside_a_batch(standin: StandInDevice, other: str) -> None:
    rng = np.random.default_rng(13)
    there, here = make_pair({"o*": other, "*": SCHEMES[0]})
    for _ in range(3):
        shapes = {"a": 900, "o1": 700, "o2": 900, "z": 50}
        given = {name: rng.laplace(size=size).astype(np.float32) for name, size in shapes.items()}
        step_both(there, here, given)


def test_errors_change_nothing(standin: StandInDevice) -> None:
    rng = np.random.default_rng(6)
    there, here = make_pair(SCHEMES[0])
    step_both(there, here, draw(rng, np.float32))
    bad = draw(rng, np.float32)
    bad["c"][123] = np.nan
    messages = []
    pairs: list[tuple[wc.Compressor, dict[str, Any]]] = [
        (there, {n: marked(x.copy()) for n, x in bad.items()}),
        (here, bad),
    ]
    for compressor, given in pairs:
        with pytest.raises(wc.EncodeError, match="tensor 'c', element 123") as info:
            compressor.prepare(given)
        messages.append(str(info.value))
    assert messages[0] == messages[1]
    assert_same_state(there, here)
    step_both(there, here, draw(rng, np.float32))


def test_the_first_error_is_the_hosts(standin: StandInDevice) -> None:
    """Tensors beside a batch raise what they raise on the host."""
    x = np.ones(1, np.float32)
    cases: list[tuple[Any, dict[str, Array]]] = [
        (
            {"a": SCHEMES[0], "*": "all | raw-index | raw(float16)"},
            {"a": x.repeat(90), "b": np.full(9, 1e30, "f4"), "c": x},
        ),
        (
            {"*": SCHEMES[0], "b": "all | raw-index | qsgd"},
            {"a": x.repeat(90), "b": np.full(9, np.nan, "f4")},
        ),
    ]
    for scheme, given in cases:
        texts = []
        for on_device in (False, True):
            tensors = {n: marked(each.copy()) if on_device else each for n, each in given.items()}
            with pytest.raises(wc.EncodeError) as info:
                wc.Compressor(scheme).prepare(tensors)
            texts.append(str(info.value))
        assert texts[0] == texts[1]


def test_rollback_and_the_plain_way(standin: StandInDevice) -> None:
    """Steps of both ways, one after another, and one that is rolled back."""
    rng = np.random.default_rng(7)
    there, here = make_pair(SCHEMES[0])
    for number in range(5):
        given = draw(rng, np.float32)
        if number % 2:
            with fast.off():
                standin.launched.clear()
                step_both(there, here, given)
                assert "batch_check" not in standin.launched
        else:
            there.prepare({name: marked(x.copy()) for name, x in given.items()}).rollback()
            step_both(there, here, given)


@pytest.mark.parametrize("kind", [np.float32, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("scheme", [*SCHEMES, "all | rice | qsgd", "nonzero | rice | qsgd(bits=2)"])
def test_containers_are_added(standin: StandInDevice, scheme: str, kind: Any) -> None:
    """Sums of several containers have the bits of the host's; some tensors have all elements, some none."""
    rng = np.random.default_rng(8)
    models = [draw(rng, kind) | {"zero": np.zeros(50, kind)} for _ in range(3)]
    blobs = [wc.encode_many(model, scheme, seed=seed) for seed, model in enumerate(models)]
    start = {name: rng.laplace(size=x.shape).astype(np.float32) for name, x in models[0].items()}
    here = {name: x.copy() for name, x in start.items()}
    there: dict[str, Any] = {name: marked(x.copy()) for name, x in start.items()}
    standin.launched.clear()
    wc.decode_add(blobs, here, scale=0.3)
    wc.decode_add(blobs, there, scale=0.3)
    assert standin.launched.count("coded_add") == 3
    for name, x in here.items():
        assert same_bits(there[name], x), name


@pytest.mark.parametrize(
    "scheme", [*SCHEMES[:2], SCHEMES[3], {"a": "all | raw-index | raw", "b": SCHEMES[0]}]
)
def test_hostile_containers(standin: StandInDevice, scheme: Any) -> None:
    """A container that was changed raises the host's error, and then no array changes."""
    rng = np.random.default_rng(9)
    tensors = {name: rng.laplace(size=2000).astype(np.float32) for name in "ab"}
    good = wc.encode_many(tensors, scheme).tobytes()
    random = Random(10)
    codes = set()
    for _ in range(80):
        bad = mutate_container(good, [good], random)
        outcomes = []
        for on_device in (False, True):
            out: dict[str, Any] = {name: np.zeros(2000, np.float32) for name in tensors}
            given = {name: marked(x) for name, x in out.items()} if on_device else out
            try:
                wc.decode_add([good, bad], given)
                raised = ""
            except wc.WireError as error:
                raised = f"{type(error).__name__} {error.code} {error.container} {error.entry} {error.offset}"
                assert not any(x.any() for x in out.values())
            codes.add(raised)
            outcomes.append((raised, [x.tobytes() for x in out.values()]))
        assert outcomes[0] == outcomes[1]
    assert len(codes) > 8
