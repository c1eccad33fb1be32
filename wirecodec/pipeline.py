"""The data's way, as functions that can be read from top to bottom.

    encode:  tensor [-> transform] -> select -> (indices, values) -> chunks, each by its codecs -> container
             (a lossy index codec: its section -> the indices that readers find -> values gathered there)
    decode:  container -> chunks, each by its codecs -> (indices, values) [-> inverse transform]
             -> SparseTensor, or a dense sum

All of it is pure: the same tensor, scheme and seed give the same bytes, and nothing is remembered. Every path
into the decoder goes through ``_open`` and ``parts_of``, which validate everything before anything is handed
out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wirecodec.arrays import Array, Bytes, as_bytes, on_gpu
from wirecodec.container.header import Head, open_head
from wirecodec.container.schema import Outlines, check_all, check_count, check_names, check_only
from wirecodec.cpu import entry as host
from wirecodec.errors import EncodeError, SchemaMismatch
from wirecodec.limits import DEFAULT_LIMITS, DecodeLimits, Schema, TensorSchema
from wirecodec.scheme import SchemeLike, as_scheme, scheme_for
from wirecodec.sparse import SparseTensor
from wirecodec.validation import as_seed

__all__ = [
    "decode",
    "decode_add",
    "decode_many",
    "decode_many_to",
    "decode_to",
    "encode",
    "encode_many",
    "in_order",
]


def encode(tensor: Any, scheme: SchemeLike = None, *, seed: int = 0, tag: bytes = b"") -> Bytes:
    """One tensor as a container.

    Args:
        tensor: a NumPy array, a torch tensor, anything with DLPack or the buffer protocol, or a SparseTensor;
            float32, float16, bfloat16 or float64, of any shape. It may lie on a GPU.
        scheme: a Scheme, its string, or None for lossless.
        seed: a u64 for codecs that draw at random.
        tag: bytes of the application's own.

    Returns a uint8 array, CuPy's where the tensor lies on a GPU. Raises EncodeError, which names the first
    element that the scheme cannot carry; DeviceError where a GPU's tensor cannot be reached.
    """
    blob: Bytes = _way(on_gpu(tensor)).encode(
        tensor, as_scheme(scheme), as_seed(seed), bytes(memoryview(tag))
    )
    return blob


def encode_many(
    tensors: Mapping[str, Any],
    scheme: SchemeLike | Mapping[str, SchemeLike] = None,
    *,
    seed: int = 0,
    tag: bytes = b"",
    names: bool = True,
    fuse: int = 0,
) -> Bytes:
    """Named tensors as one container.

    Args:
        tensors: {name: tensor}, each as for ``encode``.
        scheme: one for all, or {glob: scheme} of which the first match wins.
        seed: a u64 for codecs that draw at random.
        tag: bytes of the application's own.
        names: whether the names are written; a receiver with a schema does not need them.
        fuse: tensors of at most this many elements, of one type and scheme, share entries. They are fused
            after selection, so what is sent of each does not change, but for what a lossy index codec adds.
            Transformed ones are not fused.

    Returns a uint8 array; CuPy's where the tensors lie on a GPU, all of them. Raises EncodeError, which names
    the tensor, and its element where one is to blame.
    """
    tensors = {name: tensors[name] for name in in_order(tensors)}
    schemes = {name: scheme_for(name, scheme) for name in tensors}
    way = _way(any(map(on_gpu, tensors.values())))
    blob: Bytes = way.encode_many(
        tensors, schemes, as_seed(seed), bytes(memoryview(tag)), names=names, fuse=fuse
    )
    return blob


def in_order(tensors: Mapping[str, Any]) -> list[str]:
    """Names in the order of their keys, that of their UTF-8 bytes; EncodeError for what is no name."""
    if not isinstance(tensors, Mapping):
        raise EncodeError(f"named tensors are {{name: tensor}}, not {type(tensors).__name__}")
    try:
        return sorted(tensors, key=str.encode)
    except (TypeError, UnicodeEncodeError) as error:
        raise EncodeError(f"a tensor's name must be a string that UTF-8 can write: {error}") from None


def decode(
    blob: Any, *, limits: DecodeLimits | None = None, schema: TensorSchema | None = None
) -> SparseTensor:
    """The one tensor of a container.

    Args:
        blob: any buffer of bytes; or a uint8 array on a GPU, where the result's arrays will lie, too.
        limits: what decoding may cost.
        schema: (shape, dtype); anything else is refused.

    Returns a SparseTensor; values that were stored raw are a read-only view of the blob. Of a tensor that was
    transformed all elements are present, or none where no coefficient is. Raises a WireError,
    whatever the bytes; SchemaMismatch where the container holds several tensors, or none.
    """
    return decode_to(on_gpu(blob), blob, limits=limits, schema=schema)


def decode_to(
    there: bool, blob: Any, *, limits: DecodeLimits | None = None, schema: TensorSchema | None = None
) -> SparseTensor:
    """``decode`` onto the current GPU, or onto the host, wherever the blob lies."""
    limits = limits or DEFAULT_LIMITS
    data, head = _open(blob, limits, vouched=schema is not None)
    check_count(head)
    outlines = Outlines(head, None)
    check_only(outlines, schema)
    (tensor,) = _way(there).tensors_of(data, head, outlines, limits)
    found: SparseTensor = tensor
    return found


def decode_many(
    blob: Any, *, limits: DecodeLimits | None = None, schema: Schema | None = None
) -> dict[str, SparseTensor]:
    """Every tensor of a container, by name, in ascending order of the names' UTF-8 bytes.

    Args:
        blob: any buffer of bytes.
        limits: what decoding may cost.
        schema: {name: (shape, dtype)} of all tensors; anything else is refused. It also names the tensors of
            a container without names, which are called "0", "1", … otherwise, or, if they are more than ten,
            "00", "01", … and so on, so that their names ascend, too.

    Raises a WireError, whatever the bytes.
    """
    return decode_many_to(on_gpu(blob), blob, limits=limits, schema=schema)


def decode_many_to(
    there: bool, blob: Any, *, limits: DecodeLimits | None = None, schema: Schema | None = None
) -> dict[str, SparseTensor]:
    """``decode_many`` onto the current GPU, or onto the host, wherever the blob lies."""
    limits = limits or DEFAULT_LIMITS
    data, head = _open(blob, limits, vouched=schema is not None)
    outlines = Outlines(head, schema)
    check_all(outlines, schema)
    tensors = _way(there).tensors_of(data, head, outlines, limits)
    return {outline.name: tensor for outline, tensor in zip(outlines, tensors, strict=True)}


def decode_add(
    blob: Any,
    out: Array | Mapping[str, Array],
    *,
    scale: float = 1.0,
    limits: DecodeLimits | None = None,
    schema: TensorSchema | Schema | None = None,
) -> None:
    """Decode, and add scale * values into dense arrays, of which none is touched before all is validated.

    Args:
        blob: any buffer of bytes; it may lie on a GPU.
        out: an array of the one tensor's size, or {name: array} for all tensors; float32 or float64,
            writable, contiguous; NumPy's, or all of them CuPy's.
        scale: a factor for all values.
        limits: what decoding may cost.
        schema: as for ``decode`` or ``decode_many``; without one, ``out`` vouches for names and sizes.

    In the type of ``out``, the value is rounded, then the product, then the sum. Raises a WireError, whatever
    the bytes, SchemaMismatch where the tensors are not those of ``out``; ValueError where ``out`` is no such
    array.
    """
    limits, scale = limits or DEFAULT_LIMITS, float(scale)
    data, head = _open(blob, limits, vouched=True)  # ``out`` vouches for the sizes
    if isinstance(out, Mapping):
        outlines = Outlines(head, out)
        check_all(outlines, schema)  # type: ignore[arg-type]
        check_names(outlines, out)
        targets = [out[outline.name] for outline in outlines]
    else:
        check_count(head)
        outlines = Outlines(head, None)
        check_only(outlines, schema)  # type: ignore[arg-type]
        targets = [out]
    for outline, target in zip(outlines, targets, strict=True):
        if not _way(on_gpu(target)).can_add(target):
            raise ValueError(f"out of {outline.name!r} is no writable, contiguous float32 or float64 array")
        if target.size != outline.size:
            raise SchemaMismatch(
                "schema-shape", f"{outline.name!r} has shape {outline.shape}, out {target.shape}"
            )
    _way(any(map(on_gpu, targets))).add(data, head, targets, scale, limits)


def _open(blob: Any, limits: DecodeLimits, *, vouched: bool) -> tuple[Bytes, Head]:
    if on_gpu(blob):
        from wirecodec.gpu import entry

        blob = entry.copy_bytes_to_host(blob)
    data = as_bytes(blob)
    return data, open_head(data, limits, vouched=vouched)


def _way(there: bool) -> Any:
    """Return the module that encodes and decodes: on the current GPU, or on the host."""
    if there:
        from wirecodec.gpu import entry

        return entry
    return host
