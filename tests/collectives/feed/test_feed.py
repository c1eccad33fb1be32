"""Feeds of weights: every update ends with the bits of a published version, or with an error."""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import random
import shutil
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import collectives as co
from collectives.errors import Refused
from collectives.feed import command
from collectives.feed.record import Part, Version
from collectives.store.envelope import Envelope, Kind
from tests.collectives.feed.weights import Training, bits_of, copy_of, start_training
from tests.collectives.injector import Injected, Injector
from tests.collectives.store.faulty import Faults
from tests.collectives.store.stores import Store
from wirecodec.cli import main
from wirecodec.patch.bits import Bits
from wirecodec.patch.host import HostForms

OWN = (os.fspath(Path(co.__file__).parent / "feed") + os.sep,)


class Killed(BaseException):
    """End of a program, at a request."""


@pytest.fixture
def training() -> Training:
    return start_training()


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return os.fspath(tmp_path / "store")


def follow(folder: str, **options: Any) -> co.Subscriber:
    return co.Subscriber(folder, "run", poll=0.01, **options)


@pytest.mark.parametrize("base", ["read", "unread"])
def test_readers_of_any_lateness_have_the_bits(store: Store, training: Training, base: str) -> None:
    """Also from nothing; and a reader that follows makes three requests per version."""
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


@dataclass
class Killer:
    """Hook of a faulty store that ends the program at a request; from then on, it does nothing.

    Attributes:
        number: of the request.
        count: of requests so far.
    """

    number: int
    count: int = 0

    def __call__(self, operation: str, path: str) -> None:
        self.count += 1
        if self.count == self.number:
            raise Killed


@pytest.mark.parametrize("restarts", [False, True])
def test_a_writer_may_die_at_any_request(tmp_path: Path, restarts: bool) -> None:
    """The same publisher, or a new one with another state, goes on; readers see published versions alone."""
    killer = Killer(0)
    for number in itertools.count(1):
        url, training, faults = f"faulty://{tmp_path}/{number}", start_training(), Faults()
        options: dict[str, Any] = {"storage_options": {"faults": faults}, "timeout": 0.1}
        publisher = co.Publisher(url, "run", skips=(2,), **options)
        for _ in range(4):
            training.publish(publisher)
            training.step()
        faults.hook = killer = Killer(number)
        with suppress(Killed):
            publisher.publish(training.state)
        faults.hook = None
        training.kept[4] = bits_of(training.state)
        reader, state = co.Subscriber(url, "run", **options), dict[str, Any]()
        seen = reader.update(state)
        assert bits_of(state) == training.kept[seen]
        publisher = co.Publisher(url, "run", **options) if restarts else publisher
        training.step()
        assert publisher.publish(training.state) == seen + 1
        assert reader.update(state) == seen + 1
        assert bits_of(state) == bits_of(training.state)
        if killer.count < number:
            break
    assert killer.count > 3


def test_a_reader_may_die_at_any_line(folder: str, training: Training) -> None:
    """Its state has the bits of a version then, and the next update goes on."""
    publisher = co.Publisher(folder, "run", skips=())
    states = []
    for _ in range(3):
        training.publish(publisher)
        states.append(copy_of(training.state))
        training.step()
    k, places = 1, set[str]()
    rng = random.Random(1)
    while True:
        reader, state = follow(folder), copy_of(states[0])
        injector = Injector(OWN, number=k, lines=True)
        try:
            with injector.active():
                reader.update(state)
        except (Injected, MemoryError):
            places.add(injector.place)
        if not injector.place:
            break
        assert training.version_of(state) is not None
        assert reader.update(state) == 2
        assert bits_of(state) == training.kept[2]
        k += rng.randint(1, 3)
    assert len(places) > 30


def test_a_writer_may_be_interrupted_at_any_line(tmp_path: Path) -> None:
    """No version is lost or published twice, and the same publisher goes on."""
    k, rng = 1, random.Random(2)
    while True:
        folder, training = os.fspath(tmp_path / str(k)), start_training()
        publisher = co.Publisher(folder, "run", skips=(2,))
        for _ in range(2):
            training.publish(publisher)
            training.step()
        injector = Injector(OWN, number=k, lines=True)
        with suppress(Injected, MemoryError), injector.active():
            publisher.publish(training.state)
        if not injector.place:
            break
        training.kept[2] = bits_of(training.state)
        training.step()
        number = publisher.publish(training.state)
        training.kept[number] = bits_of(training.state)
        assert number in (2, 3)
        reader, state = follow(folder), dict[str, Any]()
        assert reader.update(state) == number
        assert bits_of(state) == bits_of(training.state)
        k += rng.randint(3, 9)
    assert k > 100


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


def test_faults_of_a_store(tmp_path: Path, training: Training) -> None:
    """Requests that fail, lost answers, lists that lag, an outage, and a wait for a version."""
    faults = Faults(every=5, lost=3, lag=0.2)
    options: dict[str, Any] = {"storage_options": {"faults": faults}, "timeout": 30}
    publisher = co.Publisher(f"faulty://{tmp_path}", "run", skips=(3,), **options)
    reader = co.Subscriber(f"faulty://{tmp_path}", "run", poll=0.01, **options)
    state, number = dict[str, Any](), -1
    for _ in range(8):
        training.publish(publisher)
        found = reader.update(state, timeout=10)
        assert number <= found
        number = found
        assert bits_of(state) == training.kept[number]
        training.step()
    faults.down_until = time.monotonic() + 0.3
    training.publish(publisher)
    assert reader.update(state, timeout=10) >= number
    threading.Timer(0.1, training.publish, [publisher]).start()
    training.step()
    assert reader.update(state, timeout=10) >= number


def test_new_readers_and_writers_look_behind_an_old_list(tmp_path: Path, training: Training) -> None:
    """A restarted reader would go back to an older version otherwise, and a restarted writer be refused."""
    publisher = co.Publisher(str(tmp_path), "run")
    for _ in range(4):
        training.publish(publisher)
        training.step()
    faults = Faults(lag=1e6)  # only the first version is listed
    faults.seen[str(tmp_path / "run" / "feed" / "versions" / f"{0:012d}.00")] = -1e7
    options: dict[str, Any] = {"storage_options": {"faults": faults}}
    reader, state = co.Subscriber(f"faulty://{tmp_path}", "run", **options), dict[str, Any]()
    assert reader.update(state) == 3
    assert bits_of(state) == training.kept[3]
    assert training.publish(co.Publisher(f"faulty://{tmp_path}", "run", **options)) == 4


def objects_in(folder: str) -> list[Path]:
    return sorted(Path(folder, "run", "feed", "objects").iterdir())


def test_damage_and_foreign_objects(folder: str, training: Training) -> None:
    """A damaged patch without an anchor behind it is an error that names the remedy, which helps."""
    publisher = co.Publisher(folder, "run")
    for _ in range(3):
        training.publish(publisher)
        base = copy_of(training.state)
        training.step()
    reader, state = follow(folder), base
    training.publish(publisher)
    versions = Path(folder, "run", "feed", "versions")
    for name in ("000000000099.00", "000000000004.00", "000000000004.77", "x", "999999999999.00"):
        (versions / name).write_bytes(b"garbage")
    (versions / "000000000098.00").mkdir()
    objects_in(folder)[3].write_bytes(b"?" * objects_in(folder)[3].stat().st_size)
    with pytest.raises(co.CollectiveError, match="anchor=True") as damaged:
        reader.update(state)
    assert damaged.value.reason == "transport"
    assert training.version_of(state) is not None
    again = co.Publisher(folder, "run", anchor=True)
    training.step()
    assert training.publish(again) == 4
    assert reader.update(state) == 4
    assert bits_of(state) == training.kept[4]


def is_reachable(records: dict[int, Version], objects: set[str], base: int | None, target: int) -> bool:
    """Return whether patches and anchors that are left lead to a version, by trying all."""
    reached = {base, None}
    for number in sorted(records):
        for part in records[number].parts:
            if part.base in reached and f"{number:012d}.{part.digest.hex()}" in objects:
                reached.add(number)
    return target in reached


@pytest.mark.parametrize("prepares", [False, True])
def test_a_reader_finds_every_way_that_is_left(tmp_path: Path, training: Training, prepares: bool) -> None:
    """Whatever is damaged or gone: it has the newest version if there is a way to it, and an error if not."""
    whole, states = tmp_path / "whole", []
    publisher = co.Publisher(str(whole), "run", skips=(2, 6))
    for number in range(14):
        publisher._wants_anchor = number in (0, 5, 10)
        training.publish(publisher)
        states.append(copy_of(training.state))
        training.step()
    reader = follow(str(whole))
    reader.update({})
    known = {number: reader._archive.read(number) for number in range(14)}
    rng, seen = random.Random(8), set()
    for trial in range(60):
        folder = tmp_path / str(trial)
        shutil.copytree(whole, folder)
        records = {number: record for number, record in known.items() if record is not None}
        objects = objects_in(str(folder))
        left = {one.name for one in objects}
        for one in rng.sample(objects, rng.randint(1, len(objects) - 1)):
            left.remove(one.name)
            one.unlink() if rng.random() < 0.5 else one.write_bytes(bytes(one.stat().st_size))
        for number in rng.sample(range(13), rng.choice((0, 0, 1, 3))):
            del records[number]
            (folder / "run" / "feed" / "versions" / f"{number:012d}.00").unlink()
        base = rng.choice((None, *range(13)))
        state = {} if base is None else copy_of(states[base])
        reader = follow(str(folder))
        expected = is_reachable(records, left, base, 13)
        seen.add(expected)
        try:
            number = reader.prepare(state).commit() if prepares else reader.update(state)
        except co.CollectiveError:
            assert not expected
            number = base
        else:
            assert expected
        assert state == {} if number is None else bits_of(state) == training.kept[number]
    assert seen == {True, False}


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


def test_an_equal_state_is_no_version(folder: str, training: Training) -> None:
    publisher = co.Publisher(folder, "run")
    assert [training.publish(publisher) for _ in range(3)] == [0, 0, 0]
    assert co.Publisher(folder, "run").publish(training.state) == 0


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


def test_the_command(folder: str, training: Training, capsys: pytest.CaptureFixture[str]) -> None:
    publisher = co.Publisher(folder, "run", skips=(2,))
    for _ in range(3):
        training.publish(publisher)
        training.step()
    assert main(["feed", f"{folder}/run", "--last", "2"]) == 0
    title, _, _, *rows = capsys.readouterr().out.splitlines()
    assert title.startswith("run: version 2; ")
    assert [row.split()[0] for row in rows] == ["1", "2"]
    assert main(["feed", f"{folder}/run", "--json"]) == 0
    versions = json.loads(capsys.readouterr().out)["versions"]
    assert [one["version"] for one in versions] == [0, 1, 2]
    assert versions[0]["anchor_bytes"] > versions[2]["bytes"] > 0
    assert versions[2]["skip_bytes"] > 0
    assert main(["feed", folder]) == 2
    assert "has no version of a feed" in capsys.readouterr().err
    with pytest.raises(ValueError, match="--last is 0"):
        command.run(argparse.Namespace(last=0))


def test_records_are_parsed_or_refused() -> None:
    made = Version(
        9, 1, 2, 3, 4, 5, 6, 9, 8, b"s" * 16, True, (Part(8, 7, b"d" * 32), Part(None, 9, b"e" * 32)), (1, 2)
    )
    body = made.pack()
    assert Version.parse(9, body) == made
    rng = random.Random(4)
    for _ in range(2_000):
        data = bytearray(body)
        for _ in range(rng.randint(1, 3)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        try:
            Version.parse(9, bytes(data[: rng.randint(0, len(data))] if rng.random() < 0.3 else data)).pack()
        except Refused:
            continue
    for stop in range(len(body)):
        with pytest.raises(Refused):
            Version.parse(9, body[:stop])


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


def test_a_wait_for_a_newer_version(folder: str, training: Training) -> None:
    publisher, reader, state = co.Publisher(folder, "run"), follow(folder), dict[str, Any]()
    assert reader.latest(timeout=0.03) is None
    training.publish(publisher)
    assert reader.latest(timeout=60) == reader.update(state) == reader.latest() == 0
    begin = time.monotonic()
    assert reader.latest(timeout=0.1) == 0
    assert time.monotonic() - begin >= 0.1
    training.step()
    threading.Timer(0.1, training.publish, [publisher]).start()
    assert reader.latest(timeout=60) == 1


@pytest.mark.parametrize("fails", [False, True])
def test_tasks_wait_for_a_newer_version_without_threads(
    tmp_path: Path, training: Training, fails: bool
) -> None:
    """Hundreds of them wait together, and through an outage of the store."""
    faults = Faults()
    options: dict[str, Any] = {"storage_options": {"faults": faults}, "timeout": 60}
    publisher = co.Publisher(f"faulty://{tmp_path}", "run", **options)
    reader = co.Subscriber(f"faulty://{tmp_path}", "run", poll=0.02, **options)
    assert training.publish(publisher) == reader.update({}) == 0
    training.step()

    async def publish_later() -> int:
        if fails:
            faults.down_until = time.monotonic() + 0.3
        await asyncio.sleep(0.4)
        return await asyncio.to_thread(training.publish, publisher)

    async def main() -> tuple[list[Any], int]:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(2))
        waits = [asyncio.create_task(reader.latest_async(timeout=60)) for _ in range(200)]
        given_up = asyncio.create_task(reader.latest_async(timeout=60))
        published = asyncio.create_task(publish_later())
        await asyncio.sleep(0.1)
        given_up.cancel()
        number = await asyncio.wait_for(published, 40)  # it needs a thread, too
        return await asyncio.gather(*waits), number

    assert asyncio.run(main()) == ([1] * 200, 1)
    assert asyncio.run(reader.latest_async()) == 1
    begin = time.monotonic()
    assert asyncio.run(follow(str(tmp_path / "other")).latest_async(timeout=0.05)) is None
    assert time.monotonic() - begin < 30


def test_a_task_ends_if_the_store_does(tmp_path: Path, training: Training) -> None:
    faults = Faults()
    options: dict[str, Any] = {"storage_options": {"faults": faults}}
    training.publish(co.Publisher(f"faulty://{tmp_path}", "run", **options))
    faults.down_until = time.monotonic() + 3600
    reader = co.Subscriber(f"faulty://{tmp_path}", "run", poll=0.01, timeout=0.2, **options)
    before = faults.requests
    with pytest.raises(co.CollectiveError, match=r"the store failed for 0\.2 s"):
        asyncio.run(reader.latest_async(timeout=60))
    assert faults.requests > before + 2


def test_the_lag_of_a_reader(folder: str, training: Training) -> None:
    publisher, reader, state = co.Publisher(folder, "run"), follow(folder), dict[str, Any]()
    assert reader.lag() == {"version": None, "latest": None, "versions": 0, "seconds": 0.0}
    training.publish(publisher)
    reader.update(state)
    assert reader.lag() == {"version": 0, "latest": 0, "versions": 0, "seconds": 0.0}
    begin = time.time()
    for _ in range(3):
        training.step()
        training.publish(publisher)
        time.sleep(0.05)
    found = reader.lag()
    assert (found["version"], found["latest"], found["versions"]) == (0, 3, 3)
    assert 0.15 <= found["seconds"] <= time.time() - begin
    assert follow(folder).lag()["versions"] == 4


def test_the_command_shows_readers(store: Store, training: Training, capsys: Any) -> None:
    """Those that have a name, whatever strangers put beside their reports."""
    options: dict[str, Any] = {"storage_options": store.options}
    publisher = co.Publisher(store.url, "run", **options)
    readers = [co.Subscriber(store.url, "run", name=name, **options) for name in ("late", "new", None)]
    states: list[dict[str, Any]] = [{} for _ in readers]
    for _ in range(3):
        training.publish(publisher)
        for reader, state in list(zip(readers, states, strict=True))[publisher.version == 2 :]:
            reader.update(state)
        training.step()
    readers[1]._archive.files.put("readers/x", b"garbage")
    readers[1]._archive.files.put("readers/\x1b[1m", b"garbage")
    stranger = Envelope(Kind.READER, readers[0]._archive.run, 7, "far", b"\xff" * 8).pack()
    readers[1]._archive.files.put("readers/far", stranger)
    readers[1]._archive.files.put("readers/other", stranger)
    url = ["feed", f"{store.url}/run", "--storage-options", json.dumps(store.options)]
    assert main([*url, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["readers"]
    assert [(one["reader"], one["version"], one["behind"]) for one in found] == [
        ("far", 7, -5),
        ("late", 1, 1),
        ("new", 2, 0),
    ]
    assert abs(found[1]["written"] - time.time()) < 600
    assert main(url) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[-3:]]
    assert rows[0] == ["far", "7", "-5", "-"]
    assert rows[1][:3] == ["late", "1", "1"]


def test_a_reader_that_may_not_report_follows(tmp_path: Path, training: Training) -> None:
    faults = Faults()
    options: dict[str, Any] = {"storage_options": {"faults": faults}}
    publisher = co.Publisher(f"faulty://{tmp_path}", "run", **options)
    training.publish(publisher)
    written = []

    def refuse(operation: str, path: str) -> None:
        if operation == "put":
            written.append(path)
            raise OSError("not now")

    faults.hook = refuse
    reader = co.Subscriber(f"faulty://{tmp_path}", "run", name="reader", **options)
    state: dict[str, Any] = {}
    begin = time.monotonic()
    assert reader.update(state) == reader.update(state) == reader.prepare(state).commit() == 0
    assert time.monotonic() - begin < 30
    assert len(written) == 1
    with pytest.raises(ValueError, match="name is 'a b'"):
        co.Subscriber(f"faulty://{tmp_path}", "run", name="a b", **options)


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
