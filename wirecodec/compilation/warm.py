"""``warm``: compile or load the kernels of a scheme before the first gradient.

The kernels are reached by running the scheme on synthetic tensors, so no list of them can become outdated.
"""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from wirecodec.arrays import Array, dtype_named
from wirecodec.compilation.inputs import SAMPLED, make_large_tensor, make_supports, make_tensors
from wirecodec.compressor import Compressor
from wirecodec.container.checksum import MIN_KERNEL_BYTES, compute_checksum
from wirecodec.errors import EncodeError
from wirecodec.index.auto import AutoIndex
from wirecodec.index.base import IndexChoice
from wirecodec.index.raw import RawIndex
from wirecodec.pipeline import decode, decode_add, encode, encode_many
from wirecodec.select.all import All
from wirecodec.select.nonzero import NonZero
from wirecodec.settings.feedback import ErrorFeedback, Feedback, list_feedback
from wirecodec.settings.rules import Key
from wirecodec.settings.scheme import Scheme, SchemeLike, as_scheme
from wirecodec.sparse import SparseTensor
from wirecodec.transform.base import coefficient_type
from wirecodec.value.auto import AutoValue
from wirecodec.value.raw import Raw

_WARM_UP_RATIO = 0.3
"""Density of the first steps of a schedule, at which selectors take another path."""


@dataclass(frozen=True)
class Warmth:
    """Result of ``warm``.

    Attributes:
        seconds: duration of the call.
        compiled: {kernel: seconds} of the kernels that were compiled.
        loaded: number of kernels that were loaded from the disk cache.
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


@dataclass(frozen=True)
class _Job:
    """Kernels that one scheme needs for tensors of one dtype.

    Attributes:
        scheme: the scheme.
        dtype: the element type.
        feedback: rule of the residual, or None without one.
        scheduled: True if the selector's ratio changes from step to step.
        grouped: True if tensors are selected as one vector.
        weighted: True if the errors of a group have weights.
    """

    scheme: Scheme
    dtype: np.dtype[Any]
    feedback: Feedback | None
    scheduled: bool
    grouped: bool = False
    weighted: bool = False


_done: set[_Job] = set()
"""Jobs that this process has run; a kernel stays in memory until the process ends."""


def warm(
    scheme: SchemeLike | Mapping[Key, SchemeLike] | Compressor = None,
    dtype: Any = np.float32,
    *,
    feedback: bool = False,
) -> Warmth:
    """Compile a scheme's kernels, or load them from the disk cache.

    Afterwards, tensors of this dtype are encoded, decoded and added without a compilation. An exception is a
    kernel that only rare inputs need, such as a tensor whose samples mislead the selector.

    Args:
        scheme: a Scheme, its string, {key: scheme}, a Compressor, or None for lossless.
        dtype: float32, float16, bfloat16 or float64.
        feedback: True to include the kernels that update residuals. A Compressor sets this itself.

    Returns:
        A Warmth: the seconds, and the kernels that were compiled. A second call takes microseconds.

    Raises:
        EncodeError: the scheme or the dtype is not valid.

    Examples:
        >>> import wirecodec as wc
        >>> warmth = wc.warm("topk(0.01) | rice | qsgd(bits=4)", "float32")
        >>> warmth.seconds >= sum(warmth.compiled.values())
        True
    """
    start = time.perf_counter()
    jobs = [job for job in _list_jobs(scheme, dtype, feedback) if job not in _done]
    from wirecodec.kernels.compiler.compile_log import log
    from wirecodec.kernels.compiler.jit import cache_folder

    before = len(log)
    for job in jobs:
        _run(job)
        _done.add(job)
    entries = log[before:]
    compiled: dict[str, float] = {}
    for entry in entries:
        if entry.compiled:
            compiled[entry.kernel] = compiled.get(entry.kernel, 0.0) + entry.seconds
    loaded = sum(not entry.compiled for entry in entries)
    return Warmth(time.perf_counter() - start, compiled, loaded, cache_folder())


def is_warm(
    scheme: SchemeLike | Mapping[Key, SchemeLike] | Compressor = None,
    dtype: Any = np.float32,
    *,
    feedback: bool = False,
) -> bool:
    """Tell whether ``warm`` has nothing left to do in this process; arguments and errors as ``warm``."""
    return _done.issuperset(_list_jobs(scheme, dtype, feedback))


def _list_jobs(
    scheme: SchemeLike | Mapping[Key, SchemeLike] | Compressor, dtype: Any, feedback: bool
) -> list[_Job]:
    """List the jobs of a scheme, or of each scheme of a mapping or a Compressor."""
    rules: list[Feedback | None] = [ErrorFeedback() if feedback else None]
    scheduled = grouped = weighted = False
    if isinstance(scheme, Compressor):
        grouped, weighted = scheme.scope == "group", bool(scheme.weights)
        rules, scheduled = list_feedback(scheme.feedback), scheme.schedule is not None
        scheme = scheme.schemes
    schemes = list(scheme.values()) if isinstance(scheme, Mapping) else [scheme]
    kind = dtype_named(dtype)
    pairs = [(as_scheme(one), rule) for one in schemes for rule in dict.fromkeys(rules)]
    return [_Job(one, kind, rule, scheduled, grouped, weighted) for one, rule in pairs]


def _run(job: _Job) -> None:
    """Encode, decode and add tensors, and take steps with residuals."""
    tensors = make_tensors(job.dtype)
    compute_checksum(np.zeros(MIN_KERNEL_BYTES, np.uint8), 0, MIN_KERNEL_BYTES)
    _run_stages(job)
    for scheme in _list_schemes(job):
        for tensor in tensors.values():
            _encode_and_decode(scheme, tensor)
            _encode_and_decode_many(scheme, {"0": tensor, "1": tensor})
        if job.feedback is not None:
            _take_steps(scheme, tensors, job.feedback)
        if job.grouped:
            _take_grouped_steps(scheme, tensors, job)
    if isinstance(job.scheme.index, IndexChoice):
        for d, indices in make_supports():
            job.scheme.index.choose(indices, d, 0)
    _select_in_threads(job)


def _run_stages(job: _Job) -> None:
    """Run each stage by itself; processes that start together begin with different ones, and share the work.

    The selector of a scheme with a transform is not run by itself, because coefficients may be complex.
    """
    transform = job.scheme.transform
    dtype = job.dtype if transform is None else coefficient_type(job.dtype)
    dense = np.random.default_rng(3).laplace(size=SAMPLED).astype(dtype)
    sparse = SparseTensor(np.arange(0, SAMPLED, 10, dtype=np.int32), dense[::10], SAMPLED)
    stages: list[tuple[Scheme, Any]] = [
        (Scheme(job.scheme.select, RawIndex(), Raw()), dense),
        (Scheme(All(), job.scheme.index, Raw()), sparse),
        (Scheme(All(), RawIndex(), job.scheme.value), dense),
    ]
    if transform is not None:
        del stages[0]
    first = os.getpid() % len(stages)
    for scheme, tensor in stages[first:] + stages[:first]:
        _encode_and_decode(scheme, tensor)


def _list_schemes(job: _Job) -> Iterator[Scheme]:
    """Yield the scheme, and one for each codec that it may choose."""
    scheme = job.scheme
    yield scheme
    if job.scheduled and getattr(scheme.select, "ratio", None) is not None:
        select: Any = scheme.select
        yield dataclasses.replace(scheme, select=dataclasses.replace(select, ratio=_WARM_UP_RATIO))
    if isinstance(scheme.index, AutoIndex):
        for codec in scheme.index.candidates():
            yield dataclasses.replace(scheme, index=codec)
    if isinstance(scheme.value, AutoValue):
        for value in scheme.value.candidates():
            yield dataclasses.replace(scheme, value=value)


def _encode_and_decode(scheme: Scheme, tensor: Any) -> None:
    """Encode a tensor, decode it, and add it to a dense array."""
    with suppress(EncodeError):  # a codec of the user may not carry every tensor
        blob = encode(tensor, scheme)
        decode(blob)
        decode_add(blob, np.zeros(tensor.size, np.result_type(tensor.dtype, np.float32)), scale=0.5)


def _encode_and_decode_many(scheme: Scheme, tensors: Mapping[str, Array]) -> None:
    """Encode tensors together, and add them to dense arrays: by the kernels that take many tensors."""
    with suppress(EncodeError):
        blob = encode_many(tensors, scheme)
        dtype = np.result_type(next(iter(tensors.values())).dtype, np.float32)
        decode_add(blob, {name: np.zeros(x.size, dtype) for name, x in tensors.items()}, scale=0.5)


def _take_steps(scheme: Scheme, tensors: Mapping[str, Array], feedback: Feedback) -> None:
    """Take the steps of a Compressor: without a residual, with one, and with reused memory."""
    for name, tensor in tensors.items():
        compressor = Compressor(scheme, feedback=feedback)
        with suppress(EncodeError):
            for _ in range(3):
                compressor.compress({name: tensor})


def _take_grouped_steps(scheme: Scheme, tensors: Mapping[str, Array], job: _Job) -> None:
    """Take the steps of a Compressor that selects from all tensors as from one vector."""
    weights = {next(iter(tensors)): 0.5} if job.weighted else None
    with suppress(EncodeError):  # weights need a budget
        compressor = Compressor(scheme, feedback=job.feedback, scope="group", weights=weights)
        for _ in range(3):
            compressor.compress(tensors)


def _select_in_threads(job: _Job) -> None:
    """Select from a tensor that is large enough for several threads, if there are several."""
    from wirecodec.kernels.cpu.threads import map_ranges, thread_count

    if thread_count() == 1:
        return
    map_ranges(lambda start, stop: None, 4, 1)
    if not isinstance(job.scheme.select, All | NonZero):
        tensor = make_large_tensor(job.dtype)
        scheme = Scheme(job.scheme.select, RawIndex(), Raw())
        with suppress(EncodeError):
            if job.feedback is None:
                encode(tensor, scheme)
            else:
                _take_steps(scheme, {"large": tensor}, job.feedback)
