"""Compilation in a call: it is announced, and the other ranks wait for it under a longer deadline."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import collectives as co
from collectives.agreement.agree import Failure, agree
from collectives.agreement.compilation import rehearse_together, run_announced
from collectives.agreement.header import HEADER_SIZE, Header, Operand, Operation, Status
from collectives.simulation.communicator import SimulatedComm
from tests.mpi_processes import end_all, rank_environment, require_mpirun
from wirecodec.interop import CompilationNeeded

ROOT = Path(__file__).parents[2]
PROPOSAL = Header(operation=Operation.ALLGATHER_BYTES, payload_len=8)


@pytest.fixture
def deadlines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let simulated ranks announce compilations, as if they had deadlines."""
    monkeypatch.setattr(co.Channel, "has_deadlines", True)


class Work:
    """Work that needs a compilation when it is first run, on some ranks."""

    def __init__(self, *, cold: bool) -> None:
        self.cold = cold
        self.runs = 0

    def __call__(self) -> None:
        self.runs += 1
        if self.cold and self.runs == 1:
            raise CompilationNeeded


def step(channel: co.Channel, work: Work, operand: Operand, failure: Failure | None = None) -> list[Header]:
    run_announced(channel, work, lambda: (PROPOSAL, operand))
    return agree(channel, PROPOSAL, operand, failure)


@pytest.mark.parametrize(("cold", "exchanges"), [([], 1), ([1], 2), ([0, 2], 2), ([0, 1, 2], 2)])
def test_one_more_exchange_if_a_rank_compiles(cold: list[int], exchanges: int, deadlines: None) -> None:
    def fn(comm: SimulatedComm) -> tuple[int, int, int, list[int]]:
        channel, work = co.Channel(comm), Work(cold=comm.rank in cold)
        table = step(channel, work, Operand())
        assert channel.call.compilation_pending is False
        return work.runs, channel.sequence, channel.bytes_sent, [header.payload_len for header in table]

    sent = exchanges * 2 * HEADER_SIZE
    assert co.simulate(3, fn) == [(1 + (rank in cold), 1, sent, [8, 8, 8]) for rank in range(3)]


def test_only_the_repeated_exchange_has_the_long_deadline(
    deadlines: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fn(comm: SimulatedComm) -> list[float]:
        channel, seconds = co.Channel(comm, timeout=3, compile_timeout=70), []
        plain = channel.make_backoff

        def recording(what: str, *, headers: bool = False) -> object:
            backoff = plain(what, headers=headers)
            seconds.append(backoff._timeout)
            return backoff

        monkeypatch.setattr(channel, "make_backoff", recording)
        step(channel, Work(cold=comm.rank == 1), Operand())
        agree(channel, PROPOSAL, Operand())
        return seconds

    assert co.simulate(2, fn) == [[3, 70, 3]] * 2


def test_a_difference_is_found_before_the_compilation(deadlines: None) -> None:
    def fn(comm: SimulatedComm) -> tuple[str, tuple[int, ...], int, int]:
        channel, work = co.Channel(comm), Work(cold=comm.rank == 2)
        with pytest.raises(co.CollectiveError) as info:
            step(channel, work, Operand(dtype=1 + 3 * (comm.rank == 2)))
        step(channel, Work(cold=False), Operand())
        return info.value.reason, info.value.ranks, work.runs, channel.sequence

    assert co.simulate(3, fn) == [("dtype", (2,), 1, 2)] * 3


def test_a_failure_elsewhere_ends_the_call_before_the_compilation(deadlines: None) -> None:
    def fn(comm: SimulatedComm) -> tuple[str, tuple[int, ...], int]:
        channel, work = co.Channel(comm), Work(cold=comm.rank == 0)
        failure = Failure(Status.ENCODE, ValueError("broken")) if comm.rank == 1 else None
        with pytest.raises(co.CollectiveError, match="rank 1: encoding failed: ValueError: broken") as info:
            step(channel, work, Operand(), failure)
        return info.value.reason, info.value.ranks, work.runs

    assert co.simulate(2, fn) == [("encode", (1,), 1)] * 2


def test_a_part_that_was_chosen_late_is_rehearsed_once(deadlines: None) -> None:
    def fn(comm: SimulatedComm) -> tuple[int, int]:
        channel, work = co.Channel(comm), Work(cold=comm.rank == 1)
        for _ in range(3):
            rehearse_together(channel, "part", work, PROPOSAL, Operand())
        return work.runs, channel.sequence

    assert co.simulate(2, fn) == [(1, 1), (2, 1)]


def test_simulated_ranks_announce_nothing() -> None:
    """They have no deadlines, so their traffic does not depend on the cache."""

    def fn(comm: SimulatedComm) -> int:
        channel = co.Channel(comm)
        with pytest.raises(CompilationNeeded):
            run_announced(channel, Work(cold=True), lambda: (PROPOSAL, Operand()))
        return channel.bytes_sent

    assert co.simulate(2, fn) == [0, 0]


COLD = """
import os, sys, time
from mpi4py import MPI
comm = MPI.COMM_WORLD
if comm.rank == 1:
    os.environ["NUMBA_CACHE_DIR"] = sys.argv[1]
import numba
import numpy as np
import collectives as co
from tests.mpi_processes import die_with_parent

die_with_parent()
comm.Barrier()
x = np.random.default_rng(comm.rank).normal(size=3000).astype(np.float32)
channel = co.Channel(comm, timeout=2.5)  # shorter than the compilation
try:
    co.allreduce(channel, x.astype(np.float64) if comm.rank == 1 else x, SCHEME)
    verdict = "no error"
except co.CollectiveError as error:
    verdict = error.reason
comm.Barrier()
start = time.monotonic()
mean = co.allreduce(channel, x, SCHEME, algorithm="allgather")
seconds = time.monotonic() - start
both = comm.allgather(mean.tobytes())
longer = "longer" if seconds > channel.timeout else "shorter"
headers = channel.sequence, len(set(both))
os.write(1, f"rank {comm.rank}: {verdict}, {longer} than the timeout, {headers}\\n".encode())
""".replace("SCHEME", repr("topk(0.1) | rice | raw"))


def test_the_others_wait_for_a_rank_with_a_cold_cache(tmp_path: Path) -> None:
    """A dtype that only one rank has is an error at once, although that rank would have to compile."""
    script = tmp_path / "cold.py"
    script.write_text(COLD)
    co.simulate(1, lambda comm: co.allreduce(comm, np.ones(3000, np.float32), "topk(0.1) | rice | raw"))
    process = subprocess.Popen(
        [*require_mpirun(), "-n", "2", sys.executable, os.fspath(script), os.fspath(tmp_path / "cache")],
        env=rank_environment(tmp_path) | {"PYTHONPATH": os.fspath(ROOT)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        out = process.communicate(timeout=240)[0].decode()
    finally:
        end_all(process, tmp_path)
    expected = [f"rank {rank}: dtype, longer than the timeout, (2, 1)" for rank in range(2)]
    assert sorted(line for line in out.splitlines() if line.startswith("rank")) == expected, out
