"""Main program of a helper process: it compiles kernels into the disk cache, and ends with its parent."""

from __future__ import annotations

import os
import threading
import time
from typing import Any

from wirecodec.compilation.sharing import run_shared
from wirecodec.compilation.tasks import Job, list_groups
from wirecodec.element_types import dtype_named
from wirecodec.settings.feedback import ErrorFeedback, MomentumCorrection
from wirecodec.settings.scheme import as_scheme

_RULES = {rule.__name__: rule for rule in (ErrorFeedback, MomentumCorrection)}
_PAUSE_SECONDS = 0.1


def main(parent: int, number: int, work: list[dict[str, Any]]) -> None:
    """Run the tasks of all jobs, beginning at another place than processes of other numbers.

    Args:
        parent: id of the process that waits for the kernels.
        number: of the slot.
        work: jobs, each from ``processes.describe``.
    """
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    jobs = [_read(description) for description in work]
    run_shared([group for job in jobs for group in list_groups(job)], number)
    os._exit(0)


def _read(description: dict[str, Any]) -> Job:
    """Make a job from its description."""
    scheme, dtype = as_scheme(description["scheme"]), dtype_named(description["dtype"])
    feedback = description["feedback"]
    rule = None if feedback is None else _RULES[feedback[0]](**feedback[1])
    return Job(scheme, dtype, rule, description["scheduled"], description["grouped"], description["weighted"])


def _end_with(parent: int) -> None:
    """End this process when its parent has ended, in whatever way."""
    while os.getppid() == parent:
        time.sleep(_PAUSE_SECONDS)
    os._exit(1)
