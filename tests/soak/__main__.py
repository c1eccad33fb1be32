"""Soak: random collectives with random faults over MPI, on all ranks, for a time.

    mpirun -n 4 python -m tests.soak --seconds 300 --seed 1

All ranks draw the same steps, over a communicator, over two sites, or over a store in a temporary folder.
After each step they compare the verdict, the bits of the means and the number of committed steps, over a
communicator of their own. After an exception of one rank alone, at most one further call fails. From time to
time they check the sum rule, take new communicators, and save and load all states. At the end, memory, files
and threads must not have grown.
"""

from __future__ import annotations

import argparse
import faulthandler
import gc
import hashlib
import os
import random
import resource
import shutil
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from mpi4py import MPI
from rich.progress import Progress

import collectives as co
from collectives.errors import is_shared
from tests.collectives.injector import Injected
from tests.soak.faults import FAULTS, Fault, Scene
from tests.soak.links import Link, World
from tests.soak.methods import METHODS, Method, Track

SIZES = (1, 7, 300, 1500, 20_000)
DTYPES = ("f4", "f4", "f4", "f8")
MAX_GROWTH = 24 << 20  # bytes of resident memory after half of the time
CHECK_INTERVAL, RENEW_INTERVAL = 50, 400  # steps
MAX_SECONDS = 120.0  # of a step, after which a rank hangs
MAX_FAILED = 2  # calls in a row of a method without a fault, after an exception of one rank

Key = tuple[str, int]


class Seen(NamedTuple):
    """What a rank has after a step.

    Attributes:
        verdict: "ok", the reason and the text of a CollectiveError, or the name of another exception.
        digest: of the means.
        steps: number of those that count.
        report: of the link.
        counts: whether the gradients of the rank are in the means.
        is_closed: whether the link is.
        calls: of this step.
        place: where a fault has raised.
    """

    verdict: str
    digest: str
    steps: int
    report: object
    counts: bool
    is_closed: bool
    calls: int
    place: str

    @property
    def is_ok(self) -> bool:
        return self.verdict == "ok"


@dataclass
class Subject:
    """Object of a method, with what was given to it.

    Attributes:
        link: over which it averages.
        one: the object.
        total: what came in and was delivered, if the object does not count it.
        counts: lines and calls of a step, for exceptions.
        seconds: of its last step.
        taken: steps.
    """

    method: Method
    link: Link
    one: Any
    total: Track
    counts: dict[bool, int]
    seconds: float = 0.01
    taken: int = 0

    @property
    def track(self) -> Track:
        return self.method.track(self.one) or self.total


class Soak:
    """State of one rank.

    Args:
        seed: of the steps, the same on all ranks.
        folder: of the runs in stores.
        methods: names of those that are tried.
        share: of the steps that have a fault.
    """

    def __init__(self, seed: int, folder: Path, methods: Sequence[str], share: float) -> None:
        self.random, self.names, self.share = random.Random(seed), methods, share
        self.world = World(folder)
        self.side, self.rank, self.size = self.world.side, self.world.rank, self.world.size
        self.own = random.Random(f"{seed} {self.rank}")
        self.shapes = [
            {f"t{i}": self.random.choice(SIZES) for i in range(self.random.choice((1, 2, 5)))}
            for _ in range(3)
        ]
        self.dtypes = [self.random.choice(DTYPES) for _ in self.shapes]
        self.subjects: dict[Key, Subject] = {}
        self.steps = self.failed = self.late = 0

    def step(self) -> None:
        """Take one step of a random method, with or without a fault, and compare the ranks."""
        key = self.random.choice(self.names), self.random.randrange(len(self.shapes))
        fault = FAULTS[self.random.choice(list(FAULTS)) if self.random.random() < self.share else "none"]
        if key not in self.subjects:  # it was not saved when all objects were renewed
            self.subjects[key] = self.make(key)
        subject = self.subjects[key]
        if not self.fits(fault, subject):
            fault = FAULTS["none"]
        self.take(key, fault)
        if fault.breaks:
            self.recover(key)
        if self.steps % CHECK_INTERVAL == 0:
            self.check(key)
        if self.steps % RENEW_INTERVAL == 0:
            self.renew()

    def begin(self) -> None:
        """Take a step of each method with each shape; this loads the kernels before memory is measured."""
        for key in product(self.names, range(len(self.shapes))):
            faulthandler.dump_traceback_later(MAX_SECONDS, exit=True)
            self.subjects[key] = self.make(key)
            self.take(key, FAULTS["none"])

    def make(self, key: Key) -> Subject:
        """Make the object of a method, and compile what it needs: peers of a store do not wait for that."""
        name, shape = key
        method = METHODS[name]
        run = f"{name.replace(', ', '-').replace(' ', '-')}-{shape}"
        link = method.connect(self.world, run)
        if not link.channels():
            alone = self.world.connect_alone(run)
            one, gradients = method.make(alone), self.draw(shape)
            method.begin(one, gradients)
            method.step(one, alone.comm, gradients)
        return Subject(method, link, method.make(link), Track(), {})

    @staticmethod
    def fits(fault: Fault, subject: Subject) -> bool:
        """Return whether a subject can have a fault. The first step compiles, which takes long."""
        method = subject.method
        if method.is_of_parameters and not fault.is_of_values:
            return False
        if fault.breaks and (not method.is_saved or subject.taken == 0):
            return False
        return fault.fits(subject.link)

    def draw(self, shape: int) -> dict[str, Any]:
        """Return gradients of this rank."""
        draw = np.random.default_rng([self.random.getrandbits(32), self.rank])
        return {
            key: draw.integers(-99, 100, size).astype(self.dtypes[shape])
            for key, size in self.shapes[shape].items()
        }

    def take(self, key: Key, fault: Fault, *, is_after_break: bool = False) -> bool:
        """Take a step; return whether it counts on all ranks."""
        subject, faulty = self.subjects[key], self.random.randrange(self.size)
        gradients = self.draw(key[1])
        given, places = dict(gradients), list[str]()
        if faulty == self.rank:
            fault.change(given)
        subject.method.begin(subject.one, given)
        before, mark = subject.method.steps(subject.one), subject.link.mark()
        scene = Scene(self.world, subject.link, self.own, subject.seconds, subject.counts, places)
        if fault.prepare is not None:
            if faulty == self.rank:
                fault.prepare(scene)
            self.side.Barrier()
        begin = time.monotonic()
        with self.world.impatient(subject.link) if fault.breaks else nullcontext():
            around = fault.around if faulty == self.rank else None
            means, verdict, calls = self.call(subject, (given, gradients), mark, around, scene)
        if calls == 1 and verdict == "ok":
            subject.seconds = time.monotonic() - begin
        subject.taken += 1
        self.steps += 1
        self.failed += verdict != "ok"
        digest = hashlib.sha256(b"".join(np.ascontiguousarray(means[k]).tobytes() for k in sorted(means)))
        steps, link = subject.method.steps(subject.one), subject.link
        place = ", ".join(places)
        report, counts = link.report(), link.counts()
        own = Seen(verdict, digest.hexdigest(), steps, report, counts, link.is_closed, calls, place)
        seen: list[Seen] = self.side.allgather(own)
        self.late += not all(one.counts for one in seen)
        names = [name for name, one in FAULTS.items() if one is fault]
        where = f"step {self.steps}, {key[0]}, {self.shapes[key[1]]}, {names} of rank {faulty}: {seen}"
        judge(seen, faulty, fault, subject, where, is_after_break=is_after_break)
        if steps > before and subject.method.track(subject.one) is None:
            self.add(subject, gradients, means, [one.is_ok for one in seen])
        if any(one.is_closed for one in seen):
            self.renew()
        return all(one.is_ok for one in seen)

    def call(
        self, subject: Subject, given: tuple[dict[str, Any], ...], mark: Any, around: Any, scene: Scene
    ) -> tuple[dict[str, Any], str, int]:
        """Call until the step is over; return the means, the last verdict, and the number of calls.

        Args:
            subject: of the step.
            given: gradients of the first call, and of any other one.
            mark: of the link, before the step.
            around: context of the first call, or None.
            scene: of the fault.
        """
        method, link, calls, end = subject.method, subject.link, 0, time.monotonic() + MAX_SECONDS / 2
        while True:
            means, verdict, broke_off = dict[str, Any](), "ok", False
            try:
                with around(scene) if around is not None and not calls else nullcontext():
                    means = dict(method.step(subject.one, link.comm, given[calls > 0]))
            except co.CollectiveError as error:
                verdict = f"{error.reason}: {error}"
            except (Injected, MemoryError) as error:
                means, verdict, broke_off = {}, type(error).__name__, not is_shared(error.__cause__)
            calls += 1
            assert time.monotonic() < end, f"call {calls} of a step: {verdict}"
            if not link.is_due(mark, broke_off=broke_off):
                return means, verdict, calls
            time.sleep(0.02)

    def add(self, subject: Subject, gradients: Any, means: dict[str, Any], is_ok: list[bool]) -> None:
        """Count a step; a rank that has lost the means gets those of another one."""
        if not subject.link.counts():
            gradients = {name: np.zeros(x.shape) for name, x in gradients.items()}
        if not all(is_ok) and any(is_ok):
            means = self.side.bcast(means, is_ok.index(True))
        if any(is_ok):
            subject.total.add(gradients, means, self.size)
            return
        subject.total.add(gradients, {name: np.zeros(x.shape) for name, x in gradients.items()}, self.size)
        for name, left in self.find_left(subject).items():  # nobody knows the means
            subject.total.delivered[name] += left

    def recover(self, key: Key) -> None:
        """Take steps without a fault; all ranks succeed after at most one that fails, of sites two."""
        for failed in range(MAX_FAILED + 1):
            if self.take(key, FAULTS["none"], is_after_break=failed < MAX_FAILED):
                break
        assert failed <= len(self.subjects[key].link.channels()), f"{failed} steps failed after an exception"

    def find_left(self, subject: Subject) -> dict[str, Any]:
        """Return {name: what came in, less what was delivered and is kept}."""
        found, method = {}, subject.method
        for name, came_in in subject.track.came_in.items():
            kept = method.keep(subject.one, name)
            own = np.zeros_like(came_in) if kept is None else np.asarray(kept, np.float64).reshape(-1)
            total_in, total_kept = (sum(self.side.allgather(x)) for x in (came_in, own))
            found[name] = total_in - total_kept - subject.track.delivered[name]
        return found

    def check(self, key: Key) -> None:
        """Check the sum rule of one object."""
        subject = self.subjects[key]
        if not subject.method.has_sum_rule or not subject.method.steps(subject.one):
            return
        for name, left in self.find_left(subject).items():
            came_in = sum(self.side.allgather(subject.track.came_in[name]))
            scale = np.abs(came_in).max() + np.abs(subject.track.delivered[name]).max() + 1
            assert np.abs(left).max() <= subject.method.tolerance * scale, (
                f"{key}, {name}: {np.abs(left).max()} is lost"
            )

    def renew(self) -> None:
        """Save and load all states in new objects, on new communicators."""
        self.world.open()
        for key, subject in list(self.subjects.items()):
            if not subject.method.is_saved or not subject.method.steps(subject.one):
                del self.subjects[key]
                continue
            state = subject.one.state_dict()
            new = self.make(key)
            new.one.load_state_dict(state)
            self.subjects[key] = new
            new.total, new.counts, new.seconds = subject.total, subject.counts, subject.seconds


def judge(
    seen: Sequence[Seen], faulty: int, fault: Fault, subject: Subject, where: str, *, is_after_break: bool
) -> None:
    """Assert that the ranks have what they must have after a step."""
    others = [one for rank, one in enumerate(seen) if rank != faulty]
    verdicts = {subject.link.compare(one.verdict) for one in others}
    reasons = {one.verdict.partition(":")[0] for one in others}
    in_store = not subject.link.channels()
    assert len({one.steps for one in seen}) == 1, f"committed on some ranks only: {where}"
    assert len({one.report for one in seen}) == 1, f"ranks have different rounds: {where}"
    assert len({one.digest for one in seen if one.is_ok}) <= 1, f"means differ: {where}"
    assert fault.reasons or all(one.calls <= 2 for one in seen), f"more than one call failed: {where}"
    if any(one.is_closed for one in seen):
        assert fault.breaks, f"closed without a reason: {where}"
        assert seen[faulty].is_closed, f"closed without a reason: {where}"
        assert not seen[faulty].verdict.startswith("timeout"), where
    elif not (fault.breaks or is_after_break) or len(subject.link.channels()) < 2:
        assert len(verdicts) == 1, f"ranks differ: {where}"  # of sites, one may learn it in the next call
    if fault.breaks or is_after_break:
        return
    if not in_store:
        assert subject.link.compare(seen[faulty].verdict) in verdicts, f"ranks differ: {where}"
    expected = fault.reasons or ("ok",)
    if in_store and fault.reasons:  # the round is void, or has the rank's next call
        expected = "timeout", "ok"
    if len(subject.link.channels()) > 1 and fault.reasons:
        expected = *expected, "encode"  # of the site that learns it from the other one
    assert reasons <= set(expected), where


def measure() -> tuple[int, int, int]:
    """Return resident memory in bytes, open files, and threads."""
    gc.collect()
    with open("/proc/self/statm") as file:
        pages = int(file.read().split()[1])
    return pages * resource.getpagesize(), len(os.listdir("/proc/self/fd")), threading.active_count()


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--methods", default="", help="names contain this")
    parser.add_argument("--faults", type=float, default=0.3, help="share of the steps that have one")
    options = parser.parse_args()
    world = MPI.COMM_WORLD
    folder = Path(world.bcast(tempfile.mkdtemp(prefix="soak.") if world.rank == 0 else ""))
    try:
        methods = [name for name in METHODS if options.methods in name]
        run(Soak(options.seed, folder, methods, options.faults), options.seconds)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        world.Abort(1)  # the other ranks wait
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


def run(soak: Soak, seconds: float) -> None:
    """Take steps for some time, and check the sum rules, memory, files and threads at the end."""
    soak.begin()
    begin, early = time.monotonic(), None
    with Progress(disable=soak.rank != 0 or not sys.stderr.isatty()) as progress:
        task = progress.add_task("steps", total=seconds)
        while soak.side.bcast(time.monotonic() - begin < seconds):
            faulthandler.dump_traceback_later(MAX_SECONDS, exit=True)
            soak.step()
            elapsed = time.monotonic() - begin
            progress.update(task, completed=elapsed)
            if early is None and soak.side.bcast(elapsed > seconds / 2):
                early = measure()
    for key in soak.subjects:
        soak.check(key)
    faulthandler.cancel_dump_traceback_later()
    late = measure()
    assert early is not None
    grown = tuple(after - before for before, after in zip(early, late, strict=True))
    everyone = soak.side.gather(grown)
    if soak.rank == 0:
        assert everyone is not None
        print(f"{soak.steps} steps, {soak.failed} of them with an error, which one rank or all have raised,")
        print(f"{soak.late} of them without a rank or more")
        print("growth of memory, files and threads:", everyone)
        left = [path for path in soak.world.folder.rglob(".*.tmp") if path.name != ".tmp"]
        assert not left, f"temporary files: {left}"
        assert all(
            memory <= MAX_GROWTH and files <= 0 and threads <= 0 for memory, files, threads in everyone
        )
    soak.side.Barrier()


if __name__ == "__main__":
    sys.exit(main())
