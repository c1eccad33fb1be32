"""Readers of slices of the tensors of a feed, as the ranks of a tensor-parallel server are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import collectives as co
from tests.collectives.feed.weights import State, Training, bits_of, follow

Index = tuple[slice, ...]
SHAPES: dict[str, tuple[str, tuple[int, ...]]] = {
    "bool": ("?", (9, 14)),
    "bytes": ("i1", (4, 6, 10)),
    "complex": ("c8", (8, 4)),
    "empty": ("f4", (0, 8)),
    "large": ("bfloat16", (1026, 2050)),
    "norm": ("f4", (30,)),
    "scalar": ("f8", ()),
    "square": ("f2", (48, 30)),
}


def choose(rank: int, ranks: int, name: str, shape: tuple[int, ...]) -> Index | None:
    """Return a rank's columns of some tensors, rows of others, a block, or all of small ones."""
    if name == "bool":
        return None if rank else ()
    if len(shape) < 2:
        return ()
    axes = {"square": (1,), "large": (1,), "bytes": (1, 2)}.get(name, (0,))
    found = [slice(None)] * len(shape)
    for axis in axes:
        size = shape[axis]
        found[axis] = slice(rank * size // ranks, (rank + 1) * size // ranks)
    return tuple(found)


def cut(state: State, rank: int, ranks: int = 2) -> State:
    """Return what a rank must have of a state."""
    chosen = {name: choose(rank, ranks, name, x.shape) for name, x in state.items()}
    return {name: state[name][index].copy() for name, index in chosen.items() if index is not None}


def start_slices() -> Training:
    """Start a training of tensors of several types and shapes, one of which has an entry of its own."""
    rng, state = np.random.default_rng(7), {}
    for name, (kind, shape) in SHAPES.items():
        state[name] = np.asarray(rng.normal(0, 0.02, shape)).astype(np.dtype(kind))
    return Training(state)


def step(training: Training) -> None:
    """Change elements of all tensors, but not the bits of the complex and the bool ones as integers."""
    for name, x in training.state.items():
        if x.size == 0:
            continue
        flat = x.reshape(-1)
        at = training.rng.choice(flat.size, max(1, flat.size // 50), replace=False)
        if name in ("bool", "complex"):
            flat[at] = 1 - flat[at].astype("c8")
        else:
            flat.view(f"u{x.dtype.itemsize}")[at] += 1


def sharded(folder: str, rank: int, **options: Any) -> co.Subscriber:
    return follow(folder, slices=lambda name, shape: choose(rank, 2, name, shape), **options)


@pytest.mark.parametrize("prepares", [False, True])
def test_ranks_follow_with_their_slices(folder: str, prepares: bool) -> None:
    """One version at a time or several, also over patches of four; tensors come, go and change."""
    training = start_slices()
    publisher = co.Publisher(folder, "run", base="slices", skips=(4,))
    readers = [(span, rank, sharded(folder, rank), dict[str, Any]()) for span in (1, 3, 7) for rank in (0, 1)]
    for number in range(15):
        assert publisher.publish(training.state) == number
        for span, rank, reader, state in readers:
            if number % span:
                continue
            before = {name: x.ctypes.data for name, x in state.items()}
            if prepares:
                update = reader.prepare(state, newer=True)
                assert update is not None
                assert update.commit() == number
            else:
                assert reader.update(state) == number
                assert reader.last is not None
                assert reader.last["base"] == (number - span if number else None)
            assert bits_of(state) == bits_of(cut(training.state, rank)), (number, span, rank)
            kept = set(before) & set(state) - {"square"}
            assert all(state[name].ctypes.data == before[name] for name in kept)
        step(training)
        if number == 4:
            training.state["new"] = np.ones((6, 4), np.float32)
            training.state["square"] = training.state["square"].reshape(60, 24).copy()
        if number == 8:
            del training.state["norm"]


@pytest.mark.parametrize("name", ["large", "norm"])
def test_weights_that_somebody_has_changed_are_found(folder: str, name: str) -> None:
    """The sums of the slices differ from those that the reader has kept; then an anchor is read."""
    training = start_slices()
    publisher = co.Publisher(folder, "run", base="slices")
    reader, state = sharded(folder, 1), dict[str, Any]()
    for number in range(3):
        publisher.publish(training.state)
        assert reader.update(state) == number
        assert bits_of(state) == bits_of(cut(training.state, 1))
        state[name].reshape(-1).view("u1")[5] ^= 1
        assert reader.update(state) == number
        assert bits_of(state) == bits_of(cut(training.state, 1))
        state[name].reshape(-1).view("u1")[5] ^= 1
        step(training)


def test_a_reader_without_verification_checks_changed_elements_of_whole_tensors(folder: str) -> None:
    """All changed elements of a tensor are in its slice, so the patch's digests are compared."""
    state: State = {"norm": np.random.default_rng(2).normal(0, 1, 4000).astype(np.float32)}
    publisher = co.Publisher(folder, "run", base="slices")
    reader, held = follow(folder, verify=False, slices={"norm": slice(0, 2000)}), dict[str, Any]()
    publisher.publish(state)
    reader.update(held)
    held["norm"][3] = 9  # which the patch does not change
    state["norm"][1] = 1
    publisher.publish(state)
    assert reader.update(held) == 1
    assert held["norm"][:4].tolist() == [*state["norm"][:3].tolist(), 9]
    held["norm"][1] = 5
    state["norm"][1] = 2
    publisher.publish(state)
    assert reader.update(held) == 2
    assert bits_of(held) == bits_of({"norm": state["norm"][:2000]})


@pytest.mark.parametrize("base", ["read", "unread"])
def test_patches_that_need_all_elements_are_refused(folder: str, base: str) -> None:
    """Nothing changes, until there is an anchor."""
    training = start_slices()
    publisher = co.Publisher(folder, "run", base=base)
    reader, state = sharded(folder, 1), dict[str, Any]()
    publisher.publish(training.state)
    reader.update(state)
    before = bits_of(state)
    large = training.state["large"]
    large[::3] = large[::3].astype("f4") + training.rng.normal(0, 3e-4, large[::3].shape)
    publisher.publish(training.state)
    for call in (reader.update, reader.prepare):
        with pytest.raises(co.CollectiveError, match='write the patch with base="slices"') as caught:
            call(state)
        assert caught.value.reason == "refused"
        assert bits_of(state) == before
    publisher = co.Publisher(folder, "run", base="slices", anchor=True)
    step(training)
    assert publisher.publish(training.state) == reader.update(state) == 2
    assert bits_of(state) == bits_of(cut(training.state, 1))


def test_a_patch_that_reads_the_base_is_refused(folder: str) -> None:
    """Also if it could be decoded: its digests are those of whole tensors."""
    state: State = {"codes": np.random.default_rng(1).integers(0, 99, 9000, np.int8)}
    publisher, held = co.Publisher(folder, "run"), dict[str, Any]()
    reader = follow(folder, slices={"codes": slice(0, 2000)})
    publisher.publish(state)
    reader.update(held)
    before = bits_of(held)
    state["codes"][::500] += 1
    publisher.publish(state)
    with pytest.raises(co.CollectiveError, match='write the patch with base="slices"'):
        reader.update(held)
    assert bits_of(held) == before


def test_a_change_of_a_bool_that_somebody_has_changed_is_refused(folder: str) -> None:
    """True would become a byte of 2; no digest of the changed elements can be found."""
    rng = np.random.default_rng(1)
    state: State = {"mask": np.zeros(9000, bool), "noise": rng.normal(0, 1, 9000)}
    publisher, held = co.Publisher(folder, "run", base="slices"), dict[str, Any]()
    reader = follow(folder, verify=False, slices={"mask": slice(0, 2000), "noise": slice(0, 9)})
    publisher.publish(state)
    reader.update(held)
    state["mask"][::500] = True
    held["mask"][500] = True
    publisher.publish(state)
    assert reader.update(held) == 1
    assert bits_of(held) == bits_of({"mask": state["mask"][:2000], "noise": state["noise"][:9]})
    assert reader.last is not None
    assert reader.last["base"] is None


def test_a_tensor_may_leave_the_slices(folder: str) -> None:
    """The function is asked again when the shape changes."""
    state: State = {name: np.ones((20, 30), np.float32) for name in ("stays", "goes")}
    publisher, held = co.Publisher(folder, "run", base="slices"), dict[str, Any]()
    reader = follow(folder, slices=lambda name, shape: slice(0, 5) if len(shape) == 2 else None)
    publisher.publish(state)
    reader.update(held)
    assert sorted(held) == ["goes", "stays"]
    state["goes"] = np.ones(600, np.float32)
    publisher.publish(state)
    for _ in range(2):
        assert reader.update(held) == 1
        assert bits_of(held) == bits_of({"stays": state["stays"][:5]})


def test_readers_of_whole_tensors_follow_the_same_feed(folder: str) -> None:
    training = start_slices()
    publisher = co.Publisher(folder, "run", base="slices")
    whole, state, rank, part = follow(folder), dict[str, Any](), sharded(folder, 0), dict[str, Any]()
    for _ in range(3):
        assert publisher.publish(training.state) == whole.update(state) == rank.update(part)
        assert bits_of(state) == bits_of(training.state)
        assert bits_of(part) == bits_of(cut(state, 0))
        step(training)


def test_a_new_reader_begins_at_an_anchor(folder: str) -> None:
    """Nobody else knows the sums of its slices; afterwards it follows patches."""
    training = start_slices()
    publisher = co.Publisher(folder, "run", base="slices")
    state: State = {}
    for number in range(3):
        publisher.publish(training.state)
        if number == 1:
            sharded(folder, 1).update(state)
        step(training)
    reader = sharded(folder, 1)
    assert reader.update(state) == 2
    bases = [(reader.last or {})["base"]]
    publisher.publish(training.state)
    assert reader.update(state) == 3
    assert [*bases, (reader.last or {})["base"]] == [None, 2]
    assert bits_of(state) == bits_of(cut(training.state, 1))


@pytest.mark.parametrize(
    ("slices", "error", "text"),
    [
        ({"norm": slice(0, 31)}, ValueError, "slice of tensor 'norm' of shape"),
        ({"norm": slice(-3, None)}, ValueError, "must be a slice within"),
        ({"norm": slice(0, 30, 2)}, ValueError, "without a step"),
        ({"norm": 3}, ValueError, "is 3"),
        ({"norm": (slice(0, 1), slice(0, 1))}, ValueError, "tuple of slices"),
        ({"norm": (), "other": ()}, ValueError, "slices has 'other', which version 0 lacks"),
        ({}, ValueError, "slices has no tensor of version 0"),
        ([slice(0, 1)], TypeError, "slices is list"),
    ],
)
def test_wrong_slices_are_errors(folder: str, slices: Any, error: type[Exception], text: str) -> None:
    training = start_slices()
    co.Publisher(folder, "run", base="slices").publish(training.state)
    with pytest.raises(error, match=text):
        follow(folder, slices=slices).update({})


def test_a_slice_of_another_shape_is_refused(folder: str) -> None:
    training = start_slices()
    co.Publisher(folder, "run", base="slices").publish(training.state)
    state = cut(training.state, 0)
    state["square"] = state["square"][:, :3].copy()
    before = bits_of(state)
    with pytest.raises(ValueError, match="'square' has shape"):
        sharded(folder, 0).update(state)
    assert bits_of(state) == before


def test_torch_modules_of_ranks(tmp_path: Path) -> None:
    """Columns of one layer and rows of the next one, in place."""
    torch = pytest.importorskip("torch")
    trained = torch.nn.Sequential(torch.nn.Linear(20, 32), torch.nn.Linear(32, 20)).to(torch.bfloat16)
    publisher = co.Publisher(str(tmp_path), "run", base="slices")
    slices: dict[str, Any] = {
        "0.weight": slice(16, 32),
        "0.bias": slice(16, 32),
        "1.weight": (slice(None), slice(16, 32)),
        "1.bias": (),
    }
    rank = torch.nn.Sequential(torch.nn.Linear(20, 16), torch.nn.Linear(16, 20)).to(torch.bfloat16)
    reader = follow(str(tmp_path), slices=slices)
    addresses = [x.data_ptr() for x in rank.parameters()]
    for number in range(3):
        assert publisher.publish(trained) == reader.update(rank) == number
        for name, x in rank.state_dict().items():
            assert torch.equal(x, trained.state_dict()[name][slices[name]])
        with torch.no_grad():
            for x in trained.parameters():
                x.view(-1)[number::3] *= 1.1
    assert addresses == [x.data_ptr() for x in rank.parameters()]


def test_digests_of_an_anchor_are_those_of_its_record(folder: str, training: Training) -> None:
    """An anchor of another state under the record's name is refused, also without the tensors that differ."""
    publisher = co.Publisher(folder, "run", base="slices")
    training.publish(publisher)
    assert ml_dtypes.bfloat16 == training.state["embedding"].dtype
    reader = follow(folder, slices={"scale": ()})
    record = reader._archive.read(0)
    assert record is not None
    other = co.Publisher(folder, "other")
    training.state["embedding"][0, 0] = 7
    other.publish(training.state)
    found = other._archive.read(0)
    assert found is not None
    data = other._archive.fetch(0, found.parts[0])
    part = reader._archive.put(0, None, data)
    object.__setattr__(record, "parts", (part,))
    reader._find = lambda archive: record  # type: ignore[method-assign]
    with pytest.raises(co.CollectiveError, match="has another digest than its record says"):
        reader.update({})
