"""How fast this network and these processors are: measured once a channel, in some tens of milliseconds.

Every rank passes messages to its right neighbour, as the collectives do: short ones for the latency, then
blocks that grow until one takes long enough to time. The ranks exchange what they measured and all go on with
the slowest, so that all of them compute with the same numbers. Under a simulated communicator, time is its
clock.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from collectives.channel import Channel
from collectives.communicator import Request
from collectives.rates import Rates
from collectives.transfer import AHEAD, SEGMENT, Side, transfer

__all__ = ["calibrate", "rates_of"]

_MESSAGES = 8  # short ones
_FIRST_BLOCK = SEGMENT
_LARGEST_BLOCK = 64 * SEGMENT
_ENOUGH = 4e-3  # seconds that a block must take to be timed
_TOUCHED = 2**18  # elements


def rates_of(channel: Channel) -> Rates:
    """What messages, bytes and elements cost here, measured at the first call, which all ranks make."""
    if channel.rates is None:
        channel.rates = calibrate(channel)
    return channel.rates


def calibrate(channel: Channel) -> Rates:
    """The rates of the slowest rank, alike on all ranks, which call this together. Raises Timeout."""
    now = _clock(channel.comm)
    if channel.size == 1:
        return Rates(0.0, 0.0, _seconds_an_element(now))
    _pass_on(channel, 1)  # the connection is made with the first message
    begin = now()
    for _ in range(_MESSAGES):
        _pass_on(channel, 1)
    alpha = _slowest(channel, (now() - begin) / _MESSAGES)
    size = _FIRST_BLOCK
    while True:
        begin = now()
        _pass_on(channel, size)
        taken = _slowest(channel, now() - begin)
        if taken >= _ENOUGH or size >= _LARGEST_BLOCK:
            break
        size *= 4
    beta = max(taken - alpha, taken / 2) / size
    return Rates(alpha, beta, _slowest(channel, _seconds_an_element(now)))


def _clock(comm: Any) -> Callable[[], float]:
    return (lambda: float(comm.clock)) if hasattr(comm, "clock") else time.perf_counter


def _pass_on(channel: Channel, nbytes: int) -> None:
    n, rank = channel.size, channel.rank
    block, room = np.zeros(nbytes, np.uint8), np.empty(nbytes, np.uint8)
    left, right = (rank - 1) % n, (rank + 1) % n
    transfer(
        channel,
        Side.of([(left, room)]),
        Side.of([(right, block)]),
        lambda received: received + AHEAD,
        "measuring the network",
    )
    channel.bytes_sent += nbytes


def _slowest(channel: Channel, seconds: float) -> float:
    mine = np.frombuffer(struct.pack("<d", seconds), np.uint8)
    table = np.empty(8 * channel.size, np.uint8)
    requests: list[Request] = []
    with channel.guard(requests):
        requests.append(channel.comm.Iallgather(mine, table))
        channel.wait(requests, "telling what was measured")
    channel.bytes_sent += 8 * (channel.size - 1)
    return float(table.view("<f8").max())


def _seconds_an_element(now: Callable[[], float]) -> float:
    """A few passes over an array too large for the innermost cache."""
    x = np.ones(_TOUCHED, np.float32)
    y = np.zeros_like(x)
    best = np.inf
    for _ in range(3):
        begin = now()
        np.add(x, y, out=y)
        best = min(best, now() - begin)
    return float(best) / _TOUCHED
