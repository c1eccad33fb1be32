"""Tensors to containers: select, encode the chunks, write the container."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from wirecodec.arrays import Array, Bytes
from wirecodec.container import extension_writer as ext
from wirecodec.container import writer
from wirecodec.cpu import forms
from wirecodec.cpu.chunk import encode_chunks
from wirecodec.cpu.costs import share_header
from wirecodec.cpu.fuse import Run, encode_runs, lengths_of, list_members
from wirecodec.cpu.select import select
from wirecodec.cpu.selected import ModelSelection, find_others
from wirecodec.element_types import RECORD_NUMBERS
from wirecodec.errors import EncodeError
from wirecodec.prng import mix
from wirecodec.settings.scheme import Scheme
from wirecodec.support import Support


@dataclass(frozen=True, eq=False)
class Encoded:
    """Container, and where its entries are.

    Attributes:
        blob: the container, (n,) u8.
        starts: offsets of the entries and of those of the batches, in this order.
        entries: of single tensors, or of runs.
        batches: entries that were written together.
        members: rows (key, size) of the tensors of each shared entry.
    """

    blob: Bytes
    starts: Array | list[int]
    entries: Sequence[writer.Entry]
    batches: Sequence[writer.EntryBatch]
    members: Sequence[Array]


def encode(tensor: Any, scheme: Scheme, seed: int, tag: bytes) -> Bytes:
    """Encode one tensor as a container (n,) u8. Raises EncodeError."""
    support = select(tensor, scheme, seed=mix(seed, 0), tag=tag)
    shapes = {} if len(support.shape) == 1 else {0: support.shape}
    if shapes or support.shape[0] > ext.MAX_PRODUCT:
        ext.check_shape(support.shape)
    lengths = {0: math.prod(support.shape)} if support.domain else {}
    types = {0: RECORD_NUMBERS[support.dtype]} if support.dtype in RECORD_NUMBERS else {}
    block = b""
    if shapes or lengths or tag or types:
        block = ext.write(ext.Extension(shapes=shapes, lengths=lengths, tag=tag, types=types))
    return writer.pack(encode_chunks(0, support, scheme, seed), block)[0]


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
    selected = select_many(tensors, schemes, seed=seed, tag=tag, names=names, shares=bool(fuse))
    return encode_selection(selected, seed=seed, tag=tag, names=names, fuse=fuse).blob


def select_many(
    tensors: Mapping[str, Any],
    schemes: Mapping[str, Scheme],
    *,
    seed: int,
    tag: bytes = b"",
    names: bool = True,
    shares: bool = False,
) -> ModelSelection:
    """Select from each tensor by its scheme. Raises EncodeError, which names the tensor.

    Args:
        tensors, schemes: by name, in the same order.
        seed: of the selections.
        tag, names: of the container; a selector may ask for the bytes of its header.
        shares: whether small tensors may share entries.
    """
    header = share_header(tensors, schemes, tag, names=names)
    listed, given, chosen = list(tensors), list(tensors.values()), list(schemes.values())
    shapes, batches = forms.current().select_many(given, chosen, header, shares) or ([()] * len(given), [])
    supports: dict[int, Support] = {}
    for key in find_others(len(listed), batches):
        try:
            supports[key] = select(given[key], chosen[key], seed=mix(seed, key), header=header)
            shapes[key] = supports[key].shape
        except EncodeError as error:
            raise error.of(listed[key]) from None
    return ModelSelection(listed, chosen, shapes, batches, supports)


def encode_selection(
    selected: ModelSelection, *, seed: int, tag: bytes = b"", names: bool = True, fuse: int = 0
) -> Encoded:
    """Encode the selected elements of a model as one container; small tensors share entries.

    Raises EncodeError, which names the tensor.
    """
    n = len(selected.names)
    sizes, shared = selected.plan(fuse) if fuse else ([], ())
    members = list_members(tuple(sizes), shared) if shared else ()
    vectors, lengths, types = selected.vectors, dict[int, int](), dict[int, int]()
    if selected.supports:  # of batches, all are float, and none has a transform
        lengths = lengths_of(selected.supports, vectors)
        dtypes = {key: one.dtype for key, one in selected.supports.items()}
        types = {key: RECORD_NUMBERS[dtype] for key, dtype in dtypes.items() if dtype in RECORD_NUMBERS}
    listed = tuple(selected.names), tuple(selected.shapes)
    records: dict[str, Any] = {"groups": members, "types": types, "joined": vectors}
    block = ext.write_model(*listed, lengths, tag, names_stored=names, **records)
    shares = set(chain.from_iterable([*shared, *(rows[1:, 0].tolist() for rows in vectors)]))
    batches: list[writer.EntryBatch] = []
    alone: Sequence[int] = [key for key in range(n) if key not in shares] if shares else range(n)
    if alone and n >= forms.MIN_TENSORS:
        columns = selected.batches, selected.supports, selected.schemes, selected.shapes
        batches = forms.current().encode_many(*columns, shares, seed)
        done = [key for batch in batches for key in batch.keys.tolist()]
        alone = sorted(set(alone).difference(done)) if len(done) < len(alone) else ()

    def encode_run(run: Run) -> Iterable[writer.Entry]:
        return encode_chunks(run[0], selected.support_of(run), selected.schemes[run[0]], seed)

    entries: list[writer.Entry] = []
    if shared or alone:
        runs = sorted([*shared, *((key,) for key in alone)])
        entries = encode_runs(runs, selected.names, sizes, encode_run)
    return Encoded(*writer.pack(entries, block, batches), entries, batches, members)
