"""``warm``: compile or load the kernels of a scheme before the first gradient."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from wirecodec.compilation.processes import HelperProcesses, count_processes
from wirecodec.compilation.sharing import run_shared
from wirecodec.compilation.tasks import Job, list_groups, list_jobs
from wirecodec.compressor import Compressor
from wirecodec.settings.rules import Key
from wirecodec.settings.scheme import SchemeLike


@dataclass(frozen=True)
class Warmth:
    """Result of ``warm``.

    Attributes:
        seconds: duration of the call.
        compiled: {kernel: seconds} of the kernels that this process compiled.
        loaded: number of kernels that were loaded from the disk cache, those of other processes included.
        cache: folder of the disk cache, or None if no folder is writable.

    Examples:
        >>> import wirecodec as wc
        >>> _ = wc.warm("all | rice | raw")
        >>> wc.warm("all | rice | raw").compiled
        {}
    """

    seconds: float
    compiled: Mapping[str, float]
    loaded: int
    cache: str | None


_done: set[Job] = set()
"""Jobs that this process has run; a kernel stays in memory until the process ends."""


def warm(
    scheme: SchemeLike | Mapping[Key, SchemeLike] | Compressor = None,
    dtype: Any = np.float32,
    *,
    feedback: bool = False,
    processes: int | None = None,
) -> Warmth:
    """Compile a scheme's kernels, or load them from the disk cache.

    Afterwards, tensors of this dtype are encoded, decoded and added without a compilation. An exception is a
    kernel that only rare inputs need, such as a tensor whose samples mislead the selector.

    If kernels are missing, other processes of this interpreter help to compile them, and end with the call.
    All processes that use one cache folder share the work: together, they start as many helpers as the
    machine has free cores.

    Args:
        scheme: a Scheme, its string, {key: scheme}, a Compressor, or None for lossless.
        dtype: float32, float16, bfloat16 or float64.
        feedback: True to include the kernels that update residuals. A Compressor sets this itself.
        processes: largest number of processes, this one included; 1 to start none. None for that of the
            environment variable WIRECODEC_COMPILE_PROCESSES. If it is not set: the number of usable cores, at
            most 8.

    Returns:
        A Warmth: the seconds, and the kernels that were compiled. A second call takes microseconds.

    Raises:
        EncodeError: the scheme, the dtype or the number of processes is not valid.

    Examples:
        >>> import wirecodec as wc
        >>> warmth = wc.warm("topk(0.01) | rice | qsgd(bits=4)", "float32")
        >>> warmth.seconds >= sum(warmth.compiled.values())
        True
    """
    start = time.perf_counter()
    limit = count_processes(processes)
    jobs = [job for job in list_jobs(scheme, dtype, feedback) if job not in _done]
    from wirecodec.kernels.compiler.compile_log import before_compilations, log
    from wirecodec.kernels.compiler.jit import cache_folder

    before = len(log)
    with HelperProcesses(jobs, limit) as helpers, before_compilations(helpers.start):
        run_shared([group for job in jobs for group in list_groups(job)])
    _done.update(jobs)
    entries = log[before:]
    compiled: dict[str, float] = {}
    for entry in entries:
        if entry.compiled:
            compiled[entry.kernel] = compiled.get(entry.kernel, 0.0) + entry.seconds
    loaded = sum(not entry.compiled for entry in entries)
    return Warmth(time.perf_counter() - start, compiled, loaded, cache_folder())
