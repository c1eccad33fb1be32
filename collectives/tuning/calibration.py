"""How fast this network and these processors are: measured once a channel, in some tens of milliseconds.

Every rank passes messages to its right neighbour, as the collectives do: short ones for the latency, then
blocks that grow until one takes long enough to time. Then all of them compute at once, as they do in a
collective, long enough for each to have its turns where they share cores: a dense sum, and a container's
elements, decoded and added. The ranks exchange what they measured and all go on with the same numbers, the
slowest of the network, and the usual ones of the processors. Under a simulated communicator, time is its
clock.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

import wirecodec as wc
from collectives.channel import Channel, gathered_bytes
from collectives.rates import Rates
from collectives.transport.segments import AHEAD, SEGMENT, Side, transfer

__all__ = ["calibrate", "rates_of"]

_MESSAGES = 8  # short ones
_FIRST_BLOCK = SEGMENT
_LARGEST_BLOCK = 64 * SEGMENT
_ENOUGH = 4e-3  # seconds that a block must take to be timed
_ELEMENTS = 2**21  # of an array too large for the inner caches
_SPACING = 8  # of those of them that are stored
_LONG = 8e-3  # seconds of a computation
_OFTEN = 200  # times that it is made, at most


def rates_of(channel: Channel) -> Rates:
    """What messages, bytes and elements cost here, measured at the first call, which all ranks make."""
    if channel.rates is None:
        channel.rates = calibrate(channel)
    return channel.rates


def calibrate(channel: Channel) -> Rates:
    """The rates of the slowest rank, alike on all ranks, which call this together. Raises Timeout."""
    now = _clock(channel.comm)
    if channel.size == 1:
        return Rates(0.0, 0.0, _pace(now, *_dense_sum()), _pace(now, *_sparse_sum()))
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
    gamma, delta = (_usual(channel, _pace(now, *work())) for work in (_dense_sum, _sparse_sum))
    return Rates(alpha, beta, gamma, delta)


def _clock(comm: Any) -> Callable[[], float]:
    return (lambda: float(comm.clock)) if hasattr(comm, "clock") else time.perf_counter


def _pass_on(channel: Channel, nbytes: int) -> None:
    n, rank = channel.size, channel.rank
    block, room = np.zeros(nbytes, np.uint8), np.empty(nbytes, np.uint8)
    left, right = (rank - 1) % n, (rank + 1) % n
    channel.bytes_sent += nbytes
    transfer(
        channel,
        Side.of([(left, room)]),
        Side.of([(right, block)]),
        lambda received: received + AHEAD,
        "measuring the network",
    )


def _slowest(channel: Channel, seconds: float) -> float:
    return float(_told(channel, seconds).max())


def _usual(channel: Channel, seconds: float) -> float:
    """A rank that was held up for a moment does not count."""
    return float(np.median(_told(channel, seconds)))


def _told(channel: Channel, seconds: float) -> npt.NDArray[np.float64]:
    """What every rank measured."""
    mine = np.frombuffer(struct.pack("<d", seconds), np.uint8)
    table = np.empty(8 * channel.size, np.uint8)
    channel.bytes_sent += gathered_bytes(len(mine), channel.size)
    channel.gather(mine, table, "telling what was measured")
    return table.view("<f8")


def _dense_sum() -> tuple[Callable[[], object], int]:
    """A sum, and how many elements it has."""
    x = np.ones(_ELEMENTS, np.float32)
    y = np.zeros_like(x)
    return lambda: np.add(x, y, out=y), _ELEMENTS


def _sparse_sum() -> tuple[Callable[[], object], int]:
    """A container that is decoded and added, and how many elements it stores."""
    where = np.arange(0, _ELEMENTS, _SPACING)
    stored = wc.SparseTensor(where, np.ones(where.size, np.float32), (_ELEMENTS,))
    blob, out = wc.encode(stored, "all | raw-index | raw"), np.zeros(_ELEMENTS, np.float32)
    return lambda: wc.decode_add(blob, out), where.size


def _pace(now: Callable[[], float], work: Callable[[], object], elements: int) -> float:
    """Seconds an element; 0 where no time passes."""
    work()  # it may be compiled first
    begin, taken, times = now(), 0.0, 0
    while times == 0 or (0 < taken < _LONG and times < _OFTEN):
        work()
        times += 1
        taken = now() - begin
    return taken / times / elements
