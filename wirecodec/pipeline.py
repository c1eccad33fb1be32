"""The public functions between tensors and containers; each calls the host's or the GPU's implementation.

    encode:  tensor [-> transform] -> select -> (indices, values) -> chunks, each by its codecs -> container
             (a lossy index codec: its section -> the indices that readers find -> values gathered there)
    decode:  container -> chunks, each by its codecs -> (indices, values) [-> inverse transform]
             -> SparseTensor; ``decode_into`` adds to dense arrays instead

All functions are pure: the same tensor, scheme and seed give the same bytes. Every path into the decoder goes
through ``open_container``, and then through ``decode_batches`` or ``decode_chunks``. They validate the whole
container before they return any part of it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Literal

from wirecodec.arrays import Bytes
from wirecodec.container.annotate import annotate, collect_records, split_patches
from wirecodec.container.reader import ContainerHeader, read_header
from wirecodec.container.schema import (
    TensorSpecs,
    check_all,
    check_count,
    check_only,
    plain_spec,
    require_floats,
)
from wirecodec.cpu import entry as host
from wirecodec.limits import DEFAULT_LIMITS, DecodeLimits, Schema, TensorSchema
from wirecodec.settings.rules import Key
from wirecodec.settings.scheme import SchemeLike, as_scheme, schemes_for
from wirecodec.sparse import UNCHANGED, SparseTensor
from wirecodec.tensors import TensorLike, any_on_gpu, as_bytes, on_gpu
from wirecodec.validation import as_seed, sort_names

_ON_GPU = "a GPU receives floats of 16 to 64 bits alone, so copy the container to the host"


def encode(
    tensor: TensorLike,
    scheme: SchemeLike = None,
    *,
    seed: int = 0,
    tag: bytes = b"",
    meta: Mapping[str, str] | None = None,
    absent: str | None = None,
    lossy: bool = False,
) -> Bytes:
    """Encode a tensor as a container.

    Args:
        tensor: a NumPy or CuPy array, a torch tensor, a SparseTensor, or any object with DLPack or the buffer
            protocol; float32, float16, bfloat16 or float64, of any shape. Schemes of ``all`` or ``nonzero``
            with ``raw``, ``deflate`` or ``zstd`` also carry integers, bool, float8 and complex on the host.
        scheme: a Scheme, its string, or None for lossless.
        seed: a u64 for selectors and codecs that draw random numbers.
        tag: bytes that the application stores with the tensor.
        meta: {name: text}, which ``inspect`` returns. Budgets do not count these bytes.
        absent: meaning of the elements that are not stored: "zero", or "unchanged" for a patch. None for that
            of a SparseTensor, and for "zero" otherwise. A sparse patch sends all its elements, zeros too.
        lossy: True to allow a patch with a lossy value codec. Other tensors may always have one.

    Returns:
        The container, (n,) uint8 on the tensor's device.

    Raises:
        EncodeError: the scheme cannot carry the tensor; the message names the first such element.
        DeviceError: the tensor is on a GPU that cannot be used.

    Examples:
        >>> import numpy as np, wirecodec as wc
        >>> blob = wc.encode(np.array([[0, 3, 0], [0, 0, 4]], "f4"), "topk(k=1) | rice | raw")
        >>> wc.decode(blob).to_dense().tolist()
        [[0.0, 0.0, 0.0], [0.0, 0.0, 4.0]]
    """
    implementation, chosen = choose_implementation(on_gpu(tensor)), as_scheme(scheme)
    patches: list[int] = []
    if absent is not None or isinstance(tensor, SparseTensor):
        plain, schemes, patches = split_patches({"": tensor}, {"": chosen}, absent, lossy=lossy)
        tensor, chosen = plain[""], schemes[""]
    blob: Bytes = implementation.encode(tensor, chosen, as_seed(seed), bytes(memoryview(tag)))
    if not (meta or patches):
        return blob
    return annotate(blob, collect_records((), meta, None, patches, None), implementation)


def encode_many(
    tensors: Mapping[str, TensorLike],
    scheme: SchemeLike | Mapping[Key, SchemeLike] = None,
    *,
    seed: int = 0,
    tag: bytes = b"",
    names: bool | Literal["digest"] = True,
    fuse: int = 0,
    meta: Mapping[str, str] | None = None,
    tensor_meta: Mapping[str, Mapping[str, str]] | None = None,
    absent: str | Mapping[Key, str] | None = None,
    lossy: bool = False,
    records: Mapping[int, bytes] | None = None,
) -> Bytes:
    """Encode named tensors as one container.

    Args:
        tensors: {name: tensor}, each as for ``encode``; all on the host, or all on one GPU.
        scheme: one for all tensors, or {key: scheme}; a key is a glob or a Rule, and the first match applies.
        seed: a u64 for selectors and codecs that draw random numbers.
        tag: bytes that the application stores with the tensors.
        names: True to store the names. A receiver with a schema does not need them. "digest" stores a hash of
            names, shapes and types in their place, from which such a receiver detects other names.
        fuse: number of elements up to which tensors of one dtype and scheme share an entry. Each tensor is
            selected before they are fused. Tensors with a transform are not fused.
        meta: {name: text} about the container, which ``inspect`` returns. Budgets count neither these bytes
            nor those of the arguments below.
        tensor_meta: {tensor: {name: text}} about single tensors.
        absent: as for ``encode``, or {key: meaning}; a key is a glob or a Rule, and the first match applies.
        lossy: as for ``encode``.
        records: {type: body} of private records. Their types, from 0x8000 to 0xFFEF, have a meaning that
            sender and receiver agree on. Other receivers ignore them.

    Returns:
        The container, (n,) uint8 on the tensors' device.

    Raises:
        EncodeError: a scheme cannot carry its tensor, or no key matches a tensor. The message names the
            tensor and the element.
        DeviceError: the tensors are on a GPU that cannot be used.

    Examples:
        >>> import numpy as np, wirecodec as wc
        >>> blob = wc.encode_many({"w": np.ones(3, "f4"), "b": np.zeros(2, "f4")}, "all | rice | raw")
        >>> {name: x.to_dense().tolist() for name, x in wc.decode_many(blob).items()}
        {'b': [0.0, 0.0], 'w': [1.0, 1.0, 1.0]}
    """
    listed = sort_names(tensors)
    tensors = dict(zip(listed, map(tensors.__getitem__, listed), strict=True))
    implementation = choose_implementation(any_on_gpu(tensors.values()))
    plain, schemes, patches = split_patches(tensors, schemes_for(tensors, scheme), absent, lossy=lossy)
    added = collect_records(listed, meta, tensor_meta, patches, records)
    hashed = names == "digest"
    blob: Bytes = implementation.encode_many(
        plain, schemes, as_seed(seed), bytes(memoryview(tag)), names=bool(names) and not hashed, fuse=fuse
    )
    if added or hashed:
        return annotate(blob, added, implementation, names=listed if hashed else None)
    return blob


def decode(
    blob: Any, *, limits: DecodeLimits | None = None, schema: TensorSchema | None = None
) -> SparseTensor:
    """Decode a container that holds exactly one tensor.

    Args:
        blob: any buffer of bytes, or a uint8 array on a GPU.
        limits: bounds on the cost of decoding; None for the defaults.
        schema: the expected (shape, dtype), or None to accept any.

    Returns:
        A SparseTensor on the blob's device. Values stored raw are a read-only view of the blob. A tensor with
        a transform has all its elements, or none if it has no coefficient.

    Raises:
        WireError: the bytes are not a valid container, exceed a limit, or do not match the schema. No bytes
            raise any other exception.
        DeviceError: the blob is on a GPU that cannot be used.

    Examples:
        >>> import numpy as np, wirecodec as wc
        >>> blob = wc.encode(np.array([0, 3, 0, 4], "f4"))
        >>> wc.decode(blob, schema=(4, "float32")).indices.tolist()
        [1, 3]
    """
    return decode_to(on_gpu(blob), blob, limits=limits, schema=schema)


def decode_to(
    to_gpu: bool, blob: Any, *, limits: DecodeLimits | None = None, schema: TensorSchema | None = None
) -> SparseTensor:
    """Decode one tensor onto the current GPU or onto the host, wherever the blob is."""
    limits = limits or DEFAULT_LIMITS
    data, header = open_container(blob, limits, sizes_trusted=schema is not None)
    if to_gpu:
        require_floats(header, _ON_GPU)
    spec = None if to_gpu else plain_spec(header)
    decoded: SparseTensor
    if spec is not None:
        check_only((spec,), schema)
        decoded = host.only_tensor_of(data, header, spec, limits)
    else:
        check_count(header)
        specs = TensorSpecs(header, None)
        check_only(specs, schema)
        (decoded,) = choose_implementation(to_gpu).tensors_of(data, header, specs, limits)
    header.extension.keep()
    return decoded._with_absent(UNCHANGED) if header.extension.patches() else decoded


def decode_many(
    blob: Any,
    *,
    limits: DecodeLimits | None = None,
    schema: Schema | None = None,
    names: Collection[str] | None = None,
) -> dict[str, SparseTensor]:
    """Decode the tensors of a container.

    Args:
        blob: any buffer of bytes, or a uint8 array on a GPU.
        limits: bounds on the cost of decoding; None for the defaults.
        schema: {name: (shape, dtype)} of all expected tensors, or None to accept any. It also names the
            tensors if the container does not. Without it they are named "0", "1", …, with leading zeros if
            there are more than ten.
        names: of the tensors to return; None for all. The header is checked as a whole. On the host, only
            the entries of these tensors are checked and decoded; on a GPU, all of them are.

    Returns:
        {name: SparseTensor} on the blob's device, ascending by the names' UTF-8 bytes.

    Raises:
        WireError: the bytes are not a valid container, exceed a limit, or do not match the schema. No bytes
            raise any other exception.
        KeyError: the container has no tensor of one of ``names``.
        DeviceError: the blob is on a GPU that cannot be used.

    Examples:
        >>> import numpy as np, wirecodec as wc
        >>> blob = wc.encode_many({"w": np.ones(3, "f4"), "b": np.zeros(2, "f4")})
        >>> wc.decode_many(blob)["w"]
        SparseTensor(shape=(3,), nnz=3, dtype=float32)
        >>> list(wc.decode_many(blob, names=["b"]))
        ['b']
    """
    return decode_many_to(on_gpu(blob), blob, limits=limits, schema=schema, names=names)


def decode_many_to(
    to_gpu: bool,
    blob: Any,
    *,
    limits: DecodeLimits | None = None,
    schema: Schema | None = None,
    names: Collection[str] | None = None,
) -> dict[str, SparseTensor]:
    """Decode tensors onto the current GPU or onto the host, wherever the blob is."""
    limits = limits or DEFAULT_LIMITS
    data, header = open_container(blob, limits, sizes_trusted=schema is not None)
    if to_gpu:
        require_floats(header, _ON_GPU)
    specs = TensorSpecs(header, schema)
    check_all(specs, schema)
    if names is not None and not to_gpu:
        return _decode_some(data, header, specs, limits, names)
    tensors = choose_implementation(to_gpu).tensors_of(data, header, specs, limits)
    header.extension.keep()
    for key in header.extension.patches():
        tensors[key] = tensors[key]._with_absent(UNCHANGED)
    found = dict(zip(specs.names(), tensors, strict=True))
    return found if names is None else {name: found[name] for name in sorted(set(names), key=str.encode)}


def decode_listed(blob: Any, listed: Schema, name: str, limits: DecodeLimits) -> SparseTensor:
    """Decode a tensor of a container whose tensors a file's index lists.

    The index is as untrusted as the container. So it is compared as a schema, and lifts no limit.
    """
    data, header = open_container(blob, limits, sizes_trusted=False)
    spec = plain_spec(header) if len(listed) == 1 and not header.extension.patches() else None
    if spec is not None and spec.name in listed:
        check_only((spec,), listed[spec.name])
        tensor: SparseTensor = host.only_tensor_of(data, header, spec, limits)
        header.extension.keep()
        return tensor
    specs = TensorSpecs(header, listed)
    check_all(specs, listed)
    return _decode_some(data, header, specs, limits, (name,))[name]


def _decode_some(
    data: Bytes, header: ContainerHeader, specs: TensorSpecs, limits: DecodeLimits, names: Collection[str]
) -> dict[str, SparseTensor]:
    """Decode the tensors of some names on the host."""
    keys = {name: key for key, name in enumerate(specs.names())}
    wanted = sorted(map(keys.__getitem__, set(names)))
    tensors = host.some_tensors_of(data, header, specs, limits, wanted)
    header.extension.keep()
    for key in tensors.keys() & set(header.extension.patches()):
        tensors[key] = tensors[key]._with_absent(UNCHANGED)
    listed = {key: name for name, key in keys.items()}
    return {listed[key]: tensor for key, tensor in tensors.items()}


def open_container(blob: Any, limits: DecodeLimits, *, sizes_trusted: bool) -> tuple[Bytes, ContainerHeader]:
    """Return a container's bytes on the host, and its checked header."""
    if on_gpu(blob):
        from wirecodec.gpu import entry

        blob = entry.copy_bytes_to_host(blob)
    data = as_bytes(blob)
    return data, read_header(data, limits, sizes_trusted=sizes_trusted)


def choose_implementation(to_gpu: bool) -> Any:
    """Return the module that encodes and decodes: on the current GPU, or on the host."""
    if to_gpu:
        from wirecodec.gpu import entry

        return entry
    return host
