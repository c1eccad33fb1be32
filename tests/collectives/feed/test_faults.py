"""Feeds of weights under faults: of programs, stores and objects."""

from __future__ import annotations

import itertools
import os
import random
import shutil
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import collectives as co
from collectives.errors import Refused
from collectives.feed.record import Part, Version
from tests.collectives.feed.weights import Training, bits_of, copy_of, follow, start_training
from tests.collectives.injector import Injected, Injector
from tests.collectives.store.faulty import Faults

OWN = (os.fspath(Path(co.__file__).parent / "feed") + os.sep,)


class Killed(BaseException):
    """End of a program, at a request."""


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


@pytest.mark.parametrize("number", [0, 1])
def test_a_writer_that_was_overtaken_long_ago_is_refused(
    folder: str, training: Training, number: int
) -> None:
    """Its next version was published by another one, and deleted since; it must not come back."""
    slow = co.Publisher(folder, "run")
    if number:
        training.publish(slow)
    other = co.Publisher(folder, "run", keep=1)
    for _ in range(9 - number):
        for x in training.state.values():
            x[...] = training.rng.normal(0, 1, x.shape)
        training.publish(other)
    assert other._archive.read(number) is None
    with pytest.raises(co.CollectiveError, match="another publisher has published version 8") as caught:
        slow.publish(copy_of(start_training().step()))
    assert caught.value.reason == "writer"
    assert other._archive.read(number) is None
    assert co.Publisher(folder, "run").version == 8
    training.step()
    assert training.publish(other) == 9


def test_a_feed_that_cannot_be_read_in_time_is_not_empty(tmp_path: Path, training: Training) -> None:
    """Strangers' objects hide its versions; a new writer must not begin with version 0 again."""
    url = f"faulty://{tmp_path}"
    training.publish(co.Publisher(url, "run", storage_options={"faults": Faults()}))
    for number in range(5, 9):
        (tmp_path / "run" / "feed" / "versions" / f"{number:012d}.00").write_bytes(b"?")
    slow = Faults(hook=lambda operation, path: time.sleep(0.1))
    options: dict[str, Any] = {"storage_options": {"faults": slow}, "timeout": 0.2}
    for call in (
        lambda: co.Subscriber(url, "run", **options).update({}),
        lambda: co.Publisher(url, "run", **options),
    ):
        with pytest.raises(co.CollectiveError, match=r"no version was found in .* larger timeout") as caught:
            call()
        assert caught.value.reason == "transport"
    reader, state = co.Subscriber(url, "run", **{**options, "timeout": 60}), dict[str, Any]()
    assert reader.update(state) == 0
