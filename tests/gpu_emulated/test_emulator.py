"""The emulator detects mistakes; otherwise, tests that pass on it would prove nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.gpu_emulated import mirror
from tests.gpu_emulated.conftest import device
from tests.gpu_emulated.emulator import Emulator
from wirecodec.kernels.cuda.device import THREADS

PROBE = Path(__file__).parent / "probe.cu"
U32, U64 = np.uint32, np.uint64


def test_detects_a_missing_barrier(probed: Emulator) -> None:
    for barrier in (True, False):
        out = probed.empty(THREADS, U32)
        probed.run(PROBE, "mirror", 1, out, U32(barrier))
        assert (out == np.arange(THREADS)[::-1]).all() == barrier


def test_detects_a_sum_that_is_not_atomic(probed: Emulator) -> None:
    for atomically in (True, False):
        out = probed.empty(THREADS // 32, U32)
        probed.run(PROBE, "tally", 1, out, U32(atomically))
        assert (out == 32).all() == atomically


def test_detects_deadlock(probed: Emulator) -> None:
    out = probed.empty(THREADS, U32)
    probed.run(PROBE, "crossed", 3, out, U32(False))
    assert (out == 0xFFFFFFFF).all()
    with pytest.raises(AssertionError, match="wait for each other"):
        probed.run(PROBE, "crossed", 3, out, U32(True))


def test_blocks_start_in_any_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without tickets, a block waits for one that cannot start."""
    monkeypatch.setattr("tests.gpu_emulated.emulator.MAX_TURNS", 20_000)
    for tickets in (True, False):
        emulator = device(1, 2)
        states, counter, out = emulator.empty(20, U64), emulator.empty(1, U32), emulator.empty(20, U32)
        emulator.clear(states)
        emulator.clear(counter)
        if tickets:
            emulator.run(PROBE, "chain", 20, states, counter, out, U32(1))
            assert (out == np.cumsum(np.arange(20))).all()
            continue
        with pytest.raises(AssertionError, match="does not end"):
            emulator.run(PROBE, "chain", 20, states, counter, out, U32(0))


def test_detects_writes_outside_an_array(probed: Emulator) -> None:
    out = probed.empty(10, U32)
    probed.run(PROBE, "beyond", 1, out, U32(9))
    with pytest.raises(AssertionError, match="outside an array"):
        probed.run(PROBE, "beyond", 1, out, U32(10))


def test_lanes_exchange_as_on_cuda(probed: Emulator) -> None:
    out = probed.empty(THREADS, U32)
    probed.run(PROBE, "exchanges", 1, out)
    lane = np.arange(THREADS) % 32
    up, down = np.where(lane >= 3, lane - 3, lane), np.where(lane < 29, lane + 3, lane)
    some = (np.arange(THREADS) // 32 == 2) << 20
    assert (out == (up | down << 5 | (lane ^ 5) << 10 | 9 << 15 | some | 496 << 21)).all()


def test_numbers_must_be_numpy_scalars(probed: Emulator) -> None:
    out = probed.empty(10, U32)
    for wrong in (3, 3.0, np.float32(3)):
        with pytest.raises(AssertionError, match="NumPy's integers"):
            probed.run(PROBE, "beyond", 1, out, wrong)


def test_argument_widths_are_checked(probed: Emulator, compiler: None) -> None:
    out = probed.empty(10, U32)
    with pytest.raises(AssertionError, match="has parameters"):
        probed.launch("packing", "pack_u8", 1, out, U32(1), U64(1), out)


def test_empty_arrays_are_null_pointers_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """NumPy's address of an empty slice is not inside its buffer, so the mirror could not find it."""
    monkeypatch.setattr(mirror, "cupy_device", lambda: None)
    monkeypatch.setattr(mirror.Mirror, "allocate", Emulator.allocate)
    made = mirror.Mirror()
    assert made._passed(made.empty(0, np.uint32)) == 0
    assert made._passed(made.put(np.arange(3, dtype=np.uint32))[3:]) == 0
