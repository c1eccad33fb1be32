"""The public functions between tensors and containers; each calls the host's or the GPU's implementation.

    encode:  tensor [-> transform] -> select -> (indices, values) -> chunks, each by its codecs -> container
             (a lossy index codec: its section -> the indices that readers find -> values gathered there)
    decode:  container -> chunks, each by its codecs -> (indices, values) [-> inverse transform]
             -> SparseTensor, or a dense sum

All functions are pure: the same tensor, scheme and seed give the same bytes. Every path into the decoder goes
through ``_open``, and then through ``decode_batches`` or ``decode_chunks``. They validate the whole container
before they return any part of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

from wirecodec.arrays import Array, Bytes, any_on_gpu, as_bytes, as_target, integers, on_gpu
from wirecodec.container.reader import ContainerHeader, read_header
from wirecodec.container.schema import (
    TensorSpecs,
    check_all,
    check_count,
    check_names,
    check_only,
    plain_spec,
)
from wirecodec.cpu import entry as host
from wirecodec.cpu.fast.columns import Targets
from wirecodec.cpu.guard import Guard
from wirecodec.errors import EncodeError, SchemaMismatch, number_of_container
from wirecodec.limits import DEFAULT_LIMITS, DecodeLimits, Schema, TensorSchema
from wirecodec.settings.rules import Key
from wirecodec.settings.scheme import SchemeLike, as_scheme, schemes_for
from wirecodec.sparse import SparseTensor
from wirecodec.validation import as_seed


def encode(tensor: Any, scheme: SchemeLike = None, *, seed: int = 0, tag: bytes = b"") -> Bytes:
    """Encode a tensor as a container.

    Args:
        tensor: a NumPy or CuPy array, a torch tensor, a SparseTensor, or any object with DLPack or the buffer
            protocol; float32, float16, bfloat16 or float64, of any shape.
        scheme: a Scheme, its string, or None for lossless.
        seed: a u64 for selectors and codecs that draw random numbers.
        tag: bytes that the application stores with the tensor.

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
    blob: Bytes = _implementation(on_gpu(tensor)).encode(
        tensor, as_scheme(scheme), as_seed(seed), bytes(memoryview(tag))
    )
    return blob


def encode_many(
    tensors: Mapping[str, Any],
    scheme: SchemeLike | Mapping[Key, SchemeLike] = None,
    *,
    seed: int = 0,
    tag: bytes = b"",
    names: bool = True,
    fuse: int = 0,
) -> Bytes:
    """Encode named tensors as one container.

    Args:
        tensors: {name: tensor}, each as for ``encode``; all on the host, or all on one GPU.
        scheme: one for all tensors, or {key: scheme}; a key is a glob or a Rule, and the first match applies.
        seed: a u64 for selectors and codecs that draw random numbers.
        tag: bytes that the application stores with the tensors.
        names: True to store the names. A receiver with a schema does not need them.
        fuse: number of elements up to which tensors of one dtype and scheme share an entry. Each tensor is
            selected before they are fused. Tensors with a transform are not fused.

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
    implementation = _implementation(any_on_gpu(tensors.values()))
    schemes = schemes_for(tensors, scheme)
    blob: Bytes = implementation.encode_many(
        tensors, schemes, as_seed(seed), bytes(memoryview(tag)), names=names, fuse=fuse
    )
    return blob


def sort_names(tensors: Mapping[str, Any]) -> list[str]:
    """Sort names by their UTF-8 bytes, which is the order of keys. Raises EncodeError for an invalid name."""
    if not isinstance(tensors, Mapping):
        raise EncodeError(f"tensors is {type(tensors).__name__}; it must be a mapping {{name: tensor}}")
    try:
        return sorted(tensors, key=str.encode)
    except (TypeError, UnicodeEncodeError) as error:
        raise EncodeError(f"a tensor's name is not a string that UTF-8 can encode: {error}") from None


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
    data, header = _open(blob, limits, sizes_trusted=schema is not None)
    spec = None if to_gpu else plain_spec(header)
    if spec is not None:
        check_only((spec,), schema)
        return host.only_tensor_of(data, header, spec, limits)
    check_count(header)
    specs = TensorSpecs(header, None)
    check_only(specs, schema)
    (tensor,) = _implementation(to_gpu).tensors_of(data, header, specs, limits)
    decoded: SparseTensor = tensor
    return decoded


def decode_many(
    blob: Any, *, limits: DecodeLimits | None = None, schema: Schema | None = None
) -> dict[str, SparseTensor]:
    """Decode all tensors of a container.

    Args:
        blob: any buffer of bytes, or a uint8 array on a GPU.
        limits: bounds on the cost of decoding; None for the defaults.
        schema: {name: (shape, dtype)} of all expected tensors, or None to accept any. It also names the
            tensors if the container does not. Without it they are named "0", "1", …, with leading zeros if
            there are more than ten.

    Returns:
        {name: SparseTensor} on the blob's device, ascending by the names' UTF-8 bytes.

    Raises:
        WireError: the bytes are not a valid container, exceed a limit, or do not match the schema. No bytes
            raise any other exception.
        DeviceError: the blob is on a GPU that cannot be used.

    Examples:
        >>> import numpy as np, wirecodec as wc
        >>> blob = wc.encode_many({"w": np.ones(3, "f4"), "b": np.zeros(2, "f4")})
        >>> wc.decode_many(blob)["w"]
        SparseTensor(shape=(3,), nnz=3, dtype=float32)
    """
    return decode_many_to(on_gpu(blob), blob, limits=limits, schema=schema)


def decode_many_to(
    to_gpu: bool, blob: Any, *, limits: DecodeLimits | None = None, schema: Schema | None = None
) -> dict[str, SparseTensor]:
    """Decode all tensors onto the current GPU or onto the host, wherever the blob is."""
    limits = limits or DEFAULT_LIMITS
    data, header = _open(blob, limits, sizes_trusted=schema is not None)
    specs = TensorSpecs(header, schema)
    check_all(specs, schema)
    tensors = _implementation(to_gpu).tensors_of(data, header, specs, limits)
    return dict(zip(specs.names(), tensors, strict=True))


def decode_add(
    blob: Any,
    out: Array | Mapping[str, Array],
    *,
    scale: float = 1.0,
    limits: DecodeLimits | None = None,
    schema: TensorSchema | Schema | None = None,
    finite: bool = False,
    max_norm: float | None = None,
) -> None:
    """Decode containers and add scale * values to dense arrays, in one pass.

    All containers are validated before any array changes. The value, the product and the sum are each
    rounded in the dtype of ``out``.

    Args:
        blob: any buffer of bytes, a uint8 array on a GPU, or a list of these, which are added in its order.
            The bits are those of one call per container. The memory of all decoded values is needed at once.
        out: a dense array of the tensor's size, or {name: array} for all tensors; float32 or float64,
            writable and contiguous; all NumPy arrays or torch tensors on the CPU, or all CuPy arrays.
        scale: the factor.
        limits: bounds on the cost of decoding each container; None for the defaults.
        schema: as for ``decode`` or ``decode_many``. Names and sizes are checked against ``out`` without it.
        finite: True to reject a container if a value is NaN or Inf, or if scale * value is Inf in the dtype
            of ``out``.
        max_norm: largest L2 norm of all values of a container, before scaling; None for any.

    Raises:
        WireError: the bytes are not a valid container, exceed a limit, or do not match the schema or ``out``.
            If there are several, ``container`` is the number of the one at fault.
            ``finite`` raises Invalid with code "nonfinite", ``max_norm`` LimitExceeded with code "max-norm".
        ValueError: ``out`` is not such an array.
        DeviceError: an array is on a GPU that cannot be used.

    Examples:
        >>> import numpy as np, wirecodec as wc
        >>> total = np.ones(3, np.float32)
        >>> wc.decode_add(wc.encode(np.array([0, 2, 4], "f4")), total, scale=0.5)
        >>> total
        array([1., 2., 3.], dtype=float32)
    """
    limits, scale, guard = limits or DEFAULT_LIMITS, float(scale), Guard(finite, max_norm)
    containers, targets = _open_all(blob if isinstance(blob, list | tuple) else [blob], out, limits, schema)
    if containers:
        to_gpu = targets.columns is None and any_on_gpu(targets.arrays)
        _implementation(to_gpu).add(containers, targets, scale, limits, guard)


def decode_sum(
    blobs: Sequence[Any],
    out: Array | Mapping[str, Array],
    *,
    divisor: float = 1,
    scales: Sequence[float] | None = None,
    sent: Mapping[int, Mapping[str, SparseTensor]] | None = None,
    limits: DecodeLimits | None = None,
    schema: TensorSchema | Schema | None = None,
) -> bool:
    """Replace arrays on the host by sums of scale * values of containers, or by their means.

    Sums begin with +0, and follow the order of the containers.

    Args:
        blobs: as for ``decode_add``.
        out: as for ``decode_add``.
        divisor: of the sums, which are rounded before they are divided.
        scales: the factor of each container; None for 1.
        sent: ``Prepared.sent`` of containers that this process has encoded, by number. They may be taken from
            there, and not from their bytes.
        limits, schema: as for ``decode_add``.

    Returns:
        Whether all results are finite.

    Raises:
        WireError, ValueError: as ``decode_add`` does. No array has changed then.
    """
    limits = limits or DEFAULT_LIMITS
    containers, targets = _open_all(blobs, out, limits, schema, own=min(sent, default=None) if sent else None)
    factors = [1.0] * len(blobs) if scales is None else scales
    return host.average(containers, targets, divisor, limits, sent or {}, factors)


def _open_all(
    blobs: Sequence[Any],
    out: Array | Mapping[str, Array],
    limits: DecodeLimits,
    schema: TensorSchema | Schema | None,
    own: int | None = None,
) -> tuple[list[tuple[Bytes, ContainerHeader]], Targets]:
    """Return the containers with their checked headers, and the array that each tensor is added to.

    Tensors that are like those of a container before, or of the one that this process has encoded for these
    arrays (number ``own``), are not compared with the schema again.
    """
    containers: list[tuple[Bytes, ContainerHeader]] = []
    trusted, known, targets = None, None, Targets(())
    if own is not None:
        trusted = _open(blobs[own], limits, sizes_trusted=True)
        known, targets = trusted[1], _find_targets(trusted[1], out, None)
    for number, one in enumerate(blobs):
        if number == own and trusted is not None:
            containers.append(trusted)
            continue
        with number_of_container(number if len(blobs) > 1 else None):
            data, header = _open(one, limits, sizes_trusted=True)  # sizes are checked against ``out``
            if known is None or not header.has_tensors_of(known):
                known, targets = header, _find_targets(header, out, schema)
            containers.append((data, header))
    return containers, targets


def _find_targets(
    header: ContainerHeader, out: Array | Mapping[str, Array], schema: TensorSchema | Schema | None
) -> Targets:
    """Return the array that each of a container's tensors is added to, in the order of their keys.

    Raises SchemaMismatch if the tensors do not match the schema or the arrays, ValueError if an array is not
    one that values can be added to.
    """
    if isinstance(out, Mapping):
        specs = TensorSpecs(header, out)
        check_all(specs, schema)  # type: ignore[arg-type]
        check_names(specs, out)
        given = [*map(out.__getitem__, specs.names())]
        columns = host.describe_targets(given, specs.sizes)
        if columns is not None:  # as for most models; a conversion per array takes as long as adding
            return Targets(given, columns)
        targets = [*map(as_target, given)]
    else:
        spec = plain_spec(header)
        if spec is not None:
            check_only((spec,), schema)  # type: ignore[arg-type]
            targets = [as_target(out)]
            if host.can_add(targets[0]) and targets[0].size == spec.size:
                return Targets(targets)
        check_count(header)
        specs = TensorSpecs(header, None)
        check_only(specs, schema)  # type: ignore[arg-type]
        targets = [as_target(out)]
    columns = host.describe_targets(targets, specs.sizes)
    if columns is None:
        _check_targets(targets, specs)
    return Targets(targets, columns)


def _check_targets(targets: Sequence[Any], specs: TensorSpecs) -> None:
    """Raise the error of the first array that a tensor's values cannot be added to."""
    for key, (target, size) in enumerate(zip(targets, integers(specs.sizes), strict=True)):
        if not _implementation(on_gpu(target)).can_add(target):
            name = next(islice(specs, key, None)).name
            raise ValueError(f"out of {name!r} is not a writable, contiguous float32 or float64 array")
        if target.size != size:
            spec = next(islice(specs, key, None))
            raise SchemaMismatch(
                "schema-shape", f"{spec.name!r} has shape {spec.shape}; out has {target.shape}"
            )


def _open(blob: Any, limits: DecodeLimits, *, sizes_trusted: bool) -> tuple[Bytes, ContainerHeader]:
    """Return a container's bytes on the host, and its checked header."""
    if on_gpu(blob):
        from wirecodec.gpu import entry

        blob = entry.copy_bytes_to_host(blob)
    data = as_bytes(blob)
    return data, read_header(data, limits, sizes_trusted=sizes_trusted)


def _implementation(to_gpu: bool) -> Any:
    """Return the module that encodes and decodes: on the current GPU, or on the host."""
    if to_gpu:
        from wirecodec.gpu import entry

        return entry
    return host
