"""Checkpointable: real torch.distributed.checkpoint, and frameworks that write the state of rank 0 only."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import collectives as co
import wirecodec as wc
from collectives.torch.checkpoint import read_arrays, write_arrays
from tests.collectives.torch.processes import run

torch = pytest.importorskip("torch")
dcp = pytest.importorskip("torch.distributed.checkpoint")

STEPS = """
import logging
import torch.distributed.checkpoint as dcp
logging.disable(logging.WARNING)

NAMES = ("w", "w.npy", "ü/ß", "")

def gradients(step):
    rng = np.random.default_rng([rank, step])
    return {name: rng.normal(size=600).astype(np.float32) for name in NAMES}

class Exchange:
    # One training step of each kind of object: the bits of the means.
    def __init__(self, kind):
        scheme = "topk(0.05) | rice | qsgd(bits=4)"
        self.kind = kind
        self.parameters = {"w": torch.nn.Parameter(torch.zeros(600, dtype=torch.bfloat16))}
        self.obj = {
            "compressor": lambda: wc.Compressor(scheme, feedback=wc.MomentumCorrection(0.9), seed=3),
            "cltk": lambda: co.CLTk(0.05),
            "gtopk": lambda: co.GTopK(0.05),
            "local": lambda: co.LocalUpdates(None, self.parameters, wc.Compressor(scheme), comm, every=2),
        }[kind]()

    def step(self, number):
        if self.kind == "compressor":
            means = co.allreduce(comm, gradients(number), self.obj)
        elif self.kind == "local":
            self.parameters["w"].data += torch.from_numpy(gradients(number)["w"])
            self.obj.step()
            means = {"w": self.parameters["w"].detach().float().numpy()}
        else:
            means = self.obj.allreduce(comm, gradients(number))
        return b"".join(x.tobytes() for x in means.values()).hex()
"""


@pytest.mark.parametrize("kind", ["compressor", "cltk", "gtopk", "local"])
def test_new_objects_continue_with_equal_bits(kind: str, tmp_path: Path) -> None:
    body = f"""
old = Exchange({kind!r})
for number in range(3):
    old.step(number)
dcp.save({{"state": co.Checkpointable(old.obj, comm)}}, checkpoint_id={str(tmp_path)!r})
new = Exchange({kind!r})
new.parameters["w"].data.copy_(old.parameters["w"].data)
dcp.load({{"state": co.Checkpointable(new.obj, comm)}}, checkpoint_id={str(tmp_path)!r})
print(json.dumps([[old.step(number), new.step(number)] for number in (3, 4)]))
"""
    for pairs in run(2, STEPS + body):
        assert all(old == new for old, new in pairs)


def test_saved_in_the_background(tmp_path: Path) -> None:
    body = f"""
old, new = Exchange("compressor"), Exchange("compressor")
old.step(0)
dist.barrier()
dcp.async_save({{"state": co.Checkpointable(old.obj)}}, checkpoint_id={str(tmp_path)!r}).result()
dcp.load({{"state": co.Checkpointable(new.obj)}}, checkpoint_id={str(tmp_path)!r})
print(json.dumps([old.step(1), new.step(1)]))
"""
    for old, new in run(2, STEPS + body):
        assert old == new


def test_another_number_of_ranks(tmp_path: Path) -> None:
    """The error names the entry; ``saved`` names another one, whose residuals a new rank drops."""
    save = f"""
old = Exchange("compressor")
old.step(0)
dcp.save({{"state": co.Checkpointable(old.obj)}}, checkpoint_id={str(tmp_path)!r})
print(json.dumps(float(abs(old.obj.residual("w")).sum())))
"""
    load = f"""
new = Exchange("compressor")
try:
    dcp.load({{"state": co.Checkpointable(new.obj)}}, checkpoint_id={str(tmp_path)!r})
except dcp.CheckpointException as error:
    text = str(error.failures)
step = new.obj.step
entry = co.Checkpointable(new.obj, saved=(rank if rank < 2 else 0, 2))
dcp.load({{"state": entry}}, checkpoint_id={str(tmp_path)!r})
kept = float(abs(new.obj.residual("w")).sum())
new.step(1)
dcp.save({{"state": entry}}, checkpoint_id={str(tmp_path / "3")!r})
dcp.load({{"state": entry}}, checkpoint_id={str(tmp_path / "3")!r})
print(json.dumps([text, step, kept, new.obj.step]))
"""
    residuals = run(2, STEPS + save)
    results = run(3, STEPS + load)
    assert [kept for _, _, kept, _ in results[:2]] == residuals
    for text, step, _, after in results:
        assert "Missing key in checkpoint state_dict: state.wirecodec rank 2 of 3" in text
        assert (step, after) == (0, 2)


def test_missing_entry_is_an_error(tmp_path: Path) -> None:
    """Also with a planner that ignores missing keys."""
    body = f"""
dcp.save({{"w": torch.zeros(3)}}, checkpoint_id={str(tmp_path)!r})
texts = []
for planner in (None, dcp.DefaultLoadPlanner(allow_partial_load=True)):
    entry = co.Checkpointable(Exchange("compressor").obj)
    try:
        dcp.load({{"w": torch.zeros(3), "state": entry}}, checkpoint_id={str(tmp_path)!r}, planner=planner)
    except (dcp.CheckpointException, ValueError) as error:
        texts.append(str(getattr(error, "failures", error)))
print(json.dumps(texts))
"""
    for strict, partial in run(2, STEPS + body):
        assert "Missing key in checkpoint state_dict: state.wirecodec rank" in strict
        assert "so nothing was loaded" in partial


@pytest.mark.parametrize("size", [1, 2])
def test_a_compressor_itself_is_refused(size: int, tmp_path: Path) -> None:
    """DCP takes it for a Stateful, writes its keys once, and loads those of the new object only."""
    body = f"""
old, new = Exchange("compressor"), Exchange("compressor")
old.step(0)
dcp.save({{"state": old.obj}}, checkpoint_id={str(tmp_path)!r})
try:
    dcp.load({{"state": new.obj}}, checkpoint_id={str(tmp_path)!r})
except Exception as error:
    print(json.dumps([str(error), new.obj.step]))
"""
    for message, step in run(size, STEPS + body):
        assert "the state has 0 of its 8 arrays" in message
        assert step == 0


def test_rank_0_saves_the_states_of_all_ranks() -> None:
    """As Accelerate and Lightning do."""
    body = """
import io
old, new = Exchange("compressor"), Exchange("compressor")
old.step(0)
file = io.BytesIO()
torch.save(co.Checkpointable(old.obj, gather=True).state_dict(), file)
files = [None, None]
dist.all_gather_object(files, file.getvalue())
loaded = torch.load(io.BytesIO(files[0]), weights_only=True)
co.Checkpointable(new.obj, gather=True).load_state_dict(loaded)
print(json.dumps([old.step(1), new.step(1), files[0] == files[1]]))
"""
    for old, new, equal in run(2, STEPS + body):
        assert old == new
        assert equal


def trained() -> wc.Compressor:
    compressor = wc.Compressor("topk(0.1) | rice | raw")
    compressor.compress({"w": np.arange(100, dtype=np.float32)})
    return compressor


def test_one_rank_without_a_group() -> None:
    state = co.Checkpointable(trained()).state_dict()
    assert list(state) == ["wirecodec rank 0 of 1"]
    new = wc.Compressor("topk(0.1) | rice | raw")
    co.Checkpointable(new).load_state_dict(state)
    np.testing.assert_array_equal(new.residual("w"), trained().residual("w"))


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda state: {}, "it has none"),
        (
            lambda state: {"wirecodec rank 1 of 2": state},
            r"it has 'wirecodec rank 1 of 2'.*saved=\(rank, size\)",
        ),
        (lambda state: {"wirecodec rank 0 of 1": b"PK hostile"}, "is damaged"),
        (lambda state: {"wirecodec rank 0 of 1": 3}, "is damaged"),
        (lambda state: {"wirecodec rank 0 of 1": torch.zeros(9, dtype=torch.uint8)}, "is damaged"),
    ],
)
def test_state_that_does_not_fit(change: Any, text: str) -> None:
    new = wc.Compressor("topk(0.1) | rice | raw")
    state = co.Checkpointable(trained()).state_dict()["wirecodec rank 0 of 1"]
    with pytest.raises(ValueError, match=text):
        co.Checkpointable(new).load_state_dict(change(state))
    assert new.step == 0


@pytest.mark.parametrize(("field", "value"), [(4, 200), (6, 1), (8, 99), (8, 8)])
def test_damaged_members_are_a_value_error(field: int, value: int) -> None:
    """Version, encryption and compression of a zip member; zipfile raises errors of its own for them."""
    content = bytearray(write_arrays({"w": np.arange(9)}).tobytes())
    at = content.find(b"PK\x01\x02")
    content[at + field + 2] = value
    with pytest.raises(ValueError, match="'state' is damaged"):
        read_arrays("state", bytes(content))


def test_pickles_are_not_read() -> None:
    content = io.BytesIO()
    arrays: dict[str, Any] = {
        "names": np.frombuffer(b'[["w", false]]', np.uint8),
        "0": np.array([Path()], object),
    }
    np.savez(content, **arrays)
    with pytest.raises(ValueError, match="allow_pickle=False"):
        co.Checkpointable(trained()).load_state_dict({"wirecodec rank 0 of 1": content.getvalue()})


def test_wrong_arguments() -> None:
    with pytest.raises(TypeError, match="obj is str, which has no state"):
        co.Checkpointable("topk(0.1) | rice | raw")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="is not a communicator"):
        co.Checkpointable(trained(), 3)
    with pytest.raises(ValueError, match="0 <= rank < size"):
        co.Checkpointable(trained(), saved=(2, 2))
