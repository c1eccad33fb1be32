"""Parts of the measurements: each runs in a process of its own, and its result is kept on disk.

A run that was interrupted goes on with the parts that are missing. Results belong to one state of the code:
the folder's name is a digest of the library, of the measurements and of the numbers of steps. Modules
that only print or draw are left out: a new picture needs no new measurement.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.progress import Progress

from benchmarks.common.processes import one_thread
from benchmarks.common.store import ROOT, ResultStore

__all__ = ["Part", "Store", "run_missing"]

FOLDER = Path(__file__).parent / ".parts"
SOURCES = (
    "benchmarks/papers/*.py",
    "benchmarks/common/*.py",
    "benchmarks/demo/*.py",
    "benchmarks/training/models.py",
    "benchmarks/training/batches.py",
    "benchmarks/training/tasks/*.py",
    "collectives/**/*.py",
    "wirecodec/**/*.py",
)
PRESENTATION = (
    *("__main__.py", "command.py", "hosts.py", "mpi.py", "palette.py", "pictures.py", "ranks.py"),
    *("results.py", "tables.py"),
)
"""Files of these folders that change no result."""


@dataclass(frozen=True)
class Part:
    """One measurement.

    Attributes:
        name: "paper: subject", unique.
        run: function of a module.
        arguments: of the function; both can be pickled, as can the result.
    """

    name: str
    run: Callable[..., Any]
    arguments: tuple[Any, ...] = ()


class Store(ResultStore):
    """Results of parts, one file each.

    Args:
        settings: text of the settings that change results.
        folder: of all states of the code.
    """

    def __init__(self, settings: str, folder: Path = FOLDER) -> None:
        sources = (path for pattern in SOURCES for path in sorted(ROOT.glob(pattern)))
        super().__init__(settings, folder, (path for path in sources if path.name not in PRESENTATION))


def _measure(part: Part) -> tuple[Any, float]:
    """Run a part; return its result and CPU seconds."""
    before = time.process_time()
    result = part.run(*part.arguments)
    return result, time.process_time() - before


def run_missing(parts: Sequence[Part], store: Store, jobs: int, progress: Progress) -> None:
    """Run the parts without a result, in their order, and keep each result.

    Args:
        parts: all that are wanted.
        store: of the results.
        jobs: processes at a time.
        progress: shows the number of parts, and those that run.
    """
    missing = [part for part in parts if part.name not in store]
    bar = progress.add_task("all parts", completed=len(parts) - len(missing), total=len(parts))
    context = multiprocessing.get_context("spawn")
    with one_thread(), ProcessPoolExecutor(jobs, mp_context=context) as pool:
        active: dict[Future[Any], tuple[Part, Any]] = {}
        try:
            while missing or active:
                while missing and len(active) < jobs:
                    part = missing.pop(0)
                    shown = progress.add_task(part.name, total=1)
                    active[pool.submit(_measure, part)] = part, shown
                for future in wait(active, return_when=FIRST_COMPLETED).done:
                    part, shown = active.pop(future)
                    progress.remove_task(shown)
                    result, seconds = future.result()
                    store.save(part.name, result)
                    progress.advance(bar)
                    progress.console.print(f"{part.name}: {seconds:.1f} s of CPU", highlight=False)
        finally:
            pool.shutdown(cancel_futures=True)
