"""Tensors on the host to containers: select, encode the chunks, write the container."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from wirecodec.arrays import Bytes
from wirecodec.container import extension_writer as ext
from wirecodec.container import writer
from wirecodec.cpu.chunk import encode_chunks
from wirecodec.cpu.fuse import concatenate, make_entries
from wirecodec.cpu.select import select
from wirecodec.errors import EncodeError
from wirecodec.prng import mix
from wirecodec.scheme import Scheme
from wirecodec.support import Support

__all__ = ["encode", "encode_many", "encode_supports", "select_many"]


def encode(tensor: Any, scheme: Scheme, seed: int, tag: bytes) -> Bytes:
    """Encode one tensor as a container (n,) u8. Raises EncodeError."""
    support = select(tensor, scheme, seed=mix(seed, 0))
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
    supports = select_many(tensors, schemes, seed=seed)
    return encode_supports(supports, schemes, seed=seed, tag=tag, names=names, fuse=fuse)


def select_many(
    tensors: Mapping[str, Any], schemes: Mapping[str, Scheme], *, seed: int
) -> dict[str, Support]:
    """Select from each tensor by its scheme. Raises EncodeError, which names the tensor."""
    supports: dict[str, Support] = {}
    for key, (name, tensor) in enumerate(tensors.items()):
        try:
            supports[name] = select(tensor, schemes[name], seed=mix(seed, key))
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

    def encode_key(key: int, members: Sequence[Support], scheme: Scheme) -> Iterator[writer.Entry]:
        return encode_chunks(key, concatenate(members) if len(members) > 1 else members[0], scheme, seed)

    entries, extension = make_entries(supports, schemes, encode_key, tag=tag, names=names, fuse=fuse)
    return writer.pack(entries, extension)
