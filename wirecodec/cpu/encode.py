"""Tensors on the host to containers: select, encode the chunks, write the container."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from wirecodec.arrays import Bytes, as_flat
from wirecodec.container import extension_writer as ext
from wirecodec.container import writer
from wirecodec.cpu.batch.encode import encode_batches, encode_selected, select_batches
from wirecodec.cpu.batch.selection import ModelSelection, SelectedBatch
from wirecodec.cpu.chunk import encode_chunks
from wirecodec.cpu.columns import ArrayColumns, describe
from wirecodec.cpu.costs import share_header
from wirecodec.cpu.fuse import concatenate, make_entries
from wirecodec.cpu.select import select
from wirecodec.errors import EncodeError
from wirecodec.frameworks import as_sparse
from wirecodec.prng import mix
from wirecodec.settings.scheme import Scheme
from wirecodec.sparse import SparseTensor
from wirecodec.support import Support


def encode(tensor: Any, scheme: Scheme, seed: int, tag: bytes) -> Bytes:
    """Encode one tensor as a container (n,) u8. Raises EncodeError."""
    support = select(tensor, scheme, seed=mix(seed, 0), tag=tag)
    ext.check_shape(support.shape)
    shapes = {} if len(support.shape) == 1 else {0: support.shape}
    lengths = {0: math.prod(support.shape)} if support.domain else {}
    block = b""
    if shapes or lengths or tag:
        block = ext.write(ext.Extension(shapes=shapes, lengths=lengths, tag=tag))
    return writer.pack(list(encode_chunks(0, support, scheme, seed)), block)


def encode_many(
    tensors: Mapping[str, Any],
    schemes: Mapping[str, Scheme],
    seed: int,
    tag: bytes,
    *,
    names: bool,
    fuse: int,
) -> Bytes:
    """Encode named tensors, in the order of their keys, as one container (n,) u8.

    Args:
        tensors, schemes: by name, in the same order.
        seed, tag, names, fuse: as for ``wirecodec.encode_many``.

    Raises EncodeError, which names the tensor.
    """
    selected = select_many(tensors, schemes, seed=seed, tag=tag, names=names)
    return encode_selection(selected, seed=seed, tag=tag, names=names, fuse=fuse)


def select_many(
    tensors: Mapping[str, Any],
    schemes: Mapping[str, Scheme],
    *,
    seed: int,
    tag: bytes = b"",
    names: bool = True,
) -> ModelSelection:
    """Select from each tensor by its scheme. Raises EncodeError, which names the tensor.

    Args:
        tensors, schemes: by name, in the same order.
        seed: of the selections.
        tag, names: of the container; a selector may ask for the bytes of its header.
    """
    header = share_header(tensors, schemes, tag, names=names)
    listed, given, chosen = list(tensors), list(tensors.values()), list(schemes.values())
    arrays, shapes, columns = describe_tensors(given)
    batches = select_batches(columns, chosen)
    supports: dict[int, Support] = {}
    for key in find_others(len(listed), batches):
        try:
            supports[key] = select(given[key], chosen[key], seed=mix(seed, key), header=header)
            shapes[key] = supports[key].shape
        except EncodeError as error:
            raise error.of(listed[key]) from None
    del arrays  # the batches have read them
    return ModelSelection(listed, chosen, shapes, batches, supports)


def find_others(n: int, batches: Sequence[SelectedBatch]) -> list[int]:
    """Return the keys below n of no batch, ascending."""
    others = np.ones(n, np.bool_)
    for batch in batches:
        others[batch.keys] = False
    found: list[int] = np.flatnonzero(others).tolist()
    return found


def describe_tensors(tensors: Sequence[Any]) -> tuple[list[Any], list[Any], ArrayColumns]:
    """Convert tensors to arrays that kernels can read.

    Returns:
        The arrays, which the caller keeps alive; the tensors' shapes; and the columns that describe the
        arrays. A tensor that cannot be converted stays as it is, and ``select`` raises its error.
    """
    columns = describe(tensors)
    if columns.kinds.size == 0 or columns.kinds.min() >= 0:
        return list(tensors), [x.shape for x in tensors], columns
    arrays, shapes = list(tensors), [getattr(x, "shape", None) for x in tensors]
    for key in np.flatnonzero(columns.kinds < 0).tolist():
        if not isinstance(as_sparse(tensors[key]), SparseTensor):
            with contextlib.suppress(EncodeError):
                flat = as_flat(tensors[key])
                arrays[key], shapes[key] = flat.data, flat.shape
    return arrays, shapes, describe(arrays)


def encode_selection(
    selected: ModelSelection, *, seed: int, tag: bytes = b"", names: bool = True, fuse: int = 0
) -> Bytes:
    """Encode the selected elements of a model as one container (n,) u8."""
    if fuse:
        return _encode_fused(selected, seed=seed, tag=tag, names=names, fuse=fuse)
    block = ext.write_model(
        tuple(selected.names), tuple(selected.shapes), _lengths(selected.supports), tag, names_stored=names
    )
    batches, supports = [], dict(selected.supports)
    for batch in selected.batches:
        encoded = encode_selected(batch, seed=seed)
        if encoded is None:
            supports |= batch.supports(selected.shapes)
        else:
            batches.append(encoded)
    if len(selected.batches) > len(batches):
        supports = dict(sorted(supports.items()))
    batches += encode_batches(supports, selected.schemes, seed=seed, fuse=0)
    done = {key for batch in batches for key in batch.keys.tolist()} if supports else ()
    entries: list[writer.Entry] = []
    for key, support in supports.items():
        if key not in done:
            try:
                entries += encode_chunks(key, support, selected.schemes[key], seed)
            except EncodeError as error:
                raise error.of(selected.names[key]) from None
    return writer.pack(entries, block, batches)


def _lengths(supports: Mapping[int, Support]) -> dict[int, int]:
    """Return {key: number of elements} of the tensors that are stored as coefficients."""
    return {key: math.prod(support.shape) for key, support in supports.items() if support.domain}


def _encode_fused(selected: ModelSelection, *, seed: int, tag: bytes, names: bool, fuse: int) -> Bytes:
    """Encode the selected elements of a model; small tensors share entries."""
    members = selected.all_supports()
    batches = encode_batches(members, selected.schemes, seed=seed, fuse=fuse)
    batched = {key for batch in batches for key in batch.keys.tolist()}

    def encode_key(key: int, members: Sequence[Support], scheme: Scheme) -> Iterable[writer.Entry]:
        if key in batched:
            return ()
        return encode_chunks(key, concatenate(members) if len(members) > 1 else members[0], scheme, seed)

    supports = dict(zip(selected.names, members.values(), strict=True))
    schemes = dict(zip(selected.names, selected.schemes, strict=True))
    entries, extension = make_entries(supports, schemes, encode_key, tag=tag, names=names, fuse=fuse)
    return writer.pack(entries, ext.write(extension), batches)
