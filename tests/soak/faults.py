"""Faults of the soak: what one rank does wrong in a step, and what all ranks then raise."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["FAULTS", "Fault"]


@dataclass(frozen=True)
class Fault:
    """Fault of one rank.

    Attributes:
        change: changes the gradients of that rank, in place.
        around: context in which that rank takes the step.
        reasons: of the CollectiveError on all ranks; empty if the step counts.
    """

    change: Callable[[dict[str, Any]], None] = lambda gradients: None
    around: Callable[[], Any] | None = None
    reasons: tuple[str, ...] = ()

    @property
    def is_of_values(self) -> bool:
        """Whether the tensors keep their shapes and types, as those of parameters do."""
        return self.reasons in ((), ("value",))


def _set_first(value: float) -> Callable[[dict[str, Any]], None]:
    def change(gradients: dict[str, Any]) -> None:
        name = min(gradients)
        gradients[name] = gradients[name].copy()
        gradients[name].reshape(-1)[:1] = value

    return change


def _reshape(gradients: dict[str, Any]) -> None:
    name = min(gradients)
    gradients[name] = np.zeros(gradients[name].size + 1, gradients[name].dtype)


@contextmanager
def _sleep() -> Iterator[None]:
    time.sleep(0.1)
    yield


@contextmanager
def _stop() -> Iterator[None]:
    """Stop this process for a moment at some time from now on."""
    pid = os.getpid()
    script = f"sleep 0.0{pid % 9}; kill -STOP {pid}; sleep 0.2; kill -CONT {pid}"
    helper = subprocess.Popen(["/bin/sh", "-c", script])
    try:
        yield
    finally:
        helper.wait()


class _Exhausted:
    """Tensor that cannot be described."""

    @property
    def shape(self) -> tuple[int, ...]:
        raise MemoryError("injected")


FAULTS: dict[str, Fault] = {
    "none": Fault(),
    "NaN": Fault(_set_first(np.nan), reasons=("value",)),
    "Inf": Fault(_set_first(np.inf), reasons=("value",)),
    "shape": Fault(_reshape, reasons=("shape", "encode")),
    "no array": Fault(
        lambda gradients: gradients.update({min(gradients): object()}), reasons=("encode", "argument")
    ),
    "late": Fault(around=_sleep),
    "stopped": Fault(around=_stop),
    "no memory": Fault(
        lambda gradients: gradients.update({min(gradients): _Exhausted()}), reasons=("encode",)
    ),
}
