"""Measurement of the network and the processors, once per channel, in some tens of milliseconds.

Every rank passes messages to its right neighbour, as the collectives do: short ones for the latency, then
growing blocks until one takes long enough to measure, or all of them have a step's bytes. Then all ranks
compute at the same time, as they do in a collective, for long enough that ranks that share cores all get
their turns. They measure a dense sum, and the decoding and adding of a container. The ranks exchange their
measurements. All use the slowest network and the median processor. With a simulated communicator, time is its
clock.
"""

from __future__ import annotations

import math
import struct
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

import wirecodec as wc
from collectives.channel import Channel
from collectives.communicator import count_equal_ring_bytes
from collectives.cost_model import Rates
from collectives.transport.segments import MAX_IN_FLIGHT, MAX_SEGMENT, SegmentList, transfer

SHORT_MESSAGES = 8
FIRST_BLOCK = MAX_SEGMENT  # bytes
MAX_BLOCK = 64 * MAX_SEGMENT  # bytes
MIN_BLOCK_SECONDS = 4e-3
ARRAY_SIZE = 2**21  # elements, too large for the inner caches
STORED_SPACING = 8  # of these elements, every eighth is stored
MIN_COMPUTE_SECONDS = 8e-3
MAX_REPETITIONS = 200


def get_rates(channel: Channel, max_bytes: float = math.inf) -> Rates:
    """Return the channel's rates; all ranks make the first call together, which measures them.

    Args:
        channel: open.
        max_bytes: as for ``calibrate``.
    """
    if channel.rates is None:
        channel.rates = calibrate(channel, max_bytes)
    return channel.rates


def calibrate(channel: Channel, max_bytes: float = math.inf) -> Rates:
    """Measure the rates, the same on all ranks; all ranks call this together.

    Args:
        channel: open; ``calibration_bytes`` counts what is sent.
        max_bytes: of all blocks that a rank sends, the same on all ranks. With few, beta is less exact.

    Raises:
        Timeout: a rank does not take part.
    """
    now = _get_clock(channel.comm)
    if channel.size == 1:
        gamma = _measure_element(now, *_make_dense_sum())
        return Rates(0.0, 0.0, gamma, _measure_element(now, *_make_sparse_sum()))
    pass_right(channel, 1)  # the first message opens the connection
    begin = now()
    for _ in range(SHORT_MESSAGES):
        pass_right(channel, 1)
    alpha = _max_over_ranks(channel, (now() - begin) / SHORT_MESSAGES)
    size, left = int(min(FIRST_BLOCK, max(1, max_bytes // 2))), max_bytes
    while True:
        begin = now()
        pass_right(channel, size)
        elapsed = _max_over_ranks(channel, now() - begin)
        left -= size
        if elapsed >= MIN_BLOCK_SECONDS or size >= MAX_BLOCK or 4 * size > left:
            break
        size *= 4
    beta = max(elapsed - alpha, elapsed / 2) / size
    gamma, delta = (
        _median_over_ranks(channel, _measure_element(now, *make()))
        for make in (_make_dense_sum, _make_sparse_sum)
    )
    return Rates(alpha, beta, gamma, delta)


def rehearse_calibration() -> None:
    """Call the kernels that ``calibrate`` needs, so that no rank compiles them while others wait."""
    work, _ = _make_sparse_sum()
    work()


def _get_clock(comm: Any) -> Callable[[], float]:
    return (lambda: float(comm.clock)) if hasattr(comm, "clock") else time.perf_counter


def pass_right(channel: Channel, nbytes: int) -> None:
    """Send a block to the right neighbour while receiving one from the left."""
    n, rank = channel.size, channel.rank
    block, buffer = np.zeros(nbytes, np.uint8), np.empty(nbytes, np.uint8)
    left, right = (rank - 1) % n, (rank + 1) % n
    channel.calibration_bytes += nbytes
    transfer(
        channel,
        SegmentList.from_blocks([(left, buffer)]),
        SegmentList.from_blocks([(right, block)]),
        lambda received: received + MAX_IN_FLIGHT,
        "the measurement of the network",
    )


def _max_over_ranks(channel: Channel, seconds: float) -> float:
    return float(_gather_seconds(channel, seconds).max())


def _median_over_ranks(channel: Channel, seconds: float) -> float:
    """Compute the median, which ignores a rank that was delayed for a moment."""
    return float(np.median(_gather_seconds(channel, seconds)))


def _gather_seconds(channel: Channel, seconds: float) -> npt.NDArray[np.float64]:
    """Gather every rank's measurement."""
    data = np.frombuffer(struct.pack("<d", seconds), np.uint8)
    table = np.empty(8 * channel.size, np.uint8)
    channel.calibration_bytes += count_equal_ring_bytes(len(data), channel.size)
    channel.gather(data, table, "the exchange of measurements")
    return table.view("<f8")


def _make_dense_sum() -> tuple[Callable[[], object], int]:
    """Return a function that adds two arrays, and their number of elements."""
    x = np.ones(ARRAY_SIZE, np.float32)
    y = np.zeros_like(x)
    return lambda: np.add(x, y, out=y), ARRAY_SIZE


def _make_sparse_sum() -> tuple[Callable[[], object], int]:
    """Return a function that decodes and adds a container, and its number of stored elements."""
    indices = np.arange(0, ARRAY_SIZE, STORED_SPACING, dtype=np.int32)  # a type that is compiled anyway
    stored = wc.SparseTensor(indices, np.ones(indices.size, np.float32), (ARRAY_SIZE,))
    blob, out = wc.encode(stored, "all | raw-index | raw"), np.zeros(ARRAY_SIZE, np.float32)
    return lambda: wc.decode_add(blob, out), indices.size


def _measure_element(now: Callable[[], float], work: Callable[[], object], elements: int) -> float:
    """Measure the seconds per element; the result is 0 on a clock that does not advance."""
    work()  # the first call is slower
    begin, elapsed, repetitions = now(), 0.0, 0
    while repetitions == 0 or (0 < elapsed < MIN_COMPUTE_SECONDS and repetitions < MAX_REPETITIONS):
        work()
        repetitions += 1
        elapsed = now() - begin
    return elapsed / repetitions / elements
