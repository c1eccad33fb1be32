"""Interrupts of a rank before its first delayed exchange over gloo, whose connections are isolated then."""

from __future__ import annotations

import pytest

from tests.collectives.torch.processes import run

pytest.importorskip("torch")

PROGRAM = """
import _thread, time
from functools import partial

w = np.zeros(100, np.float32)
place, seen = {place!r}, []

class Inner:
    taken = 0
    def step(self):
        self.taken += 1
        w[:] += 1
        if rank == 1 and self.taken == 3 and place != "connection":
            if place == "late":  # the thread counts the skipped exchange when the next one waits for rank 0
                local._link.find().worker.submit(partial(time.sleep, 0.5))
            raise KeyboardInterrupt
        if rank == 0 and self.taken == 3 and place == "late":
            time.sleep(1.5)

def connect(*arguments):
    made = connect.original(*arguments)
    _thread.interrupt_main()
    return made

if rank == 1 and place == "connection":
    connect.original = dist.ProcessGroupGloo
    dist.ProcessGroupGloo = connect
local = co.LocalUpdates(Inner(), {{"w": w}}, wc.Compressor("all | raw-index | raw"), comm, 3, delay=1)
for step in range(1, 11 + 3 * rank):
    try:
        local.step()
    except (KeyboardInterrupt, co.CollectiveError) as error:
        if rank == 1 and place == "connection":
            dist.ProcessGroupGloo = connect.original
        seen.append([step, type(error).__name__, getattr(error, "reason", None)])
        time.sleep(0.5 if place == "early" else 0)
print(json.dumps([seen, local.round, w.tolist()[0], local._link.find().comm.is_isolated]))
sys.stdout.flush()
dist.barrier()
"""


@pytest.mark.parametrize("place", ["early", "late", "connection"])
def test_a_rank_that_skips_the_first_exchange_is_isolated_with_the_next(place: str) -> None:
    """It is an error of all, and no other step of that rank takes the place of the skipped one in silence.

    Rank 0 then waits after each third step for an exchange of rank 1 three steps later, so rank 1 takes three
    more. Their movements before the first result are of 6 and 9 steps, before the second of 2.
    """
    first, second = run(2, PROGRAM.format(place=place))
    failed = 4 if place == "connection" else 3  # the exchange itself, in the thread: raised when it is due
    assert first == [[[failed, "CollectiveError", "sequence"]], 2, 9.5, True]
    interrupted = [3, "KeyboardInterrupt", None]
    assert second == [[interrupted, [failed + 3, "CollectiveError", "sequence"]], 2, 9.5, True]
