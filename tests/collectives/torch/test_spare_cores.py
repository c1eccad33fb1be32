"""The default of ``overlap`` follows from the cores of all hosts, alike on all ranks."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import collectives as co
from collectives.channel import Channel
from collectives.torch import spare_cores

HOSTS = {
    "two cores for one rank": ([("a", [0, 1])], [False], True),
    "two cores for two ranks": ([("a", [0, 1]), ("a", [0, 1])], [False, False], False),
    "four cores for two ranks": ([("a", [0, 1, 2, 3])] * 2, [False, False], True),
    "ranks that are pinned to a core each": ([("a", [0]), ("a", [1])], [False, False], False),
    "ranks that are pinned to two cores each": ([("a", [0, 1]), ("a", [2, 3])], [False, False], True),
    "one host of two has too few": ([("a", [0, 1]), ("b", [0])], [False, False], False),
    "that host has a GPU": ([("a", [0, 1]), ("b", [0])], [False, True], True),
}


@pytest.mark.parametrize("case", HOSTS)
def test_all_ranks_decide_alike(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    hosts, on_gpu, expected = HOSTS[case]
    here = threading.local()
    monkeypatch.setattr(spare_cores, "_name_host", lambda: hosts[here.rank][0])
    monkeypatch.setattr(spare_cores, "_list_cores", lambda: hosts[here.rank][1])

    def decide(comm: Any) -> bool:
        here.rank = comm.rank
        return spare_cores.has_spare_cores(Channel.of(comm), on_gpu=on_gpu[comm.rank])

    assert co.simulate(len(hosts), decide) == [expected] * len(hosts)
