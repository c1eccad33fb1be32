"""Any failure of one rank in any collective: the same error on all ranks, no hang, a usable communicator.

Results without failures have the same bits everywhere. One test per world runs the tables of operations.py; a
rank that stops or dies needs its own job.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import collectives as co
import wirecodec as wc
from collectives.communicator import Communicator
from collectives.simulation.communicator import SimulatedComm
from tests.collectives.conftest import World
from tests.collectives.operations import FAILURES, OPERATIONS, Odd, contribution
from tests.mpi_processes import (
    die_with_parent,
    end_all,
    find_processes,
    find_shared_memory,
    rank_environment,
    require_mpirun,
)

WORLDS = [pytest.param(World(n, True), id=f"simulated-{n}") for n in (2, 4, 5)]
WORLDS += [
    pytest.param(
        World(n, False),
        id=f"mpi-{n}",
        marks=[pytest.mark.mpi(n, timeout=150), *([pytest.mark.sweep] if n == 5 else [])],
    )
    for n in (2, 4, 5)
]
ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def odd_codec(own_registry: None) -> None:
    """Register the codec for the test."""
    wc.register(Odd)


SMALL = 1500  # elements; the failures occur before the payloads


def verdicts(channel: co.Channel, operation: str) -> dict[str, object]:
    """Run the last rank's failures in one operation; return {failure: error or result}."""
    call = OPERATIONS[operation].call
    right = contribution(channel.rank, SMALL)
    found: dict[str, object] = {}
    for failure in sorted(OPERATIONS[operation].notices):
        case = FAILURES[failure]
        fails = channel.rank == channel.size - 1
        channel.sequence += int(fails and case.skips)
        try:
            found[failure] = call(channel, case.change(right) if fails else right)
        except co.CollectiveError as error:
            found[failure] = (type(error).__name__, error.reason, error.ranks, str(error))
    return found | {"afterwards": call(channel, right)}


@pytest.mark.parametrize("world", WORLDS)
def test_one_verdict_for_every_failure_of_every_operation(world: World) -> None:
    def everything(comm: Communicator) -> dict[str, dict[str, object]]:
        channel = co.Channel(comm, timeout=20)
        return {operation: verdicts(channel, operation) for operation in OPERATIONS}

    every = world.run(everything)
    right = co.simulate(world.n, lambda comm: right_results(comm, SMALL))[0]
    for operation, found in every[0].items():
        assert [other[operation] for other in every] == [found] * world.n, operation
        assert found.pop("afterwards") == right[operation], operation
        for failure, what in found.items():
            reason = FAILURES[failure].reason
            if reason is None:
                assert isinstance(what, bytes), (operation, failure)
            else:
                assert isinstance(what, tuple), (operation, failure)
                assert what[:3] == ("CollectiveError", reason, (world.n - 1,)), (operation, failure, what)


def right_results(comm: Communicator, size: int = 9000) -> dict[str, bytes]:
    return {
        operation: each.call(co.Channel(comm), contribution(comm.rank, size))
        for operation, each in OPERATIONS.items()
    }


@pytest.mark.parametrize("world", WORLDS)
def test_the_bits_are_those_of_every_other_rank_run_and_network(world: World) -> None:
    """Simulated ranks and all algorithms also have the same bits."""
    first, second = world.run(right_results), world.run(right_results)
    assert first == [first[0]] * world.n
    assert second == first
    assert co.simulate(world.n, right_results) == first
    algorithms = [name for name in OPERATIONS if name.startswith("allreduce")]
    assert len({first[0][name] for name in algorithms}) == 1


@pytest.mark.parametrize("n", [2, 4, 5])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_simulated_rank_that_leaves_or_dies(n: int, operation: str) -> None:
    call = OPERATIONS[operation].call

    def leaves(comm: SimulatedComm) -> str:
        if comm.rank == n - 1:
            return "left"
        with pytest.raises(co.Timeout):
            call(co.Channel(comm), contribution(comm.rank))
        return "Timeout"

    def dies(comm: SimulatedComm) -> None:
        if comm.rank == n - 1:
            raise ZeroDivisionError
        call(co.Channel(comm), contribution(comm.rank))

    assert co.simulate(n, leaves) == ["Timeout"] * (n - 1) + ["left"]
    with pytest.raises(ZeroDivisionError):
        co.simulate(n, dies)


# ---- ranks that stop, or die ----

HEAD = """
import os, signal, sys, time
from pathlib import Path
import collectives as co
import wirecodec as wc
from mpi4py import MPI
from tests.collectives.operations import OPERATIONS, Odd, contribution
from tests.mpi_processes import die_with_parent

die_with_parent()
wc.register(Odd)
world = MPI.COMM_WORLD
odd = world.size - 1
right = contribution(world.rank)

def say(text):
    os.write(1, f"{text}\\n".encode())
"""

STOPPED = (
    HEAD
    + """
calls = []
for n in map(int, sys.argv[1:]):  # the stopped rank, and n-1 others
    takes_part = world.rank >= world.size - n
    some, alive = world.Split(takes_part), world.Split(takes_part and world.rank < odd)
    if takes_part:
        calls += [(n, name, some.Dup(), alive) for name in OPERATIONS]
for n, name, comm, alive in calls:
    OPERATIONS[name].call(co.Channel(comm), right)
world.Barrier()
if world.rank == odd:
    os.kill(os.getpid(), signal.SIGSTOP)
for n, name, comm, alive in calls:
    alive.Barrier()
    channel = co.Channel(comm, timeout=0.2)
    start = time.monotonic()
    try:
        OPERATIONS[name].call(channel, right)
        verdict = "no error"
    except co.Timeout:
        verdict = "Timeout"
    took = time.monotonic() - start
    say(f"{name} on {comm.rank} of {n}: {verdict} {'in time' if 0.2 <= took <= 0.7 else took}")
time.sleep(60)  # the test ends all ranks: MPI_Finalize would wait for the abandoned requests
os._exit(1)
"""
)

KILLED = (
    HEAD
    + """
name = sys.argv[1]
OPERATIONS[name].call(co.Channel(world), right)
if world.rank == odd:
    os.kill(os.getpid(), signal.SIGKILL)
OPERATIONS[name].call(co.Channel(world, timeout=5), right)
"""
)


def lines_of(folder: Path, n: int, script: str, *arguments: str, until: int) -> tuple[list[str], int | None]:
    """Collect output lines of a job until there are ``until`` or it ends; also return its exit status."""
    path = folder / "script.py"
    path.write_text(script)
    process = subprocess.Popen(
        [*require_mpirun(), "-n", str(n), sys.executable, os.fspath(path), *arguments],
        env=rank_environment(folder) | {"PYTHONPATH": os.fspath(ROOT)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=die_with_parent,  # noqa: PLW1509 - there is no other thread
    )
    assert process.stdout is not None
    os.set_blocking(process.stdout.fileno(), False)
    said, shared = b"", set[Path]()
    deadline = time.monotonic() + 90
    try:
        while said.count(b"\n") < until and time.monotonic() < deadline and process.poll() is None:
            with contextlib.suppress(BlockingIOError):
                said += process.stdout.read() or b""
            shared |= find_shared_memory(folder)  # before mpirun ends the ranks, to which the files belong
            time.sleep(0.2)  # the search reads /proc
        return said.decode().splitlines(), process.poll()
    finally:
        end_all(process, folder, shared)
        process.stdout.close()


def test_a_stopped_rank_is_a_timeout_on_the_others_in_every_operation(tmp_path: Path) -> None:
    """It is raised within the deadline and half a second, on 2, 4 and 5 ranks of one job."""
    counts = (2, 4, 5)
    want = [
        f"{name} on {rank} of {n}: Timeout in time"
        for n in counts
        for name in OPERATIONS
        for rank in range(n - 1)
    ]
    said, status = lines_of(tmp_path, max(counts), STOPPED, *map(str, counts), until=len(want))
    assert sorted(said) == sorted(want)
    assert status is None
    assert find_processes(tmp_path) == []


@pytest.mark.parametrize(
    ("n", "operation"),
    [
        (2, "allreduce dense"),
        pytest.param(4, "CLTk.allreduce", marks=pytest.mark.sweep),
        pytest.param(5, "allgather_bytes", marks=pytest.mark.sweep),
    ],
)
def test_a_killed_rank_ends_the_others(n: int, operation: str, tmp_path: Path) -> None:
    """mpirun ends them, or their deadline does."""
    _, status = lines_of(tmp_path, n, KILLED, operation, until=1)
    assert status not in (None, 0)
    assert find_processes(tmp_path) == []
