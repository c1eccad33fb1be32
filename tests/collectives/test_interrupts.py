"""Exceptions at any Python call of a collective on one simulated rank, and their effects on all ranks.

A trace function counts the calls on that rank and raises at one of them. The default tests try some calls.
The tests marked ``sweep`` try all of them, including those inside wirecodec and NumPy.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

import collectives as co
import wirecodec as wc
from collectives.simulation.communicator import SimulatedComm
from tests.collectives.injector import OWN, ROOT, Injected, Injector
from tests.collectives.inputs import bits, gradient

ALL = (*OWN, ROOT + "wirecodec" + os.sep, os.path.dirname(np.__file__) + os.sep)

GUARDS = tuple(
    f"{ROOT}collectives{os.sep}{name}"
    for name in ("call.py", "channel.py", "exchange/session.py", "gtopk/", "transport/", "sites/exchange.py")
)
"""Modules whose blocks ``try`` and ``finally`` hold a call together: any line of them may be interrupted."""

FAULTY, RANKS = 1, 3
SCHEME = {"a": "topk(0.5) | raw-index | raw", "b": "all | raw-index | raw"}
TINY, SMALL, LARGE = 200, 1500, 20_000  # elements: behind the headers, one native call, and segments


class Subject:
    """One rank's side of an operation."""

    step = 0

    def __init__(self, comm: SimulatedComm, size: int) -> None:
        self.channel = co.Channel(comm, timeout=5)
        self.tensors = {"a": gradient(comm.rank, size), "b": gradient(comm.rank, 40, np.float64)}

    def call(self) -> bytes:
        """Take a step and return its result."""
        raise NotImplementedError


class Compressed(Subject):
    """Operation of a Compressor."""

    def __init__(self, comm: SimulatedComm, size: int, algorithm: str | None) -> None:
        super().__init__(comm, size)
        self.algorithm = algorithm
        self.compressor = wc.Compressor(SCHEME)

    @property
    def step(self) -> int:  # type: ignore[override]
        return self.compressor.step

    def call(self) -> bytes:
        if self.algorithm is None:
            found = co.allgather(self.channel, self.tensors, self.compressor)
            return b"".join(bits(x.to_dense()) for each in found for x in each.values())
        sums = co.allreduce(self.channel, self.tensors, self.compressor, algorithm=self.algorithm)
        return b"".join(map(bits, sums.values()))


class Leading(Subject):
    """Operation of CLT-k."""

    def __init__(self, comm: SimulatedComm, size: int) -> None:
        super().__init__(comm, size)
        self.cltk = co.CLTk(0.5)

    @property
    def step(self) -> int:  # type: ignore[override]
        return self.cltk.step

    def call(self) -> bytes:
        return b"".join(map(bits, self.cltk.allreduce(self.channel, self.tensors).values()))


class Alike(Leading):
    """Measurement of similarity, which takes no steps."""

    def call(self) -> bytes:
        return repr(co.similarity(self.channel, self.cltk, self.tensors)).encode()


class Owning(Compressed):
    """Operation of Ok-Topk, whose commit needs what has arrived."""

    def __init__(self, comm: SimulatedComm, size: int) -> None:
        super().__init__(comm, size, "auto")
        self.compressor = co.OkTopK(SCHEME)


class Merging(Leading):
    """Operation of GTopK, whose commit needs what has arrived."""

    def __init__(self, comm: SimulatedComm, size: int) -> None:
        super().__init__(comm, size)
        self.cltk = co.GTopK(0.5)  # type: ignore[assignment]


class Bytes(Subject):
    """All-gather of bytes, which takes no steps."""

    def call(self) -> bytes:
        return b"".join(map(bits, co.allgather_bytes(self.channel, self.tensors["a"])))


SUBJECTS: dict[str, Callable[[SimulatedComm, int], Subject]] = {
    "allgather": lambda comm, size: Compressed(comm, size, None),
    **{
        f"allreduce {name}": lambda comm, size, name=name: Compressed(comm, size, name)  # type: ignore[misc]
        for name in ("allgather", "dense", "split-pairs", "split-dense", "auto")
    },
    "CLTk.allreduce": Leading,
    "OkTopK.allreduce": Owning,
    "GTopK.allreduce": Merging,
    "allgather_bytes": Bytes,
    "similarity": Alike,
}


@dataclass(frozen=True)
class Outcome:
    """Results of one rank.

    Attributes:
        first: outcome of the call: "ok", the exception's type, or the text of a CollectiveError.
        data: its result.
        step: steps taken afterwards.
        again: outcome of the call with which the interrupted rank replaced it.
        then: outcome of an exchange afterwards.
    """

    first: str
    data: bytes
    step: int
    again: str
    then: str


def outcome_of(act: Callable[[], bytes]) -> tuple[str, bytes]:
    try:
        return "ok", act()
    except co.Timeout:
        return "Timeout", b""
    except co.CollectiveError as error:
        return f"{error.reason}: {error}" if error.reason != "closed" else "closed", b""
    except (Injected, MemoryError) as error:
        return type(error).__name__, b""


def run(make: Callable[[SimulatedComm, int], Subject], size: int, injector: Injector) -> list[Outcome]:
    def rank(comm: SimulatedComm) -> Outcome:
        subject = make(comm, size)
        co.allgather_bytes(subject.channel, b"x")
        for _ in range(2 if size == TINY else 0):  # payloads of known size need no exchange of their own
            subject.call()
        faulty = comm.rank == FAULTY
        act = subject.call
        if faulty:

            def act() -> bytes:
                with injector.active():
                    return subject.call()

        channel, before = subject.channel, subject.channel.call
        first, data = outcome_of(act)
        again = ""
        made = channel.call is not before and channel.call.is_delivered
        if first in ("Injected", "MemoryError") and channel.closed is None and not made:
            again, data = outcome_of(subject.call)
        step = subject.step

        def exchange() -> bytes:
            found = co.allgather_bytes(subject.channel, bytes([65 + comm.rank]) * 64)
            right = all(x.tobytes() == bytes([65 + r]) * 64 for r, x in enumerate(found))
            return b"right" if right else b"wrong"

        then, said = outcome_of(exchange)
        return Outcome(first, data, step, again, then if then != "ok" else said.decode())

    return co.simulate(RANKS, rank)


def judge(outcomes: list[Outcome], right: list[bytes], place: str) -> None:
    """Assert that the outcomes of all ranks are consistent."""
    mine = outcomes[FAULTY]
    others = [each for rank, each in enumerate(outcomes) if rank != FAULTY]
    shown = f"at {place}: {[(each.first, each.step, each.again, each.then) for each in outcomes]}"
    assert len({each.step for each in outcomes}) == 1, f"committed on some ranks only, {shown}"
    for rank, each in enumerate(outcomes):
        if each.data:
            assert each.data == right[rank], f"other data, {shown}"
    firsts = {each.first for each in others}
    assert len(firsts) == 1, shown
    assert mine.then != "wrong", shown
    if mine.then == "closed":
        assert {each.then for each in others} <= {"Timeout", "closed"}, shown
    else:
        assert {each.then for each in outcomes} == {"right"}, shown
        assert firsts <= {"ok", mine.first, mine.again}, shown


def points(name: str, size: int, files: tuple[str, ...], *, lines: bool = False) -> tuple[int, list[bytes]]:
    """Count the calls, and return the number and the results of all ranks."""
    for _ in range(2):  # the first run imports and compiles
        injector = Injector(files, lines=lines)
        outcomes = run(SUBJECTS[name], size, injector)
    assert {each.first for each in outcomes} == {"ok"}
    return injector.calls, [each.data for each in outcomes]


def sweep(name: str, size: int, files: tuple[str, ...], stride: int, *, lines: bool = False) -> None:
    total, right = points(name, size, files, lines=lines)
    assert total > 20
    wrong = []
    for number in range(1, total + 1, stride):
        injector = Injector(files, number, lines=lines)
        try:
            judge(run(SUBJECTS[name], size, injector), right, injector.place)
        except (AssertionError, RuntimeError) as error:  # the simulator raises if ranks make different calls
            wrong.append(f"{number}: {str(error).splitlines()[0]}")
    assert not wrong, f"{len(wrong)} of {-(-total // stride)} points:\n" + "\n".join(wrong[:10])


# Exceptions injected while a generator is closed cannot be raised.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.mark.parametrize("factor", [3, pytest.param(1, marks=pytest.mark.sweep)])
@pytest.mark.parametrize("size", [TINY, SMALL, LARGE])
@pytest.mark.parametrize("name", SUBJECTS)
def test_an_exception_at_some_calls(name: str, size: int, factor: int) -> None:
    sweep(name, size, OWN, stride=factor * (31 if size == LARGE else 13))


@pytest.mark.parametrize("stride", [97, pytest.param(1, marks=pytest.mark.sweep)])
@pytest.mark.parametrize("size", [TINY, SMALL, LARGE])
@pytest.mark.parametrize("name", SUBJECTS)
def test_an_exception_at_some_lines(name: str, size: int, stride: int) -> None:
    sweep(name, size, GUARDS, stride, lines=True)


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("size", [TINY, SMALL, LARGE])
@pytest.mark.parametrize("name", SUBJECTS)
def test_an_exception_at_every_call(name: str, size: int) -> None:
    sweep(name, size, ALL, stride=1)
