"""Exceptions on one rank in any part of any public call, after which that rank goes on with its next step.

Each step has values of its own, so a result shows which steps of the ranks were put together.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import collectives as co
import wirecodec as wc
from collectives.simulation.communicator import SimulatedComm
from tests.collectives.injector import OWN, Injected, Injector

FAULTY, RANKS, STEPS, BROKEN = 1, 2, 5, 2
LOSSLESS = "all | raw-index | raw"


class Program:
    """One rank of a program that calls a collective once per step.

    Args:
        comm: of the rank.

    Attributes:
        returns: whether to raise also when a function returns.
    """

    returns = False

    def __init__(self, comm: SimulatedComm) -> None:
        self.channel = co.Channel(comm, timeout=5)

    def prepare(self, step: int) -> None:
        """Compute the values of a step."""

    def call(self, step: int) -> Any:
        """Make the one public call of a step."""
        raise NotImplementedError

    def recover(self) -> None:
        """Do what the error that all ranks share asks for."""

    def read(self, found: Any) -> float:
        """Return the result of ``call`` as a number, 10^step if it has only this step's values."""
        return float(found["a"][0])

    def values(self, step: int) -> dict[str, Any]:
        return {"b": np.full(2000, 10.0**step, np.float32), "a": np.full(3, 10.0**step, np.float32)}


class Bytes(Program):
    def call(self, step: int) -> Any:
        return co.allgather_bytes(self.channel, bytes([step]) * 9)

    def read(self, found: Any) -> float:
        return float(10 ** np.mean([blob.mean() for blob in found]))


class Gathered(Program):
    def call(self, step: int) -> Any:
        return co.allgather(self.channel, self.values(step), LOSSLESS)

    def read(self, found: Any) -> float:
        return float(np.mean([each["a"].to_dense()[0] for each in found]))


class Reduced(Program):
    algorithm = "auto"

    def __init__(self, comm: SimulatedComm) -> None:
        super().__init__(comm)
        self.compressor = wc.Compressor(LOSSLESS)

    def call(self, step: int) -> Any:
        return co.allreduce(self.channel, self.values(step), self.compressor, algorithm=self.algorithm)


class Split(Reduced):
    algorithm = "split-pairs"


class Leading(Program):
    kind: Callable[[float], Any] = co.CLTk

    def __init__(self, comm: SimulatedComm) -> None:
        super().__init__(comm)
        self.method = type(self).kind(1.0)

    def call(self, step: int) -> Any:
        return self.method.allreduce(self.channel, self.values(step))


class Merged(Leading):
    kind = co.GTopK


class Owned(Leading):
    kind = co.OkTopK


class Averaged(Program):
    def __init__(self, comm: SimulatedComm) -> None:
        super().__init__(comm)
        torch = pytest.importorskip("torch")
        self.compressor = wc.Compressor(LOSSLESS)
        self.named = {name: torch.nn.Parameter(torch.zeros(4, 3)) for name in ("used", "unused", "sparse")}

    def prepare(self, step: int) -> None:
        import torch

        self.named["used"].grad = torch.full((4, 3), 10.0**step)
        self.named["unused"].grad = None
        self.named["sparse"].grad = torch.full((4, 3), 10.0**step).to_sparse(1)

    def call(self, step: int) -> Any:
        co.average_gradients(self.channel, self.named.items(), self.compressor)

    def read(self, found: Any) -> float:
        gradient = self.named["used"].grad
        assert gradient is not None
        return float(gradient[0, 0])


class Local(Program):
    """Movements of which each has its own size; the parameter ends with their sum."""

    def __init__(self, comm: SimulatedComm) -> None:
        super().__init__(comm)
        self.w = {"w": np.zeros(3, np.float64), "scale": np.array(0.0)}
        self.local = co.LocalUpdates(None, self.w, wc.Compressor(LOSSLESS), self.channel, every=1, momentum=0)

    def prepare(self, step: int) -> None:
        self.before = self.local.state_dict()["parameter/w"][0]
        for name in self.w:
            self.w[name] += 10.0**step

    def call(self, step: int) -> Any:
        self.local.exchange()

    def recover(self) -> None:
        self.local.synchronize()
        self.local.revert()

    def read(self, found: Any) -> float:
        return float(self.w["w"][0] - self.before)


class Stepping(Local):
    """Steps of an inner optimizer, of which every second one exchanges."""

    def __init__(self, comm: SimulatedComm) -> None:
        super().__init__(comm)
        self.size = 0.0
        self.local = co.LocalUpdates(self, self.w, wc.Compressor(LOSSLESS), self.channel, every=2)

    def step(self) -> None:
        for name in self.w:
            self.w[name] += self.size

    def prepare(self, step: int) -> None:
        self.before = self.local.state_dict()["parameter/w"][0]
        self.size = 10.0**step / 2
        self.local.step()

    def call(self, step: int) -> Any:
        self.local.step()


class Delaying(Local):
    """Steps that start an exchange in the channel's thread; the step after each one applies its result."""

    returns = True  # an exchange that was submitted runs, or it does not

    def __init__(self, comm: SimulatedComm) -> None:
        super().__init__(comm)
        compressor = wc.Compressor(LOSSLESS)
        self.local = co.LocalUpdates(None, self.w, compressor, self.channel, every=2, delay=1)
        self.local.step()

    def prepare(self, step: int) -> None:
        if self.local.inner_step == 0:  # after an exception, whose exchange may have a result
            self.local.step()
        super().prepare(step)

    def call(self, step: int) -> Any:
        self.local.step()

    def recover(self) -> None:
        super().recover()
        if self.local.inner_step == 0:  # the ranks differed
            self.local.step()

    def read(self, found: Any) -> float:
        self.local.step()
        return super().read(found)


class Joined(Program):
    """State of the rank that has taken part in the most exchanges."""

    def __init__(self, comm: SimulatedComm) -> None:
        super().__init__(comm)
        self.comm = comm

    def prepare(self, step: int) -> None:
        self.w = np.full(3, 10.0**step if self.comm.rank == 0 else 0.0)
        self.local = co.LocalUpdates(None, {"w": self.w}, wc.Compressor(LOSSLESS), self.channel, every=1)

    def call(self, step: int) -> Any:
        self.local.synchronize()

    def read(self, found: Any) -> float:
        return float(self.w[0])


PROGRAMS: dict[str, type[Program]] = {
    "allgather_bytes": Bytes,
    "allgather": Gathered,
    "allreduce": Reduced,
    "allreduce split-pairs": Split,
    "CLTk": Leading,
    "GTopK": Merged,
    "OkTopK": Owned,
    "average_gradients": Averaged,
    "LocalUpdates.exchange": Local,
    "LocalUpdates.step": Stepping,
    "LocalUpdates.step with delay": Delaying,
    "LocalUpdates.synchronize": Joined,
}


def run(make: type[Program], injector: Injector) -> list[list[Any]]:
    """Take steps on all ranks, with an exception in one, up to an error that all share; then go on.

    Returns per rank the results: 10^step, the reason of a CollectiveError, or the name of another exception.
    After an error that all share, further steps must work, unless a channel is closed.
    """

    def rank(comm: SimulatedComm) -> list[Any]:
        program = make(comm)
        found: list[Any] = []
        for step in range(STEPS):
            program.prepare(step)
            faulty = comm.rank == FAULTY and step == BROKEN
            try:
                with injector.active() if faulty else nullcontext():
                    result = program.call(step)
                found.append(program.read(result))
            except co.CollectiveError as error:
                found.append(error.reason)
                break
            except (Injected, MemoryError) as error:
                found.append(type(error).__name__)
        if found[-1] in ("sequence", "encode", "argument", "parameters"):
            program.recover()
            for step in range(STEPS, STEPS + 2):
                program.prepare(step)
                result = program.read(program.call(step))
                shared = {x.tobytes() for x in co.allgather_bytes(program.channel, np.array(result))}
                assert len(shared) == 1, f"after {found}, step {step}: {result}"
        return found

    return co.simulate(RANKS, rank)


def judge(results: list[list[Any]], place: str) -> None:
    """Assert that no result has values of two steps, and that all ranks end alike."""
    shown = f"at {place}: {results}"
    for found in results:
        for step, value in enumerate(found):
            assert isinstance(value, str) or value == 10.0**step, shown
    mine, other = results[FAULTY], results[1 - FAULTY]
    if mine[-1] == other[-1] == "sequence":
        assert mine[-2] in ("Injected", "MemoryError"), shown
        assert other[BROKEN] == "sequence", f"the exchange was made, and its result dropped: {shown}"
    elif "timeout" in (mine[-1], other[-1]):
        assert "closed" in (mine[-1], other[-1]), shown
    elif mine[BROKEN] in ("Injected", "MemoryError"):  # after all payloads: the step is taken
        assert other[BROKEN] == 10.0**BROKEN or other[-1] == mine[-1] == "parameters", shown
        assert mine[-1] == other[-1], shown
    else:
        assert mine == other, shown


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(
    "stride",
    [
        41,
        pytest.param(17, marks=pytest.mark.sweep),
        pytest.param(1, marks=[pytest.mark.nightly, pytest.mark.timeout(3600)]),
    ],
)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_rank_that_goes_on_is_never_matched_with_an_older_call(name: str, stride: int) -> None:
    for _ in range(2):  # the first run imports and compiles
        whole = Injector(OWN, returns=PROGRAMS[name].returns)
        judge(run(PROGRAMS[name], whole), "no exception")
    wrong = []
    for number in range(2, whole.calls + 1, stride):  # the first is the program's own call
        injector = Injector(OWN, number, PROGRAMS[name].returns)
        try:
            results = run(PROGRAMS[name], injector)
            if not (
                "call.py:" in injector.place and injector.place.endswith(" call")
            ):  # before the call begins
                judge(results, injector.place)
        except (AssertionError, RuntimeError) as error:
            wrong.append(f"{number}: {str(error).splitlines()[0]}")
    assert not wrong, f"{len(wrong)} of {whole.calls} points:\n" + "\n".join(wrong[:10])
