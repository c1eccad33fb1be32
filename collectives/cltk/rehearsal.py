"""Steps on one rank that reach the kernels of later steps, before the ranks wait for each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Any

import numpy as np

from collectives.cltk.residuals import MIN_KEPT
from collectives.communicator import Communicator
from collectives.exchange.specs import TensorSpec
from collectives.simulation.communicator import simulate

SIZE = 2**17
"""Elements from which a tensor of each type is computed past the caches."""


def rehearse_large(specs: Mapping[str, TensorSpec], make: Callable[[], Any]) -> None:
    """Take two steps with a large tensor of each type that has one: the second step has a residual.

    Args:
        specs: {name: (shape, dtype)} of the tensors.
        make: returns a CLTk with a ratio below 1.
    """
    for dtype in {dtype for shape, dtype in specs.values() if prod(shape) >= MIN_KEPT}:
        cltk, x = make(), np.resize(np.arange(1, 1000), SIZE).astype(dtype)
        out = np.empty_like(x)

        def train(comm: Communicator, cltk: Any = cltk, x: Any = x, out: Any = out) -> None:
            for _ in range(2):
                cltk.allreduce(comm, x, out=out)

        simulate(1, train)
