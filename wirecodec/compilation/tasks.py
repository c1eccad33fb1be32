"""Jobs and tasks of ``warm``: which calls reach the kernels of a scheme.

The kernels are reached by running the scheme on synthetic tensors, so no list of them can become outdated.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from wirecodec.arrays import UNSIGNED, Array, nothing, read_only
from wirecodec.compilation.inputs import SAMPLED, SMALL, make_large_tensor, make_supports, make_tensors
from wirecodec.compressor import Compressor
from wirecodec.container.checksum import MIN_KERNEL_BYTES, compute_checksum
from wirecodec.decode_into import decode_add, decode_sum
from wirecodec.element_types import dtype_named
from wirecodec.errors import EncodeError
from wirecodec.index.auto import AutoIndex
from wirecodec.index.base import IndexChoice
from wirecodec.index.raw import RawIndex
from wirecodec.pipeline import decode, encode, encode_many
from wirecodec.select.all import All
from wirecodec.select.base import HUGE_BITS
from wirecodec.select.nonzero import NonZero
from wirecodec.settings.feedback import ErrorFeedback, Feedback, list_feedback
from wirecodec.settings.rules import Key
from wirecodec.settings.scheme import Scheme, SchemeLike, as_scheme
from wirecodec.sparse import SparseTensor
from wirecodec.transform.base import coefficient_type
from wirecodec.value.auto import AutoValue
from wirecodec.value.raw import Raw

Task: TypeAlias = Callable[[], object]
"""Call that reaches kernels; it has no effect that a second run does not replace."""

_WARM_UP_RATIO = 0.3
"""Density of the first steps of a schedule, at which selectors take another path."""


@dataclass(frozen=True)
class Job:
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


def list_jobs(
    scheme: SchemeLike | Mapping[Key, SchemeLike] | Compressor, dtype: Any, feedback: bool
) -> list[Job]:
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
    return [Job(one, kind, rule, scheduled, grouped, weighted) for one, rule in pairs]


def list_groups(job: Job) -> list[list[Task]]:
    """List calls that together reach the kernels of a job, in groups; each needs no other.

    The groups: the selector alone, the index codec alone, the value codec alone, steps of the selector, and
    the whole scheme. Kernels of one group have helpers in common, which a process compiles once.
    """
    tensors = make_tensors(job.dtype)
    groups = [_list_of_stage(*stage) for stage in _list_stages(job)]
    steps: list[Task] = [partial(_select_in_threads, job)]
    if job.feedback is not None and job.scheme.transform is None:
        alone = Scheme(job.scheme.select, RawIndex(), Raw())
        steps += [partial(_take_steps, alone, {name: x}, job.feedback) for name, x in tensors.items()]
    if job.grouped:
        steps.insert(0, partial(_take_grouped_steps, job.scheme, tensors, job))
    whole: list[Task] = []
    for scheme in _list_schemes(job):
        for tensor in tensors.values():
            whole.append(partial(_encode_and_decode, scheme, tensor))
            whole.append(partial(_encode_and_decode_many, scheme, {"0": tensor, "1": tensor}))
        if job.feedback is not None:
            whole += [partial(_take_steps, scheme, {name: x}, job.feedback) for name, x in tensors.items()]
            if scheme.select.needs_costs or scheme.select.selects_sums:
                whole.append(partial(_take_steps_together, scheme, tensors, job.feedback))
        if job.grouped:
            whole.append(partial(_take_grouped_steps, scheme, tensors, job))
    if job.feedback is not None:
        whole.append(partial(_take_outer_steps, job.dtype))
    if isinstance(job.scheme.index, IndexChoice):
        whole += [partial(_choose, job.scheme.index, indices, d) for d, indices in make_supports()]
    whole.append(partial(compute_checksum, np.zeros(MIN_KERNEL_BYTES, np.uint8), 0, MIN_KERNEL_BYTES))
    return [*groups, steps, whole]


def _list_of_stage(scheme: Scheme, tensor: Any) -> list[Task]:
    """List calls for one stage: of one tensor, of two, and of two small ones."""
    small: Any = tensor[:SMALL] if isinstance(tensor, np.ndarray) else _cut(tensor)
    return [
        partial(_encode_and_decode, scheme, tensor),
        partial(_encode_and_decode_many, scheme, {"0": tensor, "1": tensor}),
        partial(_encode_and_decode_many, scheme, {"0": small, "1": small}),
    ]


def _cut(tensor: SparseTensor) -> SparseTensor:
    """Return the first elements of a tensor."""
    stored = int(np.searchsorted(tensor.indices, SMALL))
    return SparseTensor(tensor.indices[:stored], tensor.values[:stored], SMALL)


def _list_stages(job: Job) -> list[tuple[Scheme, Any]]:
    """List a scheme and a tensor for each stage alone.

    The selector of a scheme with a transform is not run alone, because coefficients may be complex.
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
    return stages if transform is None else stages[1:]


def _list_schemes(job: Job) -> Iterator[Scheme]:
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


def _choose(index: IndexChoice, indices: Array, d: int) -> None:
    """Encode indices by the codec that an index codec chooses."""
    with suppress(EncodeError):  # bloom refuses a filter with too many positives
        index.choose(indices, d, 0)


def _encode_and_decode(scheme: Scheme, tensor: Any) -> None:
    """Encode a tensor, decode it, add it to a dense array, and compute a mean there, as ranks do."""
    with suppress(EncodeError):  # a codec of the user may not carry every tensor
        blob = encode(tensor, scheme)
        decode(blob)
        out = np.zeros(tensor.size, np.result_type(tensor.dtype, np.float32))
        decode_add(blob, out, scale=0.5)
        decode_sum([blob, blob], out, divisor=2)


def _encode_and_decode_many(scheme: Scheme, tensors: Mapping[str, Any]) -> None:
    """Encode tensors together, and add them to dense arrays: by the kernels that take many tensors."""
    with suppress(EncodeError):
        blob = encode_many(tensors, scheme)
        dtype = np.result_type(next(iter(tensors.values())).dtype, np.float32)
        out = {name: np.zeros(x.size, dtype) for name, x in tensors.items()}
        decode_add(blob, out, scale=0.5)
        decode_sum([blob, blob], out, divisor=2)


def _take_steps(scheme: Scheme, tensors: Mapping[str, Array], feedback: Feedback) -> None:
    """Take the steps of a Compressor: without a residual, with one, and with reused memory."""
    for name, tensor in tensors.items():
        compressor = Compressor(scheme, feedback=feedback)
        with suppress(EncodeError):
            for _ in range(3):
                compressor.compress({name: tensor})


def _take_steps_together(scheme: Scheme, tensors: Mapping[str, Array], feedback: Feedback) -> None:
    """Take the steps of a Compressor that selects from each of all tensors in one call."""
    with suppress(EncodeError):
        compressor = Compressor(scheme, feedback=feedback)
        for _ in range(3):
            compressor.compress(tensors)


def _take_grouped_steps(scheme: Scheme, tensors: Mapping[str, Array], job: Job) -> None:
    """Take the steps of a Compressor that selects from all tensors as from one vector."""
    weights = {next(iter(tensors)): 0.5} if job.weighted else None
    with suppress(EncodeError):  # weights need a budget
        compressor = Compressor(scheme, feedback=job.feedback, scope="group", weights=weights)
        for _ in range(4):
            compressor.compress(tensors)


def _take_outer_steps(dtype: np.dtype[Any]) -> None:
    """Check and take a step of the outer optimizer of local updates, with float32 or float64 parameters."""
    from wirecodec.kernels.cpu import outer, support

    wide = np.result_type(dtype, np.float32)
    rows, factors = read_only(np.zeros((0, 5), np.int64)), read_only(np.ones(2, wide))
    outer.take_outer_steps(rows, np.empty(0, wide), factors, False, np.zeros(1, np.int64))
    addresses = read_only(np.zeros(0, np.int64))
    support.find_array(addresses, addresses, nothing(UNSIGNED[wide.itemsize]), HUGE_BITS[wide])


def _select_in_threads(job: Job) -> None:
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
