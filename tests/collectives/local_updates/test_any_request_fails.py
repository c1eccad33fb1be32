"""An exchange that some ranks complete and others do not: nothing is lost, and nothing is sent twice.

On one of four ranks, one request of the last exchange fails: each request in turn. The ranks are those of one
communicator, or of two sites. All movements are multiples of 12, so all means are exact.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import collectives as co
import wirecodec as wc
from collectives.communicator import TransportError
from tests.oracles import Array

EVERY, NAMES, ALLGATHER = 2, ("a", "b"), 1


def topk() -> Any:
    return wc.Compressor("topk(0.25) | rice | raw", feedback=wc.ErrorFeedback())


@dataclass(frozen=True)
class Case:
    """Local updates that are tried.

    Attributes:
        sites: whether the ranks are those of two sites.
        size: elements of each of two parameters. Of 2400, the payloads do not come behind the headers.
        make: makes the compressor.
        settings: of LocalUpdates.
    """

    sites: bool
    size: int = 2400
    make: Callable[[], Any] = topk
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class Request:
    """Requests that are complete if each of them is; then ``error`` is raised, if there is one.

    Attributes:
        left: of the simulated communicator, those that are not complete.
        error: an interrupt is raised once, another error in each call.
    """

    left: list[Any]
    error: type[BaseException] | None = None

    def Test(self) -> bool:
        self.left = [one for one in self.left if not one.Test()]
        if not self.left and (error := self.error) is not None:
            self.error = None if error is KeyboardInterrupt else error
            raise error("of the test")
        return not self.left


@dataclass
class Requests:
    """All requests of a rank, of which one fails.

    Attributes:
        error: of that request, and ``last`` is its number.
        count: of the requests so far.
    """

    error: type[BaseException] | None = None
    last: int = 0
    count: int = 0

    def begin(self, parts: list[Any]) -> Request:
        self.count += 1
        return Request(parts, self.error if self.count == self.last else None)


class Part:
    """Some ranks of a simulated communicator, as a communicator of their own."""

    def __init__(self, comm: Any, ranks: list[int], requests: Requests) -> None:
        self._comm, self._ranks, self._requests = comm, ranks, requests
        self.rank, self.size = ranks.index(comm.rank), len(ranks)

    @property
    def clock(self) -> float:
        """The simulated time, by which algorithms are chosen: always the same ones."""
        return float(self._comm.clock)

    def Isend(self, buf: Any, dest: int, tag: int = 0) -> Request:
        return self._requests.begin([self._comm.Isend(buf, self._ranks[dest], tag)])

    def Irecv(self, buf: Any, source: int, tag: int = 0) -> Request:
        return self._requests.begin([self._comm.Irecv(buf, self._ranks[source], tag)])

    def Iallgather(self, block: Array, out: Array) -> Request:
        lengths = [len(block)] * self.size
        return self.Iallgatherv(block, [out, (lengths, [rank * len(block) for rank in range(self.size)])])

    def Iallgatherv(self, block: Array, recvbuf: Any) -> Request:
        out, (lengths, starts) = recvbuf
        parts = [self._comm.Isend(block, rank, ALLGATHER) for rank in self._ranks]
        for rank, start, length in zip(self._ranks, starts, lengths, strict=True):
            parts.append(self._comm.Irecv(out[start : start + length], rank, ALLGATHER))
        return self._requests.begin(parts)

    def block(self, requests: list[Request]) -> bool:
        left = [one for request in requests for one in request.left]
        return not left or bool(self._comm.block(left))


def connect(comm: Any, requests: Requests, *, sites: bool) -> Any:
    if not sites:
        return Part(comm, [0, 1, 2, 3], requests)
    site, number = divmod(comm.rank, 2)
    local, across = [2 * site, 2 * site + 1], [number, number + 2]
    return co.Sites(Part(comm, local, requests), Part(comm, across, requests))


@dataclass
class Worker:
    """A worker, and the sum of what it has moved.

    Attributes:
        begun: number of its requests before the last exchange.
        error: the last one that it caught.
    """

    compressor: Any
    size: int
    requests: Requests = field(default_factory=Requests)
    begun: int = 0
    error: BaseException | None = None
    local: Any = None

    def __post_init__(self) -> None:
        self.w, self.moved = ({name: np.zeros(self.size) for name in NAMES} for _ in range(2))

    def move(self, unit: float) -> None:
        for name in NAMES:
            step = np.arange(1, self.size + 1) * (unit + 48 * (name == "b"))
            self.w[name] += step
            self.moved[name] += step

    def step(self, rank: int, *, moves: bool) -> None:
        if moves:
            self.move(12.0 + 12 * rank)
        self.local.step()


def train(case: Case, faulty: Mapping[int, Requests]) -> list[Worker]:
    """Train until requests of faulty ranks fail."""
    delay = case.settings.get("delay", 0)

    def run(comm: Any) -> Worker:
        worker = Worker(case.make(), case.size, faulty.get(comm.rank, Requests()))
        ends = connect(comm, worker.requests, sites=case.sites)
        worker.local = co.LocalUpdates(None, worker.w, worker.compressor, ends, EVERY, **case.settings)
        for t in range(1, 2 * EVERY + delay + 1):
            if t == 2 * EVERY:
                worker.begun = worker.requests.count
            try:
                worker.step(comm.rank, moves=not (delay and t % EVERY == 1))  # a result would replace it
            except (co.CollectiveError, KeyboardInterrupt) as error:
                worker.error = error
        return worker

    return co.simulate(4, run)


def find_left(workers: list[Worker], name: str, *, sites: bool) -> Array:
    """Return what the workers have moved and the common parameters do not have, with a minus."""
    left: Array = np.sum([one.local._anchor.measure_all([name])[name] for one in workers], axis=0)
    if not sites:
        left += np.sum([one.compressor.residual(name) for one in workers], axis=0)
        return left
    for site in (workers[:2], workers[2:]):  # a residual is of the mean of the site's two ranks
        parts = [x.reshape(-1) for one in site if (x := one.compressor.residual(name)) is not None]
        left += 2 * np.concatenate(parts)
    return left


CASES = {
    "feedback": Case(False),
    "group": Case(False, 8, lambda: wc.Compressor("topk(0.125) | rice | raw", scope="group")),
    "clt-k": Case(False, make=lambda: co.CLTk(0.25)),
    "keep": Case(False, 8, settings={"keep": 0.5, "fragments": 2}),
    "sites": Case(True),
    "sites-clt-k": Case(True, make=lambda: co.CLTk(0.25)),
    "sites-fragments": Case(True, 8, settings={"fragments": 2}),
    "sites-delay": Case(True, 8, settings={"delay": 1}),
}


def go_on(case: Case, workers: list[Worker], method: str) -> None:
    """Let the workers call a method over other connections, and compare what they have."""

    def run(comm: Any) -> dict[str, Array]:
        local = workers[comm.rank].local
        local.rebind(connect(comm, Requests(), sites=case.sites))
        getattr(local, method)()
        state: dict[str, Array] = local._anchor.state.parameters
        return state

    states = co.simulate(4, run)
    for name in NAMES:
        moved = np.sum([one.moved[name] for one in workers], axis=0)
        left = find_left(workers, name, sites=case.sites)
        for state in states:
            np.testing.assert_array_equal(4 * state[name], moved + left)


@pytest.mark.parametrize("error", [TransportError, KeyboardInterrupt])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_any_request_fails(case: Case, error: type[BaseException]) -> None:
    """The rank takes another step before it goes on; nothing is lost of that either."""
    undisturbed, divided = train(case, {}), 0
    for faulty in (0, 3):
        before = undisturbed[faulty]
        for last in range(before.begun + 1, before.requests.count + 1):
            workers = train(case, {faulty: Requests(error, last)})
            assert workers[faulty].error is not None
            divided += len({one.local.round for one in workers}) > 1
            if not case.settings.get("delay"):
                workers[faulty].move(12.0)
            go_on(case, workers, "synchronize")
    assert divided  # some requests divide the ranks


@pytest.mark.parametrize("name", ["feedback", "clt-k", "sites", "sites-clt-k"])
def test_all_ranks_are_interrupted_at_the_end(name: str) -> None:
    """Nobody has completed the exchange, so it does not count."""
    case = CASES[name]
    lasts = [one.requests.count for one in train(case, {})]
    workers = train(case, {rank: Requests(KeyboardInterrupt, last) for rank, last in enumerate(lasts)})
    assert [type(one.error) for one in workers] == [KeyboardInterrupt] * 4
    assert {one.local.round for one in workers} == {1}
    go_on(case, workers, "synchronize")
    go_on(case, workers, "exchange")
