"""Director of the soak: starts, kills and restarts the processes, and checks the ledger at the end."""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.collectives.feed.soak.ledger import Findings, State, check
from tests.collectives.feed.soak.roles import REFUSED, Place, read, share_state, start, warm_up, write
from tests.collectives.feed.soak.weather import STRANGERS, register_s3, serve_s3

SECONDS = 3000.0


@dataclass
class Director:
    """The processes of a soak.

    Attributes:
        place: of the soak.
        versions: to reach.
        states: of the readers, by their numbers.
        writers, readers: ids of the running processes; those of readers with their numbers.
        lives: processes so far.
        killed: ids of those that were killed.
    """

    place: Place
    versions: int
    states: list[State]
    chance: random.Random
    writers: set[int] = field(default_factory=set)
    readers: dict[int, int] = field(default_factory=dict)
    lives: int = 0
    killed: set[int] = field(default_factory=set)

    def run(self) -> Findings:
        """Let versions be published under faults, then end calmly, and check all."""
        for number in range(len(self.states)):
            self.start_reader(number)
        end, is_done = time.monotonic() + SECONDS, False
        while not is_done:
            if not self.writers:
                self.start_writer()
            time.sleep(self.chance.uniform(0.01, 0.1) * (1 if self.place.port is None else 10))
            self.disturb()
            is_done = any(code == 0 for code in self.reap())
            assert time.monotonic() < end, "the soak takes too long"
        for writer in self.writers:
            self.kill(writer)
        list(self.reap(wait=self.writers))
        assert write(self.place, self.next_life(), 0, calm=True) == 0
        self.place.end.touch()
        list(self.reap(wait=set(self.readers)))
        return check(self.place.folder / "ledger.jsonl")

    def next_life(self) -> int:
        self.lives += 1
        return self.lives

    def start_writer(self) -> None:
        self.writers.add(start(write, self.place, self.next_life(), self.versions))

    def start_reader(self, number: int) -> None:
        process = start(read, self.place, number, self.next_life(), self.states[number])
        self.readers[process] = number

    def kill(self, process: int) -> None:
        self.killed.add(process)
        os.kill(process, signal.SIGKILL)

    def disturb(self) -> None:
        """Do one thing that goes wrong."""
        what = self.chance.random()
        if what < 0.15:
            self.kill(self.chance.choice(sorted(self.readers)))
        elif what < 0.2:
            self.kill(self.chance.choice(sorted(self.writers)))
        elif what < 0.23:
            self.start_writer()  # a second one
        elif what < 0.4 and self.place.feed.exists():
            self.chance.choice(STRANGERS)(self.place.feed, self.chance)

    def reap(self, wait: set[int] | None = None) -> Iterator[int]:
        """Yield the exit codes of writers that have ended, and restart readers that were killed.

        Args:
            wait: processes whose end to wait for; None for those that have ended.
        """
        for process in [*self.writers, *self.readers] if wait is None else [*wait]:
            found, status = os.waitpid(process, os.WNOHANG if wait is None else 0)
            if not found:
                continue
            code = os.waitstatus_to_exitcode(status)
            is_killed = code == -signal.SIGKILL and process in self.killed
            if process in self.writers:
                self.writers.remove(process)
                assert code in (0, REFUSED) or is_killed, f"a writer has ended with {code}"
                yield code
                continue
            number = self.readers.pop(process)
            assert is_killed or (code == 0 and wait is not None), f"reader {number} has ended with {code}"
            if is_killed:
                self.start_reader(number)
                if wait is not None:
                    yield from self.reap(wait=set(self.readers) - wait)


def soak(folder: Path, versions: int, readers: int, seed: int, *, s3: bool = False) -> Findings:
    """Run a soak in an empty folder, or over a server of S3 that has it."""
    warm_up(folder)
    if not s3:
        return _soak(Place(folder, seed), versions, readers)
    (folder / "store").mkdir()
    register_s3()
    with serve_s3(folder) as port:
        return _soak(Place(folder, seed, port), versions, readers)


def _soak(place: Place, versions: int, readers: int) -> Findings:
    states = [share_state(number) for number in range(readers)]
    director = Director(place, versions, states, random.Random(place.seed))
    try:
        found = director.run()
    finally:
        for process in (*director.writers, *director.readers):
            os.kill(process, signal.SIGKILL)
    assert len(set(found.last.values())) == 1, "the readers have ended with different weights"
    assert len(found.last) == readers
    return found


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--versions", type=int, default=500)
    parser.add_argument("--readers", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--s3", action="store_true", help="over a server of S3")
    parser.add_argument("--folder", help="an empty folder, which is kept")
    options = parser.parse_args()
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as made:
        folder = options.folder or made
        found = soak(Path(folder), options.versions, options.readers, options.seed, s3=options.s3)
    print(f"{len(found.versions)} versions in {time.monotonic() - begin:.0f} s; {dict(found.kinds)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
