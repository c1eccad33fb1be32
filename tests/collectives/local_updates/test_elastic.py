"""Workers that die and join without a restart of the others, and errors of delayed exchanges."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import collectives as co
import wirecodec as wc
from collectives.communicator import Communicator
from collectives.local_updates.inner import InnerOptimizer
from tests.collectives.torch.processes import run, run_program
from tests.collectives.torch.server import HEAD
from tests.oracles import Array

DENSE, TOPK = "all | raw-index | raw", "topk(0.4) | raw-index | raw"

PROGRAM = """
import copy, threading, time
from datetime import timedelta
from collectives.agreement.header import Algorithm
from collectives.gloo.group import GroupComm
from collectives.tuning import choice

number, delay, scheme, dies = int(os.environ["RANK"]), int(sys.argv[1]), sys.argv[2], sys.argv[3]
GroupComm.gathers_any_size = False  # payloads travel around a ring
choice.choose_algorithm = lambda *_, **__: Algorithm.ALLGATHER
store = dist.TCPStore(
    "127.0.0.1", int(os.environ["MASTER_PORT"]), None, is_master=number == 0, timeout=timedelta(seconds=60)
)

def make_comm(name, members):
    prefix, rank, size = dist.PrefixStore(name, store), members.index(number), len(members)
    group = dist.ProcessGroup(prefix, rank, size)
    backend = dist.ProcessGroupGloo(prefix, rank, size, timedelta(seconds=20))
    group._set_default_backend(dist.ProcessGroup.BackendType.GLOO)
    group._register_backend(torch.device("cpu"), dist.ProcessGroup.BackendType.GLOO, backend)
    return co.TorchComm(group)

w = torch.nn.Parameter(torch.zeros(6000))
compressor = wc.Compressor(scheme)
moved = np.zeros(6000)  # the sum of this worker's steps

def train(local, steps):
    for _ in range(steps):
        step = np.random.default_rng([number, train.count]).normal(size=6000).astype(np.float32)
        step *= local.inner_step >= delay  # a result replaces what was moved during its delay
        train.count += 1
        moved[:] += step
        with torch.no_grad():
            w.add_(torch.from_numpy(step))
        local.step()

def measure(local, compressor):
    residual = compressor.residual("w")
    return local._anchor.measure_all(["w"])["w"] + (0 if residual is None else residual)

def get_state(local):
    return local._anchor.state.parameters["w"].tolist()

def die_while_forwarding(comm):
    "Send this worker's payload, and end before that of another worker is forwarded."
    bound, twin = comm.bound(), copy.copy(compressor)
    start, sent = bound.Isend, []

    class Never:
        def Test(self):
            return False

    def send(buffer, dest, tag=0):
        if sum(sent) < die_while_forwarding.payload:
            sent.append(buffer.nbytes)
            return start(buffer, dest, tag)
        if not die_while_forwarding.timer.is_alive():
            twin.compress(local._anchor.measure_all(["w"]), rank=2, ranks=3)
            residual = twin.residual("w")
            print(json.dumps((moved + (0 if residual is None else residual)).tolist()), flush=True)
            die_while_forwarding.timer.start()
        return Never()

    bound.Isend = send

die_while_forwarding.timer = threading.Timer(1.5, os._exit, [0])  # the others have sent all by then
train.count = 0
made = lambda comm: co.LocalUpdates(None, {"w": w}, compressor, comm, 3, delay=delay)
names, states = [], []
if number < 3:
    comm = make_comm("first", [0, 1, 2])
    local = made(comm)
    try:
        train(local, 3 + delay)
        if number == 2 and dies == "forwarding":
            die_while_forwarding.payload = len(copy.copy(compressor).prepare({"w": moved.astype("f4")}).blob)
            die_while_forwarding(comm)
        train(local, 3 + (delay == 0))
        if number == 2 and dies == "between":
            print(json.dumps((moved + measure(local, compressor)).tolist()), flush=True)
            os._exit(0)  # as a killed process: its sockets close
        train(local, 6)
    except co.CollectiveError as error:
        names.append(type(error).__name__)
    local.rebind(make_comm("second", [0, 1]))
    names += [local.round, local.synchronize()]
    states.append(get_state(local))
    before = local.round
    train(local, 6 + delay)
    names.append(local.round - before)
    local.rebind(make_comm("third", [0, 1, 3]))
else:
    local = made(make_comm("third", [0, 1, 3]))
joined = local.synchronize()
states.append(get_state(local))
train(local, 6)
local.exchange()
states.append(get_state(local))
residual, bits = compressor.residual("w"), w.detach().numpy().tobytes().hex()
has_residual = residual is not None and bool(residual.any())
total = (moved + measure(local, compressor)).tolist()
print(json.dumps([names, joined, local.round, bits, has_residual, total, states]))
sys.stdout.flush()
store.set(f"done {number}", "")
store.wait([f"done {other}" for other in (0, 1, 3)])
"""


@pytest.mark.parametrize(
    ("delay", "scheme", "dies"),
    [
        (0, DENSE, "between"),
        (2, TOPK, "between"),
        (0, TOPK, "forwarding"),
        (2, TOPK, "forwarding"),
    ],
)
def test_a_worker_dies_and_another_joins(delay: int, scheme: str, dies: str) -> None:
    """Real processes over gloo; the others go on within one exchange, with equal parameters.

    A worker dies between two exchanges; or while it forwards another one's payload, so that its right
    neighbour does not complete an exchange, and the other neighbour does.
    """
    pytest.importorskip("torch")
    outputs = run_program(4, HEAD + PROGRAM, [str(delay), scheme, dies])
    rows = [json.loads(outputs[number].splitlines()[-1]) for number in (0, 1, 3)]
    (first, second, third), joined = [row[0] for row in rows], [row[1] for row in rows]
    for error, *_ in (first, second):
        assert error in ("CollectiveError", "Timeout", "TransportError")
    rounds = [2, 2] if dies == "between" else [1, 2]
    assert [first[1], second[1]] == rounds, "exchanges before the death"
    assert [first[2], second[2]] == [dies == "forwarding", False], "states that were taken over"
    assert first[3] == second[3] == 2, "exchanges after the death"
    assert third == []
    assert joined == [False, False, True]
    assert len({(row[2], row[3]) for row in rows}) == 1
    assert all(row[4] == (scheme != DENSE) for row in rows)
    totals = [np.array(row[5]) for row in rows]  # of what each worker has moved, and the others have
    dead = np.array(json.loads(outputs[2].splitlines()[-1]))
    after_death, before_join, end = map(np.array, rows[0][6])
    taken = 3 * after_death + 2 * (before_join - after_death) + 3 * (end - before_join)
    np.testing.assert_allclose(taken, sum(totals) + dead, atol=1e-3)


def make_local(comm: Communicator, w: Array, **settings: Any) -> co.LocalUpdates:
    return co.LocalUpdates(None, {"w": w}, wc.Compressor(DENSE), comm, 3, **settings)


def test_nan_on_a_rank_is_an_error_of_all_when_the_result_is_due() -> None:
    """The movement of that period is in the next exchange."""

    def train(comm: Communicator) -> tuple[list[float], int]:
        w = np.zeros(2, np.float32)
        local = make_local(comm, w, delay=2)
        for step in range(1, 9):
            w += 1
            if step == 3 and comm.rank == 1:
                w[0] = np.nan
            if step == 5:
                with pytest.raises(co.CollectiveError, match=r"'w': the result is not finite"):
                    local.step()
                if comm.rank == 1:
                    local.revert()
            else:
                assert local.step() == (step == 8)
        return w.tolist(), local.round

    # After step 6, rank 0 has moved by 6, and rank 1, which reverted after step 5, by 1.
    assert co.simulate(2, train) == [([3.5, 3.5], 1)] * 2


def test_a_step_that_fails_on_a_rank_skips_its_exchange() -> None:
    def train(comm: Communicator) -> list[Any]:
        w = np.zeros(2, np.float32)
        local = make_local(comm, w, delay=1)

        class Broken:
            def step(self) -> None:
                raise ZeroDivisionError

        seen: list[Any] = []
        for step in range(1, 11):
            w += 1
            local._optimizer = InnerOptimizer(Broken()) if comm.rank == 1 and step == 3 else None
            try:
                local.step()
            except (co.CollectiveError, ZeroDivisionError) as error:
                seen.append((step, type(error).__name__))
        return [*seen, local.round, local._anchor.state.parameters["w"].tolist()]

    # As without delay, rank 0 has to wait for the next exchange of rank 1, after 9 steps.
    first, second = co.simulate(2, train)
    assert first[-2:] == second[-2:] == [1, [7.5, 7.5]]
    assert first[0] == (4, "CollectiveError")
    assert second[:2] == [(3, "ZeroDivisionError"), (7, "CollectiveError")]


def test_an_interrupt_of_the_wait_leaves_the_exchange_open(monkeypatch: pytest.MonkeyPatch) -> None:
    def train(comm: Communicator) -> tuple[int, list[float]]:
        w = np.zeros(2, np.float32)
        local = make_local(comm, w, delay=1)
        for _ in range(3):
            w += 1
            local.step()
        one = local._delayed.waiting[0]
        wait = one.wait

        def interrupted() -> None:
            one.wait = wait  # type: ignore[method-assign]
            raise KeyboardInterrupt

        one.wait = interrupted  # type: ignore[method-assign]
        w += 1
        with pytest.raises(KeyboardInterrupt):
            local.step()
        assert local.round == 0
        w += 1
        assert local.step()
        return local.round, w.tolist()

    assert co.simulate(2, train) == [(1, [3.0, 3.0])] * 2


def test_collectives_of_torch_run_beside_a_delayed_exchange() -> None:
    pytest.importorskip("torch")
    body = """
import time
w = np.zeros(50_000, np.float32)
local = co.LocalUpdates(None, {"w": w}, wc.Compressor("all | raw-index | raw"), comm, 2, delay=1)
total = torch.zeros(1, dtype=torch.int64)
for step in range(1, 41):
    w += 1 + rank
    local.step()
    time.sleep(0.001 * rank)
    dist.barrier()
    total += 1
    dist.all_reduce(total)
local.exchange()
print(json.dumps([local.round, float(w[0]), float(w[-1]), int(total)]))
"""
    # The first movement is of two steps. A result replaces the step during its exchange.
    expected = [21, 1.5 * (2 + 19), 1.5 * (2 + 19), 2 * (2**40 - 1)]
    assert run(2, body) == [expected, expected]
