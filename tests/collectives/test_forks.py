"""A forked process is told at once that the communicator belongs to its parent, which goes on."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import collectives as co
from tests.collectives.test_nested import CALLS, GRADIENT, SCHEME, make_local

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")

OWN = {
    *("StoreComm", "allreduce of another channel", "Checkpointable"),
    *(f"LocalUpdates.{name}" for name in ("admit", "rebind", "revert", "load_state_dict")),
}
"""Calls that make a communicator of their own, or exchange nothing."""


def errors_in_fork(calls: Mapping[str, Callable[[], object]]) -> list[str]:
    """Return a line per call that did not say "closed", when it was made in a forked process."""
    readable, writable = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of threads in the parent
        process = os.fork()
    if process == 0:
        try:
            wrong = []
            for name, call in calls.items():
                try:
                    call()
                    wrong.append(f"{name}: no error")
                except co.CollectiveError as error:
                    if error.reason != "closed" or "after the fork" not in str(error):
                        wrong.append(f"{name}: {error}")
            os.write(writable, "\n".join(["end", *wrong]).encode())
        finally:
            os._exit(0)
    os.close(writable)
    with open(readable, encoding="utf-8") as answer:
        lines = answer.read().splitlines()
    os.waitpid(process, 0)
    assert lines[:1] == ["end"]
    return lines[1:]


def test_every_call_over_a_channel_is_refused() -> None:
    def rank(comm: Any) -> tuple[list[str], int]:
        channel = co.Channel.of(comm)
        local = make_local(channel)
        before = co.allreduce(channel, GRADIENT, SCHEME)[0].tobytes()
        calls: dict[str, Callable[[], object]] = {
            name: partial(CALLS[name], channel, local) for name in sorted(CALLS.keys() - OWN)
        }
        wrong = errors_in_fork(calls)
        assert co.allreduce(channel, GRADIENT, SCHEME)[0].tobytes() == before
        return wrong, channel.sequence

    assert co.simulate(1, rank) == [([], 2)]


def test_every_call_of_a_feed_is_refused(tmp_path: Path) -> None:
    publisher, subscriber = co.Publisher(str(tmp_path), "run"), co.Subscriber(str(tmp_path), "run")
    weights = {"w": np.zeros(1000, np.float32)}
    publisher.publish(weights)
    calls: dict[str, Callable[[], object]] = {
        "publish": lambda: publisher.publish({"w": np.ones(1000, np.float32)}),
        "latest": subscriber.latest,
        "update": lambda: subscriber.update({"w": np.zeros(1000, np.float32)}),
        "prepare": lambda: subscriber.prepare({"w": np.zeros(1000, np.float32)}),
    }
    assert errors_in_fork(calls) == []
    assert publisher.publish({"w": np.ones(1000, np.float32)}) == subscriber.update(weights)
    assert weights["w"].all()
