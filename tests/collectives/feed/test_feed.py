"""Feeds of weights: every update ends with the bits of a published version, or with an error."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

import collectives as co
from tests.collectives.feed.weights import Training, bits_of, copy_of, follow
from tests.collectives.store.stores import Store


@pytest.mark.parametrize("base", ["read", "unread"])
def test_readers_of_any_lateness_have_the_bits(store: Store, training: Training, base: str) -> None:
    """Also from nothing. A reader that follows makes three requests per version, and a writer three more than
    there are objects: it looks for the record, creates it, and reads the one before.
    """
    options: dict[str, Any] = {"storage_options": store.options}
    publisher = co.Publisher(store.url, "run", base=base, skips=(4,), **options)
    readers = [(every, co.Subscriber(store.url, "run", **options), dict[str, Any]()) for every in (1, 3, 7)]
    for number in range(12):
        assert training.publish(publisher) == number
        for every, reader, state in readers:
            if number % every == 0:
                assert reader.update(state) == number == reader.version == reader.latest()
                assert bits_of(state) == training.kept[number]
        training.step()
    first = readers[0][1].last
    assert first is not None
    assert (first["base"], first["objects"], first["requests"]) == (10, 1, 3)
    requests = readers[0][1].traffic.requests
    readers[0][1].update(readers[0][2])  # nothing is new
    assert readers[0][1].traffic.requests == requests + 2
    requests = publisher.traffic.requests
    assert training.publish(publisher) == 12
    assert publisher._newest is not None
    assert not any(part.base is None for part in publisher._newest.parts)
    assert publisher.traffic.requests == requests + 3 + len(publisher._newest.parts)
    assert training.publish(publisher) == 12  # nothing is new
    assert publisher.traffic.requests == requests + 3 + len(publisher._newest.parts)


def test_a_late_reader_fetches_few_patches(folder: str, training: Training) -> None:
    publisher = co.Publisher(folder, "run", skips=(4, 16))
    late = {}
    for number in range(40):
        training.publish(publisher)
        if number in (3, 17, 30):
            late[number] = copy_of(training.state)
        training.step()
    for number, state in late.items():
        reader = follow(folder)
        assert reader.update(state) == 39
        assert bits_of(state) == training.kept[39]
        assert reader.last is not None
        assert reader.last["base"] == number  # which it has found by the digest of its state
        assert reader.last["objects"] <= 3 * 4


def test_pruning_strands_nobody(folder: str, training: Training) -> None:
    publisher = co.Publisher(folder, "run", skips=(4,), keep=4)
    readers = [(follow(folder), dict[str, Any]()) for _ in range(6)]
    sizes = []
    for number in range(60):
        publisher._since_anchor *= 4  # so that there are more anchors
        training.publish(publisher)
        for every, (reader, state) in enumerate(readers, 1):
            if number % (every * every) == 0:
                assert reader.update(state) == number
                assert bits_of(state) == training.kept[number]
        training.step()
        sizes.append(sum(len(files) for _, _, files in os.walk(folder)))
    assert max(sizes[30:]) <= max(sizes[:30]) + 8  # the store does not grow


def test_a_state_that_was_changed_is_repaired(folder: str, training: Training) -> None:
    for base in ("read", "unread"):
        publisher = co.Publisher(folder, f"run-{base}", base=base)
        training.kept.clear()
        training.publish(publisher)
        reader, state = co.Subscriber(folder, f"run-{base}"), dict[str, Any]()
        reader.update(state)
        state["embedding"][3, 3] = 9  # with nothing new
        assert reader.update(state) == 0
        assert bits_of(state) == training.kept[0]
        state["embedding"][3, 3] = 9  # with a new version
        training.step()
        training.publish(publisher)
        assert reader.update(state) == 1
        assert bits_of(state) == training.kept[1]
        reader._record = None
        state["other"] = np.zeros(3)  # a restarted one
        del state["scale"]
        assert reader.update(state) == 1
        assert bits_of(state) == training.kept[1]


def test_one_of_two_writers_is_refused(folder: str, training: Training) -> None:
    first, second = (co.Publisher(folder, "run") for _ in range(2))
    training.publish(first)
    training.step()
    with pytest.raises(co.CollectiveError, match="another publisher has published version 0") as refused:
        second.publish(training.state)
    assert refused.value.reason == "writer"
    with pytest.raises(co.CollectiveError, match="make a new Publisher"):
        second.publish(training.state)
    third = co.Publisher(folder, "run")  # as one that was started again
    assert training.publish(third) == 1
    training.step()
    with pytest.raises(co.CollectiveError, match="another publisher has published version 1"):
        first.publish(training.state)


def test_a_feed_with_keys_takes_no_others(folder: str, training: Training) -> None:
    pytest.importorskip("cryptography")
    key, public = co.Publisher.make_key()
    other, _ = co.Publisher.make_key()
    keys = {"trainer": public}
    publisher = co.Publisher(folder, "run", name="trainer", key=key, keys=keys)
    training.publish(publisher)
    training.step()
    stranger = co.Publisher(folder, "run")
    stranger.publish({"scale": np.ones(1, np.float32)})
    reader, state = follow(folder, keys=keys), dict[str, Any]()
    assert reader.update(state) == 0
    assert training.publish(publisher) == 1  # in the slot behind the stranger's
    assert reader.update(state) == 1
    assert bits_of(state) == training.kept[1]
    with pytest.raises(ValueError, match="not the private key"):
        co.Publisher(folder, "run", name="trainer", key=other, keys=keys)


def test_prepare_and_commit(folder: str, training: Training) -> None:
    publisher = co.Publisher(folder, "run")
    training.publish(publisher)
    reader, state = follow(folder), dict[str, Any]()
    reader.update(state)
    for span in (1, 3):
        for _ in range(span):
            training.step()
            training.publish(publisher)
        before = bits_of(state)
        update = reader.prepare(state)
        assert bits_of(state) == before
        assert update.changed > 0
        assert update.commit() == reader.version == publisher.version
        assert bits_of(state) == bits_of(training.state)
    assert reader.prepare(state).changed == 0


def test_servers_reach_the_same_version(folder: str, training: Training) -> None:
    """Slices of a model, each in a feed of its own; one server has two of them as views of its tensors."""
    publishers = [co.Publisher(folder, f"run-{part}") for part in range(4)]
    servers = [{name: x[: len(x) // 2].copy() for name, x in training.state.items() if x.ndim > 1}]
    servers += [{name: x[len(x) // 2 :].copy() for name, x in training.state.items() if x.ndim > 1}]
    readers = [co.Subscriber(folder, f"run-{part}") for part in range(4)]
    for version in range(3):
        for part, publisher in enumerate(publishers):
            publisher.publish(
                {name: np.array_split(x, 4)[part] for name, x in training.state.items() if x.ndim > 1}
            )
        wanted = min(reader.latest() or 0 for reader in readers)
        assert wanted == version
        for part, reader in enumerate(readers):
            views = {name: np.array_split(x, 2)[part % 2] for name, x in servers[part // 2].items()}
            assert reader.update(views, version=wanted) == wanted
        for name in servers[0]:
            whole = np.concatenate([server[name] for server in servers])
            assert whole.tobytes() == training.state[name].tobytes()
        training.step()
    with pytest.raises(ValueError, match="version is 1; the state has version 2"):
        readers[0].update({}, version=1)
    with pytest.raises(co.CollectiveError, match="no version 9"):
        readers[0].update({}, version=9, timeout=0.01)


def test_a_run_and_a_feed_of_one_name(folder: str, training: Training) -> None:
    """Both are in one folder, and neither sees the other's objects."""
    publisher, reader = co.Publisher(folder, "run", skips=(2,), keep=1), follow(folder)
    comm = co.StoreComm(folder, "run", "alice", quorum=1, deadline=0.01, poll=0.01)
    state: dict[str, Any] = {}
    for number in range(6):
        training.publish(publisher)
        assert co.allreduce(comm, np.ones(3, "f4"), "all | raw-index | raw").tolist() == [1, 1, 1]
        assert reader.update(state) == number
        assert comm.last is not None
        assert comm.last.members == ("alice",)
        training.step()
    assert bits_of(state) == training.kept[5]


def test_errors(folder: str, training: Training) -> None:
    with pytest.raises(co.CollectiveError, match="nothing has been published") as empty:
        follow(folder).update({}, timeout=0.05)
    assert empty.value.reason == "timeout"
    assert follow(folder).latest() is None
    for options in ({"skips": (4, 6)}, {"skips": (1,)}, {"keep": 0}, {"base": "both"}, {"name": "a b"}):
        with pytest.raises(ValueError, match="must"):
            co.Publisher(folder, "run", **options)
    publisher = co.Publisher(folder, "run")
    training.publish(publisher)
    reader = follow(folder)
    process = os.fork()
    if process == 0:
        try:
            reader.update({})
        except co.CollectiveError as error:
            os._exit(0 if error.reason == "closed" else 1)
        os._exit(2)
    assert os.waitpid(process, 0)[1] == 0
