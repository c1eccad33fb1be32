"""Tasks that processes share: what another process compiles at the moment is left for later."""

from __future__ import annotations

from collections.abc import Sequence

from wirecodec.compilation.tasks import Task


def run_shared(groups: Sequence[Sequence[Task]], first: int = 0) -> None:
    """Run all tasks; one that needs a kernel of which another process holds the lock is run again later.

    Args:
        groups: of tasks, in any order.
        first: number of the group to begin with, modulo their number.
    """
    from wirecodec.kernels.compiler.compile_lock import KernelBusy, busy_kernels_raise

    first %= max(1, len(groups))
    left = [task for group in (*groups[first:], *groups[:first]) for task in group]
    while left:
        postponed: list[Task] = []
        busy: KernelBusy | None = None
        for task in left:
            try:
                with busy_kernels_raise():
                    task()
            except KernelBusy as error:
                busy = busy or error
                postponed.append(task)
        if busy is not None and len(postponed) == len(left) and not busy.lock.wait():
            postponed.pop(0)()  # the other process may be stopped: this one compiles for itself
        left = postponed
