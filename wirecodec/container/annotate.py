"""Records that ``encode`` and ``encode_many`` add to a finished container, such as metadata.

The payload does not depend on them. So the container is encoded without them, and its head is replaced.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from wirecodec.arrays import Bytes
from wirecodec.container.annotations import (
    CONTAINER,
    add_records,
    compute_digest,
    meta_body,
    private_bodies,
    semantics_body,
)
from wirecodec.container.extension_writer import META, SCHEMA, SEMANTICS
from wirecodec.container.reader import read_header
from wirecodec.container.schema import TensorSpecs
from wirecodec.container.writer import HAS_EXTENSION, PREFIX, PREFIX_BYTES, TABLE
from wirecodec.element_types import element_dtype_named
from wirecodec.errors import EncodeError
from wirecodec.frameworks import as_sparse
from wirecodec.limits import UNLIMITED
from wirecodec.select.all import All
from wirecodec.select.nonzero import NonZero
from wirecodec.settings.rules import Key, find_key
from wirecodec.settings.scheme import Scheme
from wirecodec.sparse import UNCHANGED, ZERO, SparseTensor, as_meaning


def split_patches(
    tensors: Mapping[str, Any],
    schemes: Mapping[str, Scheme],
    absent: str | Mapping[Key, str] | None,
    *,
    lossy: bool,
) -> tuple[Mapping[str, Any], Mapping[str, Scheme], list[int]]:
    """Find the tensors that are encoded as patches.

    Args:
        tensors, schemes: by name, in the order of the keys.
        absent: as for ``encode_many``.
        lossy: whether a patch may have a lossy value codec.

    Returns:
        The tensors without a meaning of their own, their schemes, and the keys of the patches.

    Raises EncodeError for a scheme that would write other elements, or other values, than the patch has.
    """
    if absent is None and not any(isinstance(x, SparseTensor) and x.absent != ZERO for x in tensors.values()):
        return tensors, schemes, []
    plain, chosen, patches = dict(tensors), dict(schemes), []
    for key, (name, given) in enumerate(tensors.items()):
        tensor = as_sparse(given)
        is_sparse = isinstance(tensor, SparseTensor)
        if _meaning_of(name, tensor, absent) == UNCHANGED:
            patches.append(key)
            try:
                chosen[name] = _patch_scheme(tensor, schemes[name], lossy)
            except EncodeError as error:
                raise error.of(name or None) from None
        plain[name] = tensor._with_absent(ZERO) if is_sparse else given
    return plain, chosen, patches


def _meaning_of(name: str, tensor: Any, absent: str | Mapping[Key, str] | None) -> str:
    """Return the meaning of a tensor's absent elements."""
    own: str = tensor.absent if isinstance(tensor, SparseTensor) else ZERO
    if not isinstance(absent, Mapping):
        return own if absent is None else as_meaning(absent)
    key = find_key(name, getattr(tensor, "shape", None), absent)
    return own if key is None else as_meaning(absent[key])


def _patch_scheme(tensor: Any, scheme: Scheme, lossy: bool) -> Scheme:
    """Return the scheme of a patch: all stored elements of a sparse one, the selected ones of others.

    Raises EncodeError if other elements or values would be written.
    """
    if scheme.transform is not None:
        raise EncodeError("a patch cannot have a transform, which has no absent elements; leave it out")
    if scheme.index.lossy:
        raise EncodeError(f"{scheme.index.name} would change other elements than the patch; use auto-index")
    if not (lossy or scheme.value.keeps(_dtype_of(tensor))):
        raise EncodeError(
            f"{scheme.value.name} rounds the values of the patch, which then differ from the sender's;"
            " use raw, deflate or zstd, which are lossless, or pass lossy=True"
        )
    if not isinstance(tensor, SparseTensor):
        return scheme
    if type(scheme.select) not in (All, NonZero):  # others may leave out elements, also stored zeros
        raise EncodeError(
            f"the patch is sparse, and {scheme.select.name} may not select its elements alone; use all"
        )
    return dataclasses.replace(scheme, select=All())


def _dtype_of(tensor: Any) -> np.dtype[Any]:
    """Return an array's element type; float64, the widest float, for a buffer that names none."""
    return element_dtype_named(getattr(tensor, "dtype", np.float64))


def collect_records(
    names: Sequence[str],
    meta: Mapping[str, str] | None,
    tensor_meta: Mapping[str, Mapping[str, str]] | None,
    patches: Sequence[int],
    private: Mapping[int, bytes] | None,
) -> dict[int, bytes]:
    """Return {type: body} of the records to add; arguments as for ``encode_many``. Raises EncodeError."""
    if not (meta or tensor_meta or patches or private):
        return {}
    keys = {name: key for key, name in enumerate(names)} if tensor_meta else {}
    for name in tensor_meta or ():
        if name not in keys:
            raise EncodeError("tensor_meta names a tensor that is not encoded", tensor=name)
    texts = {keys[name]: named for name, named in (tensor_meta or {}).items()}
    records = {META: meta_body({**texts, CONTAINER: meta or {}}), SEMANTICS: semantics_body(patches)}
    return {**records, **private_bodies(private or {})}


def annotate(
    blob: Bytes, records: Mapping[int, bytes], implementation: Any, *, names: Sequence[str] | None = None
) -> Bytes:
    """Return a container with more records.

    Args:
        blob: of this process, (n,) uint8 on the host or on a GPU.
        records: {type: body}.
        implementation: the module that encoded it.
        names: of the tensors, to add the digest of their schema; None to add none.
    """
    read = implementation.read_bytes
    stop = PREFIX_BYTES + TABLE.itemsize * PREFIX.unpack(read(blob, 0, PREFIX_BYTES))[4]
    head: bytes = read(blob, 0, stop)
    block = b""
    if PREFIX.unpack_from(head)[3] & HAS_EXTENSION:
        block = read(blob, stop, stop + int.from_bytes(read(blob, stop, stop + 4), "little"))
    bodies = dict(records)
    if names is not None:
        header = read_header(np.frombuffer(head + block, np.uint8), UNLIMITED, whole=False)
        bodies[SCHEMA] = compute_digest((x.name, x.shape, x.dtype) for x in TensorSpecs(header, names))
    if not any(bodies.values()):
        return blob
    annotated: Bytes = implementation.replace_head(blob, stop + len(block), add_records(head, block, bodies))
    return annotated
