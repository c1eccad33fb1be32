"""Feeds of weights and the states of readers and writers: types, shapes, shared memory."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

import collectives as co
import wirecodec as wc
from tests.collectives.feed.weights import Training, bits_of, copy_of, follow
from wirecodec.patch.bits import Bits
from wirecodec.patch.host import HostForms


def test_an_equal_state_is_no_version(folder: str, training: Training) -> None:
    publisher = co.Publisher(folder, "run")
    assert [training.publish(publisher) for _ in range(3)] == [0, 0, 0]
    assert co.Publisher(folder, "run").publish(training.state) == 0


def test_torch_modules_keep_their_tensors(folder: str) -> None:
    torch = pytest.importorskip("torch")
    trained, served = (torch.nn.Linear(40, 30, dtype=torch.bfloat16) for _ in range(2))
    publisher, reader = co.Publisher(folder, "run"), follow(folder)
    publisher.publish(trained)
    addresses = [x.data_ptr() for x in served.parameters()]
    for _ in range(3):
        assert reader.update(served) == publisher.version
        for mine, theirs in zip(served.parameters(), trained.parameters(), strict=True):
            assert torch.equal(mine, theirs)
        with torch.no_grad():
            trained.weight[:3] *= 1.01
        publisher.publish(trained)
    assert addresses == [x.data_ptr() for x in served.parameters()]


def test_a_tensor_of_another_shape_is_no_new_one(folder: str, training: Training) -> None:
    """Its memory would keep the old bits: that of a model, of which the mapping has views."""
    training.publish(co.Publisher(folder, "run"))
    memory = np.zeros_like(training.state["embedding"])
    for view in (memory.reshape(-1), memory[:1], memory.astype("f4")):
        views = {**copy_of(training.state), "embedding": view}
        before = bits_of(views)
        for call in (follow(folder).update, follow(folder).prepare):
            with pytest.raises(ValueError, match=r"'embedding' has shape .* and version 0 has shape"):
                call(views)
            assert bits_of(views) == before
    del views["embedding"]
    follow(folder).update(views)
    assert bits_of(views) == training.kept[0]


def test_a_version_may_reshape_its_tensors(folder: str, training: Training) -> None:
    publisher = co.Publisher(folder, "run")
    training.publish(publisher)
    reader, state = follow(folder), dict[str, Any]()
    reader.update(state)
    training.state["scale"] = np.ones((2, 2), np.float32)
    training.publish(publisher)
    assert reader.update(state) == 1
    assert bits_of(state) == training.kept[1]


@pytest.mark.parametrize("prepares", [False, True])
def test_tied_tensors_of_a_reader_take_patches(folder: str, prepares: bool) -> None:
    """A checkpoint has one name of them, and a state_dict, which is made for each update, has both."""
    torch = pytest.importorskip("torch")
    trained, served = (
        torch.nn.ModuleDict(
            {"embed": torch.nn.Embedding(40, 30), "head": torch.nn.Linear(30, 40, bias=False)}
        )
        for _ in range(2)
    )
    for model in (trained, served):
        model["head"].weight = model["embed"].weight
    publisher, reader = co.Publisher(folder, "run"), follow(folder)
    for number in range(4):
        publisher.publish(dict(trained.named_parameters()))
        state = served if number == 2 else served.state_dict()
        if prepares:
            reader.prepare(state).commit()
        else:
            reader.update(state)
            assert reader.last is not None
            assert reader.last["base"] == (number - 1 if number else None)
        assert len(served.state_dict()) == 2
        assert torch.equal(served["head"].weight, trained["embed"].weight)
        with torch.no_grad():
            trained["embed"].weight[number] *= 1.01


@pytest.mark.parametrize("base", ["read", "unread"])
def test_an_idle_prepare_notices_changed_weights(folder: str, training: Training, base: str) -> None:
    training.publish(co.Publisher(folder, "run", base=base))
    reader, state = follow(folder), dict[str, Any]()
    reader.update(state)
    assert reader.prepare(state).commit() == 0
    state["embedding"][3, 3] = 9
    assert reader.prepare(state).commit() == 0
    assert bits_of(state) == training.kept[0]


@pytest.mark.parametrize("base", ["read", "unread"])
def test_a_wait_for_a_newer_version_reads_no_weights(
    folder: str, training: Training, monkeypatch: pytest.MonkeyPatch, base: str
) -> None:
    """Weights that somebody has changed meanwhile are repaired with the next version."""
    publisher, reader, state = co.Publisher(folder, "run", base=base), follow(folder), dict[str, Any]()
    training.publish(publisher)
    first = reader.prepare(state, newer=True)
    assert first is not None
    first.commit()
    state["embedding"][3, 3] = 9
    with monkeypatch.context() as patched:
        patched.delattr(HostForms, "sum_elements")
        patched.delattr(HostForms, "join_summed")
        assert reader.prepare(state, timeout=0.03, newer=True) is None
        assert reader.prepare(state, version=0, newer=True) is None
        with pytest.raises(AttributeError):
            reader.prepare(state)
    training.step()
    training.publish(publisher)
    second = reader.prepare(state, newer=True)
    assert second is not None
    assert second.commit() == 1
    assert bits_of(state) == training.kept[1]


@pytest.mark.parametrize("base", ["read", "unread"])
def test_a_publisher_reads_each_tensor_once(
    folder: str, training: Training, monkeypatch: pytest.MonkeyPatch, base: str
) -> None:
    """A copy from a device is made for each time; anchors and patches over more versions read it again."""
    publisher, counted = co.Publisher(folder, "run", base=base), Counter[int]()
    read = HostForms.read
    mine = {id(x) for x in training.state.values()}

    def count(forms: HostForms, tensor: Any) -> Bits:
        counted.update([id(tensor)] if id(tensor) in mine else [])
        return read(forms, tensor)

    monkeypatch.setattr(HostForms, "read", count)
    for number in (0, 1, 2):
        for _ in range(2):  # the second time, nothing is new
            counted.clear()
            assert training.publish(publisher) == number
            assert [counted[one] for one in mine] == [1] * 4
        training.step()


@pytest.mark.parametrize("base", ["read", "unread"])
def test_an_unchanged_tensor_is_found_by_its_digest(
    folder: str, monkeypatch: pytest.MonkeyPatch, base: str
) -> None:
    """The publisher does not read its copy of it. A change of the last of many elements is found."""
    state = {"large": np.zeros(200_001, np.float32), "small": np.zeros(3, np.float32)}
    publisher, reader, held = co.Publisher(folder, "run", base=base), follow(folder), dict[str, Any]()
    publisher.publish(state)
    compared: list[int] = []
    find_changes = HostForms.find_changes

    def count(forms: HostForms, old: Any, new: Any, *, digests: bool) -> Any:
        compared.extend(x.bits.size for x in old)
        return find_changes(forms, old, new, digests=digests)

    monkeypatch.setattr(HostForms, "find_changes", count)
    for number in (0, 1, 1, 2):
        state["large"][-1] = number
        assert publisher.publish(state) == number
        assert reader.update(held) == number
        assert bits_of(held) == bits_of(state)
    assert compared == [200_001] * 2


def test_a_commit_passes_over_changed_elements_alone(
    folder: str, training: Training, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each tensor is written once; nothing else of it is read."""
    publisher, reader, state = co.Publisher(folder, "run"), follow(folder), dict[str, Any]()
    training.publish(publisher)
    reader.update(state)
    training.step()
    training.publish(publisher)
    update, written = reader.prepare(state), list[int]()
    exchange = HostForms.exchange

    def exchange_counted(forms: HostForms, bits: Any, indices: Any, values: Any, olds: Any) -> None:
        written.extend(x.size for x in indices)
        exchange(forms, bits, indices, values, olds)

    monkeypatch.setattr(HostForms, "exchange", exchange_counted)
    for name in ("sum_elements", "join", "join_summed", "find_changes", "take"):
        monkeypatch.delattr(HostForms, name)
    update.commit()
    changed = {x.size: max(1, x.size // 50) for x in training.state.values()}
    # A tensor of which all elements change is written whole.
    assert sorted(written) == sorted(count for size, count in changed.items() if count < size)
    assert bits_of(state) == training.kept[1]


def test_a_name_that_is_no_text_is_an_encode_error(folder: str, training: Training) -> None:
    training.publish(co.Publisher(folder, "run"))
    states: list[dict[Any, Any]] = [{0: np.zeros(3, np.float32)}, {**training.state, None: np.zeros(3)}]
    for state in states:
        with pytest.raises(wc.EncodeError, match="it must be a string"):
            follow(folder).update(state)
        with pytest.raises(wc.EncodeError, match="it must be a string"):
            co.Publisher(folder, "run").publish(state)
