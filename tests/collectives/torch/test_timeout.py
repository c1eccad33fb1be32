"""Deadlines over torch.distributed: the group's timeout, and the ranks that a Timeout names."""

from __future__ import annotations

import pytest

from tests.collectives.torch.processes import run

pytest.importorskip("torch")

BODY = """
import datetime, time
group = dist.new_group(timeout=datetime.timedelta(seconds=100))
defaults = [co.Channel(co.TorchComm()).timeout, co.Channel(co.TorchComm(group)).timeout]
channel = co.Channel(co.TorchComm(group), timeout=1.5)
co.allgather_bytes(channel, b"x")
text, ranks, seconds = "", (), 0.0
if rank != 1:
    time.sleep(0.8 if rank else 0)
    start = time.monotonic()
    try:
        co.allgather_bytes(channel, b"x")
    except co.Timeout as error:
        text, ranks, seconds = str(error), error.ranks, time.monotonic() - start
dist.barrier()
print(json.dumps([defaults, text, ranks, seconds]))
"""


def test_the_group_s_timeout_is_the_default_and_a_timeout_names_the_missing_rank() -> None:
    results = run(3, BODY)
    for rank, (defaults, text, ranks, seconds) in enumerate(results):
        assert defaults == [1620, 90]  # 0.9 times 30 minutes, and 0.9 times 100 s
        if rank != 1:
            assert ranks == [1]
            assert "Rank 1 is missing: it last took part in exchange 0 (allgather-bytes)." in text
            assert seconds < 4
