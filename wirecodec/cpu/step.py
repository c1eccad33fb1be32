"""A Compressor's step on the host: add residuals, select, encode, and compute the next residuals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from wirecodec.arrays import DTYPES, Array, Bytes, addresses_of
from wirecodec.container.reader import read_header
from wirecodec.cpu.batch.decode import decode_batches
from wirecodec.cpu.batch.selection import ModelSelection
from wirecodec.cpu.batch.step import SumBatch, find_received, subtract_sent, subtract_sent_batch
from wirecodec.cpu.decode import DecodedTensors, decode_chunks
from wirecodec.cpu.encode import describe_tensors, encode_selection
from wirecodec.cpu.group_entries import decode_groups, encode_groups, subtract_received
from wirecodec.cpu.momentum import stop_momentum
from wirecodec.cpu.step_selection import select_step
from wirecodec.cpu.tensor_step import SelectedTensor
from wirecodec.errors import EncodeError
from wirecodec.limits import UNLIMITED
from wirecodec.sparse import SparseTensor
from wirecodec.step import StepInput, StepResult
from wirecodec.support import DecodedChunk


def step(tensors: Mapping[str, Any], wanted: StepInput) -> StepResult:
    """Run a step of named tensors on the host. Raises EncodeError, which names the tensor."""
    names, jobs = list(wanted.jobs), wanted.jobs
    arrays, shapes, columns = describe_tensors([tensors[name] for name in names])
    found = select_step(arrays, shapes, columns, wanted)
    selected, batches = found.tensors, found.batches
    schemes, dtypes = list(jobs.schemes.values()), [DTYPES[kind] for kind in columns.kinds.tolist()]
    for key, each in selected.items():
        schemes[key], shapes[key], dtypes[key] = each.job.scheme, each.support.shape, each.support.dtype
    supports = {key: each.support for key, each in selected.items()}
    model = ModelSelection(names, schemes, shapes, [batch.selected for batch in batches], supports)
    chunks: Mapping[int, list[DecodedChunk]]
    if found.groups:
        blob, runs = encode_groups(
            model, found.groups, seed=wanted.seed, names=wanted.names, fuse=wanted.fuse
        )
        chunks = split = decode_groups(blob)
        subtract_received(found.groups, runs, split)
        received = np.zeros(len(names), np.int64)
    else:
        blob = encode_selection(model, seed=wanted.seed, names=wanted.names, fuse=wanted.fuse)
        chunks, received = _decode_own(blob, len(names))
    sent = DecodedTensors(names, shapes, dtypes, chunks, UNLIMITED)
    residuals = _next_residuals(names, batches, selected, sent, received)
    stopped = {
        names[key]: stop_momentum(jobs[names[key]], each.addend, sent[names[key]])
        for key, each in selected.items()
        if each.addend.momentum is not None
    }
    return StepResult(
        blob,
        blob,
        sent,
        residuals | {names[key]: rest for key, rest in found.group_residuals().items()},
        {names[key]: state for key, state in found.selectors().items()},
        stopped | {names[key]: x for key, x in found.momenta().items()},
    )


def _decode_own(blob: Bytes, n: int) -> tuple[Mapping[int, list[DecodedChunk]], Array]:
    """Decode a container of n tensors as receivers with a schema do.

    Returns the tensors' chunks by key, and the addresses of the values that were decoded in batches, (n,) i64
    by key; 0 for the others.
    """
    header = read_header(blob, UNLIMITED, sizes_trusted=True)
    batches = decode_batches(blob, header)
    chunks = decode_chunks(blob, header, UNLIMITED, batches=batches)
    received = np.zeros(n, np.int64)
    if not header.extension.is_fused:
        received = find_received(header.table, batches, n)
    return chunks, received


def _next_residuals(
    names: Sequence[str],
    batches: Sequence[SumBatch],
    selected: Mapping[int, SelectedTensor],
    sent: Mapping[str, SparseTensor],
    received: Array,
) -> dict[str, Array]:
    """Return the next residuals by name. Raises EncodeError, which names the tensor."""
    residuals: dict[str, Array] = {}
    for batch in batches:
        keys = batch.selected.keys
        others = keys[received[keys] == 0].tolist()
        values = [np.ascontiguousarray(sent[names[key]].values) for key in others]
        received[others] = addresses_of(values)
        subtract_sent_batch(batch, received[keys])
        residuals |= zip([names[key] for key in keys.tolist()], batch.rests, strict=True)
    for key, each in selected.items():
        name = names[key]
        try:
            if each.rest is not None:
                subtract_sent(each.rest, each.support, sent[name].values)
                residuals[name] = each.rest
            elif each.total is not None:
                found = sent[name]
                residuals[name] = each.total.remainder(None if found.is_full else found.indices, found.values)
        except EncodeError as error:
            raise error.of(name) from None
    return residuals
