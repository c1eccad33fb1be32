"""Main function of the programs that a benchmark starts as MPI ranks."""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Callable, Mapping
from typing import Any

from mpi4py import MPI

__all__ = ["run_rank"]


def run_rank(run: Callable[[Any, Mapping[str, Any]], None]) -> int:
    """Call ``run(comm, plan)`` with the plan in the argument; an exception on one rank aborts all ranks.

    The plan is a JSON object. Returns the exit status.
    """
    try:
        run(MPI.COMM_WORLD, json.loads(sys.argv[1]))
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        MPI.COMM_WORLD.Abort(1)
    return 0
