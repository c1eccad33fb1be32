"""Saved states with one damaged value: they load, or the object that refuses them is as it was before."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import collectives as co
import wirecodec as wc
from collectives.integrations.updates import UpdateEncoder
from collectives.torch.checkpoint import write_arrays
from tests.oracles import Array

torch = pytest.importorskip("torch")

SCHEME = "topk(0.25) | rice | raw"
MISSING = object()


@dataclass(frozen=True)
class Saver:
    """An object with a state.

    Attributes:
        make: makes it.
        step: takes a step with a gradient.
        load: loads a state.
    """

    make: Callable[[Any], Any]
    step: Callable[[Any, Any, Array], Any] = lambda one, comm, x: one.allreduce(comm, {"w": x, "v": x[:9]})
    load: Callable[[Any, Any, Mapping[str, Any]], None] = lambda one, comm, state: one.load_state_dict(state)


def _compressor(**settings: Any) -> Saver:
    def step(one: Any, comm: Any, x: Array) -> Any:
        return co.allreduce(comm, {"w": x, "v": x[:9]}, one)

    return Saver(lambda _: wc.Compressor(SCHEME, **settings), step)


def _local(make: Callable[[], Any] = lambda: wc.Compressor(SCHEME), **settings: Any) -> Saver:
    def create(comm: Any) -> co.LocalUpdates:
        w = {"w": np.zeros(40, np.float32), "v": np.zeros(9, np.float32)}
        return co.LocalUpdates(None, w, make(), comm, every=2, **settings)

    def step(one: Any, comm: Any, x: Array) -> None:
        one._anchor.parameters["w"] += x
        one.step()

    return Saver(create, step)


def detach(x: Any) -> Any:
    """Return a value that a checkpoint can hold: it has no tensors that require a gradient."""
    return x.detach() if isinstance(x, torch.Tensor) else x


SAVERS = {
    "Compressor": _compressor(),
    "Compressor with all kinds": _compressor(
        feedback=wc.MomentumCorrection(0.9), schedule=wc.WarmUp(steps=4), seed=3
    ),
    "CLTk": Saver(lambda _: co.CLTk(0.25, schedule=wc.WarmUp(4, hold=True))),
    "GTopK": Saver(lambda _: co.GTopK(0.25)),
    "OkTopK": Saver(lambda _: co.OkTopK(0.25)),
    "LocalUpdates": _local(momentum=0.5),
    "LocalUpdates with a delay": _local(delay=1, alpha=0.5),
    "LocalUpdates that keep": _local(keep=0.5),
    "LocalUpdates with OkTopK": _local(lambda: co.OkTopK(0.25)),
    "Checkpointable": Saver(
        lambda comm: wc.Compressor(SCHEME),
        _compressor().step,
        lambda one, comm, state: co.Checkpointable(one, comm).load_state_dict(
            {"wirecodec rank 0 of 1": write_arrays({key: detach(x) for key, x in state.items()})}
        ),
    ),
    "UpdateEncoder": Saver(
        lambda _: UpdateEncoder(SCHEME, {}, owner="a test", strict=True),
        lambda one, comm, x: one.encode({"w": x}, 0),
        lambda one, _, state: one.load_state_dict(state, 0),
    ),
}


def damages(x: Array) -> Iterator[tuple[str, Any]]:
    """Yield values that take the place of a saved array, with what is wrong with them, if anything."""
    yield "missing", MISSING
    yield "None", None
    yield "text", "text"
    yield "bytes", b"\xff\xfe"
    yield "an object", object()
    yield "empty", np.zeros(0, x.dtype)
    yield "another shape", np.stack([x, x])
    yield "a flat longer array", np.append(x, x.reshape(-1)[:1])
    numbers = (np.float16, np.float32, np.float64, np.int8, np.int64, np.uint64, np.complex64)
    for dtype in (*numbers, object, "U3"):
        with np.errstate(all="ignore"):
            yield f"as {np.dtype(dtype)}", x.astype(dtype)
    yield "negative", -x.astype(np.int64) - 1
    yield "descending", x.astype(np.float64)[::-1].astype(np.uint64) if x.ndim else np.uint64(2**63 + 5)
    yield "NaN", np.full_like(x, np.nan, dtype=np.float32 if x.dtype.kind != "f" else x.dtype)
    yield "Inf", np.full_like(x, np.inf, dtype=np.float64)
    yield "masked", np.ma.MaskedArray(np.zeros(x.shape, x.dtype), mask=True)
    yield "a huge integer", 10**400
    yield "a Python number", 3
    yield "a tensor", torch.from_numpy(np.array(x))
    yield "a tensor that requires grad", torch.nn.Parameter(torch.from_numpy(np.array(x, np.float32)))
    yield "a sparse tensor", torch.zeros(2, 2).to_sparse()
    yield "a tensor without memory", torch.zeros(3, device="meta")
    yield "a number without memory", torch.zeros((), dtype=torch.int64, device="meta")
    yield "not contiguous", np.repeat(np.atleast_1d(x), 2)[::2].reshape(x.shape)
    if x.size:
        yield "read-only", np.broadcast_to(x.reshape(-1)[0], x.shape)


def snapshot(one: Any) -> dict[str, bytes]:
    return {key: np.asarray(x).tobytes() for key, x in one.state_dict().items()} | {"=": repr(one).encode()}


def train(saver: Saver, comm: Any, steps: int) -> Any:
    one = saver.make(comm)
    for step in range(steps):
        saver.step(one, comm, np.random.default_rng(step).normal(size=40).astype(np.float32))
    return one


@pytest.mark.filterwarnings("ignore")  # of NumPy and torch, for such values
@pytest.mark.parametrize("name", SAVERS)
def test_a_damaged_state_loads_or_changes_nothing(name: str) -> None:
    saver = SAVERS[name]

    def run(comm: Any) -> list[str]:
        state, target = train(saver, comm, 4).state_dict(), train(saver, comm, 3)
        own, wrong, plain = target.state_dict(), [], snapshot(target)
        for key, x in state.items():
            for what, value in damages(x):
                before = snapshot(target)
                damaged = {other: y for other, y in state.items() if other != key}
                if value is not MISSING:
                    damaged[key] = value
                try:
                    saver.load(target, comm, damaged)
                except (ValueError, TypeError):
                    if snapshot(target) != before:
                        wrong.append(f"{key}, {what}: it was refused, and the object has changed")
                        saver.load(target, comm, own)
                    continue
                except Exception as error:
                    wrong.append(f"{key}, {what}: {error!r}")
                    continue
                try:
                    snapshot(target)
                except Exception as error:
                    wrong.append(f"{key}, {what}: it was loaded, and then {error!r}")
                saver.load(target, comm, own)
        assert snapshot(target).items() >= plain.items(), "the state was not restored"
        return wrong

    assert co.simulate(1, run)[0] == []


@pytest.mark.parametrize("name", [name for name in SAVERS if name != "Checkpointable"])
@pytest.mark.parametrize("key", [0, None, b"step", ("residual/", "w")], ids=repr)
def test_a_key_that_is_no_text_is_named(name: str, key: Any) -> None:
    saver = SAVERS[name]

    def run(comm: Any) -> None:
        target = train(saver, comm, 3)
        before = snapshot(target)
        for value in (np.zeros(3), torch.zeros(3, device="meta")):
            with pytest.raises(ValueError, match=r"not a state of .*unknown key"):
                saver.load(target, comm, {**target.state_dict(), key: value})
        assert snapshot(target) == before

    co.simulate(1, run)


def test_a_name_that_is_no_text_is_named() -> None:
    """On all ranks alike, and before anything is sent of it."""

    def run(comm: Any) -> str:
        with pytest.raises(
            co.CollectiveError, match=r"rank 1: .*a tensor's name is 7; it must be a string"
        ) as caught:
            co.allreduce(comm, {"w" if comm.rank == 0 else 7: np.zeros(3)})  # type: ignore[dict-item]
        return str(caught.value)

    assert len({*co.simulate(2, run)}) == 1
    with pytest.raises(ValueError, match="one is 7"):
        wc.rename_state({7: np.zeros(2)})  # type: ignore[dict-item]
