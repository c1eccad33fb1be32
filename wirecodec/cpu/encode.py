"""Tensors on the host to containers: select, encode the chunks, write the container."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from wirecodec.arrays import DTYPES, Bytes, as_flat
from wirecodec.container import extension_writer as ext
from wirecodec.container import writer
from wirecodec.cpu.batch.encode import encode_batches, select_batches
from wirecodec.cpu.chunk import encode_chunks
from wirecodec.cpu.costs import share_header
from wirecodec.cpu.fuse import concatenate, make_entries
from wirecodec.cpu.select import select
from wirecodec.errors import EncodeError
from wirecodec.prng import mix
from wirecodec.settings.scheme import Scheme
from wirecodec.support import Support

__all__ = ["encode", "encode_many", "encode_supports", "select_many"]


def encode(tensor: Any, scheme: Scheme, seed: int, tag: bytes) -> Bytes:
    """Encode one tensor as a container (n,) u8. Raises EncodeError."""
    support = select(tensor, scheme, seed=mix(seed, 0), tag=tag)
    ext.check_shape(support.shape)
    extension = ext.Extension(
        shapes={} if len(support.shape) == 1 else {0: support.shape},
        lengths={0: math.prod(support.shape)} if support.domain else {},
        tag=tag,
    )
    return writer.pack(list(encode_chunks(0, support, scheme, seed)), extension)


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
    supports = select_many(tensors, schemes, seed=seed, tag=tag, names=names)
    return encode_supports(supports, schemes, seed=seed, tag=tag, names=names, fuse=fuse)


def select_many(
    tensors: Mapping[str, Any],
    schemes: Mapping[str, Scheme],
    *,
    seed: int,
    tag: bytes = b"",
    names: bool = True,
) -> dict[str, Support]:
    """Select from each tensor by its scheme. Raises EncodeError, which names the tensor."""
    header = share_header(tensors, schemes, tag, names=names)
    flats = {name: as_flat(x) for name, x in tensors.items() if type(x) is np.ndarray and x.dtype in DTYPES}
    batched = select_batches(flats, schemes)
    supports: dict[str, Support] = {}
    for key, (name, tensor) in enumerate(tensors.items()):
        try:
            found = batched.get(name)
            supports[name] = (
                select(tensor, schemes[name], seed=mix(seed, key), header=header) if found is None else found
            )
        except EncodeError as error:
            raise error.of(name) from None
    return supports


def encode_supports(
    supports: Mapping[str, Support],
    schemes: Mapping[str, Scheme],
    *,
    seed: int,
    tag: bytes = b"",
    names: bool = True,
    fuse: int = 0,
) -> Bytes:
    """Encode selected elements of named tensors, in the order of their keys, as one container (n,) u8."""

    batches = encode_batches(supports, schemes, seed=seed, fuse=fuse)
    batched = {key for batch in batches for key in batch.keys.tolist()}

    def encode_key(key: int, members: Sequence[Support], scheme: Scheme) -> Iterable[writer.Entry]:
        if key in batched:
            return ()
        return encode_chunks(key, concatenate(members) if len(members) > 1 else members[0], scheme, seed)

    entries, extension = make_entries(supports, schemes, encode_key, tag=tag, names=names, fuse=fuse)
    return writer.pack(entries, extension, batches)
