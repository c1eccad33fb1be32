"""Exceptions on one rank at any call of an exchange over Sites: the next exchanges work on all ranks.

A trace function raises at one Python call of rank 2 or 3, which are the second site. The ranks then go on.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import collectives as co
import wirecodec as wc
from tests.collectives.injector import OWN, Injected, Injector
from tests.collectives.local_updates.test_any_request_fails import Requests, connect
from tests.oracles import Array

STEPS, BROKEN, SIZE = 8, 2, 40
TOPK = "topk(0.25) | rice | raw"


@dataclass
class Rank:
    """One rank of a program.

    Attributes:
        sites: of the rank.
        results: per call "ok", the reason of a CollectiveError, or the name of another exception.
        values: results of the exchanges that succeeded.
    """

    sites: co.Sites
    results: list[str] = field(default_factory=list)
    values: list[bytes] = field(default_factory=list)

    def call(self, step: int) -> bytes:
        """Make the call of a step; return what all ranks must have."""
        raise NotImplementedError

    @property
    def count(self) -> int:
        """Steps that were committed."""
        return 0


class Reducing(Rank):
    """Rank that averages gradients."""

    def __init__(self, sites: co.Sites, scheme: Any) -> None:
        super().__init__(sites)
        self.scheme = scheme

    def call(self, step: int) -> bytes:
        gradient = np.arange(SIZE, dtype=np.float32) * (self.sites.rank + 1)
        if isinstance(self.scheme, co.CLTk):
            return bytes(self.scheme.allreduce(self.sites, {"w": gradient})["w"])
        return bytes(co.allreduce(self.sites, {"w": gradient}, self.scheme)["w"])

    @property
    def count(self) -> int:
        return int(getattr(self.scheme, "step", 0))


class Moving(Rank):
    """Rank of local updates, which synchronizes if the ranks differ."""

    def __init__(self, sites: co.Sites, compressor: Any, **settings: Any) -> None:
        super().__init__(sites)
        self.w = np.zeros(SIZE)
        self.compressor = compressor
        self.local = co.LocalUpdates(None, {"w": self.w}, compressor, sites, every=1, **settings)

    def call(self, step: int) -> bytes:
        self.w += 12.0 * (self.sites.rank + 1) * np.arange(SIZE)
        try:
            self.local.step()
        except co.CollectiveError as error:
            if error.reason == "parameters":
                self.local.synchronize()
            raise
        return self.state.tobytes()

    @property
    def state(self) -> Array:
        return self.local._anchor.state.parameters["w"]

    @property
    def count(self) -> int:
        return self.local.round


class Joining(Moving):
    """Rank that synchronizes in each step."""

    def call(self, step: int) -> bytes:
        self.local.synchronize()
        return self.state.tobytes()


PROGRAMS: dict[str, Callable[[co.Sites], Rank]] = {
    "scheme": lambda sites: Reducing(sites, "all | raw-index | raw"),
    "Compressor": lambda sites: Reducing(sites, wc.Compressor(TOPK)),
    "CLTk": lambda sites: Reducing(sites, co.CLTk(0.25)),
    "OkTopK": lambda sites: Reducing(sites, co.OkTopK(0.25)),
    "LocalUpdates": lambda sites: Moving(sites, wc.Compressor(TOPK)),
    "LocalUpdates with CLTk": lambda sites: Moving(sites, co.CLTk(0.25)),
    "synchronize": lambda sites: Joining(sites, wc.Compressor(TOPK)),
}


def run(make: Callable[[co.Sites], Rank], faulty: int, broken: int, injector: Injector) -> list[Rank]:
    def rank(comm: Any) -> Rank:
        program = make(connect(comm, Requests(), sites=True))
        for step in range(STEPS):
            try:
                with injector.active() if (comm.rank, step) == (faulty, broken) else nullcontext():
                    value = program.call(step)
                program.results.append("ok")
                program.values.append(value)
            except co.CollectiveError as error:
                program.results.append(error.reason)
            except (Injected, MemoryError) as error:
                program.results.append(type(error).__name__)
        return program

    return co.simulate(4, rank)


def judge(ranks: list[Rank], faulty: int, broken: int, place: str) -> None:
    shown = f"at {place}: {[(one.results, one.count) for one in ranks]}"
    if not isinstance(ranks[0], Moving):  # which finds out later what counts
        assert len({one.count for one in ranks}) == 1, f"some sites have committed, {shown}"
    if any(one.sites.closed for one in ranks) and any("closed" in one.results for one in ranks):
        assert ranks[faulty].sites.closed, shown
        return
    for number, one in enumerate(ranks):
        results = one.results[:-1]  # a rank may have one call less than the others
        wrong = [x for x in results if x != "ok"]
        own = ("Injected", "MemoryError")
        assert results[-2:] == ["ok", "ok"], shown
        shared = [x for x in wrong if not (number == faulty and x in own) and x != "parameters"]
        # After an error of one site only, the other one learns of it in its next call.
        assert len(shared) <= (2 if isinstance(one, Moving) or broken == 0 else 1), shown
        assert wrong.count("parameters") <= 1, shown
    assert max(one.count for one in ranks) - min(one.count for one in ranks) == 0, shown
    assert len({one.values[-1] for one in ranks}) == 1, shown


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("broken", [0, BROKEN])
@pytest.mark.parametrize("faulty", [2, 3])
@pytest.mark.parametrize(
    "stride", [37, pytest.param(1, marks=[pytest.mark.nightly, pytest.mark.timeout(3600)])]
)
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_next_exchanges_work(name: str, stride: int, faulty: int, broken: int) -> None:
    for _ in range(2):  # the first run imports and compiles
        whole = Injector(OWN)
        judge(run(PROGRAMS[name], faulty, broken, whole), faulty, broken, "no exception")
    wrong = []
    for number in range(2, whole.calls + 1, stride):
        injector = Injector(OWN, number)
        try:
            judge(run(PROGRAMS[name], faulty, broken, injector), faulty, broken, injector.place)
        except (AssertionError, RuntimeError) as error:
            wrong.append(f"{number}: {str(error).splitlines()[0]}")
    assert not wrong, f"{len(wrong)} of {whole.calls} calls:\n" + "\n".join(wrong[:10])
